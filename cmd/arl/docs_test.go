package main_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// markdown returns the documents of the repository by their path from its root.
func markdown(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, name := range tracked(t, root) {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		pages[name] = string(content)
	}
	if len(pages) < 10 || pages["README.md"] == "" {
		t.Fatalf("%d documents", len(pages))
	}
	return pages
}

// withoutCode leaves out what is code, where brackets are no links.
func withoutCode(page string) string {
	page = regexp.MustCompile("(?ms)^```.*?\n```").ReplaceAllString(page, "")
	return regexp.MustCompile("`[^`\n]*`").ReplaceAllString(page, "")
}

// anchors returns the names by which the headings of a page are linked to.
func anchors(page string) (names []string) {
	for line := range strings.Lines(regexp.MustCompile("(?ms)^```.*?\n```").ReplaceAllString(page, "")) {
		if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
			name := strings.Map(func(r rune) rune {
				switch {
				case r == ' ':
					return '-'
				case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
					return unicode.ToLower(r)
				}
				return -1
			}, strings.TrimSpace(title))
			names = append(names, name)
		}
	}
	return names
}

// TestLinks checks that every relative link of a document leads to a file, and
// its anchor to a heading there.
func TestLinks(t *testing.T) {
	pages := markdown(t)
	links := 0
	for name, page := range pages {
		for _, match := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(withoutCode(page), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, ":") {
				continue // of another site
			}
			links++
			target = path.Join(path.Dir(name), target)
			if strings.HasPrefix(match[1], "#") {
				target = name
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(target))); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, match[1])
			}
			if anchor != "" && !slices.Contains(anchors(pages[target]), anchor) {
				t.Errorf("%s links to %s: no such heading, there are %q", name, match[1], anchors(pages[target]))
			}
		}
	}
	if links < 30 {
		t.Errorf("%d links", links)
	}
}

// TestIndexOfPages wants every page in the index of docs/README.md. The runbooks have an index of
// their own.
func TestIndexOfPages(t *testing.T) {
	pages := markdown(t)
	for name := range pages {
		at, inside := strings.CutPrefix(name, "docs/")
		if dir := path.Dir(at); inside && (dir == "." || dir == "operations") && at != "README.md" && !strings.Contains(pages["docs/README.md"], "]("+at+")") {
			t.Errorf("docs/README.md has no link to %s", at)
		}
	}
}

// TestNoPlaceholders looks for what somebody meant to fill in.
func TestNoPlaceholders(t *testing.T) {
	for name, page := range markdown(t) {
		if found := regexp.MustCompile(`<<[^'>\n]*>>|\b(TODO|TBD|FIXME)\b`).FindString(page); found != "" {
			t.Errorf("%s: %s", name, found)
		}
	}
}

// TestNamedTests checks that the pages name tests that exist.
func TestNamedTests(t *testing.T) {
	var code strings.Builder
	for _, name := range tracked(t, root, "--cached", "--others", "--exclude-standard") { // also those just written
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		code.Write(content)
	}
	test := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)(…?)`")
	for name, page := range markdown(t) {
		named := test.FindAllStringSubmatch(page, -1)
		if least := map[string]int{"docs/pitfalls.md": 20, "docs/failure-matrix.md": 80}[name]; len(named) < least {
			t.Errorf("%s names %d tests, want %d", name, len(named), least)
		}
		for _, match := range named {
			end := "("
			if match[2] != "" {
				end = ""
			}
			if !strings.Contains(code.String(), "func "+match[1]+end) {
				t.Errorf("%s: %s does not exist", name, match[1])
			}
		}
	}
}

// TestRacedNames finds every test that a package names for make race.
func TestRacedNames(t *testing.T) {
	code := map[string]string{} // by folder
	for _, name := range tracked(t, root) {
		if strings.HasSuffix(name, "_test.go") {
			content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
			if err != nil {
				t.Fatal(err)
			}
			code[path.Dir(name)] += string(content)
		}
	}
	lists := 0
	for folder, text := range code {
		for _, call := range regexp.MustCompile(`budget\.Raced\(m, (".*")\)`).FindAllStringSubmatch(text, -1) {
			lists++
			for name := range strings.SplitSeq(call[1], ", ") {
				if !strings.Contains(text, "\nfunc "+strings.Trim(name, `"`)+"(t *testing.T) {") {
					t.Errorf("%s names %s, which is no test of the package", folder, name)
				}
			}
		}
	}
	if lists < 5 {
		t.Errorf("%d packages name tests", lists)
	}
}

// TestHiddenPackages finds the packages with tests that ./... passes over in the Makefile: make
// test has them, too.
func TestHiddenPackages(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(makefile), "\nHIDDEN := ")
	list, _, _ = strings.Cut(list, "\n")
	listed, files := strings.Fields(list), tracked(t, root)
	for _, name := range files {
		folder := path.Dir(name)
		hidden := strings.HasPrefix(name, "testdata/") || strings.HasPrefix(name, ".")
		if hidden && strings.HasSuffix(name, "_test.go") && !slices.Contains(listed, "./"+folder) && !slices.Contains(files, folder+"/go.mod") {
			t.Errorf("nobody runs the tests of %s: name it in HIDDEN of the Makefile", folder)
		}
	}
}

// TestEndToEndPackages: make test has the packages whose tests start no arl. Of the others make
// agents has those in other languages, and make e2e has the rest.
func TestEndToEndPackages(t *testing.T) {
	makefile := readFile(t, "Makefile")
	var listed []string
	for _, name := range []string{"E2E", "AGENTS"} {
		_, list, _ := strings.Cut(makefile, "\n"+name+" := ")
		list, _, _ = strings.Cut(list, "\n")
		listed = append(listed, strings.Fields(list)...)
	}
	var start []string
	for _, name := range tracked(t, root) {
		if strings.HasSuffix(name, "_test.go") && strings.Contains(readFile(t, name), `"recoveryledger/testdata/program"`) {
			start = append(start, path.Dir(name))
		}
	}
	slices.Sort(listed)
	slices.Sort(start)
	if start = slices.Compact(start); !slices.Equal(listed, start) {
		t.Errorf("the Makefile has %q in E2E and AGENTS; the tests of %q start arl", listed, start)
	}
}

// TestMarkdownWidth holds prose to 100 columns. Tables and code cannot be broken.
func TestMarkdownWidth(t *testing.T) {
	const width = 100
	for name, page := range markdown(t) {
		code := false
		number := 0
		for line := range strings.Lines(page) {
			number++
			fence := strings.HasPrefix(strings.TrimSpace(line), "```")
			if fence {
				code = !code
			}
			if columns := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); !code && !fence && !strings.HasPrefix(line, "|") && columns > width {
				t.Errorf("%s:%d has %d columns, want at most %d", name, number, columns, width)
			}
		}
	}
}

// TestCommentWidth holds comments to 100 columns, with tabs of 4. Tables and code in a comment,
// which begin with a tab or with three spaces, cannot be broken, and neither can the output of an
// example.
func TestCommentWidth(t *testing.T) {
	const width = 100
	for _, name := range tracked(t, root) {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		number, output := 0, false
		for line := range strings.Lines(string(source)) {
			number++
			text, comment := strings.CutPrefix(strings.TrimLeft(line, "\t"), "//")
			output = comment && (output || text == " Output:\n")
			prose := strings.HasPrefix(text, " ") && (!strings.HasPrefix(text, "   ") || strings.HasPrefix(strings.TrimSpace(text), "- "))
			if columns := utf8.RuneCountInString(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    ")); comment && prose && !output && columns > width {
				t.Errorf("%s:%d has %d columns, want at most %d", name, number, columns, width)
			}
		}
	}
}

// readFile returns the content of a file of the repository.
func readFile(t *testing.T, path ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

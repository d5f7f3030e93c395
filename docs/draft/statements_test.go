package draft_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const source = "draft-arl-agent-recovery-00.md"

// body is the draft's text from its first section on, without code.
func body(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(source)
	must(t, err)
	_, text, ok := strings.Cut(string(content), "--- middle")
	if !ok {
		t.Fatal("no middle")
	}
	return regexp.MustCompile(`(?ms)^~~~.*?\n~~~$`).ReplaceAllString(text, "")
}

// marks finds the key words of BCP 14, and what follows a statement: its id.
var marks = regexp.MustCompile(`\b(?:MUST(?:\s+NOT)?|SHALL(?:\s+NOT)?|SHOULD(?:\s+NOT)?|(?:NOT\s+)?RECOMMENDED|REQUIRED|MAY|OPTIONAL)\b|\([A-Z]+-\d+[a-z]?\)`)

// statements are the ids of the normative statements in the draft's order. Each key word has an id
// behind it, before the next key word.
func statements(t *testing.T) (ids []string) {
	t.Helper()
	text := body(t)
	text = strings.Replace(text, `such as "(EXE-2)"`, "", 1) // the explanation
	open := ""
	for _, at := range marks.FindAllStringIndex(text, -1) {
		mark := text[at[0]:at[1]]
		near := strings.Join(strings.Fields(text[max(0, at[0]-80):min(len(text), at[1]+40)]), " ")
		switch id := strings.Trim(mark, "()"); {
		case mark[0] != '(' && open != "":
			t.Errorf("a statement without an id: … %s …", open)
			open = near
		case mark[0] != '(':
			open = near
		case open == "":
			t.Errorf("%s follows no key word: … %s …", id, near)
		case slices.Contains(ids, id):
			t.Errorf("%s stands twice", id)
			open = ""
		default:
			ids, open = append(ids, id), ""
		}
	}
	if open != "" {
		t.Errorf("a statement without an id: … %s …", open)
	}
	return ids
}

// evidence is what holds the implementation to a statement: "package Test", or "vectors NAME".
func evidence(t *testing.T) map[string][]string {
	t.Helper()
	content, err := os.ReadFile("statements.txt")
	must(t, err)
	of := map[string][]string{}
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 3 {
			t.Fatalf("statements.txt: %q is not ID PACKAGE TEST", line)
		}
		of[fields[0]] = append(of[fields[0]], fields[1]+" "+fields[2])
	}
	return of
}

// missing says what a vector, script or test lacks: it does not exist, or it does not name the
// statement. Vectors name none: statements.txt does that for them.
func missing(t *testing.T, id, named string) string {
	t.Helper()
	room, name, _ := strings.Cut(named, " ")
	if room == "vectors" {
		files, err := filepath.Glob("../../testdata/vectors/" + name + ".json")
		must(t, err)
		if len(files) == 0 {
			return "there is no " + named
		}
		return ""
	}
	var text string
	if room == "scripts" {
		content, err := os.ReadFile("../../testdata/scripts/" + name + ".txtar")
		if err != nil {
			return err.Error()
		}
		text = string(content)
	} else if text = testSource(t, room, name); text == "" {
		return "there is no " + named
	}
	if !regexp.MustCompile(regexp.QuoteMeta(id) + `(?:[^0-9a-z]|$)`).MatchString(text) {
		return named + " does not name the statement"
	}
	return ""
}

// testSource is a test with its comment; empty where it does not exist.
func testSource(t *testing.T, room, name string) string {
	t.Helper()
	files, err := filepath.Glob("../../" + room + "/*_test.go")
	must(t, err)
	found := regexp.MustCompile(`(?ms)^(?://[^\n]*\n)*func ` + name + `\(.*?^}$`)
	for _, file := range files {
		content, err := os.ReadFile(file)
		must(t, err)
		if text := found.FindString(string(content)); text != "" {
			return text
		}
	}
	return ""
}

// TestStatements: each normative statement has an id, and a test, script or vector that exists. A
// test or script names the statement.
func TestStatements(t *testing.T) {
	ids, of := statements(t), evidence(t)
	for _, id := range ids {
		if len(of[id]) == 0 {
			t.Errorf("%s: statements.txt names no test", id)
		}
		for _, named := range of[id] {
			if lack := missing(t, id, named); lack != "" {
				t.Errorf("%s: %s", id, lack)
			}
		}
	}
	for id := range of {
		if !slices.Contains(ids, id) {
			t.Errorf("statements.txt names %s, which the draft does not have", id)
		}
	}
	if len(ids) < 80 {
		t.Errorf("%d statements", len(ids))
	}
	t.Logf("%d statements", len(ids))
}

// rules are names of rules, as docs/protocol.md has them in bold and in tables.
var rules = regexp.MustCompile(`\b(?:TRU|EXE|CHK|SIG|REG|SCO|INC|AGT|WIT)-\d+\b`)

// TestRules: every rule of the protocol's core is in the draft.
func TestRules(t *testing.T) {
	page, err := os.ReadFile("../protocol.md")
	must(t, err)
	core, _, ok := strings.Cut(string(page), "\n## 9. ")
	if !ok {
		t.Fatal("docs/protocol.md has no section 9")
	}
	draft := body(t)
	seen := map[string]bool{}
	for _, rule := range rules.FindAllString(core, -1) {
		if !seen[rule] && !regexp.MustCompile(regexp.QuoteMeta(rule)+`\b|`+regexp.QuoteMeta(rule)+`[a-z]`).MatchString(draft) {
			t.Errorf("the draft lacks %s of docs/protocol.md", rule)
		}
		seen[rule] = true
	}
	if len(seen) < 35 {
		t.Errorf("%d rules", len(seen))
	}
}

// TestArtworkWidth: what the draft shows as it is fits the 72 columns of its text.
func TestArtworkWidth(t *testing.T) {
	const width = 69 // xml2rfc indents by three
	files, err := filepath.Glob("generated/*")
	must(t, err)
	for _, file := range append(files, source) {
		content, err := os.ReadFile(file)
		must(t, err)
		art := file != source && !strings.HasSuffix(file, ".md")
		for line := range strings.Lines(string(content)) {
			line = strings.TrimRight(line, "\n")
			if strings.HasPrefix(line, "~~~") {
				art = !art
			}
			if n := len([]rune(line)); art && n > width {
				t.Errorf("%s: %d columns, want at most %d: %s", file, n, width, line)
			}
		}
	}
}

// TestReferences: every reference is cited, and has a file if the header does not describe it.
func TestReferences(t *testing.T) {
	content, err := os.ReadFile(source)
	must(t, err)
	head, text, _ := strings.Cut(string(content), "--- abstract")
	open, err := os.ReadFile("open.md")
	must(t, err)
	text += string(open)
	files, err := filepath.Glob("refs/*.xml")
	must(t, err)
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "reference."), ".xml")
		name = strings.Replace(name, "RFC.", "RFC", 1)
		bcp14 := name == "RFC2119" || name == "RFC8174" // which the boilerplate cites
		if !bcp14 && !strings.Contains(text, "{{"+name+"}}") {
			t.Errorf("%s is not cited", name)
		}
		if !bcp14 && !strings.Contains(head, "\n  "+name+":\n") {
			t.Errorf("%s stands in neither list of references", name)
		}
	}
	for _, match := range regexp.MustCompile(`(?m)^  ([A-Z][A-Za-z0-9.-]+):$`).FindAllStringSubmatch(head, -1) {
		if !strings.Contains(text, "{{"+match[1]+"}}") {
			t.Errorf("%s is not cited", match[1])
		}
	}
}

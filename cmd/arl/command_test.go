package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// commands returns all commands that this project makes.
func commands(t *testing.T) []*cobra.Command {
	t.Helper()
	var all []*cobra.Command
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		all = append(all, cmd)
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newApp(nil, nil, nil).rootCommand())
	return all
}

// Every command says what it is for and shows one example, which is a command
// line that it takes.
func TestEveryCommandHasAnExampleThatParses(t *testing.T) {
	for _, cmd := range commands(t) {
		example := strings.TrimSpace(cmd.Example)
		if cmd.Short == "" || example == "" || strings.Contains(example, "\n") || !strings.HasPrefix(cmd.Example, "  arl ") {
			t.Errorf("%s: short %q, example %q", cmd.CommandPath(), cmd.Short, cmd.Example)
			continue
		}
		example, _, _ = strings.Cut(example, " > ") // the shell's part
		found, args, err := cmd.Root().Find(splitWords(example)[1:])
		if err == nil {
			err = found.ParseFlags(args)
		}
		if err == nil {
			err = found.ValidateArgs(found.Flags().Args())
		}
		if err == nil {
			err = found.ValidateRequiredFlags()
		}
		if err != nil || found != cmd && !strings.HasPrefix(found.CommandPath(), cmd.CommandPath()) {
			t.Errorf("%s: example %q: %v, runs %s", cmd.CommandPath(), example, err, found.CommandPath())
		}
	}
}

// Help fits a terminal of 80 columns. It says what kind of value a flag takes, the
// same as its words, and a default once.
func TestHelpFitsATerminal(t *testing.T) {
	for _, cmd := range commands(t) {
		for line := range strings.Lines(helpText(cmd, widthDefault)) {
			line = strings.TrimRight(ansi.Strip(line), "\n")
			if n := ansi.StringWidth(line); n > widthDefault {
				t.Errorf("%s: %d columns: %q", cmd.CommandPath(), n, line)
			}
		}
		wrapped := strings.ReplaceAll(wrapCommand(strings.TrimSpace(cmd.Example), widthDefault), "\\\n", "")
		if got, want := splitWords(wrapped), splitWords(strings.TrimSpace(cmd.Example)); !slices.Equal(got, want) {
			t.Errorf("%s: a shell reads the example as %q, want %q", cmd.CommandPath(), got, want)
		}
		if strings.Contains(cmd.Use, "...") {
			t.Errorf("%s: %q: … stands for more of the same", cmd.CommandPath(), cmd.Use)
		}
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if flag.Value.Type() != "bool" && placeholder(flag) == "" {
				t.Errorf("%s --%s: help does not say what kind of value it takes: name it in placeholders", cmd.CommandPath(), flag.Name)
			}
			for word, kind := range map[string]string{"director": "DIR", "file": "FILE", "index": "INDEX", "kind of the payload": "KIND", "below this index": "INDEX"} {
				value := placeholder(flag)
				if strings.HasPrefix(flag.Usage, word) && !strings.HasPrefix(value, kind) && value != "HEAD" && flag.Value.Type() != "bool" {
					t.Errorf("%s --%s %s: %q", cmd.CommandPath(), flag.Name, value, flag.Usage)
				}
			}
			if text := flagUsage(flag); strings.Count(text, "(default") > 1 || strings.Contains(text, "(default -1") {
				t.Errorf("%s --%s: %q", cmd.CommandPath(), flag.Name, text)
			}
		})
	}
}

// The names of values are those of flags that exist.
func TestPlaceholdersAreUsed(t *testing.T) {
	used := map[string]bool{}
	for _, cmd := range commands(t) {
		cmd.Flags().VisitAll(func(flag *pflag.Flag) { used[flag.Name] = true })
		cmd.PersistentFlags().VisitAll(func(flag *pflag.Flag) { used[flag.Name] = true })
	}
	for name := range placeholders {
		if !used[name] {
			t.Errorf("placeholders names --%s, which no command has", name)
		}
	}
}

// A word that is wider than a line stays whole, and a flag is never broken at
// its hyphens.
func TestWrapLine(t *testing.T) {
	got := wrapLine("pass --tls-client-ca and /a/path/that/is/long or nothing", 20)
	if want := "pass --tls-client-ca\nand\n/a/path/that/is/long\nor nothing"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A table takes the columns of the terminal: the widest column gives way.
func TestTableFitsATerminal(t *testing.T) {
	headers := []string{"INDEX", "WHO", "WHAT"}
	rows := [][]string{{"7", "planner", strings.Repeat("the plan of a long day ", 6)}, {"8", "a", strings.Repeat("x", 90)}}
	for _, width := range []int{40, 80, 100} {
		for line := range strings.Lines(tableText(headers, rows, width)) {
			if n := ansi.StringWidth(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("width %d: %d columns: %q", width, n, line)
			}
		}
	}
	whole := tableText(headers, rows, 0)
	if n := strings.Count(whole, "\n"); n != len(rows)+1 {
		t.Errorf("without a terminal: %d lines, want one a row:\n%s", n, whole)
	}
	narrow := ansi.Strip(tableText(headers, rows, 60))
	if joined := strings.Join(strings.Fields(narrow), ""); !strings.Contains(joined, strings.Repeat("x", 90)) {
		t.Errorf("a cell lost some of its text:\n%s", narrow)
	}
}

// What is explained fits a terminal, too: a line goes on where its words begin.
func TestExplanationsFitATerminal(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	for _, e := range explanations() {
		var out bytes.Buffer
		if err := newApp(nil, &out, nil).explain(e.Code); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := ansi.StringWidth(strings.TrimRight(line, "\n")); n > 80 {
				t.Errorf("%s: %d columns: %q", e.Code, n, line)
			}
		}
	}
	if got, want := wrapIndented("  - one two three", 10), "  - one\n    two\n    three"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The manual names every flag as it is typed, and no format verb is left in it.
func TestManualPage(t *testing.T) {
	page := manPage(newApp(nil, nil, nil).rootCommand())
	for _, wrong := range []string{"--o --output", "%!", "0001-01-01"} {
		if strings.Contains(page, wrong) {
			t.Errorf("the manual has %q", wrong)
		}
	}
	if !strings.Contains(page, "-o, --output FORM") {
		t.Error("the manual does not name -o, --output FORM")
	}
}

// The build of the Makefile tells which commit it is of, whatever the go command
// is told of version control.
func TestMakeNamesTheRevision(t *testing.T) {
	head, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		t.Skip("missing: git, or a repository")
	}
	build := exec.Command("make", "--just-print", "build")
	build.Dir = filepath.FromSlash("../..")
	out, err := build.Output()
	if err != nil || !strings.Contains(string(out), "main.revision="+strings.TrimSpace(string(head))) {
		t.Errorf("make build: %v: %s", err, out)
	}
}

// splitWords splits a line as a shell does, with single quotes.
func splitWords(line string) []string {
	var words []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

// Destructive verbs ask for a reason, and to go on.
func TestDestructiveVerbsAskForAReason(t *testing.T) {
	for _, cmd := range commands(t) {
		if !slices.Contains([]string{"revoke", "apply", "escalate", "approve", "authorize", "amend", "deny", "override", "release"}, cmd.Name()) {
			continue
		}
		if cmd.Flags().Lookup("reason") == nil || cmd.Flags().Lookup("yes") == nil {
			t.Errorf("%s has no --reason or no --yes", cmd.CommandPath())
		}
	}
}

// The page of this room names every command that is for people, every exit code
// and every configuration key.
func TestPageIsComplete(t *testing.T) {
	content, err := os.ReadFile(filepath.FromSlash("../../docs/cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(content)
	for _, cmd := range commands(t) {
		if !cmd.HasSubCommands() && !cmd.Hidden && !strings.Contains(page, "`"+cmd.CommandPath()) {
			t.Errorf("docs/cli.md does not name %s", cmd.CommandPath())
		}
	}
	for _, e := range exitCodes() {
		if !strings.Contains(page, "| "+decimal(uint64(e.code))+" | ") {
			t.Errorf("docs/cli.md does not name exit code %d", e.code)
		}
	}
	for _, key := range configKeys(newApp(nil, nil, nil).rootCommand()) {
		if name := strings.TrimPrefix(key, "serve."); !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/cli.md does not name the configuration key %s", key)
		}
	}
}

// Every problem type has an exit code of its own kind, and an explanation, as
// has every exit code that there is.
func TestEveryProblemIsExplained(t *testing.T) {
	known, senses := map[string]bool{}, map[string]bool{}
	for _, e := range explanations() {
		if sense := e.Code + ": " + e.Title; senses[sense] || e.Title == "" {
			t.Errorf("%s is explained twice, or without a title", sense)
		} else {
			senses[sense] = true
		}
		known[e.Code] = true
	}
	for _, problem := range []entry.Problem{entry.Malformed, entry.BadSignature, entry.UnknownIssuer, entry.NotFound,
		entry.IDConflict, entry.RateLimited, entry.NotReady, entry.Stale} {
		if !known[string(problem)] {
			t.Errorf("%s is not explained", problem)
		}
		code := exitCode(entry.Refuse(problem, "", "x"))
		if code == exitInternal || code == exitOK || !known[decimal(uint64(code))] {
			t.Errorf("%s: exit code %d", problem, code)
		}
	}
}

// Every rule that a document names, and every word that an entry, a trace or a
// view can hold for a state, a result or a reason, is explained.
func TestEveryWordIsExplained(t *testing.T) {
	known := map[string]bool{}
	for _, e := range explanations() {
		known[e.Code] = true
		if e.Text == "" && !strings.Contains(e.Title, " ") {
			t.Errorf("%s: no text", e.Code)
		}
	}
	wanted := func(pattern string, expression *regexp.Regexp) {
		t.Helper()
		files, err := filepath.Glob(filepath.FromSlash("../../" + pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		found := 0
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range expression.FindAllStringSubmatch(string(content), -1) {
				if found++; !known[match[1]] {
					t.Errorf("%s: %s is not explained", file, match[1])
				}
			}
		}
		if found == 0 {
			t.Errorf("%s: nothing found: the expression does not fit the source any more", pattern)
		}
	}
	wanted("docs/*.md", regexp.MustCompile(`\b((?:REG|TRU|EXE|CHK|SIG|SCO|INC|AGT|TSK|RUN)-[0-9]+)\b`))
	word := func(types string) *regexp.Regexp {
		return regexp.MustCompile(`(?m)^\t\w+ +(?:` + types + `) += "(\w+)"`)
	}
	wanted("ledger/entry/*.go", word("TaskState|Result|Method|Act|Dep|Effects?|Progress|Standing|ReplaySafety|Severity"))
	wanted("ledger/entry/task.go", regexp.MustCompile(`(?m)^\tTask\w+ += "(\w+)"`))
	wanted("ledger/entry/incident.go", regexp.MustCompile(`(?m)^\t(?:Corroborated|SelfReported|NotFounded|Inconclusive) += "(\w+)"`))
	wanted("coord/recovery/*.go", word("Reason|Strategy|Variant|Scope|Result"))
	wanted("coord/recovery/action.go", regexp.MustCompile(`(?m)^\tRule\w+ = "(\w+)"`))
	wanted("coord/recovery/engine/*.go", word("Status|Recommendation|Verdict|Match|Misplaced"))
	wanted("coord/recovery/engine/gates.go", regexp.MustCompile(`(?:Gate: |\tgate\w+ += )"(\w+)"`))
	wanted("coord/recovery/engine/execute.go", regexp.MustCompile(`(?m)^\tMode\w+ += "(\w+)"`))
	wanted("api/client/agent/*.go", word("Status|EventKind"))
	wanted("cmd/arl/doctor.go", regexp.MustCompile(`(?m)^\tstate\w+ += "(\w+)"`))
	wanted("api/incident.go", regexp.MustCompile(`json:"rule" enum:"(\w+),`))
	for state := coord.Reported; state <= coord.Failed; state++ {
		if !known[state.String()] {
			t.Errorf("state %s is not explained", state)
		}
	}
	for _, class := range entry.Classes() {
		for _, code := range entry.Codes(class) {
			if !known[class+"."+code] {
				t.Errorf("%s.%s is not explained", class, code)
			}
		}
	}
}

// A word is suggested if it is near, and no other.
func TestSuggest(t *testing.T) {
	known := []string{"listen", "origin", "policy"}
	for mistyped, want := range map[string]string{
		"lisen": " (did you mean listen?)", "Origin": " (did you mean origin?)", "polic": " (did you mean policy?)",
		"bananas": "", "": "",
	} {
		if got := suggest(mistyped, known); got != want {
			t.Errorf("suggest %q: %q, want %q", mistyped, got, want)
		}
	}
}

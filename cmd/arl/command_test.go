package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/glossary"
	"recoveryledger/cmd/arl/manual"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/testdata/needs"
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
		for line := range strings.Lines(manual.Help(cmd, terminal.WidthDefault)) {
			line = strings.TrimRight(ansi.Strip(line), "\n")
			if n := ansi.StringWidth(line); n > terminal.WidthDefault {
				t.Errorf("%s: %d columns: %q", cmd.CommandPath(), n, line)
			}
		}
		wrapped := strings.ReplaceAll(terminal.WrapCommand(strings.TrimSpace(cmd.Example), terminal.WidthDefault), "\\\n", "")
		if got, want := splitWords(wrapped), splitWords(strings.TrimSpace(cmd.Example)); !slices.Equal(got, want) {
			t.Errorf("%s: a shell reads the example as %q, want %q", cmd.CommandPath(), got, want)
		}
		if strings.Contains(cmd.Use, "...") {
			t.Errorf("%s: %q: … stands for more of the same", cmd.CommandPath(), cmd.Use)
		}
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if flag.Value.Type() != "bool" && manual.Placeholder(flag) == "" {
				t.Errorf("%s --%s: help does not say what kind of value it takes: name it in manual.Placeholders", cmd.CommandPath(), flag.Name)
			}
			for word, kind := range map[string]string{"director": "DIR", "file": "FILE", "index": "INDEX", "kind of the payload": "KIND", "below this index": "INDEX"} {
				value := manual.Placeholder(flag)
				if strings.HasPrefix(flag.Usage, word) && !strings.HasPrefix(value, kind) && value != "HEAD" && flag.Value.Type() != "bool" {
					t.Errorf("%s --%s %s: %q", cmd.CommandPath(), flag.Name, value, flag.Usage)
				}
			}
			if text := manual.FlagUsage(flag); strings.Count(text, "(default") > 1 || strings.Contains(text, "(default -1") {
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
	for name := range manual.Placeholders {
		if !used[name] {
			t.Errorf("manual.Placeholders names --%s, which no command has", name)
		}
	}
}

// What is explained fits a terminal, too: a line goes on where its words begin.
func TestExplanationsFitATerminal(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	for _, e := range glossary.All() {
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
}

// The manual names every flag as it is typed, and no format verb is left in it.
func TestManualPage(t *testing.T) {
	page := manual.Page(newApp(nil, nil, nil).rootCommand(), version)
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
		needs.Missing(t, "git, or a repository", "clone the repository", "the revision in the program is not tried")
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
	for _, e := range exit.Meanings() {
		if !strings.Contains(page, "| "+decimal(uint64(e.Code))+" | ") {
			t.Errorf("docs/cli.md does not name exit code %d", e.Code)
		}
	}
	for _, key := range configKeys(newApp(nil, nil, nil).rootCommand()) {
		if name := strings.TrimPrefix(key, "serve."); !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/cli.md does not name the configuration key %s", key)
		}
	}
}

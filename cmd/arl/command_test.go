package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

// Help shows allowed values as they are written: it makes the first word of a
// description upper case, so that none may begin with one. A default is shown
// only where it can be given.
func TestHelpShowsValuesAsTheyAreWritten(t *testing.T) {
	values := regexp.MustCompile(`^[A-Za-z0-9-]+(\|[A-Za-z0-9-]+)+`)
	for _, cmd := range commands(t) {
		if strings.Contains(cmd.Use, "...") {
			t.Errorf("%s: %q: … stands for more of the same", cmd.CommandPath(), cmd.Use)
		}
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if values.MatchString(flag.Usage) {
				t.Errorf("%s --%s: %q begins with a value", cmd.CommandPath(), flag.Name, flag.Usage)
			}
			if flag.DefValue == "-1" {
				t.Errorf("%s --%s: shows the default %s, which means none", cmd.CommandPath(), flag.Name, flag.DefValue)
			}
		})
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
	known := map[string]bool{}
	for _, e := range explanations() {
		if known[e.Code] || e.Title == "" {
			t.Errorf("%s is explained twice, or without a title", e.Code)
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

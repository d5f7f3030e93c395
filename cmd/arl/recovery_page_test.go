package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The console blocks of a page are what a new user sees: each command is run, in
// order, in one directory, and prints what stands there. A line ... stands for any
// lines, … for any text.
func TestRecoveryPageIsReal(t *testing.T) { runPage(t, "recovery.md", 14) }

func TestPolicyPageIsReal(t *testing.T) { runPage(t, "policy.md", 8) }

// runPage runs the commands of a page, of which there are so many.
func runPage(t *testing.T, name string, count int) {
	t.Helper()
	page, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	testdata, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Setenv("ARL_HOME", filepath.Join(dir, "home"))
	if err := os.Symlink(testdata, filepath.Join(dir, "testdata")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	commands := consoleBlocks(string(page))
	if len(commands) != count {
		t.Fatalf("%d commands on the page, want %d", len(commands), count)
	}
	for _, c := range commands {
		got := runLine(t, c.line)
		if !fits(c.output, strings.Split(strings.TrimSuffix(got, "\n"), "\n")) {
			t.Errorf("$ %s\nprints\n%s\nthe page has\n%s", c.line, got, strings.Join(c.output, "\n"))
		}
	}
}

// consoleCommand is a command on a page and the lines below it.
type consoleCommand struct {
	line   string
	output []string
}

func consoleBlocks(page string) (all []consoleCommand) {
	for i, block := range strings.Split(page, "```console\n") {
		if i == 0 {
			continue
		}
		block, _, _ = strings.Cut(block, "\n```")
		for line := range strings.SplitSeq(block, "\n") {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				all = append(all, consoleCommand{line: command})
			} else {
				last := &all[len(all)-1]
				last.output = append(last.output, line)
			}
		}
	}
	return all
}

// runLine runs a line: arl in this process, anything else in a shell.
func runLine(t *testing.T, line string) string {
	t.Helper()
	words, redirected, _ := strings.Cut(line, " > ")
	if !strings.HasPrefix(words, "arl ") {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", line).CombinedOutput()
		if err != nil {
			t.Fatalf("$ %s\n%v\n%s", line, err, out)
		}
		return string(out)
	}
	var out, messages bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stdout := io.Writer(&out)
	if strings.HasPrefix(words, "arl serve ") {
		stdout = io.MultiWriter(&out, afterWrite(cancel)) // it is stopped when it has said that it runs
	}
	a := newApp(os.Stdin, stdout, &messages)
	root := a.rootCommand()
	root.SetArgs(splitWords(words)[1:])
	root.SilenceErrors, root.SilenceUsage = true, true
	if err := root.ExecuteContext(ctx); err != nil {
		a.printError(&messages, err)
	}
	if redirected == "" {
		return out.String() + messages.String()
	}
	if err := os.WriteFile(redirected, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return messages.String()
}

// afterWrite is a writer that does something when it is written to.
type afterWrite func()

// Write implements [io.Writer].
func (f afterWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

// fits reports whether lines are those that a page shows.
func fits(want, got []string) bool {
	if len(want) == 0 {
		return len(got) == 1 && got[0] == "" || len(got) == 0
	}
	if want[0] == "..." {
		for i := range len(got) + 1 {
			if fits(want[1:], got[i:]) || len(want) == 1 {
				return true
			}
		}
		return false
	}
	return len(got) > 0 && lineFits(want[0], got[0]) && (len(want) == 1 && len(got) == 1 || fits(want[1:], got[1:]))
}

func lineFits(want, got string) bool {
	head, tail, wild := strings.Cut(want, "…")
	if !wild {
		return want == got
	}
	return strings.HasPrefix(got, head) && strings.HasSuffix(got, tail)
}

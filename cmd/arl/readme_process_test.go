//go:build unix

package main_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// drawn is what is new in every run of the README's commands: times, ports,
// origins, keys and hashes.
var drawn = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z|127\.0\.0\.1:\d+|local\.arl/[0-9a-f]{8}(\+[0-9a-f]{8}\+[A-Za-z0-9+/]+=*)?|[A-Za-z0-9+/]{43}=`)

// TestReadme runs what README.md shows as a new user does: the ledger of make
// run, then the commands of the other terminal in order, and compares what they
// print. A line … stands for any lines.
func TestReadme(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	binary := program(t)
	blocks := strings.Split(string(page), "```console\n$ ")
	if len(blocks) != 3 {
		t.Fatalf("README.md has %d blocks of commands, want 2", len(blocks)-1)
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, filepath.Join(bin, "arl")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ARL_HOME", filepath.Join(dir, "home"))

	started, _, _ := strings.Cut(strings.TrimPrefix(blocks[1], "make run\n"), "\n…\n")
	if said := serveAs(t, binary, dir, strings.Count(started, "\n")+1); normal(said) != normal(started) {
		t.Errorf("make run prints\n%s\nREADME.md has\n%s", said, started)
	}
	shown, _, _ := strings.Cut(blocks[2], "\n```")
	for part := range strings.SplitSeq(shown, "\n$ ") {
		command, printed := splitCommand(part)
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = dir
		var problems strings.Builder
		cmd.Stderr = &problems
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("$ %s\n%v\n%s%s", command, err, out, problems.String())
		}
		if !isShown(normal(printed), normal(strings.TrimSuffix(string(out), "\n"))) {
			t.Errorf("$ %s\nprints\n%s\nREADME.md has\n%s", command, out, printed)
		}
	}
}

// serveAs starts the ledger as make run does, on a port of its own, and returns
// its first lines.
func serveAs(t *testing.T, binary, dir string, lines int) string {
	t.Helper()
	process := exec.Command(binary, "serve", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0")
	stdout, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, stdout)
		if err := process.Wait(); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	said, reader := make([]string, 0, lines), bufio.NewScanner(stdout)
	for len(said) < lines && reader.Scan() {
		said = append(said, reader.Text())
	}
	return strings.Join(said, "\n")
}

// splitCommand separates a command, with what it reads as a here document, from
// what it prints.
func splitCommand(part string) (command, printed string) {
	command, printed, _ = strings.Cut(part, "\n")
	if _, end, reads := strings.Cut(command, "<<'"); reads {
		end = strings.TrimSuffix(end, "'")
		input, rest, _ := strings.Cut(printed, "\n"+end)
		return command + "\n" + input + "\n" + end, strings.TrimPrefix(rest, "\n")
	}
	return command, printed
}

func normal(text string) string { return drawn.ReplaceAllString(text, "N") }

// isShown reports whether the text consists of the shown parts, in order, with
// any lines where … stands.
func isShown(shown, text string) bool {
	if shown == "" {
		return true // the page leaves out what the command prints
	}
	parts := strings.Split(shown, "\n…")
	rest, ok := strings.CutPrefix(text, parts[0])
	for _, part := range parts[1:] {
		if part == "" {
			return ok // … ends the block
		}
		var found bool
		_, rest, found = strings.Cut(rest, part)
		ok = ok && found
	}
	return ok && rest == ""
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The commands of docs/rollback.md are run by a script, and what the page prints
// is what the script compares with.
func TestRollbackPage(t *testing.T) {
	page, err := os.ReadFile(filepath.FromSlash("../../docs/rollback.md"))
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.FromSlash("../../testdata/scripts/rollback_page.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```text\n$ arl")
	block, _, _ = strings.Cut("$ arl"+block, "```")
	commands := 0
	for line := range strings.Lines(block) {
		want := "\n" + line
		if command, is := strings.CutPrefix(line, "$ "); is {
			commands++
			want = "\nexec " + command
		}
		if line != "\n" && !strings.Contains(string(script), want) {
			t.Errorf("the script has no %q", line)
		}
	}
	if commands == 0 {
		t.Fatal("no command on the page")
	}
}

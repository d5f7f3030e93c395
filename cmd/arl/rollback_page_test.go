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
	for example := range strings.SplitSeq("\n"+block, "\n$ ") {
		command, printed, _ := strings.Cut(example, "\n")
		if command == "" {
			continue
		}
		commands++
		if !strings.Contains(string(script), "\nexec "+command+"\n") {
			t.Errorf("the script does not run %q", command)
		}
		if !strings.Contains(string(script), "\n"+printed) { // as a whole: what it compares the output with
			t.Errorf("the script does not compare with\n%s", printed)
		}
	}
	if commands == 0 {
		t.Fatal("no command on the page")
	}
}

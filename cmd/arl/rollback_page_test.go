package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The commands of these pages are run by scripts, and what a page prints is what
// its script compares with.
func TestScriptedPages(t *testing.T) {
	for page, script := range map[string]string{"rollback.md": "rollback_page.txtar", "tasks.md": "tasks_page.txtar", "disk-gone.md": "disk_page.txtar"} {
		checkScripted(t, page, script)
	}
}

func checkScripted(t *testing.T, pageName, scriptName string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", pageName))
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join("..", "..", "testdata", "scripts", scriptName))
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, block := range strings.Split(string(page), "```text\n$ arl")[1:] {
		block, _, _ = strings.Cut("$ arl"+block, "```")
		for example := range strings.SplitSeq("\n"+block, "\n$ ") {
			command, printed, _ := strings.Cut(example, "\n")
			if command == "" {
				continue
			}
			commands++
			if !strings.Contains(string(script), "\nexec "+command+"\n") {
				t.Errorf("%s: the script does not run %q", pageName, command)
			}
			if !strings.Contains(string(script), "\n"+printed) { // as a whole: what it compares the output with
				t.Errorf("%s: the script does not compare with\n%s", pageName, printed)
			}
		}
	}
	if commands == 0 {
		t.Fatalf("no command on %s", pageName)
	}
}

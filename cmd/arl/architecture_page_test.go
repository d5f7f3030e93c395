package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestArchitecturePage compares the arrows with those in docs/architecture.md,
// and wants every package in its table of folders.
func TestArchitecturePage(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(content)
	if !strings.Contains(page, "```"+arrows+"```\n") {
		t.Errorf("docs/architecture.md does not show these arrows:%s", arrows)
	}
	_, table, _ := strings.Cut(page, "| folder | |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	folders := mayImport(arrows)
	for name := range folders {
		if !strings.Contains(table, "`"+name+"`") {
			t.Errorf("docs/architecture.md: no folder %s", name)
		}
	}
}

// TestArchitectureFlows wants the five flows in docs/architecture.md, each a numbered list
// of Go files in reading order. TestLinks checks that links lead to files. This test checks
// that each link shows the path that it leads to, and that git tracks the file.
func TestArchitectureFlows(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	files := tracked(t, root)
	step, link := regexp.MustCompile(`(?m)^(\d+)\. \[`), regexp.MustCompile(`\[([^]]+)\]\(([^)]+\.go)\)`)
	for _, flow := range []string{"The way of an entry", "From a signal to its record", "From a scenario to its replay", "The audit", "From a failed task to another agent"} {
		_, text, found := strings.Cut(string(content), "\n## "+flow+"\n")
		text, _, _ = strings.Cut(text, "\n## ")
		steps := step.FindAllStringSubmatch(text, -1)
		if !found || len(steps) < 5 {
			t.Errorf("docs/architecture.md: %s: %d steps", flow, len(steps))
		}
		for i, s := range steps {
			if s[1] != strconv.Itoa(i+1) {
				t.Errorf("docs/architecture.md: %s: step %s stands at place %d", flow, s[1], i+1)
			}
		}
		for _, l := range link.FindAllStringSubmatch(text, -1) {
			if l[2] != "../"+l[1] || !slices.Contains(files, l[1]) {
				t.Errorf("docs/architecture.md: %s: %s links to %s", flow, l[1], l[2])
			}
		}
	}
}

// TestTracked makes a repository with files of who works in it beside its own,
// at its top and below.
func TestTracked(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"go.mod", "a/a.go", "a/old.go", "agent.key", "data/db/000001.go", "a/receipt.json", "bin/tools/go/x.go"} {
		path := filepath.Join(dir, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "go.mod", "a/a.go", "a/old.go"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	if err := os.Remove(filepath.Join(dir, "a", "old.go")); err != nil {
		t.Fatal(err)
	}
	if got := tracked(t, dir); !slices.Equal(got, []string{"a/a.go", "go.mod"}) {
		t.Errorf("%v", got)
	}
}

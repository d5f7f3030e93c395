package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestInlineCommands checks the commands that stand within a sentence or a table, which nobody can
// run as they stand: there is such a command, and it has these flags.
func TestInlineCommands(t *testing.T) {
	pages := []string{"../../README.md"}
	for _, pattern := range []string{"*.md", "operations/*.md", "operations/*/*.md"} {
		found, err := filepath.Glob("../../docs/" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	word := regexp.MustCompile(`^[a-z]`) // neither a flag nor a placeholder
	span, flag := regexp.MustCompile("`arl ([^`]+)`"), regexp.MustCompile(`--([a-z][a-z-]*)`)
	root := newApp(strings.NewReader(""), os.Stdout, os.Stderr).rootCommand()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	checked := 0
	for _, page := range pages {
		if filepath.Base(page) == "CHANGELOG.md" {
			continue // it tells of what was, too
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range span.FindAllStringSubmatch(string(text), -1) {
			line := strings.Join(strings.Fields(found[1]), " ")
			words, _, _ := strings.Cut(line, " -- ")
			cmd, rest := root, strings.Fields(words)
			for len(rest) > 0 && cmd.HasAvailableSubCommands() && word.MatchString(rest[0]) {
				name, _, _ := strings.Cut(rest[0], "|")
				next, _, err := cmd.Find([]string{name})
				if err != nil || next == cmd {
					t.Errorf("%s: `arl %s`: there is no such command", filepath.Base(page), line)
					break
				}
				cmd, rest = next, rest[1:]
			}
			checked++
			for _, name := range flag.FindAllStringSubmatch(strings.Join(rest, " "), -1) {
				if cmd.Flags().Lookup(name[1]) == nil && cmd.InheritedFlags().Lookup(name[1]) == nil && name[1] != "help" {
					t.Errorf("%s: `arl %s`: %s has no flag --%s", filepath.Base(page), line, cmd.CommandPath(), name[1])
				}
			}
		}
	}
	if checked < 200 {
		t.Errorf("%d commands", checked)
	}
}

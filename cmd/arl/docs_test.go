package main_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPitfallTests checks that docs/pitfalls.md names tests that exist.
func TestPitfallTests(t *testing.T) {
	page, err := os.ReadFile("../../docs/pitfalls.md")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	err = filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		code.Write(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 20 {
		t.Fatalf("%d tests are named", len(named))
	}
	for _, match := range named {
		if !strings.Contains(code.String(), "func "+match[1]+"(") {
			t.Errorf("%s does not exist", match[1])
		}
	}
}

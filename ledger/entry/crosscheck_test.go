package entry_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"recoveryledger/testdata/needs"
)

// crossCheck runs the program that shares no code with ours on a directory of
// vectors and returns what it says; the last line sums up.
func crossCheck(t *testing.T, vectors string) (lines []string, ok bool) {
	t.Helper()
	python := needs.Program(t, "python3", "python3", "the vectors are not cross-checked")
	out, err := exec.CommandContext(t.Context(), python, "../../testdata/crosscheck/check.py", vectors, "schema").CombinedOutput()
	return strings.Split(strings.TrimSpace(string(out)), "\n"), err == nil
}

// entryVectors are all vectors but those of packages recovery and verify, which
// have other programs for them.
func entryVectors(t *testing.T) map[string]string {
	t.Helper()
	files := readVectorFiles(t, ".")
	maps.DeleteFunc(files, func(name, _ string) bool {
		group, _, _ := strings.Cut(name, "/")
		return slices.Contains([]string{"bundle", "decide", "evidence", "history", "policy", "scope"}, group)
	})
	return files
}

// TestCrossCheck has every vector recomputed, those of package merkle included.
func TestCrossCheck(t *testing.T) {
	files := entryVectors(t)
	lines, ok := crossCheck(t, vectorsDir)
	last := lines[len(lines)-1]
	if !ok || !strings.HasPrefix(last, fmt.Sprintf("%d vectors checked,", len(files))) || len(files) < 320 {
		t.Fatalf("%d files: %s", len(files), strings.Join(lines[max(0, len(lines)-10):], "\n"))
	}
	t.Log(last)
	size := 0
	for _, text := range files {
		size += len(text)
	}
	if size > 2<<20 {
		t.Errorf("the vectors have %d bytes, more than is pleasant to read and to clone", size)
	}
}

// TestCrossCheckNotices damages what vectors say: the program disagrees with
// each of them, so that its silence about the others means something.
func TestCrossCheckNotices(t *testing.T) {
	dir := t.TempDir()
	damaged := 0
	damage := func(name, text string, change func(v map[string]any)) {
		var v map[string]any
		must(t, json.Unmarshal([]byte(text), &v))
		change(v)
		damagedText, err := json.Marshal(v)
		must(t, err)
		file := filepath.Join(dir, fmt.Sprintf("%s-%d.json", name, damaged))
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, damagedText, 0o644))
		damaged++
	}
	files := entryVectors(t)
	for i, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		switch {
		case i%4 != 0: // a sample suffices
		case strings.Contains(text, `"wantErr": ""`):
			damage(name, text, func(v map[string]any) { v["wantErr"] = "malformed" })
			for _, member := range wantMembers(text) {
				damage(name, text, func(v map[string]any) { v["want"].(map[string]any)[member] = "x" })
			}
		default:
			damage(name, text, func(v map[string]any) { v["wantErr"] = "" })
		}
	}
	lines, ok := crossCheck(t, dir)
	if last := lines[len(lines)-1]; ok || !strings.HasSuffix(last, fmt.Sprintf(" %d wrong", damaged)) {
		t.Errorf("%d damaged vectors: %s", damaged, last)
	}
}

// wantMembers names what a vector promises of an accepted input; a note there is
// input itself.
func wantMembers(text string) (names []string) {
	var v struct{ Want any }
	if json.Unmarshal([]byte(text), &v) == nil {
		if want, ok := v.Want.(map[string]any); ok {
			delete(want, "note")
			names = slices.Sorted(maps.Keys(want))
		}
	}
	return names
}

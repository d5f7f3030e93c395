package engine

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"recoveryledger/coord/recovery"
	"recoveryledger/testdata/budget"
)

// damages are what can become of a file.
func damages() map[string]func(path string, text []byte) error {
	write := func(path string, text []byte) error { return os.WriteFile(path, text, 0o600) }
	return map[string]func(path string, text []byte) error{
		"removed":       func(path string, _ []byte) error { return os.Remove(path) },
		"empty":         func(path string, _ []byte) error { return write(path, nil) },
		"cut in half":   func(path string, text []byte) error { return write(path, text[:len(text)/2]) },
		"without end":   func(path string, text []byte) error { return write(path, text[:len(text)-2]) },
		"with more":     func(path string, text []byte) error { return write(path, append(text, "x\n"...)) },
		"another text":  func(path string, _ []byte) error { return write(path, []byte("nothing\n")) },
		"other JSON":    func(path string, _ []byte) error { return write(path, []byte("{}\n")) },
		"a changed bit": func(path string, text []byte) error { text[len(text)/2] ^= 1; return write(path, text) },
	}
}

// A directory of a run in which any file was changed, cut off or removed neither
// matches nor ends in an error of another kind: what follows from scenario and policy
// has diverged, and without what it follows from the two are not comparable.
func TestReplayOfADamagedDirectory(t *testing.T) {
	for _, kind := range []string{"recorded", "with a record"} {
		dir := filepath.Join(t.TempDir(), "run")
		r := newTestRun(t, string(fixture(t)), dir)
		if kind == "with a record" {
			r.Strategy = []string{"a", "function"}
			r.External = always(recovery.Action{Strategy: recovery.Escalate})
		}
		if err := r.Dir.writeInfo(Info{Run: "a", Scenario: r.Scenario, StartedAt: time.Now().UnixMilli()}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Do(t.Context()); err != nil {
			t.Fatal(err)
		}
		files := map[string]Match{ReportFile: Diverged, TracesFile: Diverged, SummaryFile: Diverged, ConfigFile: NotComparable, InfoFile: NotComparable}
		if kind == "with a record" {
			delete(files, InfoFile) // the record lies in the directory
			files[RecordFile] = NotComparable
		}
		for file, want := range files {
			path := filepath.Join(dir, file)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all := damages()
			// Sorted, so that a small budget has the same ones each time.
			for _, damage := range slices.Sorted(maps.Keys(all))[:budget.Budget{Short: 3, Usual: len(all)}.Now()] {
				do := all[damage]
				if err := do(path, append([]byte{}, text...)); err != nil {
					t.Fatal(err)
				}
				wanted := want
				if file == ReportFile && damage == "removed" {
					wanted = NotComparable // as of a run that is on its way
				}
				c, err := Replay(t.Context(), dir, ReplayOptions{Workers: 1})
				if harmless := file == InfoFile && damage == "a changed bit"; err != nil || c.Match != wanted && !harmless {
					t.Errorf("%s: %s %s: %+v, %v; want %s", kind, file, damage, c, err, wanted)
				}
				if c.Match == Diverged && (c.File == "" || file == ReportFile && c.File != file) {
					t.Errorf("%s: %s %s: in which file? %+v", kind, file, damage, c)
				}
				if err := os.WriteFile(path, text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		if c, err := Replay(t.Context(), dir, ReplayOptions{}); err != nil || c.Match != Matches {
			t.Errorf("%s, mended: %+v, %v", kind, c, err)
		}
	}
	if _, err := Replay(context.Background(), t.TempDir(), ReplayOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no run at all: %v", err)
	}
}

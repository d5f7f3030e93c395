package needs_test

import (
	"fmt"
	"testing"

	"recoveryledger/testdata/needs"
)

// ended is a test that says how it ended.
type ended struct {
	testing.TB
	said string
}

func (e *ended) Helper() {}

func (e *ended) Fatalf(format string, args ...any) { e.end("failed: "+format, args) }

func (e *ended) Skipf(format string, args ...any) { e.end("skipped: "+format, args) }

// end keeps the first end, as nothing ends the caller.
func (e *ended) end(format string, args []any) {
	if e.said == "" {
		e.said = fmt.Sprintf(format, args...)
	}
}

// TestProgram wants the program where it is. Without it, a test fails where CI is set, with the
// package to install, and skips elsewhere, with what is not tried.
func TestProgram(t *testing.T) {
	for _, c := range []struct{ ci, name, said string }{
		{"", "go", ""},
		{"true", "go", ""},
		{"", "no-program-has-this-name", "skipped: missing: no-program-has-this-name: nothing is tried"},
		{"true", "no-program-has-this-name", "failed: missing: no-program-has-this-name: install the package p"},
	} {
		t.Setenv("CI", c.ci)
		e := new(ended)
		path := needs.Program(e, c.name, "p", "nothing is tried")
		if e.said != c.said || (path == "") != (c.said != "") {
			t.Errorf("CI=%q %s: %q, %q; want %q", c.ci, c.name, path, e.said, c.said)
		}
	}
}

// TestGo compiles without cgo where the race detector needs cgo.
func TestGo(t *testing.T) {
	t.Setenv("CGO_ENABLED", "1")
	out, err := needs.Go(t.Context(), "env", "CGO_ENABLED").Output()
	if err != nil || string(out) != "0\n" {
		t.Errorf("%q, %v", out, err)
	}
}

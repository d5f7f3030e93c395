package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRunsShareAFile: what one run says stands behind what another one has said.
func TestRunsShareAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "summary")
	for _, text := range []string{"ok  \tp\t0.1s\n1 passed, 0 failed, 0 skipped\n", "2 passed, 1 failed, 0 skipped\n"} {
		if err := appendTo(file, text); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if want := "ok  \tp\t0.1s\n1 passed, 0 failed, 0 skipped\n2 passed, 1 failed, 0 skipped\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// skipped is what go test -json says of a test that skips.
func skipped(test, reason string) string {
	return `{"Action":"output","Package":"p","Test":"` + test + `","Output":"    a_test.go:1: ` + reason + `\n"}
{"Action":"skip","Package":"p","Test":"` + test + `"}
`
}

// TestSkips: what a machine lacks is a failure in CI, data that lies nowhere is
// not.
func TestSkips(t *testing.T) {
	events := `{"Action":"pass","Package":"p","Test":"TestA"}` + "\n" + skipped("TestB", "missing: python3: nothing is cross-checked") +
		skipped("TestC", "missing: ../shared/data/x") + skipped("TestD", "needs the right to mount")
	for _, c := range []struct {
		ci, hasShared bool
		want          string
	}{
		{false, true, "1 passed, 0 failed, 3 skipped\n"},
		{true, false, "1 passed, 1 failed, 2 skipped\n"},
		{true, true, "1 passed, 2 failed, 1 skipped\n"},
	} {
		var out strings.Builder
		s := &summary{out: &out, ci: c.ci, hasShared: c.hasShared}
		if err := s.read(strings.NewReader(events)); err != nil {
			t.Fatal(err)
		}
		if got := s.counts(); got != c.want {
			t.Errorf("CI %v, shared %v: %q, want %q\n%s", c.ci, c.hasShared, got, c.want, s.skips)
		}
		if failed := strings.Count(strings.Join(s.skips, ""), "FAIL\tp\t"); failed != s.failed {
			t.Errorf("CI %v, shared %v: %d of the lines say FAIL: %s", c.ci, c.hasShared, failed, s.skips)
		}
	}
}

// TestCounts: a package that fails without a failed test counts as one.
func TestCounts(t *testing.T) {
	var out strings.Builder
	s := &summary{out: &out}
	events := `{"Action":"output","Package":"p","Output":"panic: no\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
{"Action":"output","Package":"q","Test":"TestB","Output":"    b_test.go:1: wrong\n"}
{"Action":"fail","Package":"q","Test":"TestB"}
{"Action":"fail","Package":"q"}
`
	if err := s.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	if got, want := s.counts(), "0 passed, 2 failed, 0 skipped\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, want := range []string{"panic: no", "b_test.go:1: wrong", "FAIL\tp"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not printed: %s", want, out.String())
		}
	}
}

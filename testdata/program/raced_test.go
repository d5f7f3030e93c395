//go:build race

package program

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
)

// TestWatched: the race detector watches one of the two programs, and that one runs every command
// but those that ask once.
func TestWatched(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bin")
	if err := watched(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"watched", "plain"} {
		path := filepath.Join(dir, name, "arl")
		built, err := buildinfo.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		has := slices.ContainsFunc(built.Settings, func(s debug.BuildSetting) bool { return s.Key == "-race" && s.Value == "true" })
		if has != (name == "watched") {
			t.Errorf("%s is built with -race: %t", name, has)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho "+name+" $*\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"serve", "--data", "d"}, "watched serve --data d\n"},
		{[]string{"agent", "listen"}, "watched agent listen\n"},
		{[]string{"agent"}, "watched agent\n"},
		{[]string{"agent", "enrol", "--key", "k"}, "plain agent enrol --key k\n"},
		{[]string{"log", "head"}, "plain log head\n"},
		{[]string{"log", "audit"}, "watched log audit\n"},
		{[]string{"verify", "bundle.json"}, "plain verify bundle.json\n"},
	} {
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "arl"), c.args...).Output()
		if err != nil || string(out) != c.want {
			t.Errorf("%q: %q, %v, want %q", c.args, out, err, c.want)
		}
	}
}

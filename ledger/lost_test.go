package ledger_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger"
)

// Keys that have signed a tree head begin no second log, whatever is left of the
// first: nothing, an empty directory, a database without an entry, with or
// without its anchor. Nothing is made, and nothing is signed.
// Draft: TRU-5a.
func TestUsedKeysBeginNoLog(t *testing.T) {
	empty := func(disk *vfs.MemFS) { start(t, "log", config(t, disk)).stop() }
	for name, prepare := range map[string]func(disk *vfs.MemFS){
		"nothing":                      func(*vfs.MemFS) {},
		"an empty directory":           func(disk *vfs.MemFS) { must(t, disk.MkdirAll("log", 0o755)) },
		"no entry":                     func(disk *vfs.MemFS) { empty(disk); must(t, disk.Remove("log.anchor")) },
		"no entry, and its anchor":     empty,
		"no entry, and another anchor": func(disk *vfs.MemFS) { empty(disk); copyTo(t, logOf(t, 3), disk, "log.anchor") },
	} {
		disk := vfs.NewMem()
		prepare(disk)
		cfg := config(t, disk)
		signer := &counting{Signer: cfg.Keys[0].Signer}
		cfg.Keys[0].Signer = signer
		cfg.Used = true
		cfg.Begun = func() error { t.Errorf("%s: it has begun", name); return nil }
		for _, accept := range []bool{false, true} {
			cfg.AcceptAnchor = accept
			before := listing(t, disk)
			_, err := ledger.Open("log", cfg)
			if !errors.Is(err, ledger.ErrLost) {
				t.Fatalf("%s, accept=%v: %v", name, accept, err)
			}
			for _, part := range []string{"arl log import", "arl ledger new-origin"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s: %q does not say %q", name, err, part)
				}
			}
			if after := listing(t, disk); !slices.Equal(before, after) && !strings.HasPrefix(name, "no entry") {
				t.Errorf("%s: there is %q, there was %q", name, after, before)
			}
		}
		if n := signer.made.Load(); n != 0 {
			t.Errorf("%s: %d signatures were made", name, n)
		}
	}
}

func listing(t *testing.T, disk *vfs.MemFS) (names []string) {
	t.Helper()
	for _, dir := range []string{"", "log"} {
		if _, err := disk.Stat(dir); dir == "" || err == nil {
			list, err := disk.List(dir)
			must(t, err)
			slices.Sort(list)
			names = append(append(names, dir+":"), list...)
		}
	}
	return names
}

// Begun is told at the first commit, before the head is there for readers, and at
// every start of a log with entries; not of an empty log, nor at every commit.
func TestBegunIsToldBeforeTheFirstHeadIsShown(t *testing.T) {
	cfg := config(t, vfs.NewMem())
	var log *ledger.Log
	begun := 0
	cfg.Begun = func() error {
		begun++
		if log != nil && log.Head().Size > 0 {
			t.Errorf("a head of size %d is shown already", log.Head().Size)
		}
		return nil
	}
	r := start(t, "log", cfg)
	if begun > 0 {
		t.Error("an empty log has begun")
	}
	log = r.Log
	r.add(2)
	if begun != 1 {
		t.Errorf("told %d times, want once", begun)
	}
	log = nil
	r.stop()
	r.again().stop()
	if begun != 2 {
		t.Errorf("told %d times after another start, want twice", begun)
	}
}

// Where the mark cannot be made, no head leaves: the first commit ends the
// process, a start is refused.
func TestNoHeadLeavesWithoutTheMark(t *testing.T) {
	disk := vfs.NewMem()
	unable := errors.New("no mark")
	cfg := config(t, disk)
	cfg.Begun = func() error { return unable }
	ended := make(chan error, 1)
	cfg.Fatal = func(err error) { ended <- err; select {} }
	log, err := ledger.Open("log", cfg)
	must(t, err)
	go log.Run(context.Background())        //nolint:errcheck // it ends in Fatal
	go log.Submit(t.Context(), newEntry(t)) //nolint:errcheck // nobody answers
	if err := <-ended; !errors.Is(err, unable) || log.Head().Size != 0 {
		t.Errorf("size %d is shown after %v", log.Head().Size, err)
	}
	cfg = config(t, copyOf(t, disk))
	cfg.Begun = func() error { return unable }
	if _, err := ledger.Open("log", cfg); !errors.Is(err, unable) {
		t.Errorf("open: %v", err)
	}
}

// copyOf returns a copy of a disk whose log is still open.
func copyOf(t *testing.T, disk *vfs.MemFS) *vfs.MemFS {
	t.Helper()
	left := vfs.NewMem()
	for _, path := range []string{"log", "log.anchor"} {
		copyTo(t, disk, left, path)
	}
	return left
}

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/coord/audit"
	"recoveryledger/merkle"
)

// interrupted has an audit end before its last bundle of entries: that bundle is not found, or
// Ctrl-C is pressed while the audit waits for it.
func (k *keeper) interrupted(ctrlC bool) {
	k.hostile.t.Helper()
	ctx, cancel := context.WithCancel(k.hostile.t.Context())
	defer cancel()
	if ctrlC {
		k.ctrlC = cancel
	}
	k.lacks = fmt.Sprintf("/tile/entries/%03d", (k.log.Head().Size-1)/merkle.TileWidth) // whole or in part
	_, told, code := k.runIn(ctx, "log", "audit")
	k.lacks, k.ctrlC = "", nil
	if want := fmt.Sprintf("1280 of %d entries are kept: the next command goes on there", k.log.Head().Size); code == exit.OK || !strings.Contains(told, want) {
		k.hostile.t.Fatalf("exit code %d, want %q:\n%s", code, want, told)
	}
}

func (k *keeper) begun() audit.Place {
	k.hostile.t.Helper()
	place := k.place()
	place.Path, place.Begun = place.Path+".begun", true
	return place
}

// TestInterruptedAuditGoesOn has an audit end in the middle. The next one reads the rest alone, and
// says what one says that has read everything. What was left is used for nothing else.
func TestInterruptedAuditGoesOn(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	defer k.end()
	k.enrol("a")
	for i := range 5*merkle.TileWidth + 9 {
		k.step(fmt.Sprint("s", i))
	}
	for name, ctrlC := range map[string]bool{"an answer is lost": false, "Ctrl-C": true} {
		t.Run(name, func(t *testing.T) {
			k.must(os.RemoveAll(filepath.Dir(k.place().Path)))
			k.interrupted(ctrlC)
			k.goesOn()
		})
	}
}

// goesOn wants an audit to go on from what interrupted has left.
func (k *keeper) goesOn() {
	t := k.hostile.t
	t.Helper()
	if left, err := k.begun().Load(); err != nil || left.Follower.State().Size() != 1280 || left.Head.Head != k.log.Head().Head {
		t.Fatalf("left: %+v, %v", left, err)
	}
	asKept := k.begun()
	asKept.Begun = false
	if _, err := asKept.Load(); err == nil {
		t.Error("what was left counts as the fold of the log")
	}
	k.fetched = nil
	with := k.says("log", "audit", "-o", "json")
	bundles := 0
	for _, path := range k.fetched {
		if strings.HasPrefix(path, "/tile/entries/") {
			bundles++
		}
	}
	if bundles != 1 {
		t.Errorf("%d bundles are read, want the one behind 1280 entries", bundles)
	}
	if without := k.says("log", "audit", "-o", "json", "--no-cache"); with != without {
		t.Errorf("%s\nwithout what was left:\n%s", with, without)
	}
	if _, err := os.Stat(k.begun().Path); !os.IsNotExist(err) {
		t.Errorf("what was left is still there: %v", err)
	}
}

// TestBegunFoldAccusesNobody: what was left is of another history, which nothing has compared with
// a tree head. The ledger is not accused: the log is read again.
func TestBegunFoldAccusesNobody(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	defer k.end()
	k.enrol("a")
	key := k.keys["a"]
	other := k.twin()
	k.keys["a"], other.keys["a"] = key, key
	defer other.end()
	for i := range 5*merkle.TileWidth + 9 {
		k.step(fmt.Sprint("s", i))
		other.step(fmt.Sprint("o", i))
	}
	home := filepath.Join(t.TempDir(), "home")
	k.must(copyTree(home, k.home))
	other.interrupted(false)
	left, err := os.ReadFile(k.begun().Path)
	k.must(err)
	k.must(os.RemoveAll(k.home))
	k.must(copyTree(k.home, home))
	k.must(os.MkdirAll(filepath.Dir(k.begun().Path), 0o700))
	k.must(os.WriteFile(k.begun().Path, left, 0o600))
	_, told, code := k.run("log", "audit")
	if code != exit.OK || !strings.Contains(told, "what an interrupted command has left is removed, and the log is read again") {
		t.Errorf("exit code %d\n%s", code, told)
	}
	k.says("log", "audit")
	begun := k.begun()
	k.must(os.WriteFile(begun.Path, []byte("damaged"), 0o600))
	if _, told, code := k.run("log", "audit"); code != exit.OK || !strings.Contains(told, "is not used: it is not a file of 32 to") {
		t.Errorf("exit code %d\n%s", code, told)
	}
	k.must(os.WriteFile(begun.Path, left, 0o600))
	profiles, err := filepath.Glob(filepath.Join(k.home, "profiles", "*.json"))
	k.must(err)
	for _, path := range profiles {
		k.exits(exit.OK, "profile", "remove", strings.TrimSuffix(filepath.Base(path), ".json"), "--yes")
	}
	if _, err := os.Stat(begun.Path); !os.IsNotExist(err) {
		t.Errorf("the profile is gone, and what was left is not: %v", err)
	}
}

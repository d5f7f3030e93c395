package keys

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"recoveryledger/testdata/budget"
)

// unused loads the keys in dir and reports whether they may begin a log.
func unused(t *testing.T, dir string) bool {
	t.Helper()
	all, err := LoadLedger(dir, secret("correct horse"))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all[1:] {
		if l.Unused {
			t.Error("a next key may begin a log")
		}
	}
	return all[0].Unused
}

// TestKeysAreUnusedUntilMarked follows keys, encrypted or not, to their first tree head and beyond.
func TestKeysAreUnusedUntilMarked(t *testing.T) {
	budget.Unraced(t, "one goroutine writes files")
	for name, passphrase := range map[string]Passphrase{"plain": nil, "encrypted": secret("correct horse")} {
		dir := t.TempDir()
		made, err := GenerateLedger(dir, origin, passphrase)
		if err != nil {
			t.Fatal(err)
		}
		if !made.Unused || !unused(t, dir) {
			t.Errorf("%s: new keys count as used", name)
		}
		if _, _, err := ReferNextLedger(dir, "", passphrase); err != nil || !unused(t, dir) {
			t.Errorf("%s: a next key makes the first one used: %v", name, err)
		}
		if _, err := GenerateLedger(dir, origin, passphrase); !errors.Is(err, fs.ErrExist) || !unused(t, dir) {
			t.Errorf("%s: keys that are refused touch the mark of those that are there: %v", name, err)
		}
		if of, err := UnusedOrigin(dir); err != nil || of != origin {
			t.Errorf("%s: the mark is of %q: %v", name, of, err)
		}
		for range 2 { // a crash may come between the mark and what follows it
			if err := MarkLedgerUsed(dir); err != nil || unused(t, dir) {
				t.Errorf("%s: used keys count as unused: %v", name, err)
			}
		}
		if _, err := UnusedOrigin(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: used keys have a mark: %v", name, err)
		}
		checkFiles(t, dir, "ledger-2.key", ledgerFile)
		if err := os.Remove(filepath.Join(dir, ledgerFile)); err != nil {
			t.Fatal(err)
		}
		if unused(t, dir) {
			t.Errorf("%s: a next key alone may begin a log", name)
		}
	}
}

// TestTheMarkIsOfOneKey puts the mark of one ledger beside the keys of another, and spoils it.
func TestTheMarkIsOfOneKey(t *testing.T) {
	_, dir := mustLedger(t)
	_, other := mustLedger(t)
	mark, err := os.ReadFile(filepath.Join(other, ledgerUnused))
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(filepath.Join(dir, ledgerUnused))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"of another": mark, "empty": nil, "cut short": own[:len(own)-1], "longer": append(own, '\n')} {
		if err := os.WriteFile(filepath.Join(dir, ledgerUnused), content, 0o600); err != nil {
			t.Fatal(err)
		}
		if unused(t, dir) {
			t.Errorf("%s: the keys count as unused", name)
		}
		if _, err := UnusedOrigin(dir); (err != nil) != (name == "empty") {
			t.Errorf("%s: its origin: %v", name, err)
		}
	}
}

// TestAMarkWithoutKeysIsReplaced is a crash after the mark and before the key file.
func TestAMarkWithoutKeysIsReplaced(t *testing.T) {
	_, dir := mustLedger(t)
	if err := os.Remove(filepath.Join(dir, ledgerFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := GenerateLedger(dir, origin, nil); err != nil || !unused(t, dir) {
		t.Fatal(err)
	}
}

// TestAMarkThatStaysIsAnError is a directory that nobody may change, and one that
// has no mark to remove.
func TestAMarkThatStaysIsAnError(t *testing.T) {
	dir := t.TempDir()
	if err := MarkLedgerUsed(dir); err != nil {
		t.Error(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, ledgerUnused, "inside"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := MarkLedgerUsed(dir); err == nil {
		t.Error("the mark is there and nobody is told")
	}
}

package keys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/durable"
)

// ledgerUnused is the name of the mark beside the first key file of a ledger that
// has signed nothing yet. Its first line is the Ed25519 verifier key of that file.
//
// The mark says that a log may begin, and its absence says that one has begun: key
// files that were restored without the mark, or with the mark of other keys, are
// used keys. A lost log under its old keys would sign other tree heads for sizes that
// were signed before.
const ledgerUnused = "ledger.unused"

// unusedText explains the mark to a reader of the file.
const unusedText = "These keys have signed no tree head over an entry. arl serve may begin a log with them, and removes this file then.\n"

// markUnused writes the mark. The mark comes before the key file. A crash between the two leaves a
// mark without keys, which the next keys replace.
func markUnused(dir string, l *Ledger) error {
	// The mark of keys that are there stays: it is not for the keys that are being made.
	switch _, err := os.Lstat(filepath.Join(dir, ledgerFile)); {
	case err == nil:
		return fs.ErrExist
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	path := filepath.Join(dir, ledgerUnused)
	if err := durable.Write(path, []byte(l.VerifierKeys[0]+"\n"+unusedText), 0o600); err != nil {
		return withoutName(err)
	}
	l.Unused = true
	return nil
}

// isUnused reports whether the mark is there, and of these keys.
func isUnused(dir string, l *Ledger) (bool, error) {
	content, err := os.ReadFile(filepath.Join(dir, ledgerUnused))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return string(content) == l.VerifierKeys[0]+"\n"+unusedText, err
}

// UnusedOrigin returns the origin in the mark of unused keys in dir. It asks for no
// passphrase, and so does not compare the mark with the keys. The error is
// fs.ErrNotExist if there is no mark.
func UnusedOrigin(dir string) (string, error) {
	path := filepath.Join(dir, ledgerUnused)
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("keys: read %s: %w", path, err)
	}
	key, _, _ := strings.Cut(string(content), "\n")
	verifier, err := note.NewVerifier(key)
	if err != nil {
		return "", fmt.Errorf("keys: read %s: %w", path, err)
	}
	return verifier.Name(), nil
}

// MarkLedgerUsed removes the mark of unused keys in dir, durably. A caller calls it before a signed
// tree head over an entry leaves the process. Without a mark it changes nothing, so that a
// read-only directory will do.
func MarkLedgerUsed(dir string) error {
	path := filepath.Join(dir, ledgerUnused)
	if err := durable.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keys: remove the mark of unused keys, %s: %w", path, err)
	}
	return nil
}

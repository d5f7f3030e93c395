// Package damage damages the database of a stopped ledger, as a disk or a person does, for tests of
// what the ledger says then.
package damage

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"

	"recoveryledger/ledger/dedup"
)

// Flip changes a bit of these bytes, which one table of the database below data must hold. A second
// call with the changed bytes changes the bit back. The bytes are from the middle of what no other
// entry has: a table is compressed, so the first and the last of them may be those of a neighbour.
func Flip(data string, content []byte) error {
	tables, err := filepath.Glob(filepath.Join(data, "db", "*.sst"))
	if err != nil {
		return err
	}
	for _, path := range tables {
		table, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if at := bytes.Index(table, content); at >= 0 {
			table[at] ^= 1
			return os.WriteFile(path, table, 0o600)
		}
	}
	return fmt.Errorf("%x is in none of %d tables", content, len(tables))
}

// Lose removes the entry with a signature from the database below data.
func Lose(data string, signature []byte) error {
	db, err := pebble.Open(filepath.Join(data, "db"), &pebble.Options{FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}})
	if err != nil {
		return err
	}
	key, err := keyOf(db, signature)
	if err == nil {
		err = db.Delete(key, pebble.Sync)
	}
	return errors.Join(err, db.Close())
}

// Forget removes every key by which the database below data recognizes a duplicate.
func Forget(data string) error {
	db, err := pebble.Open(filepath.Join(data, "db"), &pebble.Options{FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}})
	if err != nil {
		return err
	}
	return errors.Join(db.DeleteRange([]byte{dedup.KeyPrefix}, []byte{dedup.KeyPrefix + 1}, pebble.Sync), db.Close())
}

// keyOf returns the first key whose value has these bytes.
func keyOf(db *pebble.DB, content []byte) (key []byte, err error) {
	found, err := db.NewIter(nil)
	if err != nil {
		return nil, err
	}
	for ok := found.First(); ok && key == nil; ok = found.Next() {
		if bytes.Contains(found.Value(), content) {
			key = bytes.Clone(found.Key())
		}
	}
	if key == nil {
		err = errors.New("the database has no such entry")
	}
	return key, errors.Join(err, found.Close())
}

// quiet is a logger of the database that says nothing of its work.
type quiet struct{}

// Infof implements [pebble.Logger].
func (quiet) Infof(string, ...any) {}

// Errorf implements [pebble.Logger].
func (quiet) Errorf(string, ...any) {}

// Fatalf implements [pebble.Logger].
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

package entry_test

import (
	"errors"
	"testing"

	"recoveryledger/ledger/entry"
)

// TestRecordDamaged cuts a record at every byte, flips every bit of its head, and
// tries lengths that lie: an error, or a record that is good for another entry.
func TestRecordDamaged(t *testing.T) {
	record := signed(t).AppendStored(nil, registeredAt)
	decode := func(record []byte) error {
		e, at, err := entry.DecodeStored(record)
		if err == nil && string(e.AppendStored(nil, at)) != string(record) {
			t.Fatalf("%x is not the record of its entry", record)
		}
		if err != nil && !errors.Is(err, entry.ErrStored) {
			t.Fatalf("%x: %v", record, err)
		}
		return err
	}
	for size := range record {
		if decode(record[:size]) == nil {
			t.Errorf("a record cut to %d bytes is accepted", size)
		}
	}
	for i := range len(record) {
		for bit := range 8 {
			damaged := append([]byte(nil), record...)
			damaged[i] ^= 1 << bit
			_ = decode(damaged)
		}
	}
	for _, bad := range [][]byte{
		nil, {0}, {0, 255}, append([]byte{0, 255}, make([]byte, 255)...), append([]byte{0, 255}, make([]byte, 600)...),
		append([]byte{0x80, 0}, record[6:]...), {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	} {
		if decode(bad) == nil {
			t.Errorf("%x is accepted", bad)
		}
		if leaf, err := entry.AppendStoredLeaf(nil, bad); !errors.Is(err, entry.ErrStored) {
			t.Errorf("leaf %s of %x, error %v", leaf, bad, err)
		}
	}
}

// TestRecordOfBadEntry: what Decode would not accept is not read from a record
// either; it means damage.
func TestRecordOfBadEntry(t *testing.T) {
	e := signed(t)
	for what, seal := range map[string]func(){
		"no signature": func() { e.Seal(e.KeyID, nil) },
		"no key id":    func() { e.Seal("", []byte{1}) },
	} {
		seal()
		if _, _, err := entry.DecodeStored(e.AppendStored(nil, 1)); !errors.Is(err, entry.ErrStored) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

package entry

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrRecord reports a stored record that no entry could have made.
var ErrRecord = errors.New("entry: damaged record")

// AppendStored appends the compact form of the entry's leaf to dst: what a leaf
// says, without base64 and fixed text. [DecodeStored] gives the entry back.
//
//	uvarint registered_at ‖ u8 len ‖ kind ‖ u8 len ‖ keyid ‖ u8 len ‖ sig ‖ payload
func (e *Entry) AppendStored(dst []byte, registeredAt int64) []byte {
	dst = binary.AppendUvarint(dst, uint64(registeredAt))
	dst = append(dst, byte(len(e.Kind)))
	dst = append(dst, e.Kind...)
	dst = append(dst, byte(len(e.KeyID)))
	dst = append(dst, e.KeyID...)
	dst = append(dst, byte(len(e.Sig)))
	dst = append(dst, e.Sig...)
	return append(dst, e.payload...)
}

// DecodeStored reads a record. The error is [ErrRecord]; it means damage, since
// only well-formed entries are stored. The rules that an entry was held to when it
// was registered are not checked again: that a record is what was registered shows
// in its leaf hash, which stands in the tree.
func DecodeStored(record []byte) (e *Entry, registeredAt int64, err error) {
	e, registeredAt, err = splitRecord(bytes.Clone(record))
	if err != nil {
		return nil, 0, err
	}
	if err := e.checkSeal(); err != nil {
		return nil, 0, fmt.Errorf("%w: %v", ErrRecord, err)
	}
	if err := e.readPayload(); err != nil {
		return nil, 0, fmt.Errorf("%w: %v", ErrRecord, err)
	}
	return e, registeredAt, nil
}

// AppendRecordLeaf appends the leaf that a record stands for to dst, without
// reading the payload.
func AppendRecordLeaf(dst, record []byte) ([]byte, error) {
	e, registeredAt, err := splitRecord(record)
	if err != nil {
		return nil, err
	}
	return e.AppendLeaf(dst, registeredAt), nil
}

// splitRecord returns an entry without its body, which keeps the record.
func splitRecord(record []byte) (e *Entry, registeredAt int64, err error) {
	at, n := binary.Uvarint(record)
	if n <= 0 || n > 1 && record[n-1] == 0 || at > MaxInteger {
		return nil, 0, ErrRecord
	}
	rest, damaged := record[n:], false
	field := func() []byte {
		if len(rest) == 0 || len(rest)-1 < int(rest[0]) {
			damaged = true
			return nil
		}
		value := rest[1:][:rest[0]:rest[0]]
		rest = rest[1+len(value):]
		return value
	}
	e = &Entry{Kind: Kind(field()), KeyID: string(field()), Sig: field()}
	if damaged || !e.Kind.known() {
		return nil, 0, ErrRecord
	}
	e.payload = rest
	return e, int64(at), nil
}

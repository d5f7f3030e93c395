package entry

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrStored reports stored bytes that no entry could have made.
var ErrStored = errors.New("entry: damaged stored entry")

// AppendStored appends the compact form of the entry's leaf to dst: the content of the leaf,
// without base64 and fixed text. [DecodeStored] reads the form.
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

// DecodeStored reads what [Entry.AppendStored] writes. The error is [ErrStored]. It means damage:
// only well-formed entries are stored. The rules of registration are not checked again, because the
// leaf hash in the tree shows that the stored bytes are the registered entry.
func DecodeStored(record []byte) (e *Entry, registeredAt int64, err error) {
	e, registeredAt, err = splitStored(bytes.Clone(record))
	if err != nil {
		return nil, 0, err
	}
	if err := e.checkSeal(); err != nil {
		return nil, 0, fmt.Errorf("%w: %v", ErrStored, err)
	}
	if err := e.readPayload(); err != nil {
		return nil, 0, fmt.Errorf("%w: %v", ErrStored, err)
	}
	return e, registeredAt, nil
}

// AppendStoredLeaf appends the leaf of a stored entry to dst. The payload is not read. The error is
// [ErrStored].
func AppendStoredLeaf(dst, record []byte) ([]byte, error) {
	e, registeredAt, err := splitStored(record)
	if err != nil {
		return nil, err
	}
	return e.AppendLeaf(dst, registeredAt), nil
}

// splitStored returns an entry without its body. The entry keeps the bytes of the record.
func splitStored(record []byte) (e *Entry, registeredAt int64, err error) {
	at, n := binary.Uvarint(record)
	if n <= 0 || n > 1 && record[n-1] == 0 || at > MaxInteger {
		return nil, 0, ErrStored
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
		return nil, 0, ErrStored
	}
	e.payload = rest
	return e, int64(at), nil
}

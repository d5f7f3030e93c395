package agreement

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Limits of a batch.
const (
	MaxEntries = 1024      // entries
	MaxBytes   = 512 << 10 // bytes in the form that nodes exchange
)

// recordMax bounds the length of a record and of its length in front: an envelope is longer.
const recordMax = entry.MaxEnvelope + 512

const (
	magicSize  = 2 // B and the format
	headerSize = magicSize + incarnationSize + 8 + 2*(8+merkle.HashSize) + 8
)

// incarnationSize is the number of bytes of an [Incarnation].
const incarnationSize = 16

// Incarnation names the cluster that a batch and a database belong to. It is random. A cluster that
// was made again has another one, so that nothing of the cluster before it is taken.
type Incarnation [incarnationSize]byte

// ErrMalformed reports bytes that are no batch of the cluster.
var ErrMalformed = errors.New("agreement: malformed batch")

// Batch is entries that get their places at once.
type Batch struct {
	Format      int // of what nodes exchange, 1 to [Newest]; 0 stands for 1
	Incarnation Incarnation
	Seq         uint64      // its number; the first batch of a log is 1
	Previous    merkle.Head // before the batch
	Head        merkle.Head // behind it
	At          int64       // registered_at of the entries, Unix milliseconds
	Records     []byte      // the entries, as AppendRecord writes them
}

// AppendRecord appends an entry in its stored form to records, its length first.
func AppendRecord(records, stored []byte) []byte {
	records = binary.AppendUvarint(records, uint64(len(stored)))
	return append(records, stored...)
}

// Room reports whether a batch of so many entries in these records takes another entry of any size.
func Room(entries int, records []byte) bool {
	return entries < MaxEntries && headerSize+len(records)+recordMax+sha256.Size <= MaxBytes
}

// Encode returns the form of the batch that nodes exchange. secret is known to the nodes alone.
//
//	B ‖ digit of the format ‖ incarnation ‖ u64 seq ‖ u64 size ‖ root ‖ u64 size ‖ root ‖
//	u64 registered_at ‖ (uvarint length ‖ stored entry) … ‖ HMAC-SHA-256 of what stands before it
//
// Numbers are big-endian. The first size and root are those before the batch.
func (b *Batch) Encode(secret []byte) []byte {
	out := make([]byte, 0, headerSize+len(b.Records)+sha256.Size)
	out = append(out, 'B', '0'+byte(max(b.Format, 1)))
	out = append(out, b.Incarnation[:]...)
	out = binary.BigEndian.AppendUint64(out, b.Seq)
	for _, head := range []merkle.Head{b.Previous, b.Head} {
		out = binary.BigEndian.AppendUint64(out, head.Size)
		out = append(out, head.Root[:]...)
	}
	out = binary.BigEndian.AppendUint64(out, uint64(b.At))
	out = append(out, b.Records...)
	return append(out, sum(secret, out)...)
}

func sum(secret, text []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write(text)
	return mac.Sum(nil)
}

// open reads what [Batch.Encode] writes, without the entries. The error is [ErrMalformed]: the
// bytes are not by a node that has the secret, or not what Encode writes. It is [ErrFormat] if a
// newer program made the batch.
func open(secret, data []byte) (*Batch, error) {
	if len(data) < headerSize+sha256.Size || len(data) > MaxBytes {
		return nil, fmt.Errorf("%w: %d bytes", ErrMalformed, len(data))
	}
	text, mac := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if !hmac.Equal(sum(secret, text), mac) {
		return nil, fmt.Errorf("%w: it is not by a node of the cluster: its MAC does not fit", ErrMalformed)
	}
	b, rest := &Batch{Format: int(text[1]) - '0'}, text[magicSize:]
	switch {
	case text[0] != 'B' || b.Format < 1 || b.Format > formatMax:
		return nil, fmt.Errorf("%w: it begins with %q", ErrMalformed, text[:magicSize])
	case b.Format > Newest():
		return nil, FormatError("a batch", b.Format)
	}
	rest = rest[copy(b.Incarnation[:], rest):]
	number := func() uint64 {
		n := binary.BigEndian.Uint64(rest)
		rest = rest[8:]
		return n
	}
	b.Seq = number()
	for _, head := range []*merkle.Head{&b.Previous, &b.Head} {
		head.Size = number()
		rest = rest[copy(head.Root[:], rest):]
	}
	b.At = int64(number())
	b.Records = rest
	return b, nil
}

// entries reads the records, which are as many as the heads say. The error is [ErrMalformed].
func (b *Batch) entries() ([]*entry.Entry, error) {
	entries, err := b.records()
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	return entries, nil
}

func (b *Batch) records() ([]*entry.Entry, error) {
	if b.Seq == 0 || b.Head.Size <= b.Previous.Size || b.Head.Size-b.Previous.Size > MaxEntries || b.Head.Size > math.MaxInt64 {
		return nil, fmt.Errorf("batch %d leads from size %d to %d", b.Seq, b.Previous.Size, b.Head.Size)
	}
	entries := make([]*entry.Entry, 0, b.Head.Size-b.Previous.Size)
	for rest := b.Records; len(rest) > 0; {
		length, n := binary.Uvarint(rest)
		if n <= 0 || n > 1 && rest[n-1] == 0 || length > uint64(len(rest)-n) {
			return nil, fmt.Errorf("the length of entry %d is wrong", len(entries))
		}
		e, at, err := entry.DecodeStored(rest[n:][:length])
		if err != nil {
			return nil, err
		}
		if at != b.At {
			return nil, fmt.Errorf("entry %d is registered at %d, its batch at %d", len(entries), at, b.At)
		}
		entries, rest = append(entries, e), rest[n:][length:]
	}
	if uint64(len(entries)) != b.Head.Size-b.Previous.Size {
		return nil, fmt.Errorf("%d entries lead from size %d to %d", len(entries), b.Previous.Size, b.Head.Size)
	}
	return entries, nil
}

// HeadBefore returns the tree head before a batch in the form that nodes exchange. It checks
// nothing. The error is [ErrMalformed] if data is too short.
func HeadBefore(data []byte) (head merkle.Head, err error) {
	at := magicSize + incarnationSize + 8
	if len(data) < at+8+merkle.HashSize {
		return head, fmt.Errorf("%w: %d bytes", ErrMalformed, len(data))
	}
	head.Size = binary.BigEndian.Uint64(data[at:])
	copy(head.Root[:], data[at+8:])
	return head, nil
}

// SizeBehind returns the size of the log behind a batch in the form that nodes exchange. It checks
// nothing: who takes the batch decodes it. The error is [ErrMalformed] if data is too short.
func SizeBehind(data []byte) (uint64, error) {
	at := magicSize + incarnationSize + 8 + 8 + merkle.HashSize
	if len(data) < at+8 {
		return 0, fmt.Errorf("%w: %d bytes", ErrMalformed, len(data))
	}
	return binary.BigEndian.Uint64(data[at:]), nil
}

package agreement_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

var secret = []byte("secret of the cluster")

func newEntry(tb testing.TB, exec string) *entry.Entry {
	tb.Helper()
	e, err := entry.New(&entry.Execution{
		Header: entry.Header{V: 1, JTI: "018f0000-0000-7000-8000-000000000001", Iss: "agent", Aud: "ledger.example", Iat: 1_800_000_000, Wid: "w"},
		Exec:   exec, Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Planned,
	})
	if err != nil {
		tb.Fatal(err)
	}
	e.Seal("SHA256:"+strings.Repeat("A", 43), make([]byte, 64))
	return e
}

// sample is a batch of n entries behind 7 others.
func sample(tb testing.TB, n int) *agreement.Batch {
	tb.Helper()
	b := &agreement.Batch{
		Incarnation: agreement.Incarnation{1}, Seq: 4, At: 1_800_000_000_000,
		Previous: merkle.Head{Size: 7, Root: merkle.Hash{2}}, Head: merkle.Head{Size: 7 + uint64(n), Root: merkle.Hash{3}},
	}
	stored := newEntry(tb, "x").AppendStored(nil, b.At)
	for range n {
		b.Records = agreement.AppendRecord(b.Records, stored)
	}
	return b
}

// TestBatch: a batch is read as it was written, at every number of entries that it may have.
func TestBatch(t *testing.T) {
	for _, n := range []int{1, 2, agreement.MaxEntries} {
		want := sample(t, n)
		got, entries, err := agreement.Decode(secret, want.Encode(secret))
		if err != nil || len(entries) != n || entries[0].Header.Iss != "agent" {
			t.Fatalf("%d entries: %d, %v", n, len(entries), err)
		}
		if !bytes.Equal(got.Encode(secret), want.Encode(secret)) {
			t.Errorf("%d entries: read as %+v", n, got)
		}
		if head, err := agreement.HeadBefore(want.Encode(secret)); err != nil || head != want.Previous {
			t.Errorf("head before: %v, %v", head, err)
		}
		if size, err := agreement.SizeBehind(want.Encode(secret)); err != nil || size != want.Head.Size {
			t.Errorf("%d entries: size %d behind it, %v", n, size, err)
		}
	}
}

// TestMalformedBatch changes a batch in every way that a batch forbids.
func TestMalformedBatch(t *testing.T) {
	changed := func(change func(*agreement.Batch)) []byte {
		b := sample(t, 2)
		change(b)
		return b.Encode(secret)
	}
	for what, data := range map[string][]byte{
		"nothing":               nil,
		"no entry":              changed(func(b *agreement.Batch) { b.Records, b.Head.Size = nil, 7 }),
		"no number":             changed(func(b *agreement.Batch) { b.Seq = 0 }),
		"fewer than the heads":  changed(func(b *agreement.Batch) { b.Head.Size++ }),
		"more than the heads":   changed(func(b *agreement.Batch) { b.Head.Size-- }),
		"a size that falls":     changed(func(b *agreement.Batch) { b.Head.Size = 3 }),
		"another time":          changed(func(b *agreement.Batch) { b.At++ }),
		"a record cut off":      changed(func(b *agreement.Batch) { b.Records = b.Records[:len(b.Records)-1] }),
		"a length in two bytes": changed(func(b *agreement.Batch) { b.Records = append(slices.Clip(b.Records), 0x81, 0) }),
		"an entry of no kind": changed(func(b *agreement.Batch) {
			b.Records = agreement.AppendRecord(nil, []byte{1, 1, 'z', 0, 0})
			b.Head.Size = 8
		}),
		"one entry too many":     sample(t, agreement.MaxEntries+1).Encode(secret),
		"more bytes than is due": append(sample(t, 1).Encode(secret), make([]byte, agreement.MaxBytes)...),
		"another secret":         sample(t, 1).Encode([]byte("guessed")),
	} {
		if b, entries, err := agreement.Decode(secret, data); !errors.Is(err, agreement.ErrMalformed) || b != nil || entries != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	whole := sample(t, 1).Encode(secret)
	if _, err := agreement.HeadBefore(whole[:60]); !errors.Is(err, agreement.ErrMalformed) {
		t.Errorf("the head before a short batch: %v", err)
	}
	if _, err := agreement.SizeBehind(whole[:60]); !errors.Is(err, agreement.ErrMalformed) {
		t.Errorf("the size of a part: %v", err)
	}
	for i := range whole {
		flipped := bytes.Clone(whole)
		flipped[i] ^= 1
		if _, _, err := agreement.Decode(secret, flipped); !errors.Is(err, agreement.ErrMalformed) {
			t.Fatalf("byte %d flipped: %v", i, err)
		}
	}
}

// TestRoom: where Room says so, a batch takes the largest entry.
func TestRoom(t *testing.T) {
	if agreement.Room(agreement.MaxEntries, nil) || !agreement.Room(agreement.MaxEntries-1, nil) {
		t.Error("the number of entries")
	}
	full := make([]byte, agreement.MaxBytes)
	most := len(full)
	for !agreement.Room(1, full[:most]) {
		most--
	}
	largest := sample(t, 1)
	largest.Records = agreement.AppendRecord(full[:most], make([]byte, entry.MaxEnvelope))
	if n := len(largest.Encode(secret)); n > agreement.MaxBytes || n < agreement.MaxBytes-1024 {
		t.Errorf("%d bytes", n)
	}
}

// FuzzDecode looks for bytes that are read, but are not what is written. The MAC is made to fit.
func FuzzDecode(f *testing.F) {
	for _, n := range []int{1, 3} {
		whole := sample(f, n).Encode(secret)
		f.Add(whole[:len(whole)-32])
	}
	f.Add([]byte("B1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, entries, err := agreement.Decode(secret, agreement.Sealed(secret, text))
		if err != nil {
			return
		}
		again := *b
		again.Records = nil
		for _, e := range entries {
			again.Records = agreement.AppendRecord(again.Records, e.AppendStored(nil, b.At))
		}
		if got := again.Encode(secret); !bytes.Equal(got, agreement.Sealed(secret, text)) {
			t.Fatalf("%x is read as %x", text, got)
		}
	})
}

package entry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/gowebpki/jcs"

	"recoveryledger/ledger/entry"
)

// seeds calls add with the input of every vector of a group that is not large.
func seeds(f *testing.F, group string, add func(v *vector, input []byte)) {
	f.Helper()
	files := readVectorFiles(f, group)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		v := new(vector)
		must(f, json.Unmarshal([]byte(files[name]), v))
		if input := inputBytes(f, v.Input); len(input) < 4096 {
			add(v, input)
		}
	}
}

// requireRefusalOnly: an error is a refusal for a reason that the package gives,
// and comes without an entry.
func requireRefusalOnly(t *testing.T, e *entry.Entry, err error) {
	t.Helper()
	refusal, ok := errors.AsType[*entry.Refusal](err)
	known := ok && slices.Contains([]entry.Problem{entry.Malformed, entry.UnsupportedAlg, entry.TooLarge}, refusal.Problem)
	if !known || refusal.Detail == "" || e != nil {
		t.Fatalf("entry %v, error %v", e, err)
	}
}

func requireJCS(t *testing.T, text, want []byte) {
	t.Helper()
	canonical, err := jcs.Transform(text)
	if err != nil || !bytes.Equal(canonical, want) {
		t.Fatalf("RFC 8785 form of %s, error %v:\n got %s\nwant %s", text, err, want, canonical)
	}
}

// FuzzDecode: what is accepted has one canonical envelope, its RFC 8785 form,
// which says the same to Decode, in a spelling of its own or not.
// Draft: ENV-9.
func FuzzDecode(f *testing.F) {
	seeds(f, "envelope", func(_ *vector, input []byte) { f.Add(input) })
	f.Fuzz(func(t *testing.T, envelope []byte) {
		e, err := entry.Decode(envelope)
		if err != nil {
			requireRefusalOnly(t, e, err)
			return
		}
		canonical := e.AppendEnvelope(nil)
		requireJCS(t, envelope, canonical)
		for _, spelling := range [][]byte{canonical, append([]byte(" "), canonical...)} {
			again, err := entry.Decode(spelling)
			if len(spelling) > entry.MaxEnvelope {
				continue
			}
			if err != nil || !bytes.Equal(again.PAE(), e.PAE()) || !bytes.Equal(again.AppendEnvelope(nil), canonical) {
				t.Fatalf("%s decodes to another entry, error %v", spelling, err)
			}
		}
	})
}

// FuzzPayload: what is accepted satisfies the schema, and its body makes a payload
// that says the same.
func FuzzPayload(f *testing.F) {
	kinds := entry.Kinds()
	seeds(f, "payload", func(v *vector, input []byte) { f.Add(byte(slices.Index(kinds, entry.Kind(v.Kind))), input) })
	compiled := compileSchemas(f)
	f.Fuzz(func(t *testing.T, selector byte, payload []byte) {
		kind := kinds[int(selector)%len(kinds)]
		e, err := entry.NewRaw(kind, payload)
		if err != nil {
			requireRefusalOnly(t, e, err)
			return
		}
		if !schemaAccepts(compiled[string(kind)], payload) {
			t.Fatalf("the schema of %s refuses %s", kind, payload)
		}
		again, err := entry.New(e.Body)
		if err != nil {
			t.Fatalf("the body of %s: %v", payload, err)
		}
		if diff := sameBody(e.Body, again.Body); diff != "" {
			t.Fatalf("%s:\n%s", payload, diff)
		}
	})
}

// FuzzDecodeLeaf: a leaf is the one that its entry makes.
func FuzzDecodeLeaf(f *testing.F) {
	seeds(f, "leaf", func(_ *vector, input []byte) { f.Add(input) })
	f.Fuzz(func(t *testing.T, leaf []byte) {
		e, at, err := entry.DecodeLeaf(leaf)
		if err != nil {
			requireRefusalOnly(t, e, err)
			return
		}
		if !bytes.Equal(e.AppendLeaf(nil, at), leaf) {
			t.Fatalf("%s is not the leaf of its entry", leaf)
		}
		requireJCS(t, leaf, leaf)
	})
}

// FuzzDecodeStored: a record is the one that its entry makes, and that of its
// leaf, if the leaf is accepted.
func FuzzDecodeStored(f *testing.F) {
	seeds(f, "leaf", func(_ *vector, input []byte) {
		if e, at, err := entry.DecodeLeaf(input); err == nil {
			f.Add(e.AppendStored(nil, at))
		}
	})
	f.Add(append([]byte{0}, bytes.Repeat([]byte{0xff}, 300)...))
	f.Add([]byte{0x80, 0})
	f.Fuzz(func(t *testing.T, record []byte) {
		leaf, leafErr := entry.AppendStoredLeaf(nil, record)
		e, at, err := entry.DecodeStored(record)
		if err != nil {
			if !errors.Is(err, entry.ErrStored) || e != nil {
				t.Fatalf("entry %v, error %v", e, err)
			}
			return
		}
		if !bytes.Equal(e.AppendStored(nil, at), record) {
			t.Fatalf("%x is not the record of its entry", record)
		}
		again, againAt, err := entry.DecodeLeaf(leaf)
		if leafErr != nil || err == nil && (againAt != at || !bytes.Equal(again.PAE(), e.PAE())) {
			t.Fatalf("leaf %s of %x: errors %v, %v", leaf, record, leafErr, err)
		}
	})
}

// FuzzPublicKey: what is accepted has one DER form and one text form.
func FuzzPublicKey(f *testing.F) {
	seeds(f, "key", func(_ *vector, input []byte) { f.Add(input) })
	f.Fuzz(func(t *testing.T, text []byte) {
		var key entry.PublicKey
		if err := key.UnmarshalText(text); err != nil {
			requireRefusalOnly(t, nil, err)
			if !key.IsZero() {
				t.Fatal("a key in spite of the error")
			}
			return
		}
		again, err := entry.ParsePublicKey(key.DER())
		if err != nil || !again.Equal(key) || key.String() != string(text) || again.KeyID() != key.KeyID() {
			t.Fatalf("%s becomes %s, error %v", text, key, err)
		}
	})
}

package entry_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"

	"recoveryledger/ledger/entry"
)

// sameBody compares bodies as the protocol does: an absent list is an empty one.
func sameBody(a, b entry.Body) string {
	return cmp.Diff(a, b, cmpopts.EquateEmpty())
}

// TestCanonicalBytes draws bodies of every kind and holds what New makes of
// them against an RFC 8785 implementation by others; what New makes, Decode
// reads back, from the envelope, from the leaf and from the record alike.
func TestCanonicalBytes(t *testing.T) {
	for _, kind := range entry.Kinds() {
		t.Run(string(kind), rapid.MakeCheck(func(t *rapid.T) {
			body := drawBody(t, kind)
			made, err := entry.New(body)
			if err != nil {
				t.Fatalf("New refuses a good body: %v", err)
			}
			requireCanonical(t, made.Payload())
			if diff := sameBody(body, made.Body); diff != "" {
				t.Fatalf("the payload says something else:\n%s", diff)
			}
			made.Seal(keyID(ed25519Key("canonical").Public()), rapid.SliceOfN(rapid.Byte(), 1, 72).Draw(t, "sig"))
			at := genCount.Draw(t, "registered_at")
			requireCanonical(t, made.AppendEnvelope(nil))
			requireCanonical(t, made.AppendLeaf(nil, at))
			requireRoundTrip(t, made, at)
		}))
	}
}

// TestCanonicalFromAnySpelling draws payloads with spaces and unknown members:
// they are kept as signed, and the leaf around them is canonical.
func TestCanonicalFromAnySpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		made, err := entry.New(drawBody(t, rapid.SampledFrom(entry.Kinds()).Draw(t, "kind")))
		if err != nil {
			t.Fatal(err)
		}
		payload := append([]byte(" {\"\\u0078-note\": [null, {\"a\\/b\" : \"\\u00e9\"}],\n"), made.Payload()[1:]...)
		spelled, err := entry.NewRaw(made.Kind, payload)
		if err != nil {
			t.Fatalf("NewRaw refuses %s: %v", payload, err)
		}
		if !bytes.Equal(spelled.Payload(), payload) {
			t.Fatal("the payload was spelled anew")
		}
		spelled.Seal(keyID(ed25519Key("canonical").Public()), []byte{1})
		requireCanonical(t, spelled.AppendLeaf(nil, 0))
		requireRoundTrip(t, spelled, 0)
	})
}

func requireCanonical(t *rapid.T, text []byte) {
	t.Helper()
	want, err := jcs.Transform(text)
	if err != nil {
		t.Fatalf("jcs: %v", err)
	}
	if !bytes.Equal(text, want) {
		t.Fatalf("not in RFC 8785 form:\n got %s\nwant %s", text, want)
	}
}

// requireRoundTrip reads the entry back from each of its three forms.
func requireRoundTrip(t *rapid.T, e *entry.Entry, at int64) {
	t.Helper()
	leaf, record := e.AppendLeaf(nil, at), e.AppendStored(nil, at)
	fromEnvelope, err := entry.Decode(e.AppendEnvelope(nil))
	requireSame(t, "envelope", e, fromEnvelope, err)
	fromLeaf, leafAt, err := entry.DecodeLeaf(leaf)
	requireSame(t, "leaf", e, fromLeaf, err)
	fromRecord, recordAt, err := entry.DecodeStored(record)
	requireSame(t, "record", e, fromRecord, err)
	rebuilt, err := entry.AppendStoredLeaf([]byte("x"), record)
	if err != nil || string(rebuilt) != "x"+string(leaf) {
		t.Fatalf("leaf of the record: %s, error %v", rebuilt, err)
	}
	if leafAt != at || recordAt != at {
		t.Fatalf("registered at %d and %d, want %d", leafAt, recordAt, at)
	}
}

func requireSame(t *rapid.T, form string, want, got *entry.Entry, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("from its %s: %v", form, err)
	}
	if !bytes.Equal(got.PAE(), want.PAE()) || !bytes.Equal(got.AppendLeaf(nil, 7), want.AppendLeaf(nil, 7)) {
		t.Fatalf("from its %s: another entry", form)
	}
	if diff := sameBody(want.Body, got.Body); diff != "" || got.Header.JTI != want.Header.JTI {
		t.Fatalf("from its %s:\n%s", form, diff)
	}
}

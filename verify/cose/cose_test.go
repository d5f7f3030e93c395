package cose_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
	"recoveryledger/verify/cose"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// newLog returns a log of a policy and some agents.
func newLog(tb testing.TB, size int) *testlog.Log {
	tb.Helper()
	l, authority := testlog.New(tb), testlog.NewKey(tb, "authority", "authority")
	l.Add(authority.Sign(tb, l.Policy(authority, authority)))
	for len(l.Leaves) < size {
		l.Add(authority.Sign(tb, l.Agent(authority, entry.Enrol, testlog.NewKey(tb, "agent", string(rune('a'+len(l.Leaves)))), entry.RoleAgent)))
	}
	return l
}

// encoded returns the COSE receipt of an entry.
func encoded(tb testing.TB, l *testlog.Log, index uint64) ([]byte, verify.Receipt) {
	tb.Helper()
	r := l.Receipt(index)
	data, err := cose.Encode(r, l.Head(len(l.Leaves)), l.Signer)
	must(tb, err)
	return data, r
}

// TestRoundTrip: a COSE receipt is the receipt again.
func TestRoundTrip(t *testing.T) {
	for _, size := range []int{2, 3, 7, 8} {
		l := newLog(t, size)
		for index := range uint64(size) {
			data, want := encoded(t, l, index)
			got, err := cose.Open(data, want.Leaf, l.Root)
			must(t, err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("entry %d of %d:\n%s", index, size, diff)
			}
		}
	}
}

// TestForm takes a receipt apart by its definition: tag, headers, detached payload, Sig_structure.
func TestForm(t *testing.T) {
	l := newLog(t, 5)
	data, r := encoded(t, l, 3)
	var parts struct {
		_           struct{} `cbor:",toarray"`
		Protected   []byte
		Unprotected map[any]any
		Payload     any
		Signature   []byte
	}
	var tag cbor.RawTag
	must(t, cbor.Unmarshal(data, &tag))
	must(t, cbor.Unmarshal(tag.Content, &parts))
	var header map[any]any
	must(t, cbor.Unmarshal(parts.Protected, &header))
	public, err := base64.StdEncoding.DecodeString(strings.SplitN(l.Root.LedgerKeys[0], "+", 3)[2])
	must(t, err)
	if header[uint64(1)] != int64(-8) || header[uint64(395)] != uint64(1) || tag.Number != 18 || parts.Payload != nil {
		t.Errorf("tag %d, header %v, payload %v", tag.Number, header, parts.Payload)
	}
	root := l.Head(5).Root
	message, err := cbor.Marshal([]any{"Signature1", parts.Protected, []byte{}, root[:]})
	must(t, err)
	if !ed25519.Verify(public[1:], message, parts.Signature) {
		t.Error("not the signature over the Sig_structure of the root")
	}
	var proof []any
	must(t, cbor.Unmarshal(parts.Unprotected[uint64(396)].(map[any]any)[int64(-1)].([]any)[0].([]byte), &proof))
	if proof[0] != uint64(5) || proof[1] != uint64(3) || len(proof[2].([]any)) != len(r.Proof) {
		t.Errorf("proof %v", proof)
	}
}

// TestRefusals: what is changed on its way is refused.
func TestRefusals(t *testing.T) {
	l := newLog(t, 6)
	data, r := encoded(t, l, 2)
	other := testlog.New(t)
	otherKey := l.Root
	_, vkey := testlog.LedgerKey(t, testlog.Origin, "another")
	otherKey.LedgerKeys = []string{vkey}
	stranger, _ := testlog.LedgerKey(t, testlog.Origin, "another")
	byStranger, err := cose.Encode(r, l.Head(6), stranger)
	must(t, err)
	for _, test := range []struct {
		name string
		data []byte
		leaf []byte
		root verify.Root
		want string
	}{
		{"another leaf", data, l.Leaves[3], l.Root, "inclusion"},
		{"no leaf", data, []byte("{}"), l.Root, "inclusion"},
		{"another root", data, r.Leaf, otherKey, "not signed by any trusted ledger key"},
		{"a key that is none of the ledger's", byStranger, r.Leaf, l.Root, "not a trusted ledger key"},
		{"no tag", data[1:], r.Leaf, l.Root, "not a tagged CBOR item"},
		{"another tag", append([]byte{0xd1}, data[1:]...), r.Leaf, l.Root, "tag 17"},
		{"cut", data[:len(data)-1], r.Leaf, l.Root, "not a tagged CBOR item"},
		{"more", append(bytes.Clone(data), 0), r.Leaf, l.Root, "not a tagged CBOR item"},
		{"nothing", nil, r.Leaf, l.Root, "not a tagged CBOR item"},
		{"another ledger", data, r.Leaf, other.Root, "genesis is missing"},
	} {
		_, err := cose.Open(test.data, test.leaf, test.root)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
	for i := range data {
		changed := bytes.Clone(data)
		changed[i] ^= 1 << (i % 8)
		if _, err := cose.Open(changed, r.Leaf, l.Root); err == nil {
			t.Errorf("byte %d changed, and nothing is wrong", i)
		}
	}
}

// TestEncodeRefuses: nothing false, and nothing that RFC 9942 cannot say, is signed.
func TestEncodeRefuses(t *testing.T) {
	one := newLog(t, 1)
	_, err := cose.Encode(one.Receipt(0), one.Head(1), one.Signer)
	if _, ok := errors.AsType[*verify.FormatError](err); !ok || !strings.Contains(err.Error(), "one entry") {
		t.Errorf("a tree of one entry: %v", err)
	}
	l := newLog(t, 4)
	r := l.Receipt(1)
	r.Index = 2
	if _, err := cose.Encode(r, l.Head(4), l.Signer); err == nil {
		t.Error("a proof of another entry is signed")
	}
}

// TestLimits: the size of a receipt.
func TestLimits(t *testing.T) {
	l := newLog(t, 2)
	for n, want := range map[int]string{cose.MaxReceipt: "not a tagged", cose.MaxReceipt + 1: "the limit is"} {
		_, err := cose.Open(make([]byte, n), l.Leaves[0], l.Root)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// FuzzOpen: a receipt that is accepted is one that the ledger signed, in its one form.
func FuzzOpen(f *testing.F) {
	l := newLog(f, 3)
	data, r := encoded(f, l, 1)
	f.Add(data)
	f.Add([]byte{0xd2, 0x84, 0x40, 0xa0, 0xf6, 0x40})
	f.Fuzz(func(t *testing.T, changed []byte) {
		got, err := cose.Open(changed, r.Leaf, l.Root)
		if err == nil && (!bytes.Equal(changed, data) || got.Index != 1) {
			t.Errorf("%x is accepted", changed)
		}
	})
}

package verify_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// TestLimits tries each limit at it and one past it.
func TestLimits(t *testing.T) {
	l, _ := working(t)
	r := l.Receipt(9)
	pad := func(n int) string { return strings.Repeat("a", n) }
	path := func(n int) []merkle.Hash { return make([]merkle.Hash, n) }
	receipt := func(leaf, proof, head int) error {
		data, err := verify.Receipt{Leaf: make([]byte, leaf), Proof: path(proof), Head: pad(head)}.Encode()
		if err == nil {
			_, err = verify.DecodeReceipt(data)
		}
		return err
	}
	cases := []struct {
		name string
		do   func(past int) error
	}{
		{"MaxLeaf", func(past int) error { return receipt(verify.MaxLeaf+past, 1, 1) }},
		{"MaxPath", func(past int) error { return receipt(1, verify.MaxPath+past, 1) }},
		{"MaxNote", func(past int) error { return receipt(1, 1, verify.MaxNote+past) }},
		{"MaxRoot", func(past int) error {
			good := encoded(t, l.Root)
			_, err := verify.ParseRoot([]byte(good + strings.Repeat(" ", verify.MaxRoot-len(good)+past)))
			return err
		}},
		{"MaxKeys", func(past int) error {
			root := l.Root
			for len(root.LedgerKeys) < verify.MaxKeys+past {
				_, vkey, err := note.GenerateKey(nil, testlog.Origin)
				must(t, err)
				root.LedgerKeys = append(slices.Clone(root.LedgerKeys), vkey)
			}
			_, err := root.Encode()
			return err
		}},
		{"MaxFile", func(past int) error {
			data := make([]byte, verify.MaxFile+past)
			for i := range data {
				data[i] = ' '
			}
			copy(data, encoded(t, r))
			return new(verify.Material).Add("file", data)
		}},
		{"MaxItems", func(past int) error {
			m := verify.Material{Receipts: make([]verify.Receipt, verify.MaxItems-1+past)}
			return m.Add("file", []byte(encoded(t, r)))
		}},
		{"MaxLeaves", func(past int) error {
			m := verify.Material{Leaves: make([][]byte, verify.MaxLeaves-1+past)}
			return m.Add("file", l.Leaves[0])
		}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			must(t, tc.do(0))
			wantFormat(t, tc.do(1))
		})
	}
	// A tree head that a signature unknown to us fills up.
	for past := range 2 {
		prefix := l.Signed(15) + "\u2014 witness.example "
		size := verify.MaxNote + past - len(prefix) - 1
		signed := prefix + strings.Repeat("A", size/4*4)
		signed = strings.Replace(signed, "witness", "witness"+pad(size%4), 1) + "\n"
		if len(signed) != verify.MaxNote+past {
			t.Fatalf("%d bytes", len(signed))
		}
		_, err := l.Root.Head([]byte(signed))
		if past == 0 {
			must(t, err)
		} else {
			wantStep(t, err, verify.StepHead)
		}
	}
}

// TestMaxReceipt tries the limit of the encoded forms: it is no obstacle to the
// largest receipt, and is said before the bytes are looked at.
func TestMaxReceipt(t *testing.T) {
	largest := verify.Receipt{Leaf: make([]byte, verify.MaxLeaf), Proof: make([]merkle.Hash, verify.MaxPath), Head: strings.Repeat("\n", verify.MaxNote)}
	if n := len(encoded(t, largest)); n > verify.MaxReceipt {
		t.Errorf("the largest receipt has %d bytes, the limit is %d", n, verify.MaxReceipt)
	}
	decoders := map[string]func([]byte) error{
		"receipt":           func(data []byte) error { _, err := verify.DecodeReceipt(data); return err },
		"consistency proof": func(data []byte) error { _, err := verify.DecodeConsistency(data); return err },
		"tlog-proof":        func(data []byte) error { _, err := verify.ParseTLogProof(data); return err },
	}
	for name, decode := range decoders {
		for past := range 2 {
			err := decode(make([]byte, verify.MaxReceipt+past))
			wantFormat(t, err)
			if strings.Contains(err.Error(), "the limit is") != (past == 1) {
				t.Errorf("%s, %d past the limit: %v", name, past, err)
			}
		}
	}
}

// TestARefusalTellsTheLimit, and each way in and out has it.
func TestARefusalTellsTheLimit(t *testing.T) {
	leaf := verify.Receipt{Leaf: make([]byte, verify.MaxLeaf+1), Head: "head"}
	path := verify.Receipt{Leaf: []byte("leaf"), Proof: make([]merkle.Hash, verify.MaxPath+1), Head: "head"}
	head := verify.Receipt{Leaf: []byte("leaf"), Head: strings.Repeat("a", verify.MaxNote+1)}
	for want, r := range map[string]verify.Receipt{
		"leaf of 65536 bytes, want 1 to 65535":          leaf,
		"leaf of 0 bytes, want 1 to 65535":              {Head: "head"},
		"a proof of 66 hashes, the limit is 65":         path,
		"a tree head of 131073 bytes, want 1 to 131072": head,
		"a tree head of 0 bytes, want 1 to 131072":      {Leaf: []byte("leaf")},
	} {
		_, err := r.Encode()
		wantText(t, err, "verify: receipt: "+want)
		data, err := json.Marshal(r)
		must(t, err)
		_, err = verify.DecodeReceipt(data)
		wantText(t, err, "verify: receipt: "+want)
	}
	_, err := verify.Receipt{Leaf: []byte("leaf"), Head: "\xff"}.Encode() // no JSON text
	wantFormat(t, err)
	for want, r := range map[string]verify.Receipt{"a proof of 66 hashes, the limit is 65": path, "a tree head of 131073 bytes, want 1 to 131072": head} {
		_, err := r.TLogProof()
		wantText(t, err, "verify: tlog-proof: "+want)
	}
	wantText(t, new(verify.Material).Add("file", make([]byte, verify.MaxFile+1)), "verify: file: 67108865 bytes, the limit is 67108864")
	full := verify.Material{Receipts: make([]verify.Receipt, verify.MaxItems)}
	wantText(t, full.Add("file", []byte(`{"head":"a"}`)), "verify: file: content: more than 100000 receipts, proofs and heads, or 256 leaves (verify them in parts)")
	_, err = verify.DecodeReceipt(make([]byte, verify.MaxReceipt+1))
	wantText(t, err, "verify: receipt: 524289 bytes, the limit is 524288")
	_, err = verify.ParseTLogProof(make([]byte, verify.MaxReceipt+1))
	wantText(t, err, "verify: tlog-proof: 524289 bytes, the limit is 524288")
}

func wantText(tb testing.TB, err error, want string) {
	tb.Helper()
	if wantFormat(tb, err); err != nil && err.Error() != want {
		tb.Errorf("error %v, want %s", err, want)
	}
}

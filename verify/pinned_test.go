package verify_test

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// TestTheNameOfALedger has 1 to MaxName printable characters of ASCII, of which
// none is a space or a plus, whatever name its keys have.
func TestTheNameOfALedger(t *testing.T) {
	l, _ := working(t)
	_, encoded, _ := strings.Cut(strings.TrimPrefix(l.Root.LedgerKeys[0], testlog.Origin+"+"), "+")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	must(t, err)
	for origin, good := range map[string]bool{
		"!": true, "~": true, strings.Repeat("a", entry.MaxName): true,
		"": false, " ": false, "a b": false, "a+b": false, "a\x7f": false, "a\u00fc": false, "a\n": false, strings.Repeat("a", entry.MaxName+1): false,
	} {
		root := verify.Root{Origin: origin, LedgerKeys: []string{cosignatureKey(origin, raw)}, Genesis: l.Root.Genesis}
		_, err := root.Encode()
		if good {
			must(t, err)
			continue
		}
		if wantFormat(t, err); !strings.Contains(err.Error(), "printable ASCII characters without space and +") {
			t.Errorf("%q: %v", origin, err)
		}
	}
}

// TestVerifierKeysHaveTheirLength, and the error says what they are.
func TestVerifierKeysHaveTheirLength(t *testing.T) {
	l, _ := working(t)
	of := func(alg byte, size int) string {
		return cosignatureKey(testlog.Origin, append([]byte{alg}, bytes.Repeat([]byte{7}, size)...))
	}
	for key, want := range map[string]string{
		of(1, 31):                  "ledger_keys[1]: key type 0x01 with 31 bytes: want Ed25519 (0x01) or ML-DSA-44 (0x06)",
		of(1, 33):                  "key type 0x01 with 33 bytes",
		of(6, 1311):                "key type 0x06 with 1311 bytes",
		of(6, 1313):                "key type 0x06 with 1313 bytes",
		of(4, 32):                  "key type 0x04 with 32 bytes",
		of(6, 1312):                "",
		testlog.Origin + "+00+":    "is not a verifier key: want name+hash+base64",
		"next":                     `ledger_keys[1]: "next" is not a verifier key`,
		l.Root.LedgerKeys[0] + " ": "is not a verifier key",
	} {
		root := l.Root
		root.LedgerKeys = []string{l.Root.LedgerKeys[0], key}
		_, err := root.Encode()
		if want == "" {
			must(t, err)
			continue
		}
		if wantFormat(t, err); !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestARootIsReadWhole: nothing may stand behind its members, and a head in it
// makes up for nothing.
func TestARootIsReadWhole(t *testing.T) {
	l, _ := working(t)
	good := strings.TrimSuffix(encoded(t, l.Root), "\n}\n")
	for name, text := range map[string]string{"a last member": good + ",\n  \"x\": 1\n}\n", "a second value": good + "\n}\n{}\n", "its end cut off": good} {
		_, err := verify.ParseRoot([]byte(text))
		if wantFormat(t, err); !strings.Contains(err.Error(), "a root is {origin, ledger_keys, since?") {
			t.Errorf("%s: %v", name, err)
		}
	}
	l.Root.Seen = l.Signed(15)
	seen := encoded(t, l.Root)
	_, err := verify.ParseRoot([]byte(strings.Replace(seen, `"genesis": "`+l.Root.Genesis.String()+`"`, `"genesis": "`+strings.Repeat("A", 43)+`="`, 1)))
	if wantFormat(t, err); !strings.Contains(err.Error(), "genesis is missing") {
		t.Error(err)
	}
	l.Root.Witnesses = "# \xff\nquorum none\n"
	_, err = l.Root.Encode()
	wantFormat(t, err)
}

// TestRetiredKeysAreNamed in what is wrong with them, and looking at them changes no list.
func TestRetiredKeysAreNamed(t *testing.T) {
	r := newRotation(t)
	root := r.Root
	root.LedgerKeys, root.Since = append(make([]string, 0, 3), r.nextKey), 9
	root.Retired = []verify.RetiredKey{{Key: r.oldKey, Size: 9}}
	_, err := root.Encode()
	must(t, err)
	if behind := root.LedgerKeys[:2][1]; behind != "" {
		t.Errorf("%q was written behind the keys", behind)
	}
	root.Retired[0].Key = "old"
	_, err = root.Encode()
	if wantFormat(t, err); !strings.Contains(err.Error(), `retired[0]: "old" is not a verifier key`) {
		t.Error(err)
	}
}

// TestFollowingLeavesTheRootAsItIs, where a retired key comes back too.
func TestFollowingLeavesTheRootAsItIs(t *testing.T) {
	r := newRotation(t)
	r.names(r.oldKey, r.nextKey)
	at := r.names(r.nextKey)
	alone := r.Root.Follow(r.Chain())
	r.names(r.nextKey, r.oldKey)
	if back := alone.Follow(r.Chain()); len(back.Retired) != 0 {
		t.Errorf("retired %+v", back.Retired)
	}
	if want := []verify.RetiredKey{{Key: r.oldKey, Size: at}}; !slices.Equal(alone.Retired, want) {
		t.Errorf("retired %+v, want %+v", alone.Retired, want)
	}
	both := r.Root
	both.LedgerKeys = []string{r.oldKey, r.nextKey}
	size := len(r.Leaves)
	for note, settled := range map[string]bool{r.by(size, r.old): false, r.by(size, r.next): false, r.by(size, r.old, r.next): true, "hello": false} {
		if both.Settled(note) != settled {
			t.Errorf("settled %v, want %v", !settled, settled)
		}
	}
}

// TestEachHeadIsLookedAtAgain where the policies given have retired the key that
// was pinned: one good head makes up for no other.
func TestEachHeadIsLookedAtAgain(t *testing.T) {
	r := newRotation(t)
	r.names(r.oldKey, r.nextKey)
	r.names(r.nextKey) // 9
	r.Add(r.agent.Sign(t, r.Execution(r.agent)))
	m := verify.Material{Heads: []string{r.by(11, r.old)}, Consistency: r.Joining(10, 11).Consistency}
	for i := range uint64(10) {
		receipt := r.ReceiptAt(i, 10)
		receipt.Head = r.by(10, r.old, r.next)
		m.Receipts = append(m.Receipts, receipt)
	}
	_, err := r.Root.Verify(m)
	wantStep(t, err, verify.StepHead)
	m.Heads = []string{r.by(11, r.next, r.old)}
	_, err = r.Root.Verify(m)
	must(t, err)
}

// TestALedgersKeysAreNamedAsItIs: a policy for a ledger names keys of that ledger,
// whatever they have in common.
func TestALedgersKeysAreNamedAsItIs(t *testing.T) {
	r := newRotation(t)
	p := r.Policy(r.authority, r.authority)
	p.LedgerKeys = []string{r.oldKey, r.nextKey}
	if refusal := verify.CheckLedgerKeys(p); refusal != nil {
		t.Error(refusal)
	}
	p.Aud = "ledger.example/other"
	if refusal := verify.CheckLedgerKeys(p); refusal == nil || !strings.Contains(refusal.Error(), `not "ledger.example/other" as the ledger`) {
		t.Error(refusal)
	}
}

package verify_test

import (
	"slices"
	"sync/atomic"
	"testing"

	fnote "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// TestAnOpenerServesItsRoot changes each member of a root: an opener serves the roots that
// open heads as its own root does.
func TestAnOpenerServesItsRoot(t *testing.T) {
	l, _ := working(t)
	opener, err := verify.NewOpener(l.Root)
	must(t, err)
	if got := opener.Root(); !slices.Equal(got.LedgerKeys, l.Root.LedgerKeys) || got.Genesis != l.Root.Genesis {
		t.Errorf("of root %+v, want %+v", got, l.Root)
	}
	_, next := testlog.LedgerKey(t, testlog.Origin, "next")
	for name, change := range map[string]func(r *verify.Root){
		"":            func(*verify.Root) {},
		"origin":      func(r *verify.Root) { r.Origin = "ledger.example/other" },
		"ledger_keys": func(r *verify.Root) { r.LedgerKeys = []string{next} },
		"since":       func(r *verify.Root) { r.Since = 7 },
		"retired":     func(r *verify.Root) { r.Retired = []verify.RetiredKey{{Key: next, Size: 7}} },
		"genesis":     func(r *verify.Root) { r.Genesis = merkle.Hash{1} },
		"witnesses":   func(r *verify.Root) { r.Witnesses = testlog.WitnessPolicy() },
		"Cosigner":    func(r *verify.Root) { r.Cosigner = fnote.NewVerifierForCosignatureV1 },
	} {
		root := l.Root
		change(&root)
		if opener.OpensFor(&root) != (name == "") {
			t.Errorf("%q changed: opens for it %v", name, name != "")
		}
	}
}

// TestARootBringsItsOwnCheckOfSignatures counts what the check that a root brings is asked.
func TestARootBringsItsOwnCheckOfSignatures(t *testing.T) {
	l, c := working(t)
	var asked atomic.Int64
	l.Root.Signature = func(key entry.PublicKey, message, sig []byte) error {
		asked.Add(1)
		return verify.Signature(key, message, sig)
	}
	opener, err := verify.NewOpener(l.Root)
	must(t, err)
	head, err := opener.Open(l.Signed(15))
	must(t, err)
	if asked.Load() != 1 || head.Note != l.Signed(15) || head.Head != l.Head(15) {
		t.Errorf("asked %d times, head %+v", asked.Load(), head)
	}
	e := c.agent.Sign(t, l.Execution(c.agent))
	must(t, l.Root.CheckSignature(c.agent.Public, e.PAE(), e.Sig))
	if err := l.Root.CheckSignature(c.monitor.Public, e.PAE(), e.Sig); err == nil || asked.Load() != 3 {
		t.Errorf("asked %d times, error %v", asked.Load(), err)
	}
}

// TestAMLDSAWitnessCounts has a witness cosign with ML-DSA-44, whose library comes from
// outside: without it the cosignature does not count.
func TestAMLDSAWitnessCounts(t *testing.T) {
	l, _ := working(t)
	skey, vkey, err := fnote.GenerateMLDSAKey("w.example")
	must(t, err)
	signer, err := fnote.NewMLDSASigner(skey)
	must(t, err)
	signed := l.SignText(testlog.HeadText(l.Head(15)), signer)
	policy := "witness w " + vkey + "\nquorum w\n"
	for _, of := range []struct {
		name     string
		cosigner func(string) (note.Verifier, error)
		counts   bool
	}{{"no library", nil, false}, {"a library", fnote.NewVerifierForCosignatureV1, true}} {
		l.Root.Cosigner = of.cosigner
		q, err := l.Root.Quorum(policy)
		must(t, err)
		if _, ok := q.Since(signed, 1<<40); ok != of.counts {
			t.Errorf("%s: the cosignature counts: %v", of.name, ok)
		}
	}
}

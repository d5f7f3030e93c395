package verify_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	fnote "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// rotation is a log whose key is about to change.
type rotation struct {
	*testlog.Log
	cast
	old, next       note.Signer
	oldKey, nextKey string
}

func newRotation(tb testing.TB) *rotation {
	tb.Helper()
	l, c := newCompany(tb)
	next, nextKey := testlog.LedgerKey(tb, testlog.Origin, "next")
	return &rotation{Log: l, cast: c, old: l.Signer, next: next, oldKey: l.Root.LedgerKeys[0], nextKey: nextKey}
}

// names logs a policy that names the ledger's keys, and returns its index.
func (r *rotation) names(keys ...string) uint64 {
	r.TB.Helper()
	_, inForce := r.Chain().Policy()
	p := r.Policy(r.authority, r.authority)
	p.Previous, p.LedgerKeys = &inForce, keys
	return r.Add(r.authority.Sign(r.TB, p))
}

func (r *rotation) by(size int, signers ...note.Signer) string {
	r.TB.Helper()
	signed, err := note.Sign(&note.Note{Text: testlog.HeadText(r.Head(size))}, signers...)
	must(r.TB, err)
	return string(signed)
}

// TestARootFollowsTheLedgersKeys goes through a whole change: each head is good
// by the root as it is then if the keys in force at its size have signed it.
// Draft: TRU-5b.
func TestARootFollowsTheLedgersKeys(t *testing.T) {
	r := newRotation(t)
	before := len(r.Leaves)
	pinned := r.Root
	first := r.names(r.oldKey, r.nextKey)
	both := pinned.Follow(r.Chain())
	if both.Since != first || len(both.Retired) != 0 || !slices.Equal(both.LedgerKeys, []string{r.oldKey, r.nextKey}) {
		t.Fatalf("%+v", both)
	}
	r.names(r.oldKey, r.nextKey) // changes nothing
	if again := both.Follow(r.Chain()); again.Since != first {
		t.Fatalf("%+v", again)
	}
	second := r.names(r.nextKey)
	r.Add(r.agent.Sign(t, r.Execution(r.agent)))
	alone := pinned.Follow(r.Chain())
	want := []verify.RetiredKey{{Key: r.oldKey, Size: second}}
	if alone.Since != second || !slices.Equal(alone.Retired, want) || !slices.Equal(alone.LedgerKeys, []string{r.nextKey}) {
		t.Fatalf("%+v", alone)
	}
	if steps := both.Follow(r.Chain()); steps.Since != alone.Since || !slices.Equal(steps.Retired, alone.Retired) {
		t.Errorf("in steps %+v, at once %+v", steps, alone)
	}
	size := len(r.Leaves)
	for _, c := range []struct {
		name string
		root verify.Root
		note string
		good bool
	}{
		{"old, before", pinned, r.by(before, r.old), true},
		{"next, before", pinned, r.by(before, r.next), false},
		{"both keys named, by the old", both, r.by(int(second), r.old), true},
		{"both keys named, by the next", both, r.by(int(second), r.next), true},
		{"retired, by the old before", alone, r.by(before, r.old), true},
		{"retired, the last by the old", alone, r.by(int(second), r.old), true},
		{"retired, the first behind", alone, r.by(int(second)+1, r.old), false},
		{"retired, by the old", alone, r.by(size, r.old), false},
		{"retired, by both", alone, r.by(size, r.old, r.next), true},
		{"retired, by the next", alone, r.by(size, r.next), true},
	} {
		_, err := c.root.Head([]byte(c.note))
		if c.good {
			must(t, err)
			continue
		}
		wantStep(t, err, verify.StepHead)
		if !strings.Contains(err.Error(), "TRU-5") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// A signature of the retired key spoils a head if it is not good.
	_, err := alone.Head([]byte(r.by(size, r.next) + signatures(r.by(before, r.old))))
	wantStep(t, err, verify.StepHead)
	for note, settled := range map[string]bool{r.by(size, r.next): true, r.by(size, r.old, r.next): false, r.by(size, r.old): false} {
		if alone.Settled(note) != settled {
			t.Errorf("settled %v, want %v", !settled, settled)
		}
	}
	stored, err := alone.Encode()
	must(t, err)
	read, err := verify.ParseRoot(stored)
	must(t, err)
	if next := pinned.Advance(read); next.Since != second || !slices.Equal(next.Retired, want) {
		t.Errorf("advanced %+v", next)
	}
	if same := read.Advance(pinned); same.Since != second {
		t.Errorf("advanced back %+v", same)
	}
	read.Genesis[0] ^= 1
	if other := pinned.Advance(read); other.Since != 0 {
		t.Errorf("advanced to another ledger's %+v", other)
	}
}

// TestARootIsAdvancedByItsOwnLedgerAlone, and by what has followed further.
func TestARootIsAdvancedByItsOwnLedgerAlone(t *testing.T) {
	r := newRotation(t)
	pinned := r.Root
	r.names(r.oldKey, r.nextKey)
	further := pinned.Follow(r.Chain())
	further.Origin = "ledger.example/other"
	if got := pinned.Advance(further); got.Since != 0 {
		t.Errorf("to another origin's %+v", got)
	}
	both := pinned
	both.LedgerKeys = []string{r.oldKey, r.nextKey}
	if got := pinned.Advance(both); !slices.Equal(got.LedgerKeys, pinned.LedgerKeys) {
		t.Errorf("without any policy to %+v", got)
	}
}

// TestFollowKeepsWhatIsPinned has the genesis name fewer keys than are pinned, and
// a policy take the place of a pinned ML-DSA-44 key, which is no key to retire.
func TestFollowKeepsWhatIsPinned(t *testing.T) {
	l, c := testlog.New(t), newCast(t)
	oldKey := l.Root.LedgerKeys[0]
	_, nextKey := testlog.LedgerKey(t, testlog.Origin, "next")
	_, second, err := fnote.GenerateMLDSAKey(testlog.Origin)
	must(t, err)
	genesis := l.Policy(c.authority, c.authority)
	genesis.LedgerKeys = []string{oldKey}
	l.Add(c.authority.Sign(t, genesis))
	l.Root.LedgerKeys = []string{oldKey, nextKey, second}
	if got := l.Root.Follow(l.Chain()); got.Since != 0 || len(got.Retired) != 0 || !slices.Equal(got.LedgerKeys, l.Root.LedgerKeys) {
		t.Errorf("by the genesis %+v", got)
	}
	next := l.Policy(c.authority, c.authority)
	_, inForce := l.Chain().Policy()
	next.Previous, next.LedgerKeys = &inForce, []string{oldKey, nextKey}
	l.Add(c.authority.Sign(t, next))
	if got := l.Root.Follow(l.Chain()); got.Since != 1 || len(got.Retired) != 0 {
		t.Errorf("by the next policy %+v", got)
	}
}

// TestOnlyTheLedgersOwnSignaturesUnsettle: witnesses, and keys of another type, say
// nothing of a change of keys.
func TestOnlyTheLedgersOwnSignaturesUnsettle(t *testing.T) {
	r := newRotation(t)
	size := len(r.Leaves)
	skey, vkey, err := fnote.GenerateMLDSAKey(testlog.Origin)
	must(t, err)
	second, err := fnote.NewMLDSASigner(skey)
	must(t, err)
	foreign, _ := testlog.LedgerKey(t, "witness.example", "witness")
	pinned := r.Root
	pinned.LedgerKeys = append(slices.Clone(pinned.LedgerKeys), vkey)
	for name, c := range map[string]struct {
		root verify.Root
		note string
	}{
		"a witness":                     {r.Root, r.by(size, r.old, foreign)},
		"an ML-DSA-44 key":              {r.Root, r.by(size, r.old, second)},
		"a pinned ML-DSA-44 key":        {pinned, r.by(size, r.old, second)},
		"a pinned ML-DSA-44 key is not": {pinned, r.by(size, r.old)},
	} {
		if !c.root.Settled(c.note) {
			t.Errorf("%s: not settled", name)
		}
	}
}

// A key comes back in force, and is no longer retired.
func TestALedgerKeyComesBack(t *testing.T) {
	r := newRotation(t)
	r.names(r.oldKey, r.nextKey)
	r.names(r.nextKey)
	back := r.names(r.nextKey, r.oldKey)
	root := r.Root.Follow(r.Chain())
	if root.Since != back || len(root.Retired) != 0 {
		t.Fatalf("%+v", root)
	}
	_, err := root.Head([]byte(r.by(len(r.Leaves), r.old)))
	must(t, err)
}

// TestReceiptsBehindARetiredKey is the thief of the old key, who shows the very
// policy that has retired it under a head of their own.
func TestReceiptsBehindARetiredKey(t *testing.T) {
	r := newRotation(t)
	r.names(r.oldKey, r.nextKey)
	r.names(r.nextKey)
	_, err := r.Root.Verify(verify.Material{Receipts: r.All()}) // signed by the old key
	wantStep(t, err, verify.StepHead)
	if !strings.Contains(err.Error(), "TRU-5") {
		t.Error(err)
	}
	receipts := r.All()
	for i := range receipts {
		receipts[i].Head = r.by(len(r.Leaves), r.old, r.next)
	}
	_, err = r.Root.Verify(verify.Material{Receipts: receipts})
	must(t, err)
}

// TestPoliciesNameLedgerKeys is what a policy may say of the ledger's keys.
func TestPoliciesNameLedgerKeys(t *testing.T) {
	_, foreign := testlog.LedgerKey(t, "ledger.example/other", "next")
	_, third := testlog.LedgerKey(t, testlog.Origin, "third")
	_, mldsa, err := fnote.GenerateMLDSAKey(testlog.Origin)
	must(t, err)
	var many []string
	for i := range verify.MaxKeys + 1 {
		_, key := testlog.LedgerKey(t, testlog.Origin, string(rune('a'+i)))
		many = append(many, key)
	}
	r := newRotation(t)
	for _, c := range []struct {
		name          string
		inForce, keys []string
		problem       entry.Problem
	}{
		{"none", nil, nil, ""},
		{"the first", nil, []string{r.oldKey, r.nextKey}, ""},
		{"with an ML-DSA-44 key", nil, []string{r.oldKey, mldsa}, ""},
		{"an ML-DSA-44 key alone", nil, []string{mldsa}, entry.Malformed},
		{"as many as may be", nil, many[1:], ""},
		{"one more", nil, many, entry.Malformed},
		{"twice", nil, []string{r.oldKey, r.oldKey}, entry.Malformed},
		{"of another ledger", nil, []string{r.oldKey, foreign}, entry.Malformed},
		{"no key", nil, []string{"next"}, entry.Malformed},
		{"another spelling", nil, []string{r.oldKey + "\n"}, entry.Malformed},
		{"no longer named", []string{r.oldKey}, nil, entry.StateConflict},
		{"all others", []string{r.oldKey}, []string{r.nextKey, third}, entry.StateConflict},
		{"only the ML-DSA-44 key stays", []string{r.oldKey, mldsa}, []string{r.nextKey, mldsa}, entry.StateConflict},
		{"one stays", []string{r.oldKey, r.nextKey}, []string{r.nextKey, third}, ""},
	} {
		r := newRotation(t)
		if c.inForce != nil {
			r.names(c.inForce...)
		}
		chain := r.Chain()
		_, inForce := chain.Policy()
		p := r.Policy(r.authority, r.authority)
		p.Previous, p.LedgerKeys = &inForce, c.keys
		err := chain.Admit(r.authority.Sign(t, p), uint64(len(r.Leaves)))
		refusal, _ := errors.AsType[*entry.Refusal](err)
		if c.problem == "" && err != nil || c.problem != "" && (refusal == nil || refusal.Problem != c.problem || !strings.HasPrefix(refusal.Field, "ledger_keys")) {
			t.Errorf("%s: %v, want %q", c.name, err, c.problem)
		}
		p.Aud = "" // as a policy file is
		if refusal := verify.CheckLedgerKeys(p); (refusal != nil) != (c.problem == entry.Malformed) {
			t.Errorf("%s, in a file: %v, want %q", c.name, refusal, c.problem)
		}
	}
}

// TestRetiredKeysOfARoot is what a root may say of keys before its own.
func TestRetiredKeysOfARoot(t *testing.T) {
	r := newRotation(t)
	_, mldsa, err := fnote.GenerateMLDSAKey(testlog.Origin)
	must(t, err)
	_, foreign := testlog.LedgerKey(t, "ledger.example/other", "next")
	good := r.Root
	good.LedgerKeys, good.Since = []string{r.nextKey}, 9
	for name, c := range map[string]struct {
		retired []verify.RetiredKey
		good    bool
	}{
		"none":              {nil, true},
		"one":               {[]verify.RetiredKey{{Key: r.oldKey, Size: 9}}, true},
		"of no head":        {[]verify.RetiredKey{{Key: r.oldKey}}, false},
		"behind the change": {[]verify.RetiredKey{{Key: r.oldKey, Size: 10}}, false},
		"twice":             {[]verify.RetiredKey{{Key: r.oldKey, Size: 9}, {Key: r.oldKey, Size: 8}}, false},
		"in force":          {[]verify.RetiredKey{{Key: r.nextKey, Size: 9}}, false},
		"ML-DSA-44":         {[]verify.RetiredKey{{Key: mldsa, Size: 9}}, false},
		"of another ledger": {[]verify.RetiredKey{{Key: foreign, Size: 9}}, false},
		"no key":            {[]verify.RetiredKey{{Key: "old", Size: 9}}, false},
	} {
		root := good
		root.Retired = c.retired
		_, err := root.Encode()
		_, headErr := root.Head([]byte(r.by(len(r.Leaves), r.next)))
		if (err == nil) != c.good || (headErr == nil) != c.good {
			t.Errorf("%s: %v, %v", name, err, headErr)
		}
	}
}

// TestOnlySoManyKeysAreRetired: the oldest heads are then no longer checkable.
func TestOnlySoManyKeysAreRetired(t *testing.T) {
	r := newRotation(t)
	key := r.oldKey
	chain := r.Chain()
	for i := range verify.MaxRetired + 1 {
		_, next := testlog.LedgerKey(t, testlog.Origin, "key "+string(rune('A'+i)))
		for _, keys := range [][]string{{key, next}, {next}} {
			_, inForce := chain.Policy()
			p := r.Policy(r.authority, r.authority)
			p.Previous, p.LedgerKeys = &inForce, keys
			e := r.authority.Sign(t, p)
			index := uint64(len(r.Leaves))
			must(t, chain.Admit(e, index))
			r.Add(e)
			chain.Apply(e, index, r.At)
		}
		key = next
	}
	root := r.Root.Follow(chain)
	if len(root.Retired) != verify.MaxRetired || root.Retired[0].Key == r.oldKey {
		t.Fatalf("%d retired, the first %+v", len(root.Retired), root.Retired[0])
	}
	_, err := root.Encode()
	must(t, err)
	root.Retired = append(root.Retired, verify.RetiredKey{Key: r.oldKey, Size: 1})
	_, err = root.Encode()
	wantFormat(t, err)
}

// FuzzSettled looks for notes that make the look at their signers panic, or that
// seem to be signed by the ledger's key without its name.
func FuzzSettled(f *testing.F) {
	r := newRotation(f)
	f.Add(r.by(3, r.old))
	f.Add(r.by(3, r.old, r.next))
	f.Add(testlog.HeadText(r.Head(3)))
	f.Add("")
	f.Fuzz(func(t *testing.T, signed string) {
		if r.Root.Settled(signed) && !strings.Contains(signed, "\u2014 "+testlog.Origin+" ") {
			t.Fatalf("%q", signed)
		}
	})
}

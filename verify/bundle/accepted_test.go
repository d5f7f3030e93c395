package bundle_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	cosignature "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// TestAcceptedRefuses goes through states that are none.
func TestAcceptedRefuses(t *testing.T) {
	w, b := automatic(t, plain)
	for name, change := range map[string]func(a *bundle.Accepted){
		"no root":                func(a *bundle.Accepted) { a.Root = verify.Root{} },
		"an agent with a quote":  func(a *bundle.Accepted) { a.Agent = `a"b` },
		"links without a head":   func(a *bundle.Accepted) { a.Head = "" },
		"another ledger's head":  func(a *bundle.Accepted) { a.Head = otherLedger(w).SignText(testlog.HeadText(w.Head(3))) },
		"a link that is no leaf": func(a *bundle.Accepted) { a.Links[1].Bytes = []byte(`{}`) },
		"a link of another kind": func(a *bundle.Accepted) { a.Links[2].Bytes = w.Leaves[w.at["source#read"]] },
		"links out of order":     func(a *bundle.Accepted) { a.Links[1].Index = 10 },
		"a link beyond the head": func(a *bundle.Accepted) { a.Links[2].Index = accepted },
		"settled without lapses": func(a *bundle.Accepted) { a.Epochs = []bundle.Epoch{{Incident: 2, Epoch: 2, Settled: 1}} },
		"settled at the epoch":   func(a *bundle.Accepted) { a.Epochs = []bundle.Epoch{{Incident: 2, Epoch: 2, Settled: 2, Lapses: 9}} },
		"epochs out of order":    func(a *bundle.Accepted) { a.Epochs = []bundle.Epoch{{Incident: 2}, {Incident: 2}} },
		"a link of other bytes": func(a *bundle.Accepted) {
			a.Links[1].Bytes = []byte(`"` + strings.Repeat("x", len(a.Links[1].Bytes)-2) + `"`)
		},
		"a link that is cut":        func(a *bundle.Accepted) { a.Links[1].Bytes = a.Links[1].Bytes[:10] },
		"a link of no bytes":        func(a *bundle.Accepted) { a.Links[1].Bytes = nil },
		"two links of one index":    func(a *bundle.Accepted) { a.Links[0].Index = a.Links[1].Index },
		"an epoch without a head":   func(a *bundle.Accepted) { *a = bundle.Accepted{Root: w.Root, Epochs: []bundle.Epoch{{Incident: 2}}} },
		"a head at first confirmed": func(a *bundle.Accepted) { *a = bundle.Accepted{Root: w.Root, Confirmed: true} },
	} {
		checked, err := b.Check(w.state(), w.now)
		if err != nil {
			t.Fatal(err)
		}
		checked.Next.Links = slices.Clone(checked.Next.Links)
		for _, a := range []bundle.Accepted{w.state(), checked.Next} {
			change(&a)
			if _, err := a.Encode(); err == nil {
				t.Errorf("%s: encoded", name)
			}
			if _, err := b.Check(a, w.now); err == nil {
				t.Errorf("%s: checked against", name)
			}
			if text, err := json.Marshal(&a); err == nil {
				if _, err := bundle.DecodeAccepted(text); err == nil {
					t.Errorf("%s: decoded", name)
				}
			}
			if a.Size() != 0 {
				t.Errorf("%s: size %d", name, a.Size())
			}
			if _, err := a.Confirm(w.Consistency(3, 4)); err == nil {
				t.Errorf("%s: confirmed", name)
			}
		}
	}
	state := w.state()
	good := encoded(t, &state)
	for name, text := range map[string]string{
		"white space": strings.Replace(good, `,"head"`, `, "head"`, 1),
		"unknown":     strings.Replace(good, `{"root"`, `{"more":1,"root"`, 1),
		"cut":         good[:len(good)-1],
		"confirmed":   strings.Replace(good, `"confirmed":true`, `"confirmed":1`, 1),
	} {
		_, err := bundle.DecodeAccepted([]byte(text))
		if wantFormat(t, err); !strings.Contains(err.Error(), "begin again from the pinned root") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if epoch, ok := state.Epoch(7, 0); ok || epoch != 0 {
		t.Errorf("epoch %d of an incident that is not known", epoch)
	}
}

// TestAcceptedIsFull shows what happens where the state can take nothing more.
func TestAcceptedIsFull(t *testing.T) {
	w, b := automatic(t, plain)
	a := w.state()
	for i := range bundle.MaxIncidents {
		a.Epochs = append(a.Epochs, bundle.Epoch{Incident: uint64(i) + 1000})
	}
	_, err := b.Check(a, w.now)
	wantFormat(t, err)
	a.Epochs[0].Incident = w.at["signal"]
	_, err = b.Check(a, w.now)
	must(t, err)
	w, b = approved(t, plain)
	a.Epochs[0].Incident = w.at["signal"]
	v, err := b.Check(a, w.now)
	must(t, err)
	if epoch, _ := v.Next.Epoch(w.at["signal"], 0); epoch != 1 || a.Epochs[0].Epoch != 0 {
		t.Errorf("epoch %d, and %d in the state before", epoch, a.Epochs[0].Epoch)
	}
}

// TestBundleWarns tells of a key that was compromised when it proposed or
// approved, and of one that may own members.
func TestBundleWarns(t *testing.T) {
	for _, c := range goodCases() {
		_, b, a, now := c.build(t)
		v, err := b.Check(a, now)
		must(t, err)
		warned := len(v.Warnings) > 0
		if warned != slices.Contains([]string{"good-compromised-later", "good-compromised-proposal", "good-first-contact"}, c.name) {
			t.Errorf("%s: warnings %q", c.name, v.Warnings)
		}
		owner := strings.Contains(strings.Join(v.NotChecked, "\n"), "that bert, who approved and is an agent too")
		if owner != (c.name == "good-approver-is-agent") {
			t.Errorf("%s: not checked %q", c.name, v.NotChecked)
		}
	}
}

// TestBundleWitnessedMLDSA has a witness cosign with ML-DSA-44, whose library
// comes from outside.
func TestBundleWitnessedMLDSA(t *testing.T) {
	skey, vkey, err := cosignature.GenerateMLDSAKey("w.example")
	must(t, err)
	signer, err := cosignature.NewMLDSASigner(skey)
	must(t, err)
	w, b := automatic(t, hook("policy", func(p *entry.Policy) { p.Windows.BundleMaxAgeMS = 1 << 50 }))
	signed, err := note.Sign(&note.Note{Text: testlog.HeadText(w.Head(len(w.Leaves)))}, w.Signer, signer)
	must(t, err)
	b.Head = string(signed)
	a := w.state()
	a.Root.Witnesses = "witness w " + vkey + "\nquorum w\n"
	now := max(w.now, time.Now().UnixMilli()) // the library reads the clock
	for given := range 2 {
		if given == 1 {
			a.Root.Cosigner = cosignature.NewVerifierForCosignatureV1
		}
		v, err := b.Check(a, w.now)
		if time.Now().UnixMilli() > w.now+skew { // then the cosignature is of the future
			v, err = b.Check(a, now)
		}
		if given == 0 && outcomeOf(v, err, "") != "AGT-1" || given == 1 && strings.Contains(outcomeOf(v, err, ""), "AGT-1") {
			t.Errorf("verifier given %d: %v", given, err)
		}
	}
}

// skew is how far the clocks of witnesses may be ahead, in milliseconds.
const skew = 300_000

// TestEntriesAreRemembered checks a bundle twice: the second time no signature of
// its entries is checked again, and one whose bytes have changed is refused all
// the same.
func TestEntriesAreRemembered(t *testing.T) {
	w, b := automatic(t, plain)
	with("policy")(w, b)
	var checks atomic.Int64
	a := w.state()
	a.Root.Signature = func(key entry.PublicKey, message, sig []byte) error {
		checks.Add(1)
		return verify.Signature(key, message, sig)
	}
	v, err := b.Check(a, w.now)
	must(t, err)
	first := checks.Load()
	b.From, b.Consistency = uint64(len(w.Leaves)), nil
	again, err := b.Check(v.Next, w.now)
	must(t, err)
	if first < int64(len(b.Entries)/2) || checks.Load() != first || len(again.Commands) != len(v.Commands) {
		t.Errorf("%d signatures of %d entries checked, then %d; %d commands, then %d", first, len(b.Entries), checks.Load()-first, len(v.Commands), len(again.Commands))
	}
	last := &b.Entries[len(b.Entries)-1]
	last.Bytes = bytes.Clone(last.Bytes)
	last.Bytes[bytes.Index(last.Bytes, []byte(`"payload":"`))+40] ^= 1
	if _, err := b.Check(v.Next, w.now); err == nil {
		t.Error("other bytes pass for what was read before")
	}
}

// TestSoManyEntriesAreRemembered shows entries, then others, then the first again: the
// signatures of the first are checked anew once all together are more than an agent
// remembers.
func TestSoManyEntriesAreRemembered(t *testing.T) {
	const most = 1024
	w := newWorld(t)
	w.company()
	var names []string
	for i := range most + 1 {
		names = append(names, fmt.Sprintf("worker#%d", i))
		w.exec(names[i], entry.EffectNone, entry.Confirmed)
	}
	var checks atomic.Int64
	a := w.state()
	a.Root.Signature = func(key entry.PublicKey, message, sig []byte) error {
		checks.Add(1)
		return verify.Signature(key, message, sig)
	}
	for past := range 2 {
		state, before := a, int64(0)
		for i, shown := range [][]string{names[:most/2], names[most/2 : most+past], names[:most/2]} {
			b := w.news(shown...)
			if i > 0 {
				b.From, b.Consistency = uint64(len(w.Leaves)), nil
			}
			before = checks.Load()
			v, err := b.Check(state, w.At)
			must(t, err)
			state = v.Next
		}
		if again := checks.Load() - before; again != int64(past*most/2) {
			t.Errorf("%d past the limit: %d signatures checked again", past, again)
		}
	}
}

// TestFirstFaultCounts has no signature of an entry hold, in a bundle that has
// another fault at its end: the first in the order of the log is told.
// Draft: AGT-7.
func TestFirstFaultCounts(t *testing.T) {
	for _, c := range []struct {
		change func(*world, *bundle.Bundle)
		want   string // the first entry that was not accepted before
	}{
		{with("policy"), "coordinator"},
		{drop("coordinator"), "source"},
	} {
		w, b := automatic(t, plain)
		c.change(w, b)
		a := w.state()
		a.Root.Signature = func(key entry.PublicKey, message, sig []byte) error {
			if bytes.HasPrefix(message, []byte("DSSEv1 ")) {
				return errors.New("does not hold")
			}
			return verify.Signature(key, message, sig)
		}
		_, err := b.Check(a, w.now)
		broken, ok := errors.AsType[*bundle.RuleError](err)
		if what := fmt.Sprintf("entry %d (agent)", w.at[c.want]); !ok || broken.What != what || broken.Cause.Error() != "does not hold" {
			t.Errorf("%v, want %s", err, what)
		}
	}
}

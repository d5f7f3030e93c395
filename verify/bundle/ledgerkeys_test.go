package bundle_test

import (
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// nextKey is the key that follows the ledger's.
func nextKey(w *world) (note.Signer, string) { return testlog.LedgerKey(w.TB, testlog.Origin, "next") }

// renames applies a policy behind the decision for each list of ledger keys;
// "old" and "next" stand for the keys.
func renames(lists ...[]string) func(w *world) {
	return before("outcome", func(w *world) {
		_, next := nextKey(w)
		for _, names := range lists {
			p := w.policyOf("authority")
			previous := w.refTo("policy")
			p.Previous = &previous
			for _, name := range names {
				switch name {
				case "old":
					name = w.Root.LedgerKeys[0]
				case "next":
					name = next
				}
				p.LedgerKeys = append(p.LedgerKeys, name)
			}
			w.at["policy before"] = w.at["policy"]
			w.put("policy", "authority", p)
		}
	})
}

// signers has the head signed by old key, next key or both, and shows the
// policies.
func signers(names ...string) func(w *world, b *bundle.Bundle) {
	return func(w *world, b *bundle.Bundle) {
		with("policy before", "policy")(w, b)
		next, _ := nextKey(w)
		var all []note.Signer
		for _, name := range names {
			all = append(all, map[string]note.Signer{"old": w.Signer, "next": next}[name])
		}
		signed, err := note.Sign(&note.Note{Text: testlog.HeadText(w.Head(len(w.Leaves)))}, all...)
		must(w.TB, err)
		b.Head = string(signed)
	}
}

// followed is what the worker accepted after the old key was retired, at the
// size that it has accepted.
func followed(w *world) bundle.Accepted {
	a := w.state()
	_, next := nextKey(w)
	old := a.Root.LedgerKeys[0]
	a.Root.LedgerKeys, a.Root.Since = []string{next}, accepted
	a.Root.Retired = []verify.RetiredKey{{Key: old, Size: accepted}}
	return a
}

func ledgerKeyCases() []bundleCase {
	_, foreign := testlog.LedgerKey(exampleTB{}, "ledger.example/other", "next")
	return []bundleCase{
		{name: "good-ledger-keys", desc: "a policy names the ledger's next key beside the one that is pinned, and both have signed", scene: automatic,
			prepare: renames([]string{"old", "next"}), change: signers("old", "next")},
		{name: "good-ledger-keys-alone", desc: "a policy names the next key alone, and the pinned one has signed too", scene: automatic,
			prepare: renames([]string{"old", "next"}, []string{"next"}), change: signers("old", "next")},
		{name: "good-ledger-key-retired", desc: "the next key is in force, and the pinned one has signed only what was accepted before", scene: automatic,
			change: all(with("policy"), signedNext), state: followed},
		{name: "ledger-key-unvouched", desc: "a policy names the next key, which alone has signed the head that shows it", scene: automatic,
			prepare: renames([]string{"old", "next"}), change: signers("next"), want: "AGT-1"},
		{name: "ledger-key-retired", desc: "only a key has signed that an accepted policy has retired", scene: automatic, state: followed, want: "AGT-1"},
		{name: "ledger-key-retired-now", desc: "only a key has signed that a policy in the bundle has retired", scene: automatic,
			prepare: renames([]string{"old", "next"}, []string{"next"}), change: signers("old"), want: "AGT-2 TRU-5"},
		{name: "ledger-keys-left-out", desc: "a policy names ledger keys, the next one none", scene: automatic,
			prepare: renames([]string{"old", "next"}, nil), change: signers("old", "next"), want: "AGT-2 TRU-2"},
		{name: "ledger-keys-all-others", desc: "no ledger key of a policy is left in the next one", scene: automatic,
			prepare: renames([]string{"old"}, []string{"next"}), change: signers("old", "next"), want: "AGT-2 TRU-2"},
		{name: "ledger-keys-foreign", desc: "a policy names a key of another ledger", scene: automatic,
			prepare: renames([]string{"old", foreign}), change: signers("old"), want: "AGT-2 TRU-2"},
		{name: "ledger-keys-twice", desc: "a policy names a ledger key twice", scene: automatic,
			prepare: renames([]string{"old", "old"}), change: signers("old"), want: "AGT-2 TRU-2"},
		{name: "ledger-keys-garbage", desc: "a policy names what is no key", scene: automatic,
			prepare: renames([]string{"old", "ledger.example/test+00000000+AQ=="}), change: signers("old"), want: "AGT-2 TRU-2"},
	}
}

// signedNext has the head signed by the next key alone.
func signedNext(w *world, b *bundle.Bundle) {
	next, _ := nextKey(w)
	signed, err := note.Sign(&note.Note{Text: testlog.HeadText(w.Head(len(w.Leaves)))}, next)
	must(w.TB, err)
	b.Head = string(signed)
}

// TestAnAgentFollowsTheLedgersKeys is what an agent that has seen the change
// takes next: nothing by the retired key, even if all is as it was, and nothing
// that goes back behind it.
func TestAnAgentFollowsTheLedgersKeys(t *testing.T) {
	w, b := automatic(t, renames([]string{"old", "next"}, []string{"next"}))
	signers("old", "next")(w, b)
	v, err := b.Check(w.state(), w.now)
	must(t, err)
	_, next := nextKey(w)
	stored, err := v.Next.Encode()
	must(t, err)
	read, err := bundle.DecodeAccepted(stored)
	must(t, err)
	for _, a := range []bundle.Accepted{v.Next, read} {
		if a.Root.Since != w.at["policy"] || !slices.Equal(a.Root.LedgerKeys, []string{next}) || len(a.Root.Retired) != 1 {
			t.Fatalf("%+v", a.Root)
		}
		again := *b
		again.From, again.Consistency = uint64(len(w.Leaves)), nil
		signers("old")(w, &again)
		if _, err := again.Check(a, w.now); outcomeOf(bundle.Verdict{}, err, "") != "AGT-1" {
			t.Errorf("by the retired key: %v", err)
		}
		signedNext(w, &again)
		got, err := again.Check(a, w.now)
		must(t, err)
		if got.Next.Root.Since != a.Root.Since {
			t.Errorf("%+v", got.Next.Root)
		}
	}
}

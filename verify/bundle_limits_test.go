package verify_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// TestBundleLimits tries each limit of bundles and states at it and one past it.
func TestBundleLimits(t *testing.T) {
	leaf := jsontext.Value(`{}`)
	bundle := func(change func(b *verify.Bundle)) error {
		b := &verify.Bundle{Agent: "a", Decision: 1, Head: "h", Members: []verify.PlanMember{{Member: entry.Member{Agent: "a", Exec: "a#1"}}}}
		change(b)
		data, err := b.Encode()
		if err == nil {
			_, err = verify.DecodeBundle(data)
		}
		return err
	}
	hashes := func(n int) []merkle.Hash { return make([]merkle.Hash, n) }
	cases := []struct {
		name string
		do   func(past int) error
	}{
		{"MaxBundleEntries", func(past int) error {
			return bundle(func(b *verify.Bundle) {
				for i := range verify.MaxBundleEntries + past {
					b.Entries = append(b.Entries, verify.Logged{Index: uint64(i), Leaf: leaf})
				}
			})
		}},
		{"MaxBundleEntries of steps", func(past int) error {
			return bundle(func(b *verify.Bundle) {
				for i := range verify.MaxBundleEntries + past {
					b.Steps = append(b.Steps, verify.ChainStep{Exec: uint64(i), Rule: verify.RuleSeed})
				}
			})
		}},
		{"MaxBundleMembers", func(past int) error {
			return bundle(func(b *verify.Bundle) {
				b.Members = nil
				for i := range verify.MaxBundleMembers + past {
					b.Members = append(b.Members, verify.PlanMember{Place: uint64(i)})
				}
			})
		}},
		{"MaxBundleAfter", func(past int) error {
			return bundle(func(b *verify.Bundle) {
				b.Members[0].Place = 1000
				for i := range verify.MaxBundleAfter + past {
					b.Members[0].After = append(b.Members[0].After, uint64(i))
				}
			})
		}},
		{"MaxLeaf", func(past int) error {
			long := jsontext.Value(`"` + strings.Repeat("a", verify.MaxLeaf-2+past) + `"`)
			return bundle(func(b *verify.Bundle) { b.Entries = []verify.Logged{{Leaf: long}} })
		}},
		{"MaxNote", func(past int) error {
			return bundle(func(b *verify.Bundle) { b.Head = strings.Repeat("a", verify.MaxNote+past) })
		}},
		{"MaxPath of consistency", func(past int) error {
			return bundle(func(b *verify.Bundle) { b.Consistency = hashes(verify.MaxPath + past) })
		}},
		{"MaxPath of inclusion", func(past int) error {
			return bundle(func(b *verify.Bundle) { b.Inclusion = hashes(verify.MaxPath + past) })
		}},
		{"MaxPath of scope", func(past int) error {
			return bundle(func(b *verify.Bundle) { b.Scope = hashes(verify.MaxPath + past) })
		}},
		{"MaxBundle", func(past int) error {
			return bundle(func(b *verify.Bundle) {
				const head = `{"agent":"a","head":"h","from":0,"consistency":[],"entries":[`
				left := verify.MaxBundle - len(`],"inclusion":[],"members":[],"scope":[],"steps":[]}`) - len(head) + past
				b.Decision, b.Members = 0, nil
				for i := range 200 {
					around := len(fmt.Sprintf(`,{"index":%d,"leaf":""}`, i))
					if i == 0 {
						around--
					}
					fill := min(60_000, left-around)
					left -= around + fill
					b.Entries = append(b.Entries, verify.Logged{Index: uint64(i), Leaf: jsontext.Value(`"` + strings.Repeat("a", fill) + `"`)})
					if left == 0 {
						return
					}
				}
				t.Fatal("not filled")
			})
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			must(t, c.do(0))
			wantFormat(t, c.do(1))
		})
	}
	for past := range 2 {
		_, err := verify.DecodeBundle(make([]byte, verify.MaxBundle+past))
		wantFormat(t, err)
		if strings.Contains(err.Error(), "the limit is") != (past == 1) {
			t.Errorf("%d past the limit: %v", past, err)
		}
	}
}

// TestAcceptedLimits does the same for what an agent keeps.
func TestAcceptedLimits(t *testing.T) {
	w, _ := automatic(t, plain)
	state := w.state()
	link := state.Links[0]
	cases := map[string]func(past int) verify.Accepted{
		"MaxIncidents": func(past int) verify.Accepted {
			a := w.state()
			for i := range verify.MaxIncidents + past {
				a.Epochs = append(a.Epochs, verify.Epoch{Incident: uint64(i)})
			}
			return a
		},
		"MaxLinks": func(past int) verify.Accepted {
			a := w.state()
			a.Head = w.signText(text(merkle.Head{Size: verify.MaxLinks + 2}))
			a.Links = nil
			for i := range verify.MaxLinks + past {
				a.Links = append(a.Links, verify.Logged{Index: uint64(i), Leaf: link.Leaf})
			}
			return a
		},
	}
	for name, of := range cases {
		a := of(0)
		data, err := a.Encode()
		must(t, err)
		_, err = verify.DecodeAccepted(data)
		must(t, err)
		a = of(1)
		_, err = a.Encode()
		if wantFormat(t, err); !strings.Contains(err.Error(), "the limit is") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for past := range 2 {
		_, err := verify.DecodeAccepted(make([]byte, verify.MaxAccepted+past))
		wantFormat(t, err)
		if strings.Contains(err.Error(), "the limit is") != (past == 1) {
			t.Errorf("%d past the limit: %v", past, err)
		}
	}
}

// TestWitnessLimits tries how many names a witness policy may have.
func TestWitnessLimits(t *testing.T) {
	for past := range 2 {
		w, b := automatic(t, plain)
		a := w.state()
		var policy strings.Builder
		for i := range 2*verify.MaxWitnesses + past {
			_, vkey := witnessKey(fmt.Sprintf("w%d", i))
			fmt.Fprintf(&policy, "witness n%d %s\n", i, vkey)
		}
		a.Root.Witnesses = policy.String() + "quorum n0\n"
		b.Head = cosigned(b.Head, "w0", w.now/1000)
		if _, err := b.Check(a, w.now); (err == nil) != (past == 0) {
			t.Errorf("%d names past the limit: %v", past, err)
		}
	}
}

// TestWitnessPolicyRefuses goes through witness policies that are none.
func TestWitnessPolicyRefuses(t *testing.T) {
	_, w1 := witnessKey("w1")
	_, w2 := witnessKey("w2")
	ledger, _ := automatic(t, plain)
	both := "witness a " + w1 + "\nwitness b " + w2 + "\n"
	for name, policy := range map[string]string{
		"no quorum":               both,
		"two quorums":             both + "quorum a\nquorum b\n",
		"unknown quorum":          both + "quorum c\n",
		"a name twice":            both + "witness a " + w2 + "\nquorum a\n",
		"none as a name":          both + "witness none " + w2 + "\nquorum a\n",
		"unknown member":          both + "group g any a c\nquorum g\n",
		"a member in two groups":  both + "group g any a b\ngroup h any b a\nquorum g\n",
		"more than there are":     both + "group g 3 a b\nquorum g\n",
		"none needed":             both + "group g 0 a b\nquorum g\n",
		"a number in other words": both + "group g +1 a b\nquorum g\n",
		"a group without members": both + "group g any\nquorum g\n",
		"another word":            both + "mirror a\nquorum a\n",
		"no key":                  "witness a\nquorum a\n",
		"a broken key":            "witness a " + w1[:len(w1)-4] + "\nquorum a\n",
		"a ledger key":            "witness a " + ledger.root.LedgerKeys[0] + "\nquorum a\n",
	} {
		w, b := automatic(t, plain)
		a := w.state()
		a.Root.Witnesses = policy
		cosign(1, "w1", "w2")(w, b)
		_, err := b.Check(a, w.now)
		wantFormat(t, err) // the root is none
		if !strings.Contains(err.Error(), "witness policy") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, policy := range map[string]string{
		"none":         "quorum none\n",
		"any":          both + "group g any a b\nquorum g",
		"all":          both + "group g all a b\nquorum g\n",
		"nested":       both + "group g 1 a\ngroup h all g b\nquorum h\n",
		"a log line":   "log " + ledger.root.LedgerKeys[0] + " https://x.example\n" + both + "quorum b\n",
		"a later time": both + "quorum a\n",
	} {
		w, b := automatic(t, plain)
		a := w.state()
		a.Root.Witnesses = policy
		cosign(100_000, "w1")(w, b) // stale: a newer one counts
		cosign(1, "w1", "w2")(w, b)
		cosign(-100_000, "w1")(w, b) // of the future: does not count
		if _, err := b.Check(a, w.now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzBundle looks for bytes that decode into a bundle but are not what it
// encodes to, and for bundles that are accepted although nobody made them.
func FuzzBundle(f *testing.F) {
	var states []verify.Accepted
	var good [][]byte
	var now int64
	for _, scene := range []func(testing.TB, func(*world)) (*world, *verify.Bundle){automatic, approved, further} {
		w, b := scene(f, plain)
		f.Add([]byte(encoded(f, b)))
		states, good, now = append(states, w.state()), append(good, []byte(encoded(f, b))), w.now
	}
	f.Add([]byte(`{"agent":"a","head":"h","from":0,"consistency":[],"entries":[],"inclusion":[],"members":[],"scope":[],"steps":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := verify.DecodeBundle(data)
		if err != nil {
			wantFormat(t, err)
			return
		}
		if again := encoded(t, b); again != string(data) {
			t.Fatalf("%q encodes to %q", data, again)
		}
		for _, a := range states {
			v, err := b.Check(a, now)
			if outcomeOf(v, err, "") == "" && !slices.ContainsFunc(good, func(g []byte) bool { return bytes.Equal(g, data) }) {
				t.Fatalf("accepted %q", data)
			}
		}
	})
}

// FuzzAccepted looks for bytes that decode into a state but are not what it
// encodes to.
func FuzzAccepted(f *testing.F) {
	w, b := automatic(f, plain)
	v, err := b.Check(w.state(), w.now)
	must(f, err)
	for _, a := range []verify.Accepted{w.state(), w.fresh(), v.Next} {
		f.Add([]byte(encoded(f, &a)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := verify.DecodeAccepted(data)
		if err == nil && encoded(t, &a) != string(data) {
			t.Fatalf("%q encodes to %q", data, encoded(t, &a))
		}
	})
}

// FuzzWitnesses looks for witness policies that make the check panic.
func FuzzWitnesses(f *testing.F) {
	f.Add(witnessPolicy())
	f.Add("quorum none")
	w, b := automatic(f, plain)
	cosign(1, "w1", "w2")(w, b)
	state, now := w.state(), w.now
	f.Fuzz(func(t *testing.T, policy string) {
		a := state
		a.Root.Witnesses = policy
		if v, err := b.Check(a, now); err != nil && outcomeOf(v, err, "") != "AGT-1" {
			t.Fatal(err)
		}
	})
}

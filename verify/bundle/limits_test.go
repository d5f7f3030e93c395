package bundle_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// TestBundleLimits tries each limit of bundles and states at it and one past it.
func TestBundleLimits(t *testing.T) {
	leaf := jsontext.Value(`{}`)
	encode := func(change func(b *bundle.Bundle)) error {
		b := &bundle.Bundle{Agent: "a", Decision: 1, Head: "h", Members: []bundle.PlanMember{{Member: entry.Member{Agent: "a", Exec: "a#1"}}}}
		change(b)
		data, err := b.Encode()
		if err == nil {
			_, err = bundle.Decode(data)
		}
		return err
	}
	hashes := func(n int) []merkle.Hash { return make([]merkle.Hash, n) }
	cases := []struct {
		name string
		do   func(past int) error
	}{
		{"MaxBundleEntries", func(past int) error {
			return encode(func(b *bundle.Bundle) {
				for i := range bundle.MaxEntries + past {
					b.Entries = append(b.Entries, bundle.Leaf{Index: uint64(i), Bytes: leaf})
				}
			})
		}},
		{"MaxBundleEntries of steps", func(past int) error {
			return encode(func(b *bundle.Bundle) {
				for i := range bundle.MaxEntries + past {
					b.Steps = append(b.Steps, bundle.ChainStep{Exec: uint64(i), Rule: bundle.RuleSeed})
				}
			})
		}},
		{"MaxBundleMembers", func(past int) error {
			return encode(func(b *bundle.Bundle) {
				b.Members = nil
				for i := range bundle.MaxMembers + past {
					b.Members = append(b.Members, bundle.PlanMember{Place: uint64(i)})
				}
			})
		}},
		{"MaxBundleAfter", func(past int) error {
			return encode(func(b *bundle.Bundle) {
				b.Members[0].Place = 1000
				for i := range bundle.MaxAfter + past {
					b.Members[0].After = append(b.Members[0].After, uint64(i))
				}
			})
		}},
		{"MaxLeaf", func(past int) error {
			long := jsontext.Value(`"` + strings.Repeat("a", verify.MaxLeaf-2+past) + `"`)
			return encode(func(b *bundle.Bundle) { b.Entries = []bundle.Leaf{{Bytes: long}} })
		}},
		{"MaxNote", func(past int) error {
			return encode(func(b *bundle.Bundle) { b.Head = strings.Repeat("a", verify.MaxNote+past) })
		}},
		{"MaxPath of consistency", func(past int) error {
			return encode(func(b *bundle.Bundle) { b.Consistency = hashes(verify.MaxPath + past) })
		}},
		{"MaxPath of inclusion", func(past int) error {
			return encode(func(b *bundle.Bundle) { b.Inclusion = hashes(verify.MaxPath + past) })
		}},
		{"MaxPath of membership", func(past int) error {
			return encode(func(b *bundle.Bundle) { b.Membership = hashes(verify.MaxPath + past) })
		}},
		{"MaxBundle", func(past int) error {
			return encode(func(b *bundle.Bundle) {
				const head = `{"agent":"a","head":"h","from":0,"consistency":[],"entries":[`
				left := bundle.MaxSize - len(`],"inclusion":[],"members":[],"membership":[],"steps":[]}`) - len(head) + past
				b.Decision, b.Members = 0, nil
				for i := range 200 {
					around := len(fmt.Sprintf(`,{"index":%d,"leaf":""}`, i))
					if i == 0 {
						around--
					}
					fill := min(60_000, left-around)
					left -= around + fill
					b.Entries = append(b.Entries, bundle.Leaf{Index: uint64(i), Bytes: jsontext.Value(`"` + strings.Repeat("a", fill) + `"`)})
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
		_, err := bundle.Decode(make([]byte, bundle.MaxSize+past))
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
	cases := map[string]func(past int) bundle.Accepted{
		"MaxIncidents": func(past int) bundle.Accepted {
			a := w.state()
			for i := range bundle.MaxIncidents + past {
				a.Epochs = append(a.Epochs, bundle.Epoch{Incident: uint64(i)})
			}
			return a
		},
		"MaxLinks": func(past int) bundle.Accepted {
			a := w.state()
			a.Head = w.SignText(testlog.HeadText(merkle.Head{Size: bundle.MaxLinks + 2}))
			a.Links = nil
			for i := range bundle.MaxLinks + past {
				a.Links = append(a.Links, bundle.Leaf{Index: uint64(i), Bytes: link.Bytes})
			}
			return a
		},
	}
	for name, of := range cases {
		a := of(0)
		data, err := a.Encode()
		must(t, err)
		_, err = bundle.DecodeAccepted(data)
		must(t, err)
		a = of(1)
		_, err = a.Encode()
		if wantFormat(t, err); !strings.Contains(err.Error(), "the limit is") {
			t.Errorf("%s: %v", name, err)
		}
	}
	long := bundle.Accepted{Root: w.Root}
	long.Root.Witnesses = "quorum none\n#"
	long.Root.Witnesses += strings.Repeat("a", bundle.MaxAccepted-len(encoded(t, &long)))
	_, err := long.Encode()
	must(t, err)
	long.Root.Witnesses += "a"
	_, err = long.Encode()
	wantFormat(t, err)
	for past := range 2 {
		_, err := bundle.DecodeAccepted(make([]byte, bundle.MaxAccepted+past))
		wantFormat(t, err)
		if strings.Contains(err.Error(), "the limit is") != (past == 1) {
			t.Errorf("%d past the limit: %v", past, err)
		}
	}
}

// TestWitnessPolicies goes through witness policies whose quorum has cosigned.
func TestWitnessPolicies(t *testing.T) {
	_, w1 := testlog.WitnessKey("w1")
	_, w2 := testlog.WitnessKey("w2")
	ledger, _ := automatic(t, plain)
	both := "witness a " + w1 + "\nwitness b " + w2 + "\n"
	for name, policy := range map[string]string{
		"none":         "quorum none\n",
		"any":          both + "group g any a b\nquorum g",
		"all":          both + "group g all a b\nquorum g\n",
		"nested":       both + "group g 1 a\ngroup h all g b\nquorum h\n",
		"a log line":   "log " + ledger.Root.LedgerKeys[0] + " https://x.example\n" + both + "quorum b\n",
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
	var states []bundle.Accepted
	var good [][]byte
	var now int64
	for _, scene := range []func(testing.TB, func(*world)) (*world, *bundle.Bundle){automatic, approved, further} {
		w, b := scene(f, plain)
		f.Add([]byte(encoded(f, b)))
		states, good, now = append(states, w.state()), append(good, []byte(encoded(f, b))), w.now
	}
	f.Add([]byte(`{"agent":"a","head":"h","from":0,"consistency":[],"entries":[],"inclusion":[],"members":[],"membership":[],"steps":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := bundle.Decode(data)
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
	for _, a := range []bundle.Accepted{w.state(), w.fresh(), v.Next} {
		f.Add([]byte(encoded(f, &a)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := bundle.DecodeAccepted(data)
		if err == nil && encoded(t, &a) != string(data) {
			t.Fatalf("%q encodes to %q", data, encoded(t, &a))
		}
	})
}

package attempts

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"testing"

	"recoveryledger/api"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
)

// recorder returns a recorder for a ledger that answers as submit does.
func recorder(t *testing.T, submit func(...*entry.Entry) (*ledger.Answer, error)) *Recorder {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := keys.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Submit: func(_ context.Context, all ...*entry.Entry) (*ledger.Answer, error) { return submit(all...) }, Origin: "ledger.example/test",
		Sign: signer.Sign, Owner: func() (entry.Principal, bool) { return "engine-1", true }})
}

// add records a case of each agent. Cases of different agents share no entry.
func add(t *testing.T, b *Batch, agents ...string) {
	t.Helper()
	rules := recovery.Default()
	batch := engine.Batch{Config: engine.Config{Policy: rules}}
	for _, agent := range agents {
		done, err := batch.Line(t.Context(), fmt.Appendf(nil, `{"v":1,"id":"case-of-%[1]s","agent":%[1]q,"steps":[{"id":"s","effect":"none","outcome":"failed","failure":{"raw":{"http_status":529}}}]}`, agent))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Add(t.Context(), done, rules.Hash()); err != nil {
			t.Fatal(err)
		}
	}
}

func ended(t *testing.T, b *Batch, want api.Recorded) {
	t.Helper()
	if got, err := b.End(t.Context()); err != nil || got != want {
		t.Errorf("recorded %+v, %v, want %+v", got, err, want)
	}
}

// TestConflictIsKnown: an id that the ledger has is the same cases again. The entries behind it are
// registered all the same.
func TestConflictIsKnown(t *testing.T) {
	var taken []entry.Principal
	r := recorder(t, func(all ...*entry.Entry) (*ledger.Answer, error) {
		var a ledger.Answer
		for _, e := range all {
			agent := e.Body.(*entry.Attempt).Agent
			if agent == "b" {
				a.Refused = entry.Refuse(entry.IDConflict, "jti", "taken")
				break
			}
			taken = append(taken, agent)
			a.Registered = append(a.Registered, ledger.Registration{Duplicate: agent == "c"})
		}
		return &a, nil
	})
	b := r.Begin(true, true)
	add(t, b, "a", "b", "c", "d")
	ended(t, b, api.Recorded{Cases: 4, Entries: 2, Known: 2})
	if !slices.Equal(taken, []entry.Principal{"a", "c", "d"}) {
		t.Errorf("registered %v", taken)
	}
}

// TestRefusalEndsRecording: what the ledger refuses ends the recording of the request, and not the
// request. The answer says what is in the log, and why no more is.
func TestRefusalEndsRecording(t *testing.T) {
	full, asked := entry.Refuse(entry.InsufficientStorage, "", "full"), 0
	for _, test := range []struct {
		name   string
		answer *ledger.Answer
		err    error
		want   uint64 // entries
	}{
		{"behind an entry", &ledger.Answer{Registered: make([]ledger.Registration, 1), Refused: full}, nil, 1},
		{"before all", nil, full, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := recorder(t, func(...*entry.Entry) (*ledger.Answer, error) { asked++; return test.answer, test.err })
			b := r.Begin(true, true)
			many := make([]string, batchMax)
			for i := range many {
				many[i] = fmt.Sprintf("agent-%d", i)
			}
			asked = 0
			add(t, b, many...)
			add(t, b, "later")
			ended(t, b, api.Recorded{Entries: test.want, Reason: api.Refused, Detail: full.Error()})
			if asked != 1 {
				t.Errorf("the ledger was asked %d times", asked)
			}
		})
	}
}

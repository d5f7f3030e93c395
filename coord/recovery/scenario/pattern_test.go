package scenario

import (
	"strings"
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// patterned is the default policy with patterns.
func patterned(t *testing.T, patterns string) *recovery.Policy {
	t.Helper()
	doc := strings.Replace(string(recovery.DefaultDocument()), "  guards:\n", "  patterns:\n"+patterns+"  guards:\n", 1)
	p, err := recovery.Load("policy.yaml", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The first pattern that fits decides, after codes and statuses and before what the tables know of
// texts; the explanation names it, its policy, and what would change the label.
func TestPatternsDecide(t *testing.T) {
	p := patterned(t, "    - { words: \"seat map * locked\", failure: transient.unavailable, refused: true }\n    - { words: connection, failure: "+
		"tool.error }\n    - { words: connection refused, failure: access.denied }\n")
	for _, c := range []struct {
		raw         RawError
		label, by   string
		refused, is bool
	}{
		{RawError{Text: "Seat-Map of HAT001\nis LOCKED"}, "transient.unavailable", "pattern", true, true},
		{RawError{Text: "locked seat map"}, "unknown", "", false, false},
		{RawError{Text: "connection refused"}, "tool.error", "pattern", false, true},
		{RawError{Text: "seat map is locked", HTTPStatus: 429}, "capacity.rate_limited", "status", false, false},
		{RawError{Text: "connection", ProviderCode: "rate_limit_exceeded"}, "capacity.rate_limited", "code", false, false},
		{RawError{Text: ""}, "unknown", "", false, false},
	} {
		e := ExplainBy(c.raw, p)
		if e.Label.String() != c.label || e.By != c.by || e.Refused != c.refused || (e.Policy == p.Hash()) != c.is || e.Change == "" {
			t.Errorf("%+v: %+v", c.raw, e)
		}
		if again := ExplainBy(c.raw, p); again != e {
			t.Errorf("%+v: %+v, then %+v", c.raw, e, again)
		}
		if ExplainBy(c.raw, recovery.Default()) != Explain(c.raw) {
			t.Errorf("%+v: a policy without patterns changes the label", c.raw)
		}
	}
}

// A failure is seen by the patterns, unless its label was given by somebody who knew more; a call
// that was refused left nothing, unless the source says what it left.
func TestRelabel(t *testing.T) {
	p := patterned(t, "    - { words: seat map, failure: transient.unavailable, refused: true }\n")
	f := NewFailure(entry.EffectIrrevocable, RawError{Text: "the seat map is shut"}, "")
	if got := Relabel(f, p); got.String() != "transient.unavailable" || got.Effects != entry.EffectsNone || got.ReplaySafety != entry.ReplaySafe || f.Class != "unknown" {
		t.Errorf("%+v, before %+v", got, f)
	}
	left := *f
	left.Effects = entry.EffectsComplete
	if got := Relabel(&left, p); got.Effects != entry.EffectsComplete || got.String() != "transient.unavailable" {
		t.Errorf("effects that the source knows: %+v", got)
	}
	known := *f
	known.Label = Label{"tool", "error"}
	if got := Relabel(&known, p); got.String() != "tool.error" {
		t.Errorf("a label by hand became %s", got)
	}
	if Relabel(f, recovery.Default()) != f {
		t.Error("a policy without patterns changes a failure")
	}
}

package engine

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

const shadowed = `{"v":1,"id":"one","agent":"a","steps":[{"id":"s","effect":"none","outcome":"failed","failure":{"raw":{"http_status":529}},"attempts":[{"strategy":"fallback_model","outcome":"ok"}]}]}`

// beside is a configuration under which a candidate decides beside the built-in rules.
func beside(tb testing.TB) Config {
	tb.Helper()
	candidate, err := recovery.FromEntry(&entry.Policy{Recovery: jsontext.Value(strings.Replace(string(recovery.Default().JSON()), `"attempts":6`, `"attempts":5`, 1))})
	if err != nil {
		tb.Fatal(err)
	}
	arms := recovery.Arms{Rules: recovery.Default(), Arm: entry.ArmControl, Beside: candidate}
	return Config{Policy: recovery.Default(), Arms: func(string) recovery.Arms { return arms }}
}

// TestShadowDecidesOnce: the candidate of a shadow decides once for each decision of the policy,
// and changes nothing about the case.
func TestShadowDecidesOnce(t *testing.T) {
	c, err := scenario.Decode([]byte(shadowed))
	if err != nil {
		t.Fatal(err)
	}
	alone, err := (&Config{Policy: recovery.Default()}).Recover(t.Context(), &c)
	if err != nil {
		t.Fatal(err)
	}
	config := beside(t)
	both, err := config.Recover(t.Context(), &c)
	if err != nil {
		t.Fatal(err)
	}
	if s := both.Trace.Shadow; s == nil || len(s.Rungs) != len(both.Trace.Rungs) || s.Policy == both.Trace.Policy || both.Trace.Policy != recovery.Default().Hash() {
		t.Fatalf("%+v", both.Trace)
	}
	both.Trace.Shadow, both.Trace.Arm, both.Trace.Policy = nil, "", ""
	a, _ := alone.Trace.Encode()
	b, _ := both.Trace.Encode()
	if string(a) != string(b) {
		t.Errorf("alone\n%s\nwith a shadow\n%s", a, b)
	}
}

// TestOtherArmDecidesOnce: in a canary the trace says what the other arm would have decided about
// the same failures, whichever arm decides. Nothing else of the trace changes. No entry says it.
func TestOtherArmDecidesOnce(t *testing.T) {
	c, err := scenario.Decode([]byte(shadowed))
	if err != nil {
		t.Fatal(err)
	}
	candidate := beside(t).Arms("").Beside
	for arm, rules := range map[entry.Arm][2]*recovery.Policy{entry.ArmControl: {recovery.Default(), candidate}, entry.ArmCanary: {candidate, recovery.Default()}} {
		arms := recovery.Arms{Rules: rules[0], Arm: arm, Other: rules[1]}
		both, err := (&Config{Policy: recovery.Default(), Arms: func(string) recovery.Arms { return arms }}).Recover(t.Context(), &c)
		if err != nil {
			t.Fatal(err)
		}
		o := both.Trace.Other
		if o == nil || o.Policy != rules[1].Hash() || both.Trace.Policy != rules[0].Hash() || len(o.Rungs) != len(both.Trace.Rungs) {
			t.Fatalf("%s: %+v", arm, both.Trace)
		}
		if of := ShadowOf(&both); of != nil {
			t.Errorf("%s: an entry of what nobody did: %+v", arm, of)
		}
		line, err := both.Trace.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := DecodeTrace(line); err != nil || back.Other == nil {
			t.Errorf("%s: %v", arm, err)
		}
		arms.Other = nil
		alone, err := (&Config{Policy: recovery.Default(), Arms: func(string) recovery.Arms { return arms }}).Recover(t.Context(), &c)
		if err != nil {
			t.Fatal(err)
		}
		both.Trace.Other = nil
		if diff := cmp.Diff(alone.Trace, both.Trace); diff != "" {
			t.Errorf("%s: the other arm changes the case: %s", arm, diff)
		}
	}
}

// BenchmarkShadow takes a case through a policy alone, and with a candidate beside.
func BenchmarkShadow(b *testing.B) {
	c, err := scenario.Decode([]byte(shadowed))
	if err != nil {
		b.Fatal(err)
	}
	for name, config := range map[string]Config{"alone": {Policy: recovery.Default()}, "beside": beside(b)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := config.Recover(b.Context(), &c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

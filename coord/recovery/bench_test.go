package recovery_test

import (
	"testing"

	"recoveryledger/coord/recovery"
)

// BenchmarkDecide decides cases of the default policy: one whose rule is found by
// class and code alone, one whose rung has a condition, and one that has been
// through a ladder.
func BenchmarkDecide(b *testing.B) {
	p := recovery.Default()
	late := plain("capacity", "rate_limited")
	for range 4 {
		a, r := recovery.Decide(&late, p, 1)
		late.Rungs = append(late.Rungs, late.RungOf(a, r, recovery.ResultFailed))
	}
	for _, c := range []struct {
		name string
		h    recovery.History
	}{{"simple", plain("output", "malformed")}, {"jitter", plain("transient", "timeout")}, {"condition", plain("tool", "error")},
		{"last_rule", plain("unknown", "unknown")}, {"late", late}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				recovery.Decide(&c.h, p, 1)
			}
		})
	}
}

// BenchmarkDefault is what a process pays for the default policy.
func BenchmarkDefault(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		recovery.Default()
	}
}

// BenchmarkLoad is what a process pays for a policy in a file, which it checks.
func BenchmarkLoad(b *testing.B) {
	doc := recovery.DefaultDocument()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := recovery.Load("default.yaml", doc); err != nil {
			b.Fatal(err)
		}
	}
}

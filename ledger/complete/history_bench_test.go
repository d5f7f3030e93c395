//go:build unix

package complete

import (
	"crypto/ed25519"
	"testing"
	"time"

	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// BenchmarkHistory makes and verifies the whole history of an agent with 10,000 entries (targets:
// 50 ms and 100 ms). Verifying is compared with what 10,000 bare checks of a signature take in the
// same run on one processor, by the standard library and by tables of the key: each entry has one.
func BenchmarkHistory(b *testing.B) {
	const executions = 10_000
	l, x := busyLog(b, executions)
	question := Question{Subject: subject(entry.SubjectAgent, "agent")}
	head, chain := l.head(l.Size()), l.Chain()
	h, err := x.History(b.Context(), question, head, chain, l)
	must(b, err)
	file, err := h.Encode()
	must(b, err)
	b.Run("make", func(b *testing.B) {
		before := cpu(b)
		for b.Loop() {
			_, err := x.History(b.Context(), question, head, chain, l)
			must(b, err)
		}
		b.ReportMetric(float64((cpu(b)-before).Milliseconds())/float64(b.N), "cpu-ms")
		b.ReportMetric(float64(len(file)), "bytes")
	})
	verifier, err := keys.NewVerifier(0)
	must(b, err)
	standard := signatures(b, executions, verify.Signature)
	tables := signatures(b, executions, verifier.Check)
	b.Run("verify", func(b *testing.B) {
		root := l.Root
		root.Signature = verifier.Check
		before := cpu(b)
		for b.Loop() {
			decoded, err := verify.DecodeHistory(file)
			must(b, err)
			report, err := root.Verify(verify.Material{Histories: []*verify.History{decoded}})
			must(b, err)
			if n := len(report.Answers[0].Entries); n < executions {
				b.Fatalf("%d entries", n)
			}
		}
		spent := float64(cpu(b)-before) / float64(b.N)
		b.ReportMetric(spent/1e6, "cpu-ms")
		b.ReportMetric(spent/float64(standard), "of-the-bare-signatures")
		b.ReportMetric(spent/float64(tables), "of-those-by-tables")
	})
	must(b, x.close(true))
}

// signatures returns the processor time of n checks of an entry's signature.
func signatures(b *testing.B, n int, check func(key entry.PublicKey, message, sig []byte) error) time.Duration {
	b.Helper()
	key, message := testlog.Public(b, "agent"), make([]byte, 400)
	sig := ed25519.Sign(testlog.Private("agent"), message)
	before := cpu(b)
	for range n {
		must(b, check(key, message, sig))
	}
	return cpu(b) - before
}

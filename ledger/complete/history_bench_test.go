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

// BenchmarkHistory makes and verifies the whole history of an agent with 10,000 entries.
// Verifying is compared with what 10,000 bare checks of a signature take in the same run:
// each entry has one.
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
		for b.Loop() {
			_, err := x.History(b.Context(), question, head, chain, l)
			must(b, err)
		}
		b.ReportMetric(float64(len(file)), "bytes")
	})
	key := testlog.Private("agent")
	message := make([]byte, 400)
	sig := ed25519.Sign(key, message)
	bare := time.Now()
	for range executions {
		if !ed25519.Verify(key.Public().(ed25519.PublicKey), message, sig) {
			b.Fatal("a signature is refused")
		}
	}
	signatures := time.Since(bare)
	b.Run("verify", func(b *testing.B) {
		verifier, err := keys.NewVerifier(0)
		must(b, err)
		root := l.Root
		for b.Loop() {
			root.Signature = verifier.Check
			decoded, err := verify.DecodeHistory(file)
			must(b, err)
			report, err := root.Verify(verify.Material{Histories: []*verify.History{decoded}})
			must(b, err)
			if n := len(report.Answers[0].Entries); n < executions {
				b.Fatalf("%d entries", n)
			}
		}
		b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(signatures), "of-the-bare-signatures")
	})
	must(b, x.close(true))
}

//go:build unix

package ledger_test

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"

	voi "github.com/oasisprotocol/curve25519-voi/primitives/ed25519"

	"recoveryledger/ledger/entry"
)

// BenchmarkSubmit measures the way of an entry from its envelope to its receipt:
// decode, signature check, order, durable commit, inclusion proof.
func BenchmarkSubmit(b *testing.B) {
	for _, submitters := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("submitters=%d", submitters), func(b *testing.B) { benchmarkSubmit(b, submitters) })
	}
}

func benchmarkSubmit(b *testing.B, submitters int) {
	b.Helper()
	expanded, err := voi.NewExpandedPublicKey(voi.PublicKey(testKey.Public().(ed25519.PublicKey)))
	must(b, err)
	cfg := config(b, nil)
	options := &voi.Options{Verify: voi.VerifyOptionsStdLib}
	cfg.Precheck = func(e *entry.Entry) error {
		if !voi.VerifyExpandedWithOptions(expanded, e.PAE(), e.Sig, options) {
			return errors.New("bad signature")
		}
		return nil
	}
	r := start(b, b.TempDir()+"/log", cfg)
	envelopes := make([][]byte, b.N)
	for i := range envelopes {
		envelopes[i] = newEntry(b).AppendEnvelope(nil)
	}
	var next atomic.Int64
	b.SetParallelism((submitters + 1) / 2)
	var before, after syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &before))
	b.ResetTimer()
	if submitters == 1 {
		for _, envelope := range envelopes {
			r.submitOne(envelope)
		}
	} else {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				r.submitOne(envelopes[next.Add(1)-1])
			}
		})
	}
	b.StopTimer()
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
	cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	b.ReportMetric(float64(cpu)/float64(b.N)/1e3, "cpu-µs/entry")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}

func (r *running) submitOne(envelope []byte) {
	e, err := entry.Decode(envelope)
	must(r.t, err)
	answer, err := r.Submit(r.t.Context(), e)
	must(r.t, err)
	_, err = answer.Proof(answer.Registered[0].Index)
	must(r.t, err)
}

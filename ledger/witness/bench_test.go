package witness_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"recoveryledger/ledger/witness"
)

// BenchmarkWitnessed measures the time from a new entry to a head that two of three
// witnesses have cosigned, at round trips of a witness, beside the round trip itself: p50
// and p99, and their ratio to the quorum's round trip (target: p99 of 2 and 10 ms).
func BenchmarkWitnessed(b *testing.B) {
	for _, trip := range []time.Duration{0, 10 * time.Millisecond, 50 * time.Millisecond} {
		b.Run(trip.String(), func(b *testing.B) {
			s := newSource(b, "a")
			var list []named
			for i := range 3 {
				w, err := witness.Open(&witness.Config{Dir: b.TempDir(), Name: fmt.Sprintf("w.example/%d", i), Logs: []witness.Log{{Origin: origin, Keys: []string{s.vkey}}}})
				must(b, err)
				b.Cleanup(func() { must(b, w.Close()) })
				handler := w.Handler(func(err error) { b.Error(err) })
				url := answering(b, func(out http.ResponseWriter, in *http.Request) {
					over := time.NewTimer(trip)
					defer over.Stop()
					<-over.C
					handler.ServeHTTP(out, in)
				})
				list = append(list, named{fmt.Sprintf("w%d", i), w.Keys()[0], url})
			}
			r := s.rounds(terms(policyOf(2, list...)), "")
			run(b, r)
			_, err := r.Wait(context.Background(), witness.Want{Size: 1})
			must(b, err)
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				began := time.Now()
				s.add(fmt.Sprint(i))
				_, err := r.Wait(context.Background(), witness.Want{Size: s.Newest().Size})
				must(b, err)
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			p50, p99 := took[len(took)/2], took[len(took)*99/100]
			b.ReportMetric(float64(p50.Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(p99.Microseconds())/1000, "p99-ms")
			if trip > 0 {
				b.ReportMetric(float64(p50)/float64(trip), "p50/trip")
				b.ReportMetric(float64(p99)/float64(trip), "p99/trip")
			}
		})
	}
}

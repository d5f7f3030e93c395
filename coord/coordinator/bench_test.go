package coordinator

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// stopwatch notes when the first entry of the coordinator is durable.
type stopwatch struct {
	desk
	first time.Time
}

func (w *stopwatch) Submit(ctx context.Context, entries ...*entry.Entry) (taken int, err error) {
	taken, err = w.desk.Submit(ctx, entries...)
	if w.first.IsZero() {
		w.first = time.Now()
	}
	return taken, err
}

// BenchmarkAuthorize measures the time from submitting a signal to the durable
// authorize of its incident with 100 members, on a real disk, and reports its
// 99th percentile.
func BenchmarkAuthorize(b *testing.B) {
	s := &site{world: emptyWorld(b), fs: vfs.Default, dir: filepath.Join(b.TempDir(), "data")}
	s.open()
	policy := s.genesis()
	policy.Quotas.SignalsPerHour = 1_000_000
	for _, c := range []*entry.Cap{&policy.Limits.Signaler, &policy.Limits.Victim} {
		c.Members, c.FencedMS = entry.MaxInteger, entry.MaxInteger
	}
	s.submit(3, "", s.signed(policy, s.Enrol("root", "a", entry.RoleAgent), s.Enrol("root", "k", entry.RoleCoordinator))...)
	coordinator, watch := s.coordinator(), &stopwatch{desk: desk{s}}
	coordinator.Log = watch
	var took []time.Duration
	for b.Loop() {
		b.StopTimer()
		seed := fmt.Sprint("seed", len(took))
		var batch []*entry.Entry
		for i := range 100 {
			x := s.Exec("a", fmt.Sprint(seed, ".", i))
			if i == 0 {
				x.Exec = seed
			} else {
				x.Parents = []entry.Parent{{Exec: entry.NewRef("a", seed), Dep: entry.Hard}}
			}
			x.Progress = entry.Confirmed
			batch = append(batch, s.Sign(x))
		}
		s.submit(len(batch), "", batch...)
		signal := s.Sign(s.Signal("a", entry.StandingExecutor, entry.NewRef("a", seed)))
		b.StartTimer()
		watch.first = time.Time{}
		began := time.Now()
		s.submit(1, "", signal)
		if _, _, err := coordinator.Step(b.Context()); err != nil {
			b.Fatal(err)
		}
		took = append(took, watch.first.Sub(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	s.c.Read(func(state *coord.State) {
		if n := open(state); n != 0 || count(state) != len(took) {
			b.Fatalf("%d of %d incidents are open", n, len(took))
		}
	})
}

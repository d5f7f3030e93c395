//go:build unix

package server_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify/bundle"
)

// latencies registers entries one by one, by eight submitters, and returns how long each waited
// for its receipt.
func (n *node) latencies(b *testing.B, count int) (took []time.Duration) {
	b.Helper()
	const submitters = 8
	entries := make([]*entry.Entry, count)
	for i := range entries {
		entries[i] = n.good()
	}
	took = make([]time.Duration, count)
	var group sync.WaitGroup
	for i := range submitters {
		group.Go(func() {
			for at := i; at < count; at += submitters {
				began := time.Now()
				if _, err := n.log.Submit(context.Background(), entries[at]); err != nil {
					b.Error(err)
				}
				took[at] = time.Since(began)
			}
		})
	}
	group.Wait()
	return took
}

// BenchmarkReceiptsWithWitnesses measures receipts of a ledger whose policy names three witnesses,
// of which one hangs, against those of one without witnesses, in turn in one run (target: p99
// within a tenth): as arl serve does it, a round a second, and with one round after the other.
// Ledger, witnesses and submitters share processors and disk.
func BenchmarkReceiptsWithWitnesses(b *testing.B) {
	const turns, count = 12, 4000
	for _, every := range []time.Duration{time.Second, 0} {
		b.Run("every-"+every.String(), func(b *testing.B) {
			for range b.N {
				with, without := watch(b, newPanel(b, nil), 0, every), newPanel(b, nil)
				with.name()
				with.hangs[2].Store(true)
				var took [2][]time.Duration
				for turn := range turns {
					for k := range 2 {
						which := (turn + k) % 2 // who is first changes
						n := []*node{without.node, with.node}[which]
						took[which] = append(took[which], n.latencies(b, count)...)
					}
				}
				if head, _, _ := with.cfg.Witnesses.Witnessed(); head.Size == 0 {
					b.Error("no quorum")
				}
				for _, list := range took {
					slices.Sort(list)
				}
				at := func(which, percent int) float64 { return float64(took[which][len(took[which])*percent/100]) }
				b.ReportMetric(at(1, 50)/at(0, 50), "p50-ratio")
				b.ReportMetric(at(1, 99)/at(0, 99), "p99-ratio")
			}
		})
	}
}

// BenchmarkBundleAbsences measures what the proof of absences adds to a bundle of two members, in
// bytes, in time to make and fetch, and in time to check, in turn in one run.
func BenchmarkBundleAbsences(b *testing.B) {
	c := newIndexedPanel(b)
	c.pipeline()
	id := c.signals("agent-1", entry.StandingExecutor, "agent-1#make")
	c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize}))
	must(b, c.index.Wait(b.Context(), c.log.Size()-1))
	without := newPanel(b, nil)
	without.pipeline()
	other := without.signals("agent-1", entry.StandingExecutor, "agent-1#make")
	without.put(without.draft("coordinator", coord.Order{Incident: other, Act: entry.ActAuthorize}))
	var made, checked [2]time.Duration
	var size [2]int
	rounds := 0
	for b.Loop() {
		rounds++
		for k := range 2 {
			which := (rounds + k) % 2
			p, of, path := without, other, "/v1/incidents/%d/bundle?agent=agent-2&from=0"
			if which == 1 {
				p, of, path = c, id, path+"&absences=true"
			}
			before := used(b)
			a := p.get(fmt.Sprintf(path, of))
			made[which] += used(b) - before
			if size[which] = len(a.body); a.StatusCode != http.StatusOK {
				b.Fatalf("%s", a.body)
			}
			before = used(b)
			judged, err := bundle.Decode(a.body)
			must(b, err)
			_, err = judged.Check(bundle.Accepted{Root: p.root(), Agent: "agent-2"}, p.log.Now())
			must(b, err)
			checked[which] += used(b) - before
		}
	}
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(rounds) }
	b.ReportMetric(float64(size[0]), "B")
	b.ReportMetric(float64(size[1]-size[0]), "B-more")
	b.ReportMetric(per(made[1]-made[0]), "make-cpu-µs-more")
	b.ReportMetric(per(checked[1]-checked[0]), "check-cpu-µs-more")
	b.ReportMetric(float64(checked[1])/float64(checked[0]), "check-ratio")
}

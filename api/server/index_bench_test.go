//go:build unix

package server_test

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"recoveryledger/api/server"
	"recoveryledger/ledger/complete"
	"recoveryledger/ledger/entry"
)

// used returns the time that the processors gave this process.
func used(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	must(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// indexedDisk returns a node on disk whose index lies on disk, too.
func indexedDisk(b *testing.B) (*node, *complete.Index) {
	b.Helper()
	coordinator := newSigner(b)
	return indexedNode(b, b.TempDir()+"/index", coordinator.Sign, func(change func(*server.Config)) *node {
		n := startDiskWith(b, change)
		n.register(n.enrol("coordinator", coordinator, entry.RoleCoordinator))
		return n
	})
}

// follow watches how far an index is behind: the longest time from an entry to the index entry
// that covers it. told says how many entries there are at a time.
type follow struct {
	index *complete.Index
	mu    sync.Mutex
	sizes []uint64
	times []time.Time
	worst time.Duration
}

func (f *follow) committed(size uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sizes, f.times = append(f.sizes, size), append(f.times, time.Now())
	f.look()
}

// look forgets what is covered; its caller holds mu.
func (f *follow) look() {
	covered := f.index.Status().Size
	for len(f.sizes) > 0 && f.sizes[0] <= covered {
		f.sizes, f.times = f.sizes[1:], f.times[1:]
	}
	if len(f.times) > 0 {
		f.worst = max(f.worst, time.Since(f.times[0]))
	}
}

// turn registers entries by eight submitters, in batches, as fast as they are taken.
func (n *node) turn(b *testing.B, entries []*entry.Entry, told func(size uint64)) (clock, processor time.Duration) {
	b.Helper()
	const submitters, batch = 8, 64
	began, before := time.Now(), used(b)
	var group sync.WaitGroup
	for i := range submitters {
		group.Go(func() {
			for at := i * batch; at < len(entries); at += submitters * batch {
				if _, err := n.log.Submit(context.Background(), entries[at:min(at+batch, len(entries))]...); err != nil {
					b.Error(err)
				}
				told(n.log.Size())
			}
		})
	}
	group.Wait()
	return time.Since(began), used(b) - before
}

// BenchmarkIndexedAppend registers entries in a ledger with an index and in one without, in turn:
// what the index costs of time and of processor time, how far it is behind, and how fast it is
// built again (targets: 1.05 ×, 1 s, 100,000 entries/s).
func BenchmarkIndexedAppend(b *testing.B) {
	const turns, size = 12, 16384
	for range b.N {
		with, index := indexedDisk(b)
		without := startDisk(b)
		f := &follow{index: index}
		var clock, processor [2][]time.Duration
		for turn := range turns {
			for k := range 2 {
				which := (turn + k) % 2 // who is first changes
				n, told := without, func(uint64) {}
				if which == 1 {
					n, told = with, f.committed
				}
				entries := make([]*entry.Entry, size)
				for i := range entries {
					entries[i] = n.good()
				}
				c, p := n.turn(b, entries, told)
				if which == 1 { // what is still to be indexed is not the other's
					before, last := used(b), n.log.Size()
					must(b, index.Wait(b.Context(), last))
					p += used(b) - before
					f.committed(last)
				}
				clock[which], processor[which] = append(clock[which], c), append(processor[which], p)
			}
		}
		median := func(d []time.Duration) float64 { slices.Sort(d); return float64(d[len(d)/2]) }
		b.ReportMetric(median(clock[1])/median(clock[0]), "clock-ratio")
		b.ReportMetric(median(processor[1])/median(processor[0]), "processor-ratio")
		b.ReportMetric((median(processor[1])-median(processor[0]))/size/1e3, "index-cpu-µs/entry")
		b.ReportMetric(size/median(clock[1])*1e9, "entries/s")
		b.ReportMetric(float64(f.worst.Milliseconds()), "lag-ms")
		rebuild(b, with, index.Status().Size)
	}
}

// rebuild has an index follow a log from its first entry.
func rebuild(b *testing.B, n *node, size uint64) {
	b.Helper()
	x := complete.New(b.TempDir()+"/again", complete.Config{Log: indexed{n.log}, HeadAt: n.log.HeadAt})
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	began, before := time.Now(), used(b)
	go func() { done <- x.Run(ctx) }()
	must(b, x.Wait(ctx, size))
	b.ReportMetric(float64(size)/time.Since(began).Seconds(), "rebuilt/s")
	b.ReportMetric(float64((used(b)-before).Microseconds())/float64(size), "rebuild-cpu-µs/entry")
	stop()
	must(b, <-done)
}

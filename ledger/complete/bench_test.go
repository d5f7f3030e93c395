//go:build unix

package complete

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"recoveryledger/ledger/entry"
)

func cpu(tb testing.TB) time.Duration {
	tb.Helper()
	var use syscall.Rusage
	must(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &use))
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// BenchmarkFollow takes a synthetic stream into an index on disk, in ticks as a busy
// ledger has them: processor time of an entry with flush and compaction, less the
// stream's own, and bytes on disk. ARL_INDEX_ENTRIES says how many (10^6).
func BenchmarkFollow(b *testing.B) {
	total, tick, commit := 1_000_000, 20_000, 1_000
	if text := os.Getenv("ARL_INDEX_ENTRIES"); text != "" {
		var err error
		total, err = strconv.Atoi(text)
		must(b, err)
	}
	for range b.N {
		b.StopTimer()
		dir := filepath.Join(b.TempDir(), "index")
		log, s := newMemLog(), newStream(1)
		var x *Index
		submit := func(_ context.Context, own *entry.LogIndex) error {
			own.Iss = "coordinator"
			e := wrap(own)
			x.Committed([]*entry.Entry{e}, log.append(e))
			return nil
		}
		x = New(dir, Config{Log: log, HeadAt: log.HeadAt, Submit: submit})
		must(b, x.open())
		ctx := context.Background()
		var spent time.Duration
		for done := 0; done < total; done += tick {
			clear(log.entries) // the memory of the log is not that of the index
			for range tick / commit {
				batch := s.take(commit)
				b.StartTimer()
				before := cpu(b)
				x.Committed(batch, log.append(batch...))
				must(b, x.readTo(ctx, log.Size()))
				spent += cpu(b) - before
				b.StopTimer()
			}
			b.StartTimer()
			before := cpu(b)
			must(b, x.tick(ctx))
			e := log.at(log.Size() - 1)
			must(b, x.pass(ctx, e))
			x.seen = log.Size()
			spent += cpu(b) - before
			b.StopTimer()
		}
		before := cpu(b)
		must(b, x.writeNow())
		must(b, x.store.db.Compact(ctx, []byte{0}, []byte{255}, false))
		spent += cpu(b) - before
		size := x.store.db.Metrics().DiskSpaceUsage()
		b.ReportMetric(float64(spent.Microseconds())/float64(total), "cpu-µs/entry")
		b.ReportMetric(float64(size)/float64(total), "disk-B/entry")
		b.ReportMetric(float64(x.tree.Subjects()), "subjects")
		began := time.Now()
		must(b, x.store.close())
		again := New(dir, Config{Log: log, HeadAt: log.HeadAt, Submit: log.submit})
		must(b, again.open())
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "open-ms")
		must(b, again.store.close())
	}
}

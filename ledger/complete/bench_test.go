//go:build unix

package complete

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/entry"
)

func cpu(tb testing.TB) time.Duration {
	tb.Helper()
	var use syscall.Rusage
	must(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &use))
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// proofs measures what it takes to prove the list of a workflow, which is there, and the absence of
// a revocation of an agent that no entry names (targets at 10^6 entries: 1 ms warm, 4 KiB beside
// the entries).
func proofs(b *testing.B, x *Index, s *stream) {
	b.Helper()
	labels := map[entry.SubjectType][]entry.Label{entry.SubjectAgent: {"agent/revoke<"}}
	for name, value := range map[string]func(i int) entry.Subject{
		"present": func(int) entry.Subject {
			return subject(entry.SubjectWorkflow, fmt.Sprintf("flow-%d", 1+s.rng.IntN(s.flow-1)))
		},
		"absent": func(i int) entry.Subject { return subject(entry.SubjectAgent, fmt.Sprintf("stranger-%d", i)) },
	} {
		var took []time.Duration
		var size int
		for i := range 4000 {
			of, part := []entry.Subject{value(i)}, Part{Labels: labels, To: x.tree.size}
			_, err := x.Prove(of, part) // from then on it is warm
			must(b, err)
			began := time.Now()
			p, err := x.Prove(of, part)
			must(b, err)
			took = append(took, time.Since(began))
			text, err := json.Marshal(p.Indexed)
			must(b, err)
			size = max(size, len(text))
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, name+"-p50-µs")
		b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, name+"-p99-µs")
		b.ReportMetric(float64(size), name+"-largest-B")
	}
}

// BenchmarkFollow takes a synthetic stream into an index on disk, in ticks as a busy
// ledger has them: processor time of an entry with flush and compaction, without the time that
// the stream and the log take, and bytes on disk. ARL_INDEX_ENTRIES says how many (10^6).
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
				first := log.append(batch...)
				b.StartTimer()
				before := cpu(b)
				x.Committed(batch, first)
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
		proofs(b, x, s)
		began := time.Now()
		must(b, x.store.close())
		again := New(dir, Config{Log: log, HeadAt: log.HeadAt, Submit: log.submit})
		must(b, again.open())
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "open-ms")
		must(b, again.store.close())
	}
}

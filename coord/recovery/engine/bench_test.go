//go:build unix

package engine

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/importer"
	"recoveryledger/coord/recovery/scenario"
)

// manyCases is a scenario of n cases: those given, again and again under new
// ids. It is made while it is read.
type manyCases struct {
	tails [][]byte // of the lines, behind the id
	ids   []string
	n     int
	at    int
	rest  []byte
}

func newManyCases(tb testing.TB, lines []byte, n int) *manyCases {
	tb.Helper()
	m := &manyCases{n: n}
	for line := range bytes.Lines(lines) {
		c, err := scenario.Decode(line)
		if err != nil {
			tb.Fatal(err)
		}
		encoded, err := scenario.Encode(c)
		if err != nil {
			tb.Fatal(err)
		}
		head := fmt.Appendf(nil, `{"v":1,"id":"%s"`, c.ID)
		tail, ok := bytes.CutPrefix(encoded, head)
		if !ok {
			tb.Fatalf("line begins otherwise: %.80s", encoded)
		}
		m.tails, m.ids = append(m.tails, tail), append(m.ids, c.ID)
	}
	return m
}

// Read implements [io.Reader].
func (m *manyCases) Read(p []byte) (int, error) {
	for len(m.rest) < len(p) && m.at < m.n {
		i := m.at % len(m.tails)
		m.rest = fmt.Appendf(m.rest, `{"v":1,"id":"%s.%d"`, m.ids[i], m.at)
		m.rest = append(append(m.rest, m.tails[i]...), '\n')
		m.at++
	}
	if len(m.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, m.rest)
	m.rest = m.rest[:copy(m.rest, m.rest[n:])]
	return n, nil
}

// realCases is the cases of the aider attempts as a scenario; where the data is
// absent, the fixture.
func realCases(tb testing.TB) []byte {
	tb.Helper()
	f, err := os.Open("../../../../shared/data/aider_swe_bench/attempts.ndjson")
	if err != nil {
		tb.Logf("the real cases are absent: %v", err)
		return fixture(tb)
	}
	defer f.Close()
	var out []byte
	for c, err := range importer.Import(importer.Attempts, "aider_swe_bench/attempts.ndjson", f, new(importer.Counts)) {
		if err != nil {
			tb.Fatal(err)
		}
		line, err := scenario.Encode(importer.MergeRetries(c))
		if err != nil {
			tb.Fatal(err)
		}
		out = append(append(out, line...), '\n')
	}
	return out
}

// processorTime is what the process used of all processors so far.
func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// One case from its line to its trace in the report, with all processors.
func BenchmarkRecover(b *testing.B) {
	for _, bench := range []struct {
		name  string
		cases []byte
	}{{"real", realCases(b)}, {"fixture", fixture(b)}} {
		b.Run(bench.name, func(b *testing.B) {
			p := recovery.Default()
			batch := &Batch{Config: Config{Policy: p}, Workers: 2, Neighbours: Neighbours(p)}
			tally, err := NewTally(p)
			if err != nil {
				b.Fatal(err)
			}
			scenario := newManyCases(b, bench.cases, b.N)
			b.ReportAllocs()
			before := processorTime(b)
			b.ResetTimer()
			for done, err := range batch.Run(b.Context(), "bench", scenario) {
				if err != nil {
					b.Fatal(err)
				}
				if err := tally.Add(&done.Trace, done.Leaf); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "cases/s")
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/case")
		})
	}
}

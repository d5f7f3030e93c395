package coord

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"github.com/google/uuid"

	"recoveryledger/ledger/entry"
)

const (
	benchSize   = 1_000_000 // executions
	benchAgents = 1_000
)

// benchmark is a log of executions without the bytes that coord never reads:
// UUIDs as ids, workflows of ten, one parent, an idempotency key every second.
type benchmark struct {
	*world
	keyIDs []string
}

func newBenchmark(b *testing.B) *benchmark {
	b.Helper()
	m := &benchmark{world: emptyWorld(b)}
	apply := func(body entry.Body) { m.take(m.sign(body)) }
	apply(m.genesis())
	for i := range benchAgents {
		name := entry.Principal(fmt.Sprintf("agent-%d@example.com", i))
		enrol := m.enrol("root", name, entry.RoleAgent)
		m.keyIDs = append(m.keyIDs, enrol.Key.KeyID())
		apply(enrol)
	}
	return m
}

func (m *benchmark) take(e *entry.Entry) { m.state.Apply(e, m.state.Size(), m.at) }

func execID(i int) string {
	return uuid.UUID(binary.BigEndian.AppendUint64(make([]byte, 8), uint64(i))).String()
}

func (m *benchmark) agentOf(i int) entry.Principal {
	return entry.Principal(fmt.Sprintf("agent-%d@example.com", i/10%benchAgents))
}

// entry returns the first entry of execution i.
func (m *benchmark) entry(i int) *entry.Entry {
	x := &entry.Execution{
		Header: entry.Header{V: 1, Iss: m.agentOf(i), Aud: origin, Iat: m.at / 1000, Wid: entry.WorkflowID(fmt.Sprintf("run-%08d", i/10))},
		Exec:   execID(i), Effect: entry.EffectNone, Progress: entry.Confirmed,
	}
	if i > 0 {
		x.Parents = []entry.Parent{{Exec: entry.NewRef(m.agentOf(i-1), execID(i-1)), Dep: entry.Hard}}
	}
	if i%2 == 1 {
		x.Effect, x.Progress, x.IdempotencyKey = entry.EffectIrrevocable, entry.Dispatched, someDigest(x.Exec)
	}
	return &entry.Entry{Kind: entry.KindExecution, Header: &x.Header, Body: x, KeyID: m.keyIDs[i/10%benchAgents], SignatureChecked: true}
}

func (m *benchmark) fill(from, to int) {
	for i := from; i < to; i++ {
		m.take(m.entry(i))
	}
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// BenchmarkExecution admits and applies executions on top of a million others.
func BenchmarkExecution(b *testing.B) {
	m := newBenchmark(b)
	m.fill(0, benchSize)
	next := benchSize
	batch := make([]*entry.Entry, 0, 1<<14)
	b.ReportAllocs()
	for b.Loop() {
		if len(batch) == 0 {
			b.StopTimer()
			for range cap(batch) {
				batch = append(batch, m.entry(next))
				next++
			}
			b.StartTimer()
		}
		e := batch[0]
		if batch = batch[1:]; len(batch) == 0 {
			batch = make([]*entry.Entry, 0, 1<<14)
		}
		if err := m.state.Admit(e, m.state.Size(), m.at); err != nil {
			b.Fatal(err)
		}
		m.take(e)
	}
}

// BenchmarkMemory reports what a million executions take.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		m := newBenchmark(b)
		before := heap()
		m.fill(0, benchSize)
		b.ReportMetric(float64(heap()-before)/benchSize, "B/execution")
		runtime.KeepAlive(m)
	}
}

// BenchmarkSnapshot writes the state of a million executions.
func BenchmarkSnapshot(b *testing.B) {
	m := newBenchmark(b)
	m.fill(0, benchSize)
	var out bytes.Buffer
	for b.Loop() {
		out.Reset()
		must(b, m.state.Snapshot(&out))
	}
	b.ReportMetric(float64(out.Len())/benchSize, "B/execution")
}

// BenchmarkRestore reads it.
func BenchmarkRestore(b *testing.B) {
	m := newBenchmark(b)
	m.fill(0, benchSize)
	data := snapshot(b, m.state)
	m = nil
	for b.Loop() {
		must(b, NewState(origin).Restore(bytes.NewReader(data)))
	}
}

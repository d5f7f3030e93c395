package coord

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
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
		x.Effect, x.Progress, x.IdempotencyKey = entry.EffectIrrevocable, entry.Started, someDigest(x.Exec)
	}
	return &entry.Entry{Kind: entry.KindExecution, Header: &x.Header, Body: x, KeyID: m.keyIDs[i/10%benchAgents], SignatureChecked: true}
}

func (m *benchmark) fill(from, to int) {
	for i := from; i < to; i++ {
		m.take(m.entry(i))
	}
}

func heapInUse() uint64 {
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
		before := heapInUse()
		m.fill(0, benchSize)
		b.ReportMetric(float64(heapInUse()-before)/benchSize, "B/execution")
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
	for b.Loop() {
		must(b, NewState(origin).Restore(bytes.NewReader(data)))
	}
}

const (
	rollbackParts = 10 // that lie among each other: a rollback has a tenth
	rollbackDeps  = 5
)

// rollbackEntry returns the first entry of execution i of a graph in which each
// execution depends on five others of its part, mostly of other agents.
func (m *benchmark) rollbackEntry(i int, r *rand.Rand) *entry.Entry {
	agent := func(i int) entry.Principal {
		return entry.Principal(fmt.Sprintf("agent-%d@example.com", i/rollbackParts%100*10+i%rollbackParts))
	}
	x := &entry.Execution{
		Header: entry.Header{V: 1, Iss: agent(i), Aud: origin, Iat: m.at / 1000, Wid: entry.WorkflowID(fmt.Sprintf("run-%08d", i/10_000*rollbackParts+i%rollbackParts))},
		Exec:   execID(i), Effect: entry.EffectNone, Progress: entry.Confirmed,
	}
	for range min(rollbackDeps, i/rollbackParts) {
		p := r.IntN(i/rollbackParts)*rollbackParts + i%rollbackParts
		x.Parents = append(x.Parents, entry.Parent{Exec: entry.NewRef(agent(p), execID(p)), Dep: entry.Hard})
	}
	return &entry.Entry{Kind: entry.KindExecution, Header: &x.Header, Body: x, SignatureChecked: true}
}

// BenchmarkRollback computes the plan and the scope of 100,000 members in the
// state of 1,000,000 executions with 5,000,000 dependencies, and reports what
// that state takes.
func BenchmarkRollback(b *testing.B) {
	before := heapInUse()
	m, r := newBenchmark(b), rand.New(rand.NewPCG(1, 2))
	for i := range benchSize {
		m.take(m.rollbackEntry(i, r))
	}
	size := float64(heapInUse()-before) / (1 << 20)
	subject := m.rollbackEntry(3, r).Body.(*entry.Execution)
	s := m.signal(subject.Iss, entry.StandingExecutor, subject.Ref())
	s.Wid = subject.Wid
	m.take(m.sign(s))
	for b.Loop() {
		plan := m.state.graph.Plan(m.state.request(m.state.incidents[0], []uint32{0}, nil, 0))
		if scope := m.state.rollbackSetHead(plan.Members); scope.Size != benchSize/rollbackParts {
			b.Fatalf("%d members", scope.Size)
		}
	}
	b.ReportMetric(size, "MiB")
}

// BenchmarkRebuild builds the state of a log of small agent runs from its
// records, as a ledger does when it has no snapshot.
func BenchmarkRebuild(b *testing.B) {
	w := newWorld(b)
	for i := range 2_000 {
		x := w.step(w.exec("a", fmt.Sprint(i)), entry.Planned)
		w.apply(x)
		w.apply(w.step(x, entry.Confirmed))
	}
	var records [][]byte
	for _, e := range w.log {
		records = append(records, e.AppendStored(nil, e.RegisteredAt))
	}
	for b.Loop() {
		s := NewState(origin)
		for i, record := range records {
			e, at, err := entry.DecodeStored(record)
			must(b, err)
			s.Apply(e, uint64(i), at)
		}
	}
	b.ReportMetric(float64(len(records)*b.N)/b.Elapsed().Seconds(), "entries/s")
}

// BenchmarkRoute looks at 10,000 tasks that failed and that the rules leave to
// people: what each step of the coordinator costs while they wait.
func BenchmarkRoute(b *testing.B) {
	w := newWorld(b)
	w.able("cook", "x", "y")
	w.ruled(rule("", "strategy: quarantine"))
	ref := w.create("task", ofType("cook"), retries(2))
	w.next()
	w.fails(ref)
	for range 9_999 { // as if they had failed, too
		number := uint32(len(w.state.tasks.list))
		w.state.tasks.list = append(w.state.tasks.list, w.state.tasks.list[0])
		w.state.tasks.waiting[number] = struct{}{}
		w.state.tasks.names.Add(localKey(nil, 0, fmt.Sprint("t", number)))
	}
	b.ReportAllocs()
	for b.Loop() {
		if todo, _ := w.state.Route(w.at, &compiled); len(todo) != 0 {
			b.Fatal(todo)
		}
	}
}

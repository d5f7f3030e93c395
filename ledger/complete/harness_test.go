package complete

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// memLog is a log in memory: entries that nobody signed.
type memLog struct {
	mu      sync.Mutex
	entries []*entry.Entry
	tree    merkle.Tree
	grown   chan struct{}
}

func newMemLog() *memLog { return &memLog{grown: make(chan struct{})} }

func (l *memLog) append(entries ...*entry.Entry) (size uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, entries...)
	for _, e := range entries {
		l.tree.Append(merkle.HashLeaf(fmt.Appendf(nil, "%+v", e.Body)))
	}
	close(l.grown)
	l.grown = make(chan struct{})
	return uint64(len(l.entries))
}

// Size implements [Log].
func (l *memLog) Size() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(len(l.entries))
}

// HeadAt is of [Config].
func (l *memLog) HeadAt(size uint64) (merkle.Head, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tree.Head(size), nil
}

// Wait implements [Log].
func (l *memLog) Wait(ctx context.Context, size uint64) error {
	for {
		l.mu.Lock()
		grown, there := l.grown, uint64(len(l.entries)) >= size
		l.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Entries implements [Log].
func (l *memLog) Entries(ctx context.Context, from, to uint64) iter.Seq2[*entry.Registered, error] {
	return func(yield func(*entry.Registered, error) bool) {
		for i := from; i < to; i++ {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if !yield(l.at(i), nil) {
				return
			}
		}
	}
}

func (l *memLog) at(index uint64) *entry.Registered {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &entry.Registered{Entry: l.entries[index], Index: index, RegisteredAt: 1}
}

// IndexEntry implements [Log].
func (l *memLog) IndexEntry(from uint64) (*entry.Registered, error) {
	for i := from; i < l.Size(); i++ {
		if e := l.at(i); e.Kind == entry.KindIndex {
			return e, nil
		}
	}
	return nil, nil
}

// submit registers an index entry.
func (l *memLog) submit(_ context.Context, x *entry.LogIndex) error {
	x.Iss = "coordinator"
	l.append(wrap(x))
	return nil
}

func wrap(body entry.Body) *entry.Entry {
	return &entry.Entry{Kind: body.Kind(), Header: entry.HeaderOf(body), Body: body}
}

// stream makes entries as a busy log has them: workflows of a dozen executions by
// agents of which some are much busier than others, tasks, incidents, few links.
type stream struct {
	rng   *rand.Rand
	zipf  *rand.Zipf
	n     int
	flow  int
	agent entry.Principal
}

func newStream(seed uint64) *stream {
	rng := rand.New(rand.NewPCG(seed, 0))
	return &stream{rng: rng, zipf: rand.NewZipf(rng, 1.2, 8, 1999)}
}

func (s *stream) next() *entry.Entry {
	if s.n%12 == 0 {
		s.flow++
		s.agent = entry.Principal(fmt.Sprintf("agent-%d", s.zipf.Uint64()))
	}
	s.n++
	h := entry.Header{V: 1, Iss: s.agent, Wid: entry.WorkflowID(fmt.Sprintf("flow-%d", s.flow))}
	other := entry.Principal(fmt.Sprintf("agent-%d", s.zipf.Uint64()))
	switch draw := s.rng.IntN(1000); {
	case draw < 1:
		h.Wid = ""
		return wrap(&entry.Agent{Header: h, Principal: other, Op: entry.Enrol})
	case draw < 20:
		h.Iss = "monitor"
		return wrap(&entry.Signal{Header: h, Subject: entry.NewRef(s.agent, "x")})
	case draw < 40:
		h.Iss = "coordinator"
		return wrap(&entry.Decision{Header: h, Incident: uint64(s.n / 50 * 50), Act: entry.ActAuthorize})
	case draw < 60:
		return wrap(&entry.Outcome{Header: h, Incident: uint64(s.n / 50 * 50), Exec: entry.NewRef(s.agent, "x")})
	case draw < 200:
		h.Iss = "coordinator"
		return wrap(&entry.Task{Header: h, Task: entry.NewRef("operator", fmt.Sprintf("task-%d", s.flow)), Op: entry.TaskAssign, Agent: s.agent})
	case draw < 250:
		return wrap(&entry.Checkpoint{Header: h})
	}
	x := &entry.Execution{Header: h}
	if s.flow%3 == 0 {
		x.Task = entry.NewRef("operator", fmt.Sprintf("task-%d", s.flow))
	}
	return wrap(x)
}

func (s *stream) take(n int) []*entry.Entry {
	all := make([]*entry.Entry, n)
	for i := range all {
		all[i] = s.next()
	}
	return all
}

// reference is the index by its definition: the record of every subject from scratch.
func reference(tb testing.TB, entries []*entry.Entry) (root merkle.Hash, subjects uint64) {
	tb.Helper()
	t := NewTree()
	for _, e := range entries {
		must(tb, t.Add(e))
	}
	root, err := t.Root()
	must(tb, err)
	return root, t.Subjects()
}

func open(tb testing.TB, fs vfs.FS, log *memLog, signs bool) *Index {
	tb.Helper()
	cfg := Config{Log: log, HeadAt: log.HeadAt, FS: fs}
	if signs {
		cfg.Submit = log.submit
	}
	x := New("index", cfg)
	must(tb, x.open())
	return x
}

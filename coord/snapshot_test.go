package coord

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
)

// populated returns a world with everything that a snapshot holds.
func populated(tb testing.TB) *world {
	tb.Helper()
	w := newWorld(tb)
	populate(w)
	return w
}

// withTasks registers tasks with everything that a snapshot holds of them.
func withTasks(w *world) {
	w.t.Helper()
	ref := w.create("held", retries(2), ofType("cook"))
	w.create("new")
	w.does("k", ref, entry.TaskAssign, "b")
	w.saved("b", ref)
	x := w.work("b", "work", ref, entry.EffectReversible)
	w.put(x)
	w.put(w.step(x, entry.Started))
	w.fails(ref)
	w.does("o", ref, entry.TaskRelease, "c")
	w.put(w.work("c", "more", ref, entry.EffectNone))
	w.put(w.signal("c", entry.StandingExecutor, ref))
	lost := w.create("lost", retries(2))
	w.does("k", lost, entry.TaskAssign, "b")
	w.saved("b", lost)
	w.fails(lost)
	w.does("k", lost, entry.TaskAssign, "c")
	w.fails(lost)
}

// TestSnapshotDependsOnEntriesOnly takes snapshots at every size along two
// histories, one of which is restored before every entry.
// Draft: AUD-1.
func TestSnapshotDependsOnEntriesOnly(t *testing.T) {
	w := populated(t)
	straight, resumed := NewState(origin), NewState(origin)
	for _, e := range w.log {
		straight.Apply(e.Entry, e.Index, e.RegisteredAt)
		resumed = restored(t, snapshot(t, resumed))
		must(t, resumed.Admit(e.Entry, e.Index, e.RegisteredAt))
		resumed.Apply(e.Entry, e.Index, e.RegisteredAt)
		if !bytes.Equal(snapshot(t, straight), snapshot(t, resumed)) {
			t.Fatalf("snapshots of %d entries differ", straight.Size())
		}
	}
	if !bytes.Equal(snapshot(t, straight), w.snapshot()) {
		t.Fatal("snapshot differs from that of the state that admitted")
	}
}

// TestRestoreRefusesChaos gives every prefix of a snapshot, every single byte
// changed, and bytes behind the end: a refusal, or a state whose snapshot is
// exactly what was read. A refusal leaves the state as it was.
func TestRestoreRefusesChaos(t *testing.T) {
	w, tasks := populated(t), newWorld(t)
	w.pipeline2()
	withTasks(tasks)
	restoreRefuses(t, w.snapshot(), 0)
	good, links := tasks.snapshot(), tasks.state.Chain().Links()
	last := links[len(links)-1].AppendLeaf(nil)
	restoreRefuses(t, good, bytes.Index(good, last)+len(last))
}

// restoreRefuses tries what begins to be wrong from a place on; in short, at every 29th.
func restoreRefuses(t *testing.T, good []byte, from int) {
	t.Helper()
	try := func(data []byte, what string, at int) {
		t.Helper()
		s := NewState(origin)
		before := snapshot(t, s)
		err := s.Restore(bytes.NewReader(data))
		switch {
		case err == nil && !bytes.Equal(snapshot(t, s), data):
			t.Fatalf("%s %d: restored, and its snapshot differs", what, at)
		case err != nil && !errors.Is(err, ErrSnapshot):
			t.Fatalf("%s %d: error %v", what, at, err)
		case err != nil && !bytes.Equal(snapshot(t, s), before):
			t.Fatalf("%s %d: refused, and the state changed", what, at)
		case err == nil && what != "byte":
			t.Fatalf("%s %d: restored", what, at)
		}
	}
	every := budget.Budget{Short: 29, Usual: 17, Chaos: 1}.Now()
	for size := from; size < len(good); size += every {
		try(good[:size], "prefix", size)
	}
	try(append(bytes.Clone(good), 0), "suffix", len(good))
	for i := from; i < len(good); i += every {
		bad := bytes.Clone(good)
		bad[i] ^= []byte{1, 0x80, 0xff}[i%3]
		try(bad, "byte", i)
	}
}

// TestRestoreRefusesWhatSnapshotNeverMakes gives spellings and orders that
// would otherwise be read.
func TestRestoreRefusesWhatSnapshotNeverMakes(t *testing.T) {
	w := populated(t)
	links := w.state.Chain().Links()
	// Where the index of the second link stands: before its length and its leaf.
	second := bytes.Index(w.snapshot(), links[1].AppendLeaf(nil)) - 3
	spelled := func(index ...byte) []byte {
		good := w.snapshot()
		return slices.Concat(good[:second], index, good[second+1:])
	}
	if err := NewState(origin).Restore(bytes.NewReader(spelled(1))); err != nil {
		t.Fatalf("the index does not stand there: %v", err)
	}
	w.put(w.signal("a", entry.StandingExecutor, "a#plan"))
	withTasks(w)
	spoilt := func(spoil func(s *State)) []byte {
		s := restored(t, w.snapshot())
		spoil(s)
		return snapshot(t, s)
	}
	older := bytes.Replace(w.snapshot(), []byte(snapshotMagic), []byte("coord state 16\n"), 1)
	if err := NewState(origin).Restore(bytes.NewReader(older)); err == nil || !strings.Contains(err.Error(), `it does not begin with "coord state 17\n"`) {
		t.Errorf("a snapshot of an older version: %v", err)
	}
	for what, data := range map[string][]byte{
		"a number with an empty last byte": spelled(0x81, 0),
		"a number of 65 bits":              spelled(0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2),
		"a number that never ends":         spelled(bytes.Repeat([]byte{0x81}, 20)...),
		"a link before the one before":     spelled(0),
		"two signals at one index":         spoilt(func(s *State) { s.signals[1].index = s.signals[0].index }),
		"two executions at one index":      spoilt(func(s *State) { s.graph.Node(1).First = s.graph.Node(0).First }),
		"two principals of one name":       spoilt(func(s *State) { copy(s.principals.Text(1), s.principals.Text(2)) }),
		"a checkpoint of no workflow":      spoilt(func(s *State) { s.graph.Line(s.graph.Checkpoint(0).Line).Workflow = 99 }),
		"a task without its claim":         spoilt(func(s *State) { s.tasks.list[0].Agent = "" }),
		"a failed task without failure":    spoilt(func(s *State) { s.tasks.list[2].failures = nil }),
		"a checkpoint of no task":          spoilt(func(s *State) { s.tasks.pointOf[s.graph.Checkpoints()-1] = 9 }),
		"a signal about no task":           spoilt(func(s *State) { s.signals[1].subject = taskBit | 9 }),
		"an incident without a signal":     spoilt(func(s *State) { s.incidents[0].signals = nil }),
		"an incident of no signal":         spoilt(func(s *State) { s.incidents[0].opened-- }),
		"a plan in force of nothing":       spoilt(func(s *State) { s.incidents[0].current = &decisionInForce{} }),
		"entries without a policy":         spoilt(func(s *State) { *s = *NewState(origin); s.tree.Add(merkle.Hash{}); s.size = 1 }),
	} {
		if err := NewState(origin).Restore(bytes.NewReader(data)); !errors.Is(err, ErrSnapshot) {
			t.Errorf("%s: error %v", what, err)
		}
	}
}

// TestRestoreOfAnotherLedger refuses a snapshot of another origin.
func TestRestoreOfAnotherLedger(t *testing.T) {
	w := populated(t)
	if err := NewState("ledger.example/other").Restore(bytes.NewReader(w.snapshot())); !errors.Is(err, ErrSnapshot) {
		t.Fatalf("error %v", err)
	}
}

// TestSnapshotErrors shows that errors of the reader and the writer come
// through.
func TestSnapshotErrors(t *testing.T) {
	w := populated(t)
	broken := errors.New("broken")
	data := io.MultiReader(bytes.NewReader(w.snapshot()[:100]), iotest.ErrReader(broken))
	if err := NewState(origin).Restore(data); !errors.Is(err, broken) || errors.Is(err, ErrSnapshot) {
		t.Errorf("restore: %v", err)
	}
	if err := w.state.Snapshot(brokenWriter{broken}); !errors.Is(err, broken) {
		t.Errorf("snapshot: %v", err)
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

// TestRestoreGoesOn shows that a restored state admits and refuses as the one
// that was saved: references, edges, lines, quotas and keys are all there.
func TestRestoreGoesOn(t *testing.T) {
	w := populated(t)
	old := w.put(w.signal("b", entry.StandingDownstream, "a#done"))
	w.state = restored(t, w.snapshot())
	w.refuse(w.sign(w.checkpoint("a", "cp", "a#done")), entry.StateConflict, "checkpoint")
	w.refuse(w.sign(w.checkpoint("a", "x", "")), entry.StateConflict, "after")
	w.refuse(w.sign(w.signal("c", entry.StandingDownstream, "a#done")), entry.NoStanding, "standing")
	again := w.signal("b", entry.StandingDownstream, "a#done")
	again.Supersedes = &old
	w.put(again)
	w.put(w.signal("a", entry.StandingUpstream, "b#use"))
	w.put(w.mail(entry.Confirmed))
	w.put(w.exec("c", "three", "c#one", "b#use"))
	w.checkAll()
}

// FuzzRestore feeds Restore with anything: it gives an error, or a state whose
// snapshot is exactly what was read.
func FuzzRestore(f *testing.F) {
	w := emptyWorld(f)
	f.Add(w.snapshot())
	w.put(w.genesis())
	f.Add(w.snapshot())
	f.Add(populated(f).snapshot())
	busy := newWorld(f)
	busy.pipeline()
	id := busy.put(busy.signal("a", entry.StandingExecutor, "a#make")).Index
	busy.decide("k", entry.ActContain, id)
	busy.decide("k", entry.ActEscalate, id)
	busy.put(busy.answer("p1", id, "approve"))
	f.Add(busy.snapshot())
	busy.next()
	busy.put(busy.compensation(id, "b#pay"))
	busy.put(busy.outcome("a", id, "a#make", entry.Restored))
	f.Add(busy.snapshot())
	withTasks(busy)
	f.Add(busy.snapshot())
	f.Fuzz(func(t *testing.T, data []byte) {
		s := NewState(origin)
		if err := s.Restore(bytes.NewReader(data)); err != nil {
			return
		}
		if !bytes.Equal(snapshot(t, s), data) {
			t.Fatal("restored, and its snapshot differs")
		}
	})
}

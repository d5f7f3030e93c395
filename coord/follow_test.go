package coord

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
)

// rolledBack is a log with an incident that is being carried out: one outcome is
// there.
func rolledBack(tb testing.TB) *world {
	tb.Helper()
	w := newWorld(tb)
	w.pipeline()
	id := w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
	w.decide("k", entry.ActContain, id)
	w.decide("k", entry.ActEscalate, id)
	w.put(w.answer("p1", id, "approve"))
	w.next()
	w.put(w.outcome("a", id, "a#make", entry.Restored))
	return w
}

func followed(tb testing.TB, log []entry.Registered) *Follower {
	tb.Helper()
	f := NewFollower(origin)
	report, err := f.Follow(tb.Context(), each(log), nil)
	must(tb, err)
	if report.Finding != nil {
		tb.Fatal(report.Finding.Refusal)
	}
	return f
}

// TestFollowerGoesOnAnywhere stops an audit behind every entry of a log and goes
// on in another follower.
func TestFollowerGoesOnAnywhere(t *testing.T) {
	w := rolledBack(t)
	for stop := range len(w.log) + 1 {
		w.checkFollower(stop)
	}
}

// TestOutcomesBy compares what a follower remembers of outcomes with the log.
func TestOutcomesBy(t *testing.T) {
	w := rolledBack(t)
	f := NewFollower(origin)
	must(t, f.Restore(bytes.NewReader(followerSnapshot(t, followed(t, w.log)))))
	total := 0
	for _, p := range []entry.Principal{"a", "b", "k", "nobody"} {
		var want []ReportedOutcome
		outcomes, indexes := every[*entry.Outcome](w)
		for i, o := range outcomes {
			if o.Iss == p {
				want = append(want, ReportedOutcome{indexes[i], o.Incident, o.Exec, o.Result})
			}
		}
		if got := f.OutcomesBy(p); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", p, got, want)
		}
		total += len(want)
	}
	if total == 0 {
		t.Error("the log has no outcome")
	}
}

// TestFollowerRestoreRefuses gives every prefix of a snapshot, every byte
// changed, and bytes behind the end: a refusal that leaves the follower as it
// was, or one whose snapshot is exactly what was read. In short it is every 17th prefix and byte.
func TestFollowerRestoreRefuses(t *testing.T) {
	good := followerSnapshot(t, followed(t, rolledBack(t).log))
	empty := followerSnapshot(t, NewFollower(origin))
	try := func(what string, at int, data []byte) {
		t.Helper()
		f := NewFollower(origin)
		err := f.Restore(bytes.NewReader(data))
		after := followerSnapshot(t, f)
		switch {
		case err == nil && (what != "byte" || !bytes.Equal(after, data)):
			t.Fatalf("%s %d: restored", what, at)
		case err != nil && !errors.Is(err, ErrSnapshot):
			t.Fatalf("%s %d: error %v", what, at, err)
		case err != nil && !bytes.Equal(after, empty):
			t.Fatalf("%s %d: refused, and the follower changed", what, at)
		}
	}
	every := budget.Budget{Short: 17, Usual: 1}.Now()
	for size := 0; size < len(good); size += every {
		try("prefix", size, good[:size])
	}
	try("suffix", len(good), append(bytes.Clone(good), 0))
	for i := 0; i < len(good); i += every {
		bad := bytes.Clone(good)
		bad[i] ^= []byte{1, 0x80, 0xff}[i%3]
		try("byte", i, bad)
	}
}

// TestFollowerRestoreRefusesWhatDoesNotFit gives followers whose parts are of
// different logs.
func TestFollowerRestoreRefusesWhatDoesNotFit(t *testing.T) {
	log := rolledBack(t).log
	for what, spoil := range map[string]func(f *Follower){
		"an identity less":         func(f *Follower) { f.identities = followed(t, log[:len(log)-1]).identities },
		"an identity twice":        func(f *Follower) { copy(f.identities.Text(1), f.identities.Text(2)) },
		"an unknown issuer":        func(f *Follower) { f.identities.Text(1)[0] = 1 },
		"a count too many":         func(f *Follower) { f.counts[entry.KindRun]++ },
		"an outcome less":          func(f *Follower) { f.outcomes = nil },
		"an outcome too late":      func(f *Follower) { f.outcomes[0].index = f.state.size },
		"an outcome of nobody":     func(f *Follower) { f.outcomes[0].issuer = 99 },
		"an outcome of no step":    func(f *Follower) { f.outcomes[0].exec = 99 },
		"an outcome before all":    func(f *Follower) { f.outcomes[0].incident = f.outcomes[0].index },
		"the state of another log": func(f *Follower) { f.state = NewState("ledger.example/other") },
	} {
		f := followed(t, log)
		spoil(f)
		if err := NewFollower(origin).Restore(bytes.NewReader(followerSnapshot(t, f))); !errors.Is(err, ErrSnapshot) {
			t.Errorf("%s: error %v", what, err)
		}
	}
}

// TestFollowerSnapshotErrors shows that errors of the writer come through, from
// either part.
func TestFollowerSnapshotErrors(t *testing.T) {
	broken := errors.New("broken")
	if err := followed(t, rolledBack(t).log).Snapshot(brokenWriter{broken}); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

// TestNode proves every entry with the nodes of the state's tree, and computes
// every head that the log has had from them.
func TestNode(t *testing.T) {
	w := populated(t)
	for len(w.log) < 2*tileSize+3 {
		w.apply(w.exec("a", w.header("a").JTI))
	}
	var hashes []merkle.Hash
	for _, e := range w.log {
		hashes = append(hashes, e.LeafHash())
	}
	size := uint64(len(hashes))
	newest := merkle.HeadOf(hashes)
	for i, leaf := range hashes {
		path, err := merkle.ProveInclusion(uint64(i), size, w.state.Node, nil)
		must(t, err)
		must(t, merkle.CheckInclusion(uint64(i), leaf, newest, path))
		frontier, err := merkle.NewFrontier(uint64(i), w.state.Node)
		must(t, err)
		older, err := frontier.Head()
		must(t, err)
		if want := merkle.HeadOf(hashes[:i]); older != want {
			t.Fatalf("head of size %d: %v, want %v", i, older, want)
		}
	}
	for _, outside := range []struct {
		level uint
		index uint64
	}{{0, size}, {1, size / 2}, {9, 1}, {10, 0}, {64, 0}, {200, 0}} {
		if got, err := w.state.Node(outside.level, outside.index); err == nil {
			t.Errorf("node %v of a tree of %d entries: %v", outside, size, got)
		}
	}
}

// FuzzFollowerRestore feeds Restore with anything: it gives an error, or a
// follower whose snapshot is exactly what was read.
func FuzzFollowerRestore(f *testing.F) {
	log := rolledBack(f).log
	for _, size := range []int{0, 1, len(log) / 2, len(log)} {
		f.Add(followerSnapshot(f, followed(f, log[:size])))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		one := NewFollower(origin)
		if err := one.Restore(bytes.NewReader(data)); err == nil && !bytes.Equal(followerSnapshot(t, one), data) {
			t.Fatal("restored, and its snapshot differs")
		}
	})
}

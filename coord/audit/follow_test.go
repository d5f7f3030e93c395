package audit

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/testlog"
)

const origin = testlog.Origin

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// rolledBack is a log with an incident that is being carried out: outcomes of two
// agents are there, of several kinds.
func rolledBack(tb testing.TB) *foldlog.Log {
	tb.Helper()
	l := foldlog.New(tb)
	l.Put("a", &entry.Checkpoint{Checkpoint: "cp", Digest: foldlog.Digest("1")})
	l.Do("a", "make", entry.EffectReversible)
	l.Do("b", "pay", entry.EffectCompensable, "a#make")
	l.Do("b", "use", entry.EffectNone, "b#pay")
	l.Put("c", foldlog.Execution("plan", entry.EffectNone))
	id := l.Signal("a", "a#make")
	l.Decide(id, entry.ActContain)
	l.Approve(id)
	l.Compensate(id, "b#pay")
	l.Outcome(id, "a#make", entry.Restored)
	return l
}

// each yields the entries as a store would: decoded anew.
func each(log []entry.Registered) iter.Seq2[entry.Registered, error] {
	return func(yield func(entry.Registered, error) bool) {
		for _, e := range log {
			decoded, at, err := entry.DecodeLeaf(e.AppendLeaf(nil))
			if !yield(entry.Registered{Entry: decoded, Index: e.Index, RegisteredAt: at}, err) {
				return
			}
		}
	}
}

// follow audits a log from its first entry on.
func follow(tb testing.TB, log []entry.Registered) Report {
	tb.Helper()
	report, err := NewFollower(origin).Follow(tb.Context(), each(log), nil)
	must(tb, err)
	return report
}

// followed returns the follower of a log in which nothing is found.
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

func followerSnapshot(tb testing.TB, f *Follower) []byte {
	tb.Helper()
	var out bytes.Buffer
	must(tb, f.Snapshot(&out))
	return out.Bytes()
}

// TestFollowerGoesOnAnywhere stops an audit behind every entry of a log and goes
// on in another follower.
func TestFollowerGoesOnAnywhere(t *testing.T) {
	log := rolledBack(t).Entries
	straight := followerSnapshot(t, followed(t, log))
	for stop := range len(log) + 1 {
		f := NewFollower(origin)
		must(t, f.Restore(bytes.NewReader(followerSnapshot(t, followed(t, log[:stop])))))
		report, err := f.Follow(t.Context(), each(log[stop:]), nil)
		must(t, err)
		if report.Finding != nil || report.Size != uint64(len(log)) || !bytes.Equal(followerSnapshot(t, f), straight) {
			t.Fatalf("an audit that went on after %d entries differs: %+v", stop, report)
		}
	}
}

// TestOutcomesBy compares what a follower remembers of outcomes with the log.
func TestOutcomesBy(t *testing.T) {
	log := rolledBack(t).Entries
	f := NewFollower(origin)
	must(t, f.Restore(bytes.NewReader(followerSnapshot(t, followed(t, log)))))
	total := 0
	for _, p := range []entry.Principal{"a", "b", "k", "nobody"} {
		var want []ReportedOutcome
		for _, e := range log {
			if o, ok := e.Body.(*entry.Outcome); ok && o.Iss == p {
				want = append(want, ReportedOutcome{e.Index, o.Incident, o.Exec, o.Result})
			}
		}
		if got := f.OutcomesBy(p); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", p, got, want)
		}
		total += len(want)
	}
	if total < 2 {
		t.Errorf("the log has %d outcomes", total)
	}
}

// TestHistory reads the histories of principals with the outcomes that they reported, whole and
// behind an index, and the entries that prove them. A principal that was only enrolled has an empty
// history. A principal that the log does not know has none.
func TestHistory(t *testing.T) {
	log := rolledBack(t)
	todo, _ := log.State.Next(log.At)
	for _, body := range todo {
		log.Put("k", body) // the record
	}
	f := followed(t, log.Entries)
	last := log.Entries[len(log.Entries)-1].Index
	for _, c := range []struct {
		by              entry.Principal
		after           *uint64
		known           bool
		members, report int
		closed          bool // whether the record is among the proof
	}{
		{by: "a", known: true, members: 1, report: 1, closed: true},
		{by: "b", known: true, members: 2, report: 1, closed: true},
		{by: "b", after: new(uint64(0)), known: true, members: 2, report: 1, closed: true},
		{by: "b", after: &last, known: true},
		{by: "k", known: true, closed: true},
		{by: "o", known: true},
		{by: "nobody"},
	} {
		h, proof, known := f.History(c.by, c.after, log.At)
		if known != c.known || known && h.Principal != c.by || len(h.Memberships) != c.members || len(h.Outcomes) != c.report {
			t.Errorf("%s: %t, %+v", c.by, known, h)
		}
		if policy, _ := f.State().Chain().Policy(); known && h.SignalLimit != policy.Quotas.Signals(h.Independent, h.Dismissed) {
			t.Errorf("%s: %d signals an hour", c.by, h.SignalLimit)
		}
		kinds := map[entry.Kind]int{}
		for _, index := range proof {
			kinds[log.Entries[index].Kind]++
		}
		if kinds[entry.KindRecord] > 0 != c.closed || kinds[entry.KindOutcome] < c.report || !slices.IsSorted(proof) {
			t.Errorf("%s: proven by %v: %v", c.by, proof, kinds)
		}
		for _, o := range h.Outcomes {
			if !slices.Contains(f.OutcomesBy(c.by), ReportedOutcome{o.Index, o.Incident, o.Exec, o.Result}) {
				t.Errorf("%s reported no outcome %+v", c.by, o)
			}
		}
	}
}

// TestFollowerRestoreRefusesChaos gives prefixes of a snapshot, bytes changed, and bytes
// behind the end: a refusal that leaves the follower as it was, or one whose snapshot is
// exactly what was read. It is every fifth prefix and byte, in short every 17th, with
// ARL_CHAOS each.
func TestFollowerRestoreRefusesChaos(t *testing.T) {
	good := followerSnapshot(t, followed(t, rolledBack(t).Entries))
	empty := followerSnapshot(t, NewFollower(origin))
	try := func(what string, at int, data []byte) {
		t.Helper()
		f := NewFollower(origin)
		err := f.Restore(bytes.NewReader(data))
		after := followerSnapshot(t, f)
		switch {
		case err == nil && (what != "byte" || !bytes.Equal(after, data)):
			t.Fatalf("%s %d: restored", what, at)
		case err != nil && !errors.Is(err, coord.ErrSnapshot):
			t.Fatalf("%s %d: error %v", what, at, err)
		case err != nil && !bytes.Equal(after, empty):
			t.Fatalf("%s %d: refused, and the follower changed", what, at)
		}
	}
	every := budget.Budget{Short: 17, Usual: 5, Chaos: 1}.Now()
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
	log := rolledBack(t).Entries
	for what, spoil := range map[string]func(f *Follower){
		"an identity less":         func(f *Follower) { f.identities = followed(t, log[:len(log)-1]).identities },
		"an identity twice":        func(f *Follower) { copy(f.identities.Text(1), f.identities.Text(2)) },
		"an unknown issuer":        func(f *Follower) { f.identities.Text(1)[0] = 1 },
		"a count too many":         func(f *Follower) { f.counts[entry.KindRun]++ },
		"an outcome less":          func(f *Follower) { f.outcomes = nil },
		"an outcome too late":      func(f *Follower) { f.outcomes[0].index = f.state.Size() },
		"an outcome of nobody":     func(f *Follower) { f.outcomes[0].issuer = 99 },
		"an outcome of no step":    func(f *Follower) { f.outcomes[0].exec = 99 },
		"an outcome before all":    func(f *Follower) { f.outcomes[0].incident = f.outcomes[0].index },
		"the state of another log": func(f *Follower) { f.state = coord.NewState("ledger.example/other") },
	} {
		f := followed(t, log)
		spoil(f)
		if err := NewFollower(origin).Restore(bytes.NewReader(followerSnapshot(t, f))); !errors.Is(err, coord.ErrSnapshot) {
			t.Errorf("%s: error %v", what, err)
		}
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

// TestFollowerSnapshotErrors shows that errors of the writer come through, from
// either part.
func TestFollowerSnapshotErrors(t *testing.T) {
	broken := errors.New("broken")
	if err := followed(t, rolledBack(t).Entries).Snapshot(brokenWriter{broken}); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

// FuzzFollowerRestore feeds Restore with anything: it gives an error, or a
// follower whose snapshot is exactly what was read.
func FuzzFollowerRestore(f *testing.F) {
	log := rolledBack(f).Entries
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

// TestReport counts what it read, over several batches.
func TestReport(t *testing.T) {
	l := foldlog.New(t)
	for i := range 2 * batchSize {
		l.Put("a", foldlog.Execution(fmt.Sprint("x", i), entry.EffectNone))
	}
	var progress []uint64
	report, err := NewFollower(origin).Follow(t.Context(), each(l.Entries), func(size uint64) { progress = append(progress, size) })
	must(t, err)
	if report.Finding != nil || report.Size != uint64(len(l.Entries)) {
		t.Fatalf("report %+v", report)
	}
	if want := []uint64{batchSize, 2 * batchSize, report.Size}; !slices.Equal(progress, want) {
		t.Errorf("progress %v, want %v", progress, want)
	}
	for _, kind := range report.Kinds {
		count := uint64(0)
		for _, e := range l.Entries {
			if e.Kind == kind.Kind {
				count++
			}
		}
		if kind.Count != count {
			t.Errorf("%d of kind %s, want %d", kind.Count, kind.Kind, count)
		}
	}
}

// then yields the entries and an error behind them.
func then(log []entry.Registered, err error) iter.Seq2[entry.Registered, error] {
	return func(yield func(entry.Registered, error) bool) {
		for e, err := range each(log) {
			if !yield(e, err) {
				return
			}
		}
		yield(entry.Registered{}, err)
	}
}

// TestFollowUnreadableLogs tells an entry that is none (REG-1) from a log that cannot
// be read, and a finding before it from both.
func TestFollowUnreadableLogs(t *testing.T) {
	l := rolledBack(t)
	size := uint64(len(l.Entries))
	_, malformed := entry.Decode([]byte("{}"))
	report, err := NewFollower(origin).Follow(t.Context(), then(l.Entries, malformed), nil)
	must(t, err)
	if f := report.Finding; f == nil || f.Index != size || f.Refusal.Problem != entry.Malformed {
		t.Errorf("finding %+v", f)
	}
	broken := errors.New("broken disk")
	if report, err = NewFollower(origin).Follow(t.Context(), then(l.Entries, broken), nil); !errors.Is(err, broken) || report.Size != size {
		t.Errorf("error %v after %d", err, report.Size)
	}
	l.Forge(l.Sign("stranger", foldlog.Execution("x", entry.EffectNone)))
	report, err = NewFollower(origin).Follow(t.Context(), then(l.Entries, broken), nil)
	must(t, err)
	if f := report.Finding; f == nil || f.Index != size {
		t.Errorf("finding %+v", f)
	}
	gap := slices.Delete(slices.Clone(l.Entries), 3, 4)
	if report, err = NewFollower(origin).Follow(t.Context(), each(gap), nil); err == nil || report.Finding != nil || report.Size != 3 {
		t.Errorf("error %v, report %+v", err, report)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = NewFollower(origin).Follow(ctx, each(rolledBack(t).Entries), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestFollowTellsEquivocation shows that only a payload that a key of its issuer signed is called
// so.
func TestFollowTellsEquivocation(t *testing.T) {
	l := foldlog.New(t)
	x := foldlog.Execution("x", entry.EffectNone)
	l.Put("a", x)
	for _, c := range []struct {
		signer, keyOf entry.Principal
		want          string
	}{{"a", "a", ": its issuer equivocated"}, {"b", "a", "with another payload"}, {"b", "b", "with another payload"}} {
		y := foldlog.Execution("y", entry.EffectNone)
		y.Header = x.Header
		e := l.Key(c.signer).Sign(t, y)
		e.Seal(l.Key(c.keyOf).Public.KeyID(), e.Sig)
		log := append(slices.Clone(l.Entries), entry.Registered{Entry: e, Index: uint64(len(l.Entries)), RegisteredAt: l.At})
		report := follow(t, log)
		if report.Finding == nil || !strings.HasSuffix(report.Finding.Refusal.Detail, c.want) {
			t.Errorf("signed by %s with the key id of %s: %+v", c.signer, c.keyOf, report.Finding)
		}
	}
}

// BenchmarkFollowerRestore reads the follower of many executions.
func BenchmarkFollowerRestore(b *testing.B) {
	const size = 1 << 17
	l := foldlog.New(b)
	f := followed(b, l.Entries)
	key := l.Key("a").Public.KeyID()
	for i := range size {
		x := foldlog.Execution(uuid.NewSHA1(uuid.Nil, binary.AppendUvarint(nil, uint64(i))).String(), entry.EffectNone)
		x.Header = l.Work("a")
		e, err := entry.New(x)
		must(b, err)
		e.Seal(key, make([]byte, ed25519.SignatureSize))
		e.SignatureChecked = true
		must(b, f.take(b.Context(), []entry.Registered{{Entry: e, Index: f.state.Size(), RegisteredAt: l.At}}))
	}
	var data bytes.Buffer
	must(b, f.Snapshot(&data))
	b.ReportMetric(float64(data.Len())/size, "B/execution")
	for b.Loop() {
		must(b, NewFollower(origin).Restore(bytes.NewReader(data.Bytes())))
	}
}

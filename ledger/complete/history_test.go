package complete

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// signedLog is a log whose entries and heads are signed.
type signedLog struct{ *testlog.Log }

// Size implements [Log].
func (l signedLog) Size() uint64 { return uint64(len(l.Leaves)) }

// Wait implements [Log].
func (l signedLog) Wait(context.Context, uint64) error { return nil }

// Entry implements [Proofs].
func (l signedLog) Entry(index uint64) (*entry.Registered, error) {
	e, at, err := entry.DecodeLeaf(l.Leaves[index])
	return &entry.Registered{Entry: e, Index: index, RegisteredAt: at}, err
}

// Entries implements [Log].
func (l signedLog) Entries(_ context.Context, from, to uint64) iter.Seq2[*entry.Registered, error] {
	return func(yield func(*entry.Registered, error) bool) {
		for i := from; i < to; i++ {
			if !yield(l.Entry(i)) {
				return
			}
		}
	}
}

// IndexEntry implements [Log].
func (l signedLog) IndexEntry(from uint64) (*entry.Registered, error) {
	for i := from; i < l.Size(); i++ {
		if e, err := l.Entry(i); err != nil || e.Kind == entry.KindIndex {
			return e, err
		}
	}
	return nil, nil
}

// Inclusions implements [Proofs].
func (l signedLog) Inclusions(indexes []uint64, size uint64) ([]merkle.Hash, error) {
	return merkle.ProveInclusions(indexes, size, l.Node)
}

// head returns the signed head of a size.
// HeadAt is of [Config].
func (l signedLog) HeadAt(size uint64) (merkle.Head, error) { return l.Head(int(size)), nil }

func (l signedLog) head(size uint64) verify.SignedHead {
	return verify.SignedHead{Head: l.Head(int(size)), Note: l.Signed(int(size))}
}

// busyLog is a log with a coordinator, an agent with some executions and a colleague
// that was revoked; and its index, of which the coordinator writes entries.
func busyLog(tb testing.TB, executions int) (signedLog, *Index) {
	tb.Helper()
	l := signedLog{testlog.New(tb)}
	authority, coordinator := testlog.NewKey(tb, "authority", "authority"), testlog.NewKey(tb, "coordinator", "coordinator")
	agent, colleague := testlog.NewKey(tb, "agent", "agent"), testlog.NewKey(tb, "colleague", "colleague")
	l.Add(authority.Sign(tb, l.Policy(authority, authority)))
	for k, role := range map[*testlog.Key]entry.Role{&coordinator: entry.RoleCoordinator, &agent: entry.RoleAgent, &colleague: entry.RoleAgent} {
		l.Add(authority.Sign(tb, l.Agent(authority, entry.Enrol, *k, role)))
	}
	for i := range executions {
		if i%10 == 0 {
			l.Add(colleague.Sign(tb, l.Execution(colleague)))
		}
		l.Add(agent.Sign(tb, l.Execution(agent)))
	}
	l.Add(authority.Sign(tb, l.Agent(authority, entry.Revoke, colleague, entry.RoleAgent)))
	x := New("index", Config{Log: l, HeadAt: l.HeadAt, FS: vfs.NewMem(), Submit: func(_ context.Context, own *entry.LogIndex) error {
		l.Add(agent.Sign(tb, l.Execution(agent))) // which came between
		own.Header = l.Header(coordinator.Principal)
		l.Add(coordinator.Sign(tb, own))
		return nil
	}})
	must(tb, x.open())
	must(tb, x.step(tb.Context()))
	for range 5 {
		l.Add(agent.Sign(tb, l.Execution(agent)))
	}
	return l, x
}

func subject(of entry.SubjectType, value string) entry.Subject {
	return entry.Subject{Type: of, Value: value}
}

// TestHistory makes histories of subjects that are there and one that is not, at sizes
// before and behind what the index covers, in one piece and in pages, and has each
// verified against the pinned root and the definition.
func TestHistory(t *testing.T) {
	l, x := busyLog(t, 150)
	size := l.Size()
	for _, s := range []entry.Subject{subject(entry.SubjectAgent, "agent"), subject(entry.SubjectAgent, "colleague"),
		subject(entry.SubjectAgent, "nobody"), subject(entry.SubjectLog, ""), subject(entry.SubjectIncident, "7")} {
		for _, q := range []Question{{}, {Size: 40}, {From: 30, Size: size - 2}, {From: size - 3}, {Limit: 7}, {From: 20, Limit: 64},
			{Labels: entry.Labels(s.Type)[:1]}, {Size: x.Status().Size}} {
			q.Subject = s
			checkHistory(t, l, x, q)
		}
	}
	must(t, x.close(true))
}

// checkHistory goes through the pages of a question.
func checkHistory(t *testing.T, l signedLog, x *Index, q Question) {
	t.Helper()
	want := expected(t, l, q)
	var got []uint64
	end := q.Size
	if end == 0 {
		end = l.Size()
	}
	for from := q.From; from < end; {
		page := q
		page.From = from
		h, err := x.History(t.Context(), page, l.head(l.Size()), l.Chain(), l)
		must(t, err)
		data, err := h.Encode()
		must(t, err)
		h, err = verify.DecodeHistory(data)
		must(t, err)
		questions := []verify.Question{{Subject: q.Subject, From: from}}
		if len(q.Labels) > 0 {
			questions[0].Label = q.Labels[0]
		}
		report, err := l.Root.Verify(verify.Material{Histories: []*verify.History{h}, Questions: questions})
		must(t, err)
		if len(report.Missing) > 0 || len(report.Answers) != 1 {
			t.Fatalf("%+v: missing %v, answers %v", page, report.Missing, report.Answers)
		}
		got = append(got, report.Answers[0].Entries...)
		if from = h.Size; q.Limit == 0 && from != end {
			t.Fatalf("%+v: it ends at %d", page, h.Size)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v: entries %v, want %v", q, got, want)
	}
}

// expected answers a question by looking at every entry.
func expected(t *testing.T, l signedLog, q Question) (want []uint64) {
	t.Helper()
	for i := range l.Size() {
		e, err := l.Entry(i)
		must(t, err)
		for _, listing := range e.Subjects(i) {
			labelled := len(q.Labels) == 0 || slices.Contains(q.Labels, listing.Label)
			if listing.Subject == q.Subject && labelled && i >= q.From && (q.Size == 0 || i < q.Size) {
				want = append(want, i)
			}
		}
	}
	return want
}

// TestHistoryRefuses: questions that no log answers, heads that are too old, and a
// tail that is too long.
func TestHistoryRefuses(t *testing.T) {
	l, x := busyLog(t, 150)
	good := Question{Subject: subject(entry.SubjectAgent, "agent")}
	for name, c := range map[string]struct {
		change func(*Question)
		field  string
	}{
		"no subject":   {func(q *Question) { q.Subject.Value = "a b" }, "subject"},
		"no type":      {func(q *Question) { q.Subject.Type = "team" }, "subject"},
		"no label":     {func(q *Question) { q.Labels = []entry.Label{"agent/revoke<", "revoked"} }, "labels"},
		"beyond":       {func(q *Question) { q.Size = l.Size() + 1 }, "size"},
		"since behind": {func(q *Question) { q.From, q.Size = 9, 9 }, "since"},
	} {
		q := good
		c.change(&q)
		_, err := x.History(t.Context(), q, l.head(l.Size()), l.Chain(), l)
		if refusal, ok := errors.AsType[*entry.Refusal](err); !ok || refusal.Field != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := x.History(t.Context(), good, l.head(x.Status().Size), l.Chain(), l); !errors.Is(err, ErrNotReady) {
		t.Errorf("under a head without the index entry: %v", err)
	}
	for range TailMax {
		l.AddLeaf(l.Leaves[len(l.Leaves)-1])
	}
	if _, err := x.History(t.Context(), good, verify.SignedHead{Head: merkle.Head{Size: l.Size()}}, l.Chain(), l); !errors.Is(err, ErrNotReady) {
		t.Errorf("with a tail of more than %d entries: %v", TailMax, err)
	}
	must(t, x.close(true))
}

// TestReadIndexes holds the stored form of indexes to its one spelling.
func TestReadIndexes(t *testing.T) {
	for text, count := range map[string]int{"": 0, "\x05": 1, "\x05\x01": 2, "\x00\x01\x01": 3} {
		if _, err := readIndexes([]byte(text), count); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		for _, other := range []int{count - 1, count + 1} {
			if _, err := readIndexes([]byte(text), max(other, 0)); err == nil && other >= 0 {
				t.Errorf("%q is taken as %d indexes", text, other)
			}
		}
	}
	if _, err := readIndexes([]byte("\x05\x00"), 2); err == nil {
		t.Error("an index twice")
	}
	if _, err := readIndexes([]byte("\x80"), 1); err == nil {
		t.Error("half a number")
	}
}

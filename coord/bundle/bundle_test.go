package bundle_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/coord"
	assemble "recoveryledger/coord/bundle"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// served is a log as bundles are made from it.
type served struct{ *foldlog.Log }

func (l served) View(f func(s *coord.State, head verify.SignedHead, chain *verify.Chain)) {
	size := len(l.Leaves)
	f(l.State, verify.SignedHead{Head: l.Head(size), Note: l.Signed(size)}, l.State.Chain())
}

func (l served) Entry(index uint64) (*entry.Registered, error) { return &l.Entries[index], nil }

func (l served) Inclusions(indexes []uint64, size uint64) ([]merkle.Hash, error) {
	return merkle.ProveInclusions(indexes, size, l.State.Node)
}

func (l served) Consistency(older, newer uint64) ([]merkle.Hash, error) {
	return merkle.ProveConsistency(older, newer, l.State.Node)
}

// booked is a log in which a made something that b built upon and c used, and what a
// made is reported as failed.
func booked(tb testing.TB) (l *foldlog.Log, incident uint64) {
	tb.Helper()
	l = foldlog.New(tb)
	l.Put("a", &entry.Checkpoint{Checkpoint: "cp", Digest: foldlog.Digest("1")})
	l.Do("a", "make", entry.EffectReversible)
	l.Do("a", "book", entry.EffectCompensable, "a#make")
	l.Do("b", "pay", entry.EffectCompensable, "a#book")
	l.Do("b", "mail", entry.EffectIrrevocable, "b#pay")
	l.Do("c", "use", entry.EffectNone, "b#pay")
	return l, l.Signal("a", "a#make")
}

// made makes a bundle, checks it as an agent that accepted something before, and returns
// what it tells the agent to do.
func made(tb testing.TB, l *foldlog.Log, q api.BundleQuery, accepted bundle.Accepted) (m *assemble.Made, v bundle.Verdict) {
	tb.Helper()
	accepted.Root, accepted.Agent = l.Root, q.Agent
	q.From = accepted.Size()
	if q.Limit == 0 {
		q.Limit = 100
	}
	m, err := new(assemble.Maker).Make(served{l}, nil, q)
	must(tb, err)
	decoded, err := bundle.Decode(m.Data)
	must(tb, err)
	v, err = decoded.Check(accepted, l.At)
	must(tb, err)
	return m, v
}

// described says what commands tell: what is undone how, by which steps, with which
// result, and what it waits for.
func described(commands []bundle.Command) (list []string) {
	for i := range commands {
		c := &commands[i]
		var chain []string
		for _, step := range c.Chain {
			chain = append(chain, step.Rule)
		}
		list = append(list, fmt.Sprintf("%s %s by %s: %s %v", c.Exec, c.Method, strings.Join(chain, ","), c.Result, c.Waits))
	}
	slices.Sort(list)
	return list
}

func (l served) tells(tb testing.TB, incident uint64, agent entry.Principal, want ...string) {
	tb.Helper()
	_, v := made(tb, l.Log, api.BundleQuery{Incident: incident, Agent: agent}, bundle.Accepted{})
	if got := described(v.Commands); !slices.Equal(got, want) {
		tb.Errorf("%s is told\n%s\nwant\n%s", agent, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestMakeTellsEachAgent follows an incident to its end, and looks at what each agent is
// told on the way.
func TestMakeTellsEachAgent(t *testing.T) {
	l, id := booked(t)
	all := served{l}
	all.tells(t, id, "a") // nothing is authorized
	l.Approve(id)
	all.tells(t, id, "a", "a#book compensate by SCO-3,SCO-1:  [b#pay]", "a#make restore by SCO-3:  [a#book]")
	all.tells(t, id, "b", "b#mail residual by SCO-3,SCO-1,SCO-1,SCO-1:  []", "b#pay compensate by SCO-3,SCO-1,SCO-1:  []")
	all.tells(t, id, "c", "c#use none by SCO-3,SCO-1,SCO-1,SCO-1:  []")
	l.Outcome(id, "b#mail", entry.ResultIrrevocable)
	l.Compensate(id, "b#pay")
	all.tells(t, id, "b", "b#mail residual by SCO-3,SCO-1,SCO-1,SCO-1: irrevocable []",
		"b#pay compensate by SCO-3,SCO-1,SCO-1: compensated []")
	all.tells(t, id, "a", "a#book compensate by SCO-3,SCO-1:  []", "a#make restore by SCO-3:  [a#book]")
	l.Compensate(id, "a#book")
	l.Outcome(id, "a#make", entry.Restored)
	all.tells(t, id, "a", "a#book compensate by SCO-3,SCO-1: compensated []", "a#make restore by SCO-3: restored []")
}

// TestMakeShowsOverride withholds what is left: a bundle shows the override, and tells
// nobody to do anything.
func TestMakeShowsOverride(t *testing.T) {
	l, id := booked(t)
	l.Approve(id)
	before, _ := made(t, l, api.BundleQuery{Incident: id, Agent: "b"}, bundle.Accepted{})
	l.Put("o", override(t, l, id))
	index := l.State.Size() - 1
	m, v := made(t, l, api.BundleQuery{Incident: id, Agent: "b"}, bundle.Accepted{})
	shown := slices.ContainsFunc(m.Bundle.Entries, func(leaf bundle.Leaf) bool { return leaf.Index == index })
	if before.Bundle.Decision == 0 || m.Bundle.Decision != 0 || len(v.Commands) != 0 || !shown {
		t.Errorf("decision %d, commands %v, override shown: %v", m.Bundle.Decision, v.Commands, shown)
	}
}

func override(tb testing.TB, l *foldlog.Log, incident uint64) *entry.Decision {
	tb.Helper()
	d, err := l.State.Draft(coord.Order{Incident: incident, Act: entry.ActOverride, Reason: "test"}, l.At+1000)
	must(tb, err)
	return d
}

// TestMakePages asks for one member at a time, as an agent that accepted the page before.
// Every page has proofs of its own, and together they have all members once.
func TestMakePages(t *testing.T) {
	l := foldlog.New(t)
	l.Do("a", "make", entry.EffectCompensable)
	var want []entry.Ref
	for i := range 5 {
		id := fmt.Sprint("pay", i)
		l.Do("b", id, entry.EffectCompensable, "a#make")
		want = append(want, entry.NewRef("b", id))
	}
	id := l.Signal("a", "a#make")
	l.Approve(id)
	var told []entry.Ref
	accepted, q := bundle.Accepted{}, api.BundleQuery{Incident: id, Agent: "b", Limit: 2}
	for pages := 1; ; pages++ {
		m, v := made(t, l, q, accepted)
		if accepted = v.Next; len(v.Commands) > 2 || m.Size != uint64(len(l.Leaves)) {
			t.Fatalf("page %d: %d commands of the log of %d entries", pages, len(v.Commands), m.Size)
		}
		for i := range v.Commands {
			told = append(told, v.Commands[i].Exec)
		}
		if q.After = m.Next; q.After == 0 {
			break
		}
	}
	if slices.Sort(told); !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}

// TestMakeNews asks for what an agent is to know beside incidents: one entry after the
// other, and nothing once all is accepted.
func TestMakeNews(t *testing.T) {
	l, _ := booked(t)
	_, v := made(t, l, api.BundleQuery{Agent: "a"}, bundle.Accepted{})
	accepted := v.Next
	l.Enrol("monitor", entry.RoleMonitor)
	index := l.State.Size() - 1
	m, v := made(t, l, api.BundleQuery{Agent: "a"}, accepted)
	if len(m.Bundle.Consistency) == 0 || m.Bundle.Entries[len(m.Bundle.Entries)-1].Index != index {
		t.Errorf("news %+v, want entry %d", m.Bundle.Entries, index)
	}
	if m, _ = made(t, l, api.BundleQuery{Agent: "a"}, v.Next); len(m.Bundle.Entries) != 0 {
		t.Errorf("news again: %+v", m.Bundle.Entries)
	}
}

// TestMakeRefuses asks for what there is no bundle of.
func TestMakeRefuses(t *testing.T) {
	l, id := booked(t)
	l.Approve(id)
	for _, c := range []struct {
		name  string
		query api.BundleQuery
		field string
	}{
		{"no incident", api.BundleQuery{Incident: id + 1, Agent: "a"}, "id"},
		{"nobody", api.BundleQuery{Incident: id, Agent: "nobody"}, "agent"},
		{"more members than there are", api.BundleQuery{Incident: id, Agent: "a", After: 2}, "after"},
		{"a longer log", api.BundleQuery{Incident: id, Agent: "a", From: l.State.Size() + 1}, "from"},
	} {
		c.query.Limit = 10
		_, err := new(assemble.Maker).Make(served{l}, nil, c.query)
		refusal, ok := errors.AsType[*entry.Refusal](err)
		if !ok || refusal.Problem != entry.NotFound || refusal.Field != c.field {
			t.Errorf("%s: %v, want %s at %q", c.name, err, entry.NotFound, c.field)
		}
	}
}

// brokenLog has a view and no proofs.
type brokenLog struct {
	served
	err error
}

func (l brokenLog) Inclusions([]uint64, uint64) ([]merkle.Hash, error) { return nil, l.err }

// TestMakeErrors shows that an error of the log comes through.
func TestMakeErrors(t *testing.T) {
	l, id := booked(t)
	l.Approve(id)
	broken := errors.New("broken disk")
	_, err := new(assemble.Maker).Make(brokenLog{served{l}, broken}, nil, api.BundleQuery{Incident: id, Agent: "a", Limit: 10})
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

// TestMakerKeepsTrees asks one maker about two incidents by turns.
func TestMakerKeepsTrees(t *testing.T) {
	l := foldlog.New(t)
	var incidents []uint64
	for i := range 2 {
		id := fmt.Sprint("make", i)
		l.Do("a", id, entry.EffectCompensable)
		incidents = append(incidents, l.Signal("a", entry.NewRef("a", id)))
		l.Approve(incidents[i])
	}
	var maker assemble.Maker
	for _, id := range []uint64{incidents[0], incidents[1], incidents[0]} {
		m, err := maker.Make(served{l}, nil, api.BundleQuery{Incident: id, Agent: "a", Limit: 10})
		must(t, err)
		if _, err := m.Bundle.Check(bundle.Accepted{Root: l.Root, Agent: "a"}, l.At); err != nil {
			t.Errorf("incident %d: %v", id, err)
		}
	}
}

// TestMakeUnder has a bundle stand under another head than that of its view: an older one
// that covers all that it shows, and a newer view where it had to wait for one. It never
// stands under a head that it is not covered by.
func TestMakeUnder(t *testing.T) {
	l, id := booked(t)
	l.Approve(id)
	decided := uint64(len(l.Leaves))
	l.Do("c", "later", entry.EffectNone) // which concerns nobody of the incident
	whole := uint64(len(l.Leaves))
	var leasts []uint64
	under := func(asked int, size uint64) assemble.Under {
		return func(at verify.SignedHead, least, _ uint64) (verify.SignedHead, bool, error) {
			leasts = append(leasts, least)
			if asked--; asked >= 0 {
				return verify.SignedHead{}, true, nil
			}
			return verify.SignedHead{Head: l.Head(int(size)), Note: l.Signed(int(size))}, false, nil
		}
	}
	for _, size := range []uint64{decided, whole} {
		m, err := new(assemble.Maker).Make(served{l}, &assemble.Terms{Under: under(2, size)}, api.BundleQuery{Incident: id, Agent: "b", Limit: 10})
		must(t, err)
		if m.Size != size || m.Bundle.Head != l.Signed(int(size)) {
			t.Errorf("under a head of %d entries, want %d", m.Size, size)
		}
		if _, err := m.Bundle.Check(bundle.Accepted{Root: l.Root, Agent: "b"}, l.At); err != nil {
			t.Errorf("under %d: %v", size, err)
		}
	}
	if len(leasts) != 6 || leasts[0] != decided || leasts[5] != decided {
		t.Errorf("asked for heads of at least %v entries, want %d", leasts, decided)
	}
	refused := entry.Refuse(entry.NotReady, "", "no head")
	_, err := new(assemble.Maker).Make(served{l}, &assemble.Terms{Under: func(verify.SignedHead, uint64, uint64) (verify.SignedHead, bool, error) {
		return verify.SignedHead{}, false, refused
	}}, api.BundleQuery{Incident: id, Agent: "b", Limit: 10})
	if !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
	_, err = new(assemble.Maker).Make(served{l}, &assemble.Terms{Under: func(_ verify.SignedHead, least, _ uint64) (verify.SignedHead, bool, error) {
		if least != whole {
			t.Errorf("from %d: a head of at least %d", whole, least)
		}
		return verify.SignedHead{}, false, refused
	}}, api.BundleQuery{Incident: id, Agent: "b", From: whole, Limit: 10})
	if !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
}

package coord

import (
	"errors"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// TestRandomStreams registers random entries, most of which break some rule.
// Every verdict must be the reference's, every refusal must leave no trace, and
// at any time the state may be replaced by one restored from its snapshot. In
// the end every way to the state gives the same bytes.
func TestRandomStreams(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		g := generator{r, w}
		for range rapid.IntRange(1, 60).Draw(r, "entries") {
			if g.chance("resume", 10) {
				w.state = restored(t, w.snapshot())
			}
			body := g.body()
			want := w.reference(body)
			e := w.sign(body)
			if g.chance("forge", 20) {
				e.Sig[0] ^= 1
				want = entry.BadSignature
			}
			err := w.admit(e)
			refusal, _ := errors.AsType[*entry.Refusal](err)
			if got := problemOf(refusal); got != want {
				r.Fatalf("entry %d: %v, the reference says %q\n%s", len(w.log), err, want, e.Payload())
			}
		}
		w.checkAll()
	})
}

func problemOf(r *entry.Refusal) entry.Problem {
	if r == nil {
		return ""
	}
	return r.Problem
}

// generator draws entries from pools so small that they meet.
type generator struct {
	*rapid.T
	w *world
}

func (g generator) chance(label string, oneIn int) bool {
	return rapid.IntRange(1, oneIn).Draw(g.T, label) == 1
}

func pick[T any](g generator, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(g.T, label)
}

func (g generator) agent() entry.Principal { return pick[entry.Principal](g, "agent", "a", "b", "c") }

func (g generator) ref() entry.Ref {
	return entry.NewRef(g.agent(), strconv.Itoa(rapid.IntRange(0, 4).Draw(g.T, "id")))
}

func (g generator) wid() entry.WorkflowID { return pick[entry.WorkflowID](g, "wid", "w", "w", "w2") }

func (g generator) body() entry.Body {
	switch pick(g, "kind", 'x', 'x', 'x', 'c', 's') {
	case 'x':
		return g.execution()
	case 'c':
		iss, id := g.ref().Split()
		c := g.w.checkpoint(iss, id, "")
		if after := g.ref(); !g.chance("after nothing", 4) {
			c.After = &after
		}
		c.Wid = g.wid()
		return c
	}
	return g.signal()
}

func (g generator) execution() *entry.Execution {
	iss, id := g.ref().Split()
	x := g.w.exec(iss, id)
	x.Progress = pick(g, "progress", steps...)
	if first := g.w.first(x.Ref()); first != nil && !g.chance("change", 8) {
		return g.w.step(first, x.Progress)
	}
	x.Wid, x.Effect = g.wid(), pick(g, "effect", effects...)
	for range rapid.IntRange(0, 2).Draw(g.T, "parents") {
		p := entry.Parent{Exec: g.ref(), Dep: pick(g, "dep", entry.Hard, entry.Soft)}
		if !slices.ContainsFunc(x.Parents, func(q entry.Parent) bool { return q.Exec == p.Exec }) {
			x.Parents = append(x.Parents, p)
		}
	}
	if x.Effect != entry.EffectNone {
		x.IdempotencyKey = someDigest(pick(g, "key", "one", "two"))
	}
	if g.chance("checkpoint", 8) {
		x.Checkpoint = g.ref()
	}
	return x
}

func (g generator) signal() *entry.Signal {
	standing := pick(g, "standing", entry.StandingExecutor, entry.StandingUpstream, entry.StandingDownstream, entry.StandingMonitor)
	iss := g.agent()
	if standing == entry.StandingMonitor {
		iss = "m"
	}
	s := g.w.signal(iss, standing, g.ref())
	s.Wid = g.wid()
	if g.chance("since", 4) {
		s.Since = g.ref()
	}
	if g.chance("supersedes", 4) {
		index := rapid.IntRange(0, len(g.w.log)-1).Draw(g.T, "superseded")
		old := g.w.log[index]
		s.Supersedes = &entry.LogRef{Index: uint64(index), LeafHash: merkle.HashLeaf(old.AppendLeaf(nil))}
	}
	return s
}

// The reference reads the rules literally and looks everything up in the whole
// log. "" is for admitted.
func (w *world) reference(body entry.Body) entry.Problem {
	switch b := body.(type) {
	case *entry.Execution:
		return w.referenceExecution(b)
	case *entry.Checkpoint:
		return w.referenceCheckpoint(b)
	case *entry.Signal:
		return w.referenceSignal(b)
	}
	return entry.StateConflict
}

// every returns what the log has of one kind, with the indexes.
func every[T entry.Body](w *world) (found []T, indexes []uint64) {
	for _, e := range w.log {
		if body, ok := e.Body.(T); ok {
			found, indexes = append(found, body), append(indexes, e.Index)
		}
	}
	return found, indexes
}

// entriesOf returns the entries of an execution, with the indexes.
func (w *world) entriesOf(ref entry.Ref) (found []*entry.Execution, indexes []uint64) {
	all, at := every[*entry.Execution](w)
	for i, x := range all {
		if x.Ref() == ref {
			found, indexes = append(found, x), append(indexes, at[i])
		}
	}
	return found, indexes
}

func (w *world) first(ref entry.Ref) *entry.Execution {
	if all, _ := w.entriesOf(ref); len(all) > 0 {
		return all[0]
	}
	return nil
}

// final returns the index of the final entry; 0 if there is none.
func (w *world) final(ref entry.Ref) uint64 {
	all, indexes := w.entriesOf(ref)
	if len(all) > 0 && all[len(all)-1].Progress.Final() {
		return indexes[len(all)-1]
	}
	return 0
}

func (w *world) hasCheckpoint(ref entry.Ref) bool {
	all, _ := every[*entry.Checkpoint](w)
	return slices.ContainsFunc(all, func(c *entry.Checkpoint) bool { return entry.NewRef(c.Iss, c.Checkpoint) == ref })
}

func (w *world) referenceExecution(x *entry.Execution) entry.Problem {
	for _, p := range x.Parents {
		if w.first(p.Exec) == nil {
			return entry.UnknownSubject
		}
	}
	if x.Checkpoint != "" && !w.hasCheckpoint(x.Checkpoint) {
		return entry.UnknownSubject
	}
	before := entry.Progress("")
	if all, _ := w.entriesOf(x.Ref()); len(all) > 0 {
		first := all[0]
		before = all[len(all)-1].Progress
		if x.Wid != first.Wid || x.Effect != first.Effect || !slices.Equal(x.Parents, first.Parents) ||
			x.IdempotencyKey != "" && x.IdempotencyKey != first.IdempotencyKey {
			return entry.StateConflict
		}
	}
	allowed := map[entry.Progress][]entry.Progress{
		"":            {entry.Planned, entry.Started, entry.Failed, entry.Cancelled},
		entry.Planned: {entry.Started, entry.Failed, entry.Cancelled},
		entry.Started: {entry.Confirmed, entry.Failed, entry.Cancelled},
	}[before]
	if x.Effect == entry.EffectNone && !before.Final() {
		allowed = append(allowed, entry.Confirmed)
	}
	if !slices.Contains(allowed, x.Progress) {
		return entry.StateConflict
	}
	return ""
}

// sameLine reports whether two entries of one agent are of one line; the span
// of c is agent.
func sameLine(one, two *entry.Header) bool {
	return one.Iss == two.Iss && (one.Iss == "c" || one.Wid == two.Wid)
}

func (w *world) referenceCheckpoint(c *entry.Checkpoint) entry.Problem {
	covers := func(c *entry.Checkpoint) uint64 {
		if c.After == nil {
			return 0
		}
		return w.final(*c.After)
	}
	if c.After != nil {
		after := w.first(*c.After)
		if after == nil {
			return entry.UnknownSubject
		}
		if !sameLine(&after.Header, &c.Header) || covers(c) == 0 {
			return entry.StateConflict
		}
	}
	all, _ := every[*entry.Checkpoint](w)
	for _, old := range all {
		if old.Iss == c.Iss && old.Checkpoint == c.Checkpoint || sameLine(&old.Header, &c.Header) && covers(c) < covers(old) {
			return entry.StateConflict
		}
	}
	return ""
}

func (w *world) referenceSignal(s *entry.Signal) entry.Problem {
	subject := w.first(s.Subject)
	if subject == nil || s.Since != "" && w.first(s.Since) == nil {
		return entry.UnknownSubject
	}
	if s.Supersedes != nil {
		old, ok := w.log[s.Supersedes.Index].Body.(*entry.Signal)
		if !ok || old.Iss != s.Iss || old.Subject != s.Subject {
			return entry.UnknownSubject
		}
	}
	standing := s.Standing == entry.StandingMonitor || s.Standing == entry.StandingExecutor && subject.Iss == s.Iss
	all, _ := every[*entry.Execution](w)
	for _, x := range all {
		names := func(parent entry.Ref) bool {
			return slices.ContainsFunc(x.Parents, func(p entry.Parent) bool { return p.Exec == parent })
		}
		standing = standing || s.Standing == entry.StandingDownstream && x.Iss == s.Iss && names(s.Subject)
	}
	for _, p := range subject.Parents {
		standing = standing || s.Standing == entry.StandingUpstream && w.first(p.Exec).Iss == s.Iss
	}
	switch {
	case !standing:
		return entry.NoStanding
	case s.Wid != subject.Wid, s.Since != "" && w.first(s.Since).Iss != subject.Iss:
		return entry.StateConflict
	}
	return ""
}

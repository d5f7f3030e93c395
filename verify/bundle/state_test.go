package bundle_test

import (
	"fmt"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify/bundle"
)

// news is a bundle without a decision, for what the worker accepted before.
func (w *world) news(names ...string) *bundle.Bundle {
	w.TB.Helper()
	size := len(w.Leaves)
	b := &bundle.Bundle{Agent: "worker", Head: w.Signed(size), From: accepted, Consistency: w.Consistency(accepted, size).Path}
	var indexes []uint64
	for _, name := range names {
		indexes = append(indexes, w.at[name])
	}
	w.prove(b, indexes)
	b.Membership = nil
	return b
}

// TestRightsAreLookedAtAnew shows a bundle again, and now the revocation that it hid:
// that its entries were read before gives their signers no right.
func TestRightsAreLookedAtAnew(t *testing.T) {
	w, b := automatic(t, before("decision", revokeRole("coordinator", entry.RoleCoordinator)))
	v, err := b.Check(w.state(), w.now)
	must(t, err)
	b.From, b.Consistency = uint64(len(w.Leaves)), nil
	if _, err := b.Check(v.Next, w.now); err != nil {
		t.Fatalf("hidden again: %v", err)
	}
	with("revoked coordinator")(w, b)
	v, err = b.Check(v.Next, w.now)
	if got := outcomeOf(v, err, ""); got != "AGT-2 TRU-2" {
		t.Errorf("shown: %q (%v)", got, err)
	}
}

// TestEpochsOfWhatCounts: a decision raises the epoch of its incident, but not if its
// key was compromised before, and not in a bundle of another incident.
func TestEpochsOfWhatCounts(t *testing.T) {
	stop := func(since func(w *world) *uint64, change func(d *entry.Decision)) (*world, *bundle.Bundle) {
		return automatic(t, before("outcome", func(w *world) {
			w.hooks["override"] = func(body entry.Body) { change(body.(*entry.Decision)) } //nolint:forcetypeassert // a wrong name fails the test
			w.override("override", 3)
			if since == nil {
				return
			}
			body := w.Agent(w.who["authority"], entry.Revoke, w.who["operator"], entry.RoleOperator)
			body.CompromisedSince = &entry.Compromised{Index: *since(w)}
			w.put("revoked operator", "authority", body)
		}))
	}
	same := func(*entry.Decision) {}
	at := func(later uint64) func(w *world) *uint64 {
		return func(w *world) *uint64 { index := w.at["override"] + later; return &index }
	}
	for name, c := range map[string]struct {
		since func(w *world) *uint64
		want  int64
	}{
		"a good key": {nil, 3}, "compromised since this entry": {at(0), -1}, "compromised since the next": {at(1), 3},
	} {
		w, _ := stop(c.since, same)
		names := []string{"operator", "override"}
		if c.since != nil {
			names = append(names, "revoked operator")
		}
		v, err := w.news(names...).Check(w.state(), w.now)
		must(t, err)
		if epoch, ok := v.Next.Epoch(w.at["signal"], 0); ok != (c.want >= 0) || ok && epoch != c.want {
			t.Errorf("%s: epoch %d, known %v", name, epoch, ok)
		}
	}
	w, b := stop(nil, func(d *entry.Decision) { d.Incident-- })
	with("operator", "override")(w, b)
	v, err := b.Check(w.state(), w.now)
	if got := outcomeOf(v, err, ""); got != "AGT-3" || !strings.Contains(err.Error(), "it has no place in this bundle") {
		t.Errorf("of another incident: %q (%v)", got, err)
	}
	if _, ok := v.Next.Epoch(w.at["signal"]-1, 0); ok {
		t.Error("an incident that the bundle is not about has an epoch")
	}
}

// TestAProposalCountsUntilItExpires: an agent that has seen a proposal to amend starts
// nothing, until an amend decides or nothing can carry the proposal out any more.
func TestAProposalCountsUntilItExpires(t *testing.T) {
	w, _ := automatic(t, before("outcome", func(w *world) { w.propose(600) }))
	proposal, _, err := entry.DecodeLeaf(w.Leaves[w.at["proposal"]])
	must(t, err)
	exp := proposal.Body.(*entry.Decision).Exp * 1000 //nolint:forcetypeassert // another kind fails the test
	v, err := w.news("coordinator", "proposal").Check(w.state(), w.now)
	must(t, err)
	data, err := v.Next.Encode()
	must(t, err)
	read, err := bundle.DecodeAccepted(data)
	must(t, err)
	for _, a := range []bundle.Accepted{v.Next, read} {
		for now, want := range map[int64]int64{exp - 1: 1, exp: 0} {
			if epoch, ok := a.Epoch(w.at["signal"], now); !ok || epoch != want {
				t.Errorf("at %d, the proposal expires at %d: epoch %d, want %d", now, exp, epoch, want)
			}
		}
	}
}

// TestEpochsRise holds what raises the epoch of an incident to a table, decision by decision.
func TestEpochsRise(t *testing.T) {
	type step struct {
		act   entry.Act
		epoch int64
		want  bundle.Epoch // after it; Lapses is 500 for every escalate
	}
	for name, steps := range map[string][]step{
		"a proposal is carried out": {{entry.ActEscalate, 1, bundle.Epoch{Epoch: 1, Lapses: 500}}, {entry.ActAuthorize, 1, bundle.Epoch{Epoch: 1}}},
		"an amend decides": {{entry.ActAuthorize, 1, bundle.Epoch{Epoch: 1}}, {entry.ActEscalate, 2, bundle.Epoch{Epoch: 2, Settled: 1, Lapses: 500}},
			{entry.ActAmend, 3, bundle.Epoch{Epoch: 3}}},
		"read in another order": {{entry.ActEscalate, 2, bundle.Epoch{Epoch: 2, Lapses: 500}}, {entry.ActAuthorize, 1, bundle.Epoch{Epoch: 2, Settled: 1, Lapses: 500}},
			{entry.ActContain, 0, bundle.Epoch{Epoch: 2, Settled: 1, Lapses: 500}}},
		"asked again": {{entry.ActAuthorize, 1, bundle.Epoch{Epoch: 1}}, {entry.ActEscalate, 2, bundle.Epoch{Epoch: 2, Settled: 1, Lapses: 500}},
			{entry.ActEscalate, 3, bundle.Epoch{Epoch: 3, Settled: 1, Lapses: 500}}},
		"an old proposal": {{entry.ActOverride, 2, bundle.Epoch{Epoch: 2}}, {entry.ActEscalate, 2, bundle.Epoch{Epoch: 2}}},
	} {
		e := bundle.Epoch{}
		for i, s := range steps {
			e = bundle.Raise(e, &entry.Decision{Act: s.act, Epoch: s.epoch, Exp: 500})
			if e != s.want {
				t.Errorf("%s: %+v behind step %d, want %+v", name, e, i, s.want)
			}
		}
	}
}

// TestAmendsAreApproved has people approve what amends a decision: the proposal has
// the epoch before.
func TestAmendsAreApproved(t *testing.T) {
	for epoch, want := range map[int64]string{2: "", 1: "AGT-2 INC-5", 3: "AGT-2 INC-5"} {
		w := newWorld(t)
		w.company()
		w.pipeline()
		w.signal("signal", "source", "source#read", entry.StandingExecutor)
		w.plan()
		w.put("first", "coordinator", w.decision("coordinator", entry.ActAuthorize, 0, "signal"))
		first := w.refTo("first")
		w.hooks["decision"] = func(body entry.Body) {
			d, _ := body.(*entry.Decision)
			d.Act, d.Epoch, d.Supersedes = entry.ActAmend, epoch, &first
		}
		w.authorize(0) // the proposal has epoch 1
		w.now = w.At + 1000
		b := w.bundle("worker", accepted, w.steps(), append(pipelineEntries(), append(approvalEntries(), "first")...)...)
		w.ahead(b)
		v, err := b.Check(w.state(), w.now)
		if got := outcomeOf(v, err, want); got != want {
			t.Errorf("epoch %d: %q (%v), want %q", epoch, got, cause(v, err), want)
		}
	}
}

// TestAnAgentKeepsSoManyLinks takes up as many policies and keys as may be, and not
// one more.
func TestAnAgentKeepsSoManyLinks(t *testing.T) {
	w := newWorld(t)
	w.company()
	a := bundle.Accepted{Root: w.Root, Agent: "worker", Confirmed: true}
	enroller := w.who["enroller"]
	for i := len(w.Leaves); i <= bundle.MaxLinks; i++ {
		name := fmt.Sprintf("agent-%d", i)
		key := testlog.NewKey(t, entry.Principal(name), name)
		w.Add(enroller.Sign(t, w.Agent(enroller, entry.Enrol, key, entry.RoleAgent)))
	}
	for i := range bundle.MaxLinks - 1 {
		a.Links = append(a.Links, bundle.Leaf{Index: uint64(i), Bytes: w.Leaves[i]})
	}
	a.Head = w.Signed(bundle.MaxLinks - 1)
	for past := range 2 {
		size := bundle.MaxLinks + past
		b := &bundle.Bundle{Agent: "worker", Head: w.Signed(size), From: bundle.MaxLinks - 1, Consistency: w.Consistency(bundle.MaxLinks-1, size).Path}
		var indexes []uint64
		for i := uint64(bundle.MaxLinks - 1); i < uint64(size); i++ {
			b.Entries, indexes = append(b.Entries, bundle.Leaf{Index: i, Bytes: w.Leaves[i]}), append(indexes, i)
		}
		var err error
		b.Inclusion, err = merkle.ProveInclusions(indexes, uint64(size), w.Node)
		must(t, err)
		v, err := b.Check(a, w.At)
		if past == 0 {
			if must(t, err); len(v.Next.Links) != bundle.MaxLinks {
				t.Errorf("%d links", len(v.Next.Links))
			}
			continue
		}
		wantFormat(t, err)
	}
}

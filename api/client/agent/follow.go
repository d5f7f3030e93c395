package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// follower reads the log itself: every entry, without a gap, so that no entry can be hidden. It
// looks for policies, keys and overrides to take up, for decisions that the server did not tell
// the agent of, and for outcomes of the agent's executions.
type follower struct {
	wait
	next   uint64             // index of the next entry
	saved  uint64             // as it is in the store
	unseen map[uint64]*unseen // decisions that may be for the agent, by incident
}

// unseen is a decision in the log that no bundle has shown.
type unseen struct {
	wait
	index uint64
	set   merkle.Head // of the rollback set
	told  bool
}

// savedEvery is the number of entries after which the position is stored. Entries may be read
// twice without harm.
const savedEvery = 1024

// rewind reads the log again from an index on.
func (f *follower) rewind(index uint64) { f.next = min(f.next, index) }

// followLog reads a page of the log.
func (a *Agent) followLog(ctx context.Context, now int64) (bool, int64, error) {
	f := &a.follow
	switch {
	case a.cfg.Log == nil || a.stored == "":
		return false, 0, nil
	case f.till > now:
		return false, f.till, nil
	case f.next == 0: // from what was shown first on; before is what bundles show
		f.next = a.size
	}
	if f.next >= max(a.size, a.hintedAt) {
		return false, 0, nil
	}
	page, err := a.cfg.Log.Follow(ctx, f.next, a.accepted.Head)
	if err == nil {
		err = a.gapless(page)
	}
	if err != nil {
		return true, 0, a.postpone(&f.wait, 0, err, now)
	}
	if len(page.Entries) == 0 {
		f.failed(now, 0)
		return true, 0, nil
	}
	f.wait = wait{}
	for i := range page.Entries {
		a.read(&page.Entries[i])
	}
	f.next += uint64(len(page.Entries))
	if f.next-min(f.saved, f.next) >= savedEvery {
		f.saved = f.next
		return true, 0, a.save(docFollowed, f.next)
	}
	return true, 0, nil
}

// gapless checks that a page continues where the page before ended, in the log of the accepted
// head.
func (a *Agent) gapless(page *Page) error {
	for i := range page.Entries {
		if page.Entries[i].Index != a.follow.next+uint64(i) {
			return fmt.Errorf("agent: follow the log: entry %d in the place of %d", page.Entries[i].Index, a.follow.next+uint64(i))
		}
	}
	if page.Proof.Older == "" {
		return nil
	}
	if page.Proof.Older != a.accepted.Head && page.Proof.Newer != a.accepted.Head {
		return fmt.Errorf("agent: follow the log: the proof is of neither side of the accepted head")
	}
	_, err := a.accepted.Confirm(page.Proof) // as what confirms it is checked: by what is known of its head
	if errors.Is(err, merkle.ErrProof) {
		if a.mistrust++; a.mistrust >= proofsMax {
			return &verify.ForkError{First: page.Proof.Older, Second: page.Proof.Newer, Detail: err.Error()}
		}
	}
	return err
}

// read takes up one entry of the log.
func (a *Agent) read(e *verify.Entry) {
	ref := entry.LogRef{Index: e.Index, LeafHash: e.LeafHash()}
	switch body := e.Body.(type) {
	case *entry.Policy, *entry.Agent:
		if e.Index >= a.size {
			a.wantBundle(0)
		}
	case *entry.Outcome:
		if agent, _ := body.Exec.Split(); agent == a.cfg.Agent {
			a.stands[stand{body.Incident, body.Exec}] = ref
		}
	case *entry.Decision:
		a.decided(body, ref)
	}
}

func (a *Agent) decided(d *entry.Decision, ref entry.LogRef) {
	switch d.Act {
	case entry.ActOverride:
		a.override(d.Incident, ref)
		if ref.Index >= a.size {
			a.wantBundle(0)
		}
	case entry.ActAuthorize, entry.ActAmend:
		if o := a.orders[d.Incident]; o != nil && o.verdict.Decision.Index >= ref.Index {
			return
		}
		a.follow.unseen[d.Incident] = &unseen{index: ref.Index, set: d.RollbackSet.Head}
	}
}

// unannounced looks at a decision in the log that the server did not announce. The plan that the
// decision commits to shows whether the agent has members in it.
func (a *Agent) unannounced(ctx context.Context, now int64) (bool, int64, error) {
	wake := int64(0)
	for _, incident := range slices.Sorted(maps.Keys(a.follow.unseen)) {
		u := a.follow.unseen[incident]
		if o := a.orders[incident]; o != nil && o.verdict.Decision.Index >= u.index {
			delete(a.follow.unseen, incident)
			continue
		}
		if a.hintedAt <= u.index { // the server's newest hints are older
			continue
		}
		if u.till > now {
			wake = earlier(wake, u.till)
			continue
		}
		if a.hinted[incident] >= u.index && u.tries == 0 {
			u.failed(now, 0) // it is asked for, and comes
			continue
		}
		return true, 0, a.compare(ctx, incident, u, now)
	}
	return false, wake, nil
}

// compare computes the head of a plan's rollback set, and looks for members of the agent.
func (a *Agent) compare(ctx context.Context, incident uint64, u *unseen, now int64) error {
	plan, err := a.cfg.Log.Plan(ctx, incident)
	if err != nil {
		return a.postpone(&u.wait, incident, err, now)
	}
	leaves := make([]merkle.Hash, len(plan))
	own := false
	for i := range plan {
		leaves[i] = merkle.HashLeaf(plan[i].AppendJSON(nil))
		open := plan[i].Agent == a.cfg.Agent && plan[i].Method != entry.MethodNone
		if _, answered := a.stands[stand{incident, plan[i].Exec}]; open && !answered {
			own = true
		}
	}
	head := merkle.HeadOf(leaves)
	switch {
	case head == u.set && !own:
		delete(a.follow.unseen, incident)
		return nil
	case head != u.set:
		err = fmt.Errorf("the plan that the server shows is not that of the decision at entry %d", u.index)
	default:
		err = fmt.Errorf("the decision at entry %d has open members of %s, and the server gives no command", u.index, a.cfg.Agent)
		a.wantBundle(incident)
	}
	if u.failed(now, 0); u.tries > 2 && !u.told { // an amend meanwhile is read by then
		u.told = true
		a.cfg.Tell(Event{Kind: EventHidden, Incident: incident, Err: err})
	}
	return nil
}

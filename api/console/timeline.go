package console

import (
	"cmp"
	"context"
	"slices"

	"recoveryledger/api"
	"recoveryledger/api/words"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// moment is a line of the timeline of an incident: an entry, or a time to come.
type moment struct {
	Index  uint64 // of the entry
	At     int64  // Unix milliseconds; 0: the log is not at hand to tell
	Issuer entry.Principal
	Says   string
	Ahead  bool // it has not happened yet
}

// moments returns the entries that the incident and its plan name, and the times ahead of
// it. The entries have neither time nor words yet.
func moments(v *coord.IncidentView, plan *api.Plan) (list []moment) {
	indexes := map[uint64]bool{}
	for i := range v.Signals {
		indexes[v.Signals[i].Index] = true
		indexes[v.Signals[i].Disposed] = true
	}
	if p := v.Proposal; p != nil {
		indexes[p.Ref.Index] = true
		for _, answers := range [][]api.Answer{p.Approve, p.Refuse} {
			for i := range answers {
				indexes[answers[i].Index] = true
			}
		}
	}
	if v.Fence != nil {
		indexes[v.Fence.Decision] = true
	}
	if v.Decision != nil {
		indexes[v.Decision.Ref.Index] = true
	}
	if plan != nil {
		for i := range plan.Members {
			indexes[plan.Members[i].ResultAt] = true
		}
	}
	indexes[v.Recorded], indexes[v.Acknowledged] = true, true
	delete(indexes, 0) // the genesis is no entry of an incident
	for index := range indexes {
		list = append(list, moment{Index: index})
	}
	slices.SortFunc(list, func(a, b moment) int { return cmp.Compare(a.Index, b.Index) })
	list = list[max(len(list), rows)-rows:] // the newest ones
	if at, then := nextStep(v); at != 0 {
		list = append(list, moment{At: at, Says: then, Ahead: true})
	}
	return list
}

// tell fills in what the entries of a timeline say, as far as the log is at hand, and adds
// the entries that these name: the approvals of a decision, and the proposal of an
// approval.
func (k *Console) tell(ctx context.Context, list []moment) []moment {
	const generations = 3 // a decision names approvals, and an approval names its proposal
	for range generations {
		more := k.read(ctx, list)
		if len(more) == 0 {
			break
		}
		for _, index := range more {
			list = append(list, moment{Index: index})
		}
		slices.SortStableFunc(list, func(a, b moment) int {
			return cmp.Or(cmp.Compare(half(a.Ahead), half(b.Ahead)), cmp.Compare(a.Index, b.Index))
		})
	}
	return list
}

// half orders what has happened before what is ahead.
func half(ahead bool) int {
	if ahead {
		return 1
	}
	return 0
}

// read fills in what the entries say. It asks for each entry bundle once. It returns the
// indexes of entries that these name, and that the timeline lacks.
func (k *Console) read(ctx context.Context, list []moment) (more []uint64) {
	for i := 0; i < len(list) && !list[i].Ahead; {
		last := i
		for last+1 < len(list) && !list[last+1].Ahead && list[last+1].Index/merkle.TileWidth == list[i].Index/merkle.TileWidth {
			last++
		}
		for e, err := range k.cfg.Source.Entries(ctx, list[i].Index, list[last].Index+1) {
			if err != nil {
				return nil
			}
			if m := &list[i]; m.Index == e.Index {
				m.At, m.Issuer, m.Says = e.RegisteredAt, e.Header.Iss, words.Summary(e.Body)
				more = append(more, names(e.Body)...)
				i++
			}
		}
		i = last + 1
	}
	slices.Sort(more)
	return slices.DeleteFunc(slices.Compact(more), func(index uint64) bool {
		return index == 0 || slices.ContainsFunc(list, func(m moment) bool { return m.Index == index && !m.Ahead })
	})
}

// names returns the indexes of the entries that an entry of an incident rests on.
func names(body entry.Body) []uint64 {
	switch b := body.(type) {
	case *entry.Decision:
		return b.Approvals
	case *entry.Approval:
		return []uint64{b.Proposal.Index}
	}
	return nil
}

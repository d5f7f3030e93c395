package rollout

import (
	"slices"

	"recoveryledger/api"
	"recoveryledger/coord/recovery/judge"
	"recoveryledger/ledger/entry"
)

// View returns the state in the form of the API. size is the size of the log, and law the policy in
// force.
func (f *Fold) View(size uint64, law Law) api.Rollouts {
	v := api.Rollouts{Size: size, History: append([]api.EndedRollout{}, f.ended...)}
	slices.Reverse(v.History)
	if r := f.current; r != nil {
		t := &r.Terms
		v.Current = &api.Rollout{Rollout: r.Name, CandidateDigest: t.CandidateDigest, BaselineDigest: t.BaselineDigest, Stage: r.Stage,
			SharePermille: r.SharePermille, Salt: t.Salt, Gates: t.Gates, TolerancePPM: t.TolerancePPM, CasesMin: t.CasesMin, DeadlineAt: t.DeadlineAt,
			Started: r.Started, StartedAt: r.StartedAt, By: r.By, Moved: r.Moved, Waivers: r.Waivers}
		v.Current.Report, v.Current.Promotes = f.report()
		v.Current.Canary, v.Current.Control, v.Current.Fell = r.Evidence.Canary, r.Evidence.Control, r.Evidence.Fell
		v.Current.Compared, v.Current.Groups, v.Current.FellIn = r.Evidence.view(), r.Evidence.groups(), r.Evidence.FellIn
		v.Current.Missing = f.missing(law)
	}
	return v
}

func (e *Evidence) view() []api.RolloutGate {
	all := []api.RolloutGate{}
	for i := range e.Gates {
		g := &e.Gates[i]
		one := api.RolloutGate{Gate: g.Gate, Pairs: g.Watch.Pairs, Better: g.Watch.Wins, Worse: g.Watch.Losses, Verdict: string(g.Watch.Answer)}
		if g.Gate == entry.GateUnsafe {
			one.Worse = e.Canary.Unsafe
		} else {
			one.Missing = max(0, g.Watch.Floor-g.Watch.Pairs)
			one.Needed = judge.Decisive(g.Watch.Wins+g.Watch.Losses, g.Watch.Tests)
		}
		all = append(all, one)
	}
	return all
}

func (e *Evidence) groups() []api.RolloutGroup {
	all := []api.RolloutGroup{}
	for i := range e.Groups {
		g := &e.Groups[i]
		one := api.RolloutGroup{Class: g.Name, Canary: g.Canary, Control: g.Control,
			Pairs: g.Watch.Pairs, Better: g.Watch.Wins, Worse: g.Watch.Losses, Needed: judge.Decisive(g.Watch.Wins+g.Watch.Losses, g.Watch.Tests),
			Missing: max(0, g.Watch.Floor-g.Watch.Pairs), Verdict: string(g.Watch.Answer), Cheaper: g.Cost.Wins, Dearer: g.Cost.Losses, CostVerdict: string(g.Cost.Answer)}
		if g.Slice {
			one.Class, one.Slice = "", g.Name
		}
		all = append(all, one)
	}
	return all
}

// missing says what is against a promotion, in words (ROL-4).
func (f *Fold) missing(law Law) []string {
	all := []string{}
	_, lacks := f.Promotion(f.current.Name, law)
	for _, why := range lacks {
		all = append(all, why.Detail)
	}
	return all
}

// One returns the rollout of a name as [Fold.View] does; nil if there was none.
func (f *Fold) One(name string, size uint64, law Law) *api.OneRollout {
	v := f.View(size, law)
	if v.Current != nil && v.Current.Rollout == name {
		return &api.OneRollout{Size: size, Current: v.Current}
	}
	for i := range v.History {
		if v.History[i].Rollout == name {
			return &api.OneRollout{Size: size, Ended: &v.History[i]}
		}
	}
	return nil
}

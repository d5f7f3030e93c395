package rollout

import (
	"recoveryledger/api"
	"recoveryledger/coord/recovery/judge"
	"recoveryledger/ledger/entry"
)

// View returns the state in the form of the API. size is the size of the log.
func (f *Fold) View(size uint64) api.Rollouts {
	v := api.Rollouts{Size: size, History: []api.EndedRollout{}}
	for i := len(f.ended) - 1; i >= 0; i-- {
		e := &f.ended[i]
		v.History = append(v.History, api.EndedRollout{Rollout: e.Name, CandidateDigest: e.CandidateDigest, BaselineDigest: e.BaselineDigest,
			Started: e.Started, StartedAt: e.StartedAt, Ended: e.Ended, EndedAt: e.EndedAt, Outcome: string(e.Outcome), Gate: e.Gate, Report: e.Report})
	}
	if r := f.current; r != nil {
		t := &r.Terms
		v.Current = &api.Rollout{Rollout: r.Name, CandidateDigest: t.CandidateDigest, BaselineDigest: t.BaselineDigest, Stage: r.Stage,
			SharePermille: r.SharePermille, Salt: t.Salt, Gates: t.Gates, TolerancePPM: t.TolerancePPM, CasesMin: t.CasesMin, DeadlineAt: t.DeadlineAt,
			Started: r.Started, StartedAt: r.StartedAt, By: r.By, Moved: r.Moved, Waivers: r.Waivers}
		v.Current.Report, v.Current.Promotes = f.Report()
		v.Current.Canary, v.Current.Control, v.Current.Fell = api.RolloutArm(r.Evidence.Canary), api.RolloutArm(r.Evidence.Control), r.Evidence.Fell
		v.Current.Compared = r.Evidence.view()
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
			one.Needed = judge.Decisive(g.Watch.Wins+g.Watch.Losses, g.Watch.Tests)
		}
		all = append(all, one)
	}
	return all
}

package rollout

import (
	"fmt"
	"strings"

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
		v.Current.Compared, v.Current.Groups, v.Current.FellIn = r.Evidence.view(), r.Evidence.groups(), r.Evidence.FellIn
		v.Current.Missing = missing(v.Current)
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
		one := api.RolloutGroup{Class: g.Name, Canary: api.RolloutGroupArm(g.Canary), Control: api.RolloutGroupArm(g.Control),
			Pairs: g.Watch.Pairs, Better: g.Watch.Wins, Worse: g.Watch.Losses, Needed: judge.Decisive(g.Watch.Wins+g.Watch.Losses, g.Watch.Tests),
			Missing: max(0, g.Watch.Floor-g.Watch.Pairs), Verdict: string(g.Watch.Answer), Cheaper: g.Cost.Wins, Dearer: g.Cost.Losses, CostVerdict: string(g.Cost.Answer)}
		if g.Slice {
			one.Class, one.Slice = "", g.Name
		}
		all = append(all, one)
	}
	return all
}

// missing says what a promotion by a report lacks (ROL-4).
func missing(r *api.Rollout) []string {
	all := []string{}
	switch {
	case r.Promotes:
	case r.Report != "":
		all = append(all, "a report that says promote: the newest one that compares candidate and baseline does not, or waivers of a quorum")
	default:
		all = append(all, "a report in the log that compares candidate and baseline, or waivers of a quorum")
	}
	if r.Canary.Cases < r.CasesMin {
		unknown := ""
		if r.Canary.Unknown > 0 {
			unknown = fmt.Sprintf(" and %d that are no evidence of it alone", r.Canary.Unknown)
		}
		all = append(all, fmt.Sprintf("a canary that has decided %d cases, of which it has %d%s, or waivers of a quorum", r.CasesMin, r.Canary.Cases, unknown))
	}
	if r.Fell != "" {
		all = append(all, strings.TrimSpace("the gate "+string(r.Fell)+" "+r.FellIn)+", which fell: the coordinator aborts the rollout")
	}
	return all
}

// PromotionOf returns what a policy that promotes a rollout names (ROL-4): the newest report, or
// no report if approvers waived report and canary. If nobody waived what it lacks, there is no
// promotion. The error, a [*entry.Refusal], says that the rollout is not under way.
func PromotionOf(v *api.Rollouts, name string) (p *entry.Promotion, lacks []string, err error) {
	switch now := v.Current; {
	case now == nil || now.Rollout != name:
		return nil, nil, notUnderWay(name)
	case len(now.Missing) == 0:
		return &entry.Promotion{Rollout: name, Report: now.Report}, nil, nil
	case len(now.Waivers) == 0:
		return nil, now.Missing, nil
	}
	return &entry.Promotion{Rollout: name}, nil, nil
}

// One returns the rollout of a name; nil if there was none. size is the size of the log.
func (f *Fold) One(name string, size uint64) *api.OneRollout {
	v := f.View(size)
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

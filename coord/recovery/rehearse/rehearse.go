// Package rehearse takes recorded cases through two policies, and compares what comes of them. An
// attempt that nobody made has no result: the case may have recovered by it or not. So each number
// has a lower and an upper bound, and the package names what was not observed.
//
// Where both policies want the same attempt that nobody made, its result is one, and the case has
// an end under each: what follows the attempt is up to each policy. So the bounds of a change take
// both ends as independent.
package rehearse

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// Bounds are the least and the most that a number can be.
type Bounds struct {
	Least int64 `json:"least"`
	Most  int64 `json:"most"`
}

// Side is what came of the cases under one policy.
type Side struct {
	PolicyDigest entry.Digest `json:"policy_digest"`
	Recovered    Bounds       `json:"recovered"`
	// NotObserved counts the cases that end at an attempt or a step which nobody made.
	NotObserved int64 `json:"not_observed"`
	// Unsafe counts recovered cases that the policy leaves to people.
	Unsafe int64 `json:"unsafe_recoveries"`
	// CostMicroUSD and ElapsedMS are sums over the cases that both policies take to an observed
	// end, as far as costs and latencies are known.
	CostMicroUSD int64 `json:"cost_micro_usd"`
	ElapsedMS    int64 `json:"elapsed_ms"`
}

// Class compares the cases whose first failure is of a class, by the labels of the baseline.
type Class struct {
	Class     string `json:"class"`
	Failing   int64  `json:"failing"`
	Baseline  Bounds `json:"baseline"`  // cases that recover
	Candidate Bounds `json:"candidate"` // cases that recover
	Change    Bounds `json:"change"`    // candidate less baseline
}

// Unobserved is an attempt that a policy wants and that nobody made.
type Unobserved struct {
	Policy string `json:"policy"` // baseline or candidate
	scenario.Label
	Strategy string   `json:"strategy,omitzero"` // empty: a later step that was never tried
	Variant  string   `json:"variant,omitzero"`
	Model    string   `json:"model,omitzero"`
	Cases    int64    `json:"cases"`
	First    []string `json:"first"` // ids of the first cases
}

// Rehearsal compares a candidate with a baseline over recorded cases.
type Rehearsal struct {
	V         int64   `json:"v"`
	Cases     int64   `json:"cases"`
	Failing   int64   `json:"failing"`
	Baseline  Side    `json:"baseline"`
	Candidate Side    `json:"candidate"`
	Change    Bounds  `json:"change"`  // in cases that recover
	Settled   int64   `json:"settled"` // failing cases that both policies take to an observed end
	Classes   []Class `json:"classes"`
	// NotObserved has the most frequent attempts first.
	NotObserved []Unobserved `json:"not_observed"`
	// Worst is what the gates say if each attempt of the candidate that nobody made fails, and each
	// of the baseline succeeds. Best is the opposite. Recommendation is promote if Worst promotes,
	// reject if Best rejects, and otherwise inconclusive.
	Worst          engine.Recommendation `json:"worst"`
	Best           engine.Recommendation `json:"best"`
	Recommendation engine.Recommendation `json:"recommendation"`
	Gates          []engine.Gate         `json:"gates"` // of Worst
}

// Side names of [Unobserved].
const (
	baselineName  = "baseline"
	candidateName = "candidate"
)

const (
	formatVersion = 1
	firstMax      = 5 // ids that name an attempt which nobody made
)

// Rehearse takes the cases of a scenario file through both policies. It also returns the baseline
// that a run of the candidate over the same file is compared with, so that the run promotes exactly
// if Worst does: of each class it counts as recovered what the baseline may have recovered.
func Rehearse(ctx context.Context, path string, baseline, candidate *recovery.Policy, workers int) (*Rehearsal, *engine.Baseline, error) {
	s := &sides{r: &Rehearsal{V: formatVersion, Classes: []Class{}, NotObserved: []Unobserved{}}, classes: map[string]*Class{}, missing: map[missingKey]*Unobserved{}}
	before, err := s.take(ctx, path, baseline, workers, baselineName)
	if err != nil {
		return nil, nil, err
	}
	now, err := s.take(ctx, path, candidate, workers, candidateName)
	if err != nil {
		return nil, nil, err
	}
	most, least, err := before.baselines()
	if err != nil {
		return nil, nil, err
	}
	worst, err := now.asIs.Report(engine.Subject{Policy: candidate, Baseline: most})
	if err != nil {
		return nil, nil, err
	}
	best, err := now.hoped.Report(engine.Subject{Policy: candidate, Baseline: least})
	if err != nil {
		return nil, nil, err
	}
	s.compare(before, now)
	s.r.Worst, s.r.Best, s.r.Gates, s.r.Recommendation = worst.Recommendation, best.Recommendation, worst.Gates, engine.Inconclusive
	switch {
	case s.r.Worst == engine.Promote:
		s.r.Recommendation = engine.Promote
	case s.r.Best == engine.Reject:
		s.r.Recommendation = engine.Reject
	}
	return s.r, most, nil
}

// sides are both policies over the same cases.
type sides struct {
	r       *Rehearsal
	classes map[string]*Class
	missing map[missingKey]*Unobserved
}

type missingKey struct {
	policy string
	scenario.Label
	scenario.Variation
}

// end is how a case ended under one policy.
type end struct {
	class      string
	failed     bool
	recovered  bool
	unobserved bool
	cost, took int64
}

// side is one policy over the cases.
type side struct {
	policy      *recovery.Policy
	ends        []end
	asIs, hoped *engine.Tally // with what nobody made as failed, and as successful
	classes     map[string]int64
	slices      map[string]int64 // cases of a tag that end at what nobody made
	unsafe      int64
}

func (s *sides) take(ctx context.Context, path string, p *recovery.Policy, workers int, name string) (*side, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("rehearse: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	one := &side{policy: p, classes: map[string]int64{}, slices: map[string]int64{}}
	if one.asIs, err = engine.NewTally(p); err != nil {
		return nil, err
	}
	if one.hoped, err = engine.NewTally(p); err != nil {
		return nil, err
	}
	batch := engine.Batch{Config: engine.Config{Policy: p}, Workers: workers}
	for done, err := range batch.Run(ctx, path, file) {
		if err != nil {
			return nil, err
		}
		if err := one.add(done); err != nil {
			return nil, err
		}
		if unobserved(&done.Trace) {
			s.miss(name, &done.Trace)
		}
	}
	return one, nil
}

// unobserved reports whether a case ended at an attempt or a step that nobody made.
func unobserved(t *engine.Trace) bool {
	return t.Status == engine.Escalated && t.Reason == string(recovery.ReasonNotObserved)
}

func (s *side) add(done *engine.Result) error {
	t := &done.Trace
	e := end{class: t.Class, failed: t.Status != engine.NoFailure, recovered: t.Status == engine.AutoRecovered, unobserved: unobserved(t), cost: t.CostMicroUSD, took: t.LatencyMS}
	s.ends = append(s.ends, e)
	if err := s.asIs.Add(t, done.Leaf); err != nil {
		return err
	}
	if e.recovered && s.leftToPeople(t) {
		s.unsafe++
	}
	hoped := *t
	if e.unobserved && !s.leftToPeople(t) {
		hoped.Status, hoped.Reason = engine.AutoRecovered, ""
	}
	if e.unobserved {
		s.classes[t.Class]++
		for _, tag := range t.Tags {
			s.slices[tag]++
		}
	}
	return s.hoped.Add(&hoped, done.Leaf)
}

// leftToPeople reports whether the policy forbids that a case recovers by itself.
func (s *side) leftToPeople(t *engine.Trace) bool {
	th := s.policy.Thresholds()
	return t.SafetyCritical || slices.ContainsFunc(t.Rungs, func(r engine.Rung) bool { return th.Never(r.Class, r.Code) })
}

// baselines returns what a candidate is compared with at worst, and at best.
func (s *side) baselines() (most, least *engine.Baseline, err error) {
	report, err := s.asIs.Report(engine.Subject{Runtime: engine.ModeRecorded, Policy: s.policy})
	if err != nil {
		return nil, nil, err
	}
	text, err := report.Encode()
	if err != nil {
		return nil, nil, err
	}
	least, most = engine.NewBaseline(&report, entry.DigestOf(text)), engine.NewBaseline(&report, entry.DigestOf(text))
	for i := range most.Classes {
		most.Classes[i].AutoRecovered += s.classes[most.Classes[i].Class]
	}
	for i := range most.Slices {
		most.Slices[i].AutoRecovered += s.slices[most.Slices[i].Class]
	}
	return most, least, nil
}

// miss counts an attempt that a policy wanted and nobody made.
func (s *sides) miss(policy string, t *engine.Trace) {
	key := missingKey{policy: policy, Label: scenario.Label{Class: t.Class, Code: t.Code}}
	for i := len(t.Rungs) - 1; i >= 0; i-- {
		if r := &t.Rungs[i]; r.Result == string(recovery.ResultNotObserved) {
			key.Label = scenario.Label{Class: r.Class, Code: r.Code}
			key.Variation = scenario.Variation{Strategy: r.Strategy, Variant: r.Variant, Model: r.Model}
			break
		}
	}
	one := s.missing[key]
	if one == nil {
		one = &Unobserved{Policy: policy, Label: key.Label, Strategy: key.Strategy, Variant: key.Variant, Model: key.Model}
		s.missing[key] = one
	}
	if one.Cases++; len(one.First) < firstMax {
		one.First = append(one.First, t.Case)
	}
}

// compare compares the cases one by one.
func (s *sides) compare(before, now *side) {
	r := s.r
	r.Baseline.PolicyDigest, r.Candidate.PolicyDigest = before.policy.Hash(), now.policy.Hash()
	r.Baseline.Unsafe, r.Candidate.Unsafe = before.unsafe, now.unsafe
	for i := range before.ends {
		was, is := &before.ends[i], &now.ends[i]
		r.Cases++
		if !was.failed {
			continue
		}
		r.Failing++
		c := s.classes[was.class]
		if c == nil {
			c = &Class{Class: was.class}
			s.classes[was.class] = c
		}
		c.Failing++
		for _, one := range []struct {
			class *Bounds
			all   *Side
			end   *end
		}{{&c.Baseline, &r.Baseline, was}, {&c.Candidate, &r.Candidate, is}} {
			one.class.count(one.end)
			one.all.Recovered.count(one.end)
			if one.end.unobserved {
				one.all.NotObserved++
			}
			if !was.unobserved && !is.unobserved {
				one.all.CostMicroUSD += one.end.cost
				one.all.ElapsedMS += one.end.took
			}
		}
		if !was.unobserved && !is.unobserved {
			r.Settled++
		}
	}
	r.Change = r.Candidate.Recovered.less(r.Baseline.Recovered)
	for _, c := range s.classes {
		c.Change = c.Candidate.less(c.Baseline)
		r.Classes = append(r.Classes, *c)
	}
	slices.SortFunc(r.Classes, func(a, b Class) int { return cmp.Compare(a.Class, b.Class) })
	for _, u := range s.missing {
		r.NotObserved = append(r.NotObserved, *u)
	}
	slices.SortFunc(r.NotObserved, func(a, b Unobserved) int {
		return cmp.Or(cmp.Compare(b.Cases, a.Cases), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.String(), b.String()),
			cmp.Compare(a.Strategy, b.Strategy), cmp.Compare(a.Variant, b.Variant), cmp.Compare(a.Model, b.Model))
	})
}

// count adds a case that recovered, or may have.
func (b *Bounds) count(e *end) {
	if e.recovered {
		b.Least++
	}
	if e.recovered || e.unobserved {
		b.Most++
	}
}

// less returns the bounds of the difference of two numbers.
func (b Bounds) less(other Bounds) Bounds { return Bounds{b.Least - other.Most, b.Most - other.Least} }

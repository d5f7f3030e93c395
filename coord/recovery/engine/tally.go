package engine

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/judge"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Tally adds up traces in the order of the scenario. A report depends on the tally alone, so that
// the same traces give the same report.
type Tally struct {
	thresholds recovery.Thresholds
	prompts    map[string]entry.Digest // of variants
	frontier   *merkle.Frontier
	all        group
	classes    map[scenario.Label]*group
	slices     map[string]*group
	strategies map[strategyKey]*Strategy
	reasons    map[string]int64
	near       map[Near]*NearLimit
	observed   Observed
	never      []string // ids of cases that recovered and never should
	neverCount int64
	stoodIn    []string // ids of cases in which a ladder decided for a missing strategy
	stoodCount int64
	undeclared int64  // cases that escalated over an effect that no step declares
	hint       string // about the first of them
	simulated  bool
	// confidences are those of attempts, with what came of them.
	confidences judge.Calibration
}

type strategyKey struct{ strategy, variant string }

// group is a set of cases.
type group struct {
	Cases
	cost, tokens  int64
	unpriced      int64 // attempts of recovery without a known cost
	latency       latencies
	costed, timed int64 // failing cases with something known of cost, of time
}

// NewTally returns an empty tally.
func NewTally(p *recovery.Policy) (*Tally, error) {
	frontier, err := merkle.NewFrontier(0, nil)
	t := &Tally{
		thresholds: p.Thresholds(), prompts: p.Prompts(), frontier: frontier, classes: map[scenario.Label]*group{}, slices: map[string]*group{},
		strategies: map[strategyKey]*Strategy{}, reasons: map[string]int64{}, near: map[Near]*NearLimit{},
		all: group{latency: latencies{}},
	}
	for _, tag := range t.thresholds.Slices {
		t.slices[tag] = &group{latency: latencies{}}
	}
	return t, err
}

// Add takes the next trace and its leaf hash.
func (t *Tally) Add(trace *Trace, leaf merkle.Hash) error {
	unsafe := t.unsafeAutoRecovery(trace)
	t.all.add(trace, unsafe)
	for tag, g := range t.slices {
		if slices.Contains(trace.Tags, tag) {
			g.add(trace, unsafe)
		}
	}
	t.observe(trace)
	if trace.Status != NoFailure {
		label := scenario.Label{Class: trace.Class, Code: trace.Code}
		if t.classes[label] == nil {
			t.classes[label] = &group{latency: latencies{}}
		}
		t.classes[label].add(trace, unsafe)
	}
	if trace.Status == Escalated {
		t.reasons[trace.Reason]++
	}
	if unsafe {
		if t.neverCount++; len(t.never) < idsMax {
			t.never = append(t.never, trace.Case)
		}
	}
	if trace.Undeclared != "" {
		if t.undeclared++; t.undeclared == 1 {
			t.hint = "case " + trace.Case + ", " + trace.Hint()
		}
	}
	if trace.ladderStoodIn() {
		if t.stoodCount++; len(t.stoodIn) < idsMax {
			t.stoodIn = append(t.stoodIn, trace.Case)
		}
	}
	for i := range trace.Rungs {
		t.rung(trace, i)
	}
	for _, near := range trace.Near {
		t.nearLimit(trace.Case, near)
	}
	t.calibrate(trace)
	t.simulated = t.simulated || trace.Simulated
	return t.frontier.Append(leaf, func(uint, uint64, merkle.Hash) {})
}

// unsafeAutoRecovery reports whether a case recovered automatically although the policy forbids
// that.
func (t *Tally) unsafeAutoRecovery(trace *Trace) bool {
	return trace.Status == AutoRecovered && (trace.SafetyCritical ||
		slices.ContainsFunc(trace.Rungs, func(r Rung) bool { return t.thresholds.Never(r.Class, r.Code) }))
}

// ladderStoodIn reports whether a ladder decided because a strategy is not registered.
func (t *Trace) ladderStoodIn() bool {
	return slices.ContainsFunc(t.Rungs, func(r Rung) bool { return r.Reason == string(recovery.ReasonStrategyMissing) })
}

func (t *Tally) rung(trace *Trace, i int) {
	r := &trace.Rungs[i]
	key := strategyKey{r.Strategy, r.Variant}
	s := t.strategies[key]
	if s == nil {
		s = &Strategy{Strategy: r.Strategy, Variant: r.Variant, PromptDigest: t.prompts[r.Variant]}
		t.strategies[key] = s
	}
	s.Times++
	switch recovery.Result(r.Result) {
	case recovery.ResultOK:
		s.OK++
	case recovery.ResultDecided:
		s.Decided++
	case recovery.ResultNotObserved:
		s.NotObserved++
		t.observed.AttemptsNotObserved++
	}
	if r.Simulated {
		t.observed.AttemptsSimulated++
	}
}

func (t *Tally) observe(trace *Trace) {
	o := &t.observed
	o.StepsOK += trace.Steps.OK
	o.StepsFailed += trace.Steps.Failed
	o.StepsNotObserved += trace.Steps.NotObserved
	o.StepsSkipped += trace.Steps.Skipped
	o.Attempts += trace.Attempts
	o.AttemptsWithoutCost += trace.CostUnknown
	o.AttemptsWithoutLatency += trace.LatencyUnknown
	if trace.Simulated {
		o.CasesSimulated++
	}
	if trace.Outcome == scenario.Failed && trace.Status == AutoRecovered {
		o.RecoveredButFailed++
	}
}

func (t *Tally) nearLimit(id string, near Near) {
	key := Near{Param: near.Param, Value: near.Value}
	n := t.near[key]
	if n == nil {
		n = &NearLimit{Param: near.Param, Value: near.Value}
		t.near[key] = n
	}
	switch near.Status {
	case AutoRecovered:
		n.ToAutoRecovered++
	case Escalated:
		n.ToEscalated++
	}
	if len(n.Cases) < idsMax {
		n.Cases = append(n.Cases, id)
	}
}

func (g *group) add(trace *Trace, unsafe bool) {
	g.Total++
	if trace.Status == NoFailure {
		g.NoFailure++
		return
	}
	g.Failing++
	if unsafe {
		g.Unsafe++
	}
	if trace.Status == AutoRecovered {
		g.AutoRecovered++
	} else {
		g.Escalated++
	}
	if trace.Fallback {
		g.FallbackModelRecoveries++
	}
	g.cost += trace.CostMicroUSD
	g.tokens += trace.Tokens
	for i := range trace.Rungs {
		if r := &trace.Rungs[i]; recovery.Unpriced(recovery.Strategy(r.Strategy), recovery.Result(r.Result), r.CostMicroUSD) {
			g.unpriced++
		}
	}
	made := trace.Attempts + trace.Steps.OK + trace.Steps.Failed
	if trace.CostUnknown < made {
		g.costed++
	}
	if trace.LatencyUnknown < made {
		g.timed++
		g.latency.add(trace.LatencyMS)
	}
}

// latencies counts durations in milliseconds. Durations below 256 are exact. Longer durations are
// rounded up to 8 significant bits, by less than 0.8 %. The size does not grow with the number of
// durations.
type latencies map[int64]int64

func (l latencies) add(ms int64) {
	if low := bits.Len64(uint64(ms)) - 8; low > 0 {
		ms = (ms + 1<<low - 1) >> low << low
	}
	l[ms]++
}

// quantile is the least duration that is not exceeded by so many parts per
// million of those counted; nil without any.
func (l latencies) quantile(ppm int64) *int64 {
	total := int64(0)
	for _, n := range l {
		total += n
	}
	if total == 0 {
		return nil
	}
	rank := max(1, (total*ppm+million-1)/million)
	for _, ms := range slices.Sorted(maps.Keys(l)) {
		if rank -= l[ms]; rank <= 0 {
			return &ms
		}
	}
	return nil
}

// sortedGroups gives the groups of a map in the order of their keys.
func sortedLabels(classes map[scenario.Label]*group) []scenario.Label {
	return slices.SortedFunc(maps.Keys(classes), func(a, b scenario.Label) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Code, b.Code))
	})
}

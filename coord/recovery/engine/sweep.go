package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// Sweep recovers a scenario under several policies that differ in one number, and finds the values
// at which outcomes change.
type Sweep struct {
	Config
	Workers int
	Param   string
	Values  []int64
	// Progress is told how many bytes of the scenario have been dealt with; nil: nobody is told.
	Progress func(read int64)
	// Policies are Config.Policy with each value; see [NewSweep].
	policies []*recovery.Policy
}

// SweepPoint is the result of one value.
type SweepPoint struct {
	Value int64 `json:"value"`
	Cases
	Recommendation Recommendation `json:"recommendation"`
}

// Flip is a pair of neighbouring values between which outcomes change.
type Flip struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Count is the number of cases that end otherwise. The first ones are named.
	Count int64       `json:"count"`
	Cases []FlipCase  `json:"cases"`
	Gates []FlipGates `json:"gates,omitzero"`
	known bool        // of a case, it is known how it ends on both sides
}

// FlipCase is a case that ends otherwise.
type FlipCase struct {
	Case string           `json:"case"`
	From entry.CaseStatus `json:"from"`
	To   entry.CaseStatus `json:"to"`
	// NotObserved is set if one of the results is unknown because no attempt is recorded.
	NotObserved bool `json:"not_observed,omitzero"`
}

// FlipGates is a gate whose verdict changes.
type FlipGates struct {
	Gate string  `json:"gate"`
	From Verdict `json:"from"`
	To   Verdict `json:"to"`
}

// SweepReport is the finding of a sweep.
type SweepReport struct {
	Param  string       `json:"param"`
	Pinned int64        `json:"pinned"` // in the policy as it is
	Points []SweepPoint `json:"points"`
	Flips  []Flip       `json:"flips"`
	// Simulated is set where an outcome model took part in a result.
	Simulated bool `json:"simulated"`
	// Near is set if a flip lies next to the pinned value. Cases whose result is not observed on
	// one side do not count.
	Near bool `json:"near"`
	// MissingStrategies are the strategies that rules name. A sweep asks no strategy, and the
	// ladders of the rules decide.
	MissingStrategies []string `json:"missing_strategies,omitzero"`
}

// ParseRange reads a range of values as limits.attempts=1..6, with a step as
// limits.deadline_ms=10000..60000/5000.
func ParseRange(text string) (param string, values []int64, err error) {
	wrong := func(what string) (string, []int64, error) {
		return "", nil, fmt.Errorf("engine: range %.80q: %s; write NAME=FIRST..LAST or NAME=FIRST..LAST/STEP, as limits.attempts=1..6", text, what)
	}
	param, span, ok := strings.Cut(text, "=")
	first, rest, ranged := strings.Cut(span, "..")
	if !ok || param == "" || !ranged {
		return wrong("is not a range")
	}
	last, step, stepped := strings.Cut(rest, "/")
	if !stepped {
		step = "1"
	}
	var numbers [3]int64
	for i, part := range []string{first, last, step} {
		if numbers[i], err = strconv.ParseInt(part, 10, 64); err != nil || numbers[i] < 0 || numbers[i] > entry.MaxInteger {
			return wrong(fmt.Sprintf("%q is not a number from 0 to %d", part, int64(entry.MaxInteger)))
		}
	}
	from, to, by := numbers[0], numbers[1], numbers[2]
	if by == 0 || to < from || (to-from)/by >= sweepMax {
		return wrong(fmt.Sprintf("has no values, or more than %d", sweepMax))
	}
	for n := range (to-from)/by + 1 {
		values = append(values, from+n*by)
	}
	return param, values, nil
}

// NewSweep makes a policy of each value. It returns an error if the policy has no such number, or
// if a value is not allowed there.
func NewSweep(c Config, param string, values []int64) (*Sweep, error) {
	if _, ok := c.Policy.Int(param); !ok {
		return nil, fmt.Errorf("engine: sweep %s: the policy has no such number; arl policy show prints it", param)
	}
	s := &Sweep{Config: c, Param: param, Values: values}
	for _, value := range values {
		p, err := c.Policy.With(param, value)
		if err != nil {
			return nil, fmt.Errorf("engine: sweep %s=%d: %w", param, value, err)
		}
		s.policies = append(s.policies, p)
	}
	return s, nil
}

// Run reads the scenario once and recovers each case under every policy. A line that cannot be used
// ends the run.
func (s *Sweep) Run(ctx context.Context, name string, r io.Reader) (SweepReport, error) {
	report := SweepReport{Param: s.Param, Points: []SweepPoint{}, Flips: []Flip{}, MissingStrategies: missing(s.Policy, s.Strategies)}
	report.Pinned, _ = s.Policy.Int(s.Param)
	tallies := make([]*Tally, len(s.policies))
	for i, p := range s.policies {
		var err error
		if tallies[i], err = NewTally(p); err != nil {
			return report, err
		}
	}
	flips := make([]Flip, max(0, len(s.Values)-1))
	in := &countingReader{r: r}
	cases := scenario.Pipeline[[]Recovery]{Workers: s.Workers, Do: s.one}
	for result, err := range cases.Run(ctx, name, in) {
		if err == nil {
			err = ctx.Err() // cases that are done already do not keep anybody waiting
		}
		if err != nil {
			return report, err
		}
		if s.Progress != nil {
			s.Progress(in.read.Load())
		}
		for i := range result.Value {
			t := &result.Value[i].Trace
			line, err := t.Encode()
			if err := errors.Join(err, tallies[i].Add(t, leafOf(line))); err != nil {
				return report, err
			}
			if i > 0 {
				flips[i-1].note(&result.Value[i-1].Trace, t)
			}
		}
	}
	return report, s.finish(&report, tallies, flips)
}

// one takes a case through every policy.
func (s *Sweep) one(ctx context.Context, c *scenario.Case) ([]Recovery, error) {
	all := make([]Recovery, len(s.policies))
	for i, p := range s.policies {
		config := s.Config
		config.Policy = p
		var err error
		if all[i], err = config.Recover(ctx, c); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (f *Flip) note(from, to *Trace) {
	how := flipped(from, to)
	if how == none {
		return
	}
	f.known = f.known || how == known
	if f.Count++; len(f.Cases) < flipsMax {
		f.Cases = append(f.Cases, FlipCase{to.Case, from.Status, to.Status, how == unobserved})
	}
}

// finish compares neighbours.
func (s *Sweep) finish(report *SweepReport, tallies []*Tally, flips []Flip) error {
	var before Report
	for i, tally := range tallies {
		r, err := tally.Report(Subject{Policy: s.policies[i], Missing: report.MissingStrategies})
		if err != nil {
			return err
		}
		report.Simulated = report.Simulated || r.Simulated
		report.Points = append(report.Points, SweepPoint{s.Values[i], r.Cases, r.Recommendation})
		if i > 0 {
			f := &flips[i-1]
			f.From, f.To = s.Values[i-1], s.Values[i]
			for g := range r.Gates {
				if was, is := before.Gates[g].Verdict, r.Gates[g].Verdict; was != is {
					f.Gates = append(f.Gates, FlipGates{r.Gates[g].Gate, was, is})
				}
			}
			if f.Count > 0 || len(f.Gates) > 0 {
				report.Flips = append(report.Flips, *f)
				report.Near = report.Near || (f.known || len(f.Gates) > 0) && f.From <= report.Pinned && report.Pinned <= f.To
			}
		}
		before = r
	}
	return nil
}

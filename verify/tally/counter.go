package tally

import (
	"cmp"
	"maps"
	"slices"

	"recoveryledger/ledger/entry"
)

// work is the subject of a signal, and the signal's statement.
type work struct {
	subject     entry.Ref
	class, code string
}

// report is the statements of signals about a work.
type report struct {
	best      int // rank of the strongest verdict
	reporters map[entry.Principal]bool
	domains   map[string]bool
}

// member is an execution in a rollback.
type member struct {
	incident uint64
	exec     entry.Ref
}

type result struct {
	entry.Result
	own bool
	at  int64
}

// counter counts over the entries of one agent.
type counter struct {
	*Counts
	found  map[uint64]*entry.Disposition // of signals, by their index
	opened map[uint64]int64              // when incidents began, by their opening signal
	closed map[uint64]uint64             // index of the first record or denial of an incident
	sound  map[uint64]bool               // incidents with a corroborated signal
	named  map[uint64]bool               // incidents that the agent's entries are about

	works   map[work]*report
	members map[member]*result
	crashes map[[2]string]int64
	steps   map[[2]string]*Strategy
}

// verdict takes an entry's statements about incidents of any principal.
func (c *counter) verdict(e *entry.Registered) {
	var list []entry.Disposition
	var incident uint64
	switch body := e.Body.(type) {
	case *entry.Signal:
		c.opened[e.Index] = e.RegisteredAt
		return
	case *entry.Record:
		list, incident = body.Dispositions, body.Incident
	case *entry.Decision:
		if body.Act != entry.ActDeny {
			return
		}
		list, incident = body.Dispositions, body.Incident
	default:
		return
	}
	if _, ended := c.closed[incident]; !ended {
		c.closed[incident] = e.Index
	}
	for i := range list {
		c.found[list[i].Index] = &list[i] // the newest counts, where a signal was merged into an older incident
		if rank(&list[i]) == rankCorroborated {
			c.sound[incident] = true
		}
	}
}

// The ranks of verdicts, the weakest first.
const (
	rankDismissed = iota
	rankOpen
	rankInconclusive
	rankSelfReported
	rankOwnDomain
	rankCorroborated
)

// rank returns the rank of a disposition; nil is that of a signal without one.
func rank(d *entry.Disposition) int {
	switch {
	case d == nil:
		return rankOpen
	case d.Disposition == entry.Corroborated && d.Independent:
		return rankCorroborated
	case d.Disposition == entry.Corroborated:
		return rankOwnDomain
	case d.Disposition == entry.SelfReported:
		return rankSelfReported
	case d.Disposition == entry.Dismissed:
		return rankDismissed
	}
	return rankInconclusive
}

// add counts one more of a rank.
func (v *Verdicts) add(rank int) {
	switch rank {
	case rankCorroborated:
		v.Corroborated++
	case rankOwnDomain:
		v.OwnDomain++
	case rankSelfReported:
		v.SelfReported++
	case rankInconclusive:
		v.Inconclusive++
	case rankDismissed:
		v.Dismissed++
	default:
		v.Open++
	}
}

// add counts an entry under the agent.
func (c *counter) add(e *entry.Registered) {
	c.Entries++
	switch body := e.Body.(type) {
	case *entry.Execution:
		c.Executions++
	case *entry.Signal:
		c.signal(e, body)
	case *entry.Outcome:
		c.outcome(e, body)
	case *entry.Task:
		c.task(body)
	case *entry.Attempt:
		c.attempt(body)
	}
}

func (c *counter) signal(e *entry.Registered, s *entry.Signal) {
	found := c.found[e.Index]
	if found == nil {
		c.named[e.Index] = true // the incident that it opened, unless it joined another
	}
	if s.Iss == c.Agent {
		c.Signals.add(rank(found))
	}
	if owner, _ := s.Subject.Split(); owner != c.Agent {
		return
	}
	class, code := s.Effective()
	at := work{s.Subject, class, code}
	of := c.works[at]
	if of == nil {
		of = &report{best: rank(found), reporters: map[entry.Principal]bool{}, domains: map[string]bool{}}
		c.works[at] = of
	}
	of.best = max(of.best, rank(found))
	of.reporters[s.Iss] = true
	if found != nil {
		for _, domain := range found.Domains {
			of.domains[domain] = true
		}
	}
}

func (c *counter) outcome(e *entry.Registered, o *entry.Outcome) {
	c.named[o.Incident] = true
	if ended, ok := c.closed[o.Incident]; ok && ended < e.Index && o.Iss == c.Agent {
		c.Corrections++
	}
	if owner, _ := o.Exec.Split(); owner == c.Agent {
		c.members[member{o.Incident, o.Exec}] = &result{o.Result, o.Iss == c.Agent, e.RegisteredAt}
	}
}

func (c *counter) task(t *entry.Task) {
	if t.Agent != "" && t.Agent != c.Agent { // the agent is the operator or coordinator that moved it
		return
	}
	switch t.Op {
	case entry.TaskAssign, entry.TaskReassign, entry.TaskRelease:
		c.Tasks.Assigned++
		if t.From == entry.TaskFailed && t.Op != entry.TaskRelease && t.Epoch > 1 {
			c.Tasks.Retries++
		}
	case entry.TaskStart:
		c.Tasks.Started++
	case entry.TaskComplete:
		c.Tasks.Completed++
	case entry.TaskBlock:
		c.Tasks.Blocked++
	case entry.TaskInterrupt:
		c.Tasks.Interrupted++
	}
	if t.Snapshot == nil || t.Snapshot.Agent != c.Agent {
		return
	}
	c.Tasks.CostMicroUSD += t.Snapshot.CostMicroUSD
	c.Tasks.Restarts += max(t.Snapshot.Attempts-1, 0)
	if t.Op == entry.TaskFail {
		c.crashes[[2]string{t.Snapshot.Class, t.Snapshot.Code}]++
	}
}

// attempt counts what is said about cases of the agent's own work, whoever wrote that: a case
// counts once for each entry about the case. What a candidate decided in a shadow was not done.
func (c *counter) attempt(a *entry.Attempt) {
	if a.Of() != c.Agent || a.Arm == entry.ArmShadow {
		return
	}
	for one := range a.Cases() {
		c.attemptCase(one)
	}
}

func (c *counter) attemptCase(a *entry.AttemptCase) {
	c.Attempts++
	for i := range a.Rungs {
		r := &a.Rungs[i]
		at := [2]string{r.Strategy, r.Result}
		s := c.steps[at]
		if s == nil {
			s = &Strategy{Strategy: r.Strategy, Result: r.Result}
			c.steps[at] = s
		}
		s.Steps++
		if r.CostMicroUSD != nil {
			s.CostMicroUSD += *r.CostMicroUSD
		}
		if r.LatencyMS != nil {
			s.LatencyMS += *r.LatencyMS
		}
	}
}

// finish puts the lists in order.
func (c *counter) finish(shown map[string]uint64) {
	c.Failures, c.Outcomes, c.Tasks.Crashes, c.Strategies, c.NotShown = c.failures(), c.outcomes(), []Crash{}, []Strategy{}, []uint64{}
	for at, claims := range c.crashes {
		c.Tasks.Crashes = append(c.Tasks.Crashes, Crash{at[0], at[1], claims})
	}
	slices.SortFunc(c.Tasks.Crashes, func(a, b Crash) int { return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Code, b.Code)) })
	for _, s := range c.steps {
		c.Strategies = append(c.Strategies, *s)
	}
	slices.SortFunc(c.Strategies, func(a, b Strategy) int {
		return cmp.Or(cmp.Compare(a.Strategy, b.Strategy), cmp.Compare(a.Result, b.Result))
	})
	for _, incident := range slices.Sorted(maps.Keys(c.named)) {
		_, ended := c.closed[incident]
		if size, known := shown[entry.IncidentValue(incident)]; !known || !ended && size < c.Size {
			c.NotShown = append(c.NotShown, incident)
		}
	}
}

func (c *counter) failures() []Failure {
	byWord := map[[2]string]*Failure{}
	reporters, domains := map[[2]string]map[entry.Principal]bool{}, map[[2]string]map[string]bool{}
	for of, said := range c.works {
		at := [2]string{of.class, of.code}
		if byWord[at] == nil {
			byWord[at] = &Failure{Class: of.class, Code: of.code}
			reporters[at], domains[at] = map[entry.Principal]bool{}, map[string]bool{}
		}
		byWord[at].Works++
		byWord[at].add(said.best)
		maps.Copy(reporters[at], said.reporters)
		maps.Copy(domains[at], said.domains)
	}
	all := []Failure{}
	for at, f := range byWord {
		f.Reporters, f.Domains = sorted(reporters[at]), sorted(domains[at])
		all = append(all, *f)
	}
	slices.SortFunc(all, func(a, b Failure) int { return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Code, b.Code)) })
	return all
}

// sorted returns the members of a set, ascending; an empty list, not nil.
func sorted[K cmp.Ordered](set map[K]bool) []K {
	return slices.AppendSeq(make([]K, 0, len(set)), slices.Values(slices.Sorted(maps.Keys(set))))
}

func (c *counter) outcomes() []Outcome {
	byResult, took := map[entry.Result]*Outcome{}, map[entry.Result][]int64{}
	for of, came := range c.members {
		c.Memberships++
		o := byResult[came.Result]
		if o == nil {
			o = &Outcome{Result: came.Result}
			byResult[came.Result] = o
		}
		o.Members++
		if c.sound[of.incident] {
			o.Corroborated++
		}
		if came.own {
			o.Own++
		}
		if began, ok := c.opened[of.incident]; ok {
			took[came.Result] = append(took[came.Result], came.at-began)
		}
	}
	all := []Outcome{}
	for _, name := range entry.Results() {
		o := byResult[name]
		if o == nil {
			continue
		}
		if times := took[name]; len(times) > 0 {
			slices.Sort(times)
			o.FastestMS, o.MedianMS, o.SlowestMS = times[0], times[(len(times)-1)/2], times[len(times)-1]
		}
		all = append(all, *o)
	}
	return all
}

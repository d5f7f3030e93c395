package metrics

import (
	"cmp"
	"slices"

	"recoveryledger/coord"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/rollout"
	"recoveryledger/ledger/entry"
)

// follower counts what committed entries say. The goroutine that orders entries owns it.
type follower struct {
	metrics *Metrics
	rules   *coord.Rules // of the policy in force

	policies policies

	// authorizedAt holds the instants of the authorizes of open incidents, in Unix milliseconds.
	authorizedAt map[uint64]int64

	// stated holds the tasks under way whose claim has stated its cost in an attempt entry. The
	// snapshot of the claim, which comes after the entry, states a part of it again.
	stated map[entry.Ref]bool

	// forbidden holds the newest cases under way with a failure that no case may recover from.
	forbidden rollout.Open
}

// take implements [coordinator.Watcher].
func (f *follower) take(s *coord.State, e *entry.Registered) {
	m := f.metrics
	switch b := e.Body.(type) {
	case *entry.Signal:
		f.failed("signal", b.Class, b.Code)
		if _, _, opened := s.Milestones(e.Index); opened {
			m.counter("arl_incidents_opened_total").Inc()
		}
	case *entry.Decision:
		f.decided(s, e, b)
	case *entry.Approval:
		m.counter("arl_approvals_total", b.Verdict).Inc()
	case *entry.Outcome:
		m.counter("arl_outcomes_total", string(b.Result)).Inc()
	case *entry.Record:
		f.recorded(e, b)
	case *entry.Task:
		f.moved(b)
	case *entry.Attempt:
		f.attempted(s, b)
	case *entry.Rollout:
		if b.Op == entry.RolloutAbort {
			m.counter("arl_rollouts_aborted_total", cmp.Or(string(b.Gate), abortedByPeople)).Inc()
		}
	}
}

func (f *follower) failed(source, class, code string) {
	class, code = failure(class, code)
	f.metrics.counter("arl_failures_total", source, class, code).Inc()
}

func (f *follower) decided(s *coord.State, e *entry.Registered, d *entry.Decision) {
	m := f.metrics
	by := byPeople
	if key, ok := s.Chain().KeyInfo(e.KeyID); ok && slices.Contains(key.Roles, entry.RoleCoordinator) {
		by = byCoordinator
	}
	m.counter("arl_decisions_total", string(d.Act), by).Inc()
	if d.Impact != nil {
		m.histogram("arl_plan_members", string(d.Act)).Observe(float64(d.Impact.Members))
	}
	openedAt, ended, _ := s.Milestones(d.Incident)
	since := float64(e.RegisteredAt-openedAt) / 1000
	switch d.Act {
	case entry.ActContain:
		m.histogram("arl_incident_contain_seconds").Observe(since)
	case entry.ActAuthorize:
		m.histogram("arl_incident_authorize_seconds").Observe(since)
		f.authorizedAt[d.Incident] = e.RegisteredAt
	case entry.ActEscalate:
		reason := byPeople
		if by == byCoordinator {
			reason = reasonOf(d.Reason)
		}
		m.counter("arl_escalations_total", reason).Inc()
	case entry.ActDeny:
		if ended == e.Index {
			m.counter("arl_incidents_ended_total", string(entry.IncidentDismissed)).Inc()
		}
	}
}

func (f *follower) recorded(e *entry.Registered, r *entry.Record) {
	m := f.metrics
	m.counter("arl_incidents_ended_total", string(r.State)).Inc()
	for result, count := range r.Tally {
		m.counter("arl_members_total", string(result)).Add(float64(count))
	}
	m.counter("arl_members_residual_total").Add(float64(r.Unresolved.Size))
	if at, ok := f.authorizedAt[r.Incident]; ok {
		m.histogram("arl_incident_record_seconds").Observe(float64(e.RegisteredAt-at) / 1000)
		delete(f.authorizedAt, r.Incident)
	}
}

func (f *follower) moved(t *entry.Task) {
	m := f.metrics
	m.counter("arl_task_operations_total", t.Op).Inc()
	stated := f.stated[t.Task]
	delete(f.stated, t.Task)
	if t.Snapshot == nil {
		return
	}
	f.failed("task", t.Snapshot.Class, t.Snapshot.Code)
	if !stated {
		m.counter("arl_cost_micro_usd_total", "task").Add(float64(t.Snapshot.CostMicroUSD))
	}
	if t.Snapshot.Class == "crash" {
		m.counter("arl_crashes_total", within(entry.Codes("crash"), t.Snapshot.Code)).Inc()
	}
}

// attempted counts the decisions and the cases of an attempt entry. What a candidate decided in a
// shadow was not done.
func (f *follower) attempted(s *coord.State, a *entry.Attempt) {
	f.decidedBy(s, a)
	if a.Arm == entry.ArmShadow {
		return
	}
	limits := f.rules.Of(s).Thresholds()
	for c := range a.Cases() {
		f.attemptedCase(&limits, a, c)
		if c.CostMicroUSD == nil {
			continue
		}
		f.metrics.counter("arl_cost_micro_usd_total", "attempt").Add(float64(*c.CostMicroUSD))
		if t, known := s.Task(a.Task); known && t.State == entry.TaskInProgress && t.Agent == a.Of() {
			f.stated[a.Task] = true
		}
	}
}

func (f *follower) attemptedCase(limits *recovery.Thresholds, a *entry.Attempt, c *entry.AttemptCase) {
	m, forbidden := f.metrics, false
	m.counter("arl_recovery_cases_total", string(c.Status), armOf(a)).Inc()
	for i := range c.Rungs {
		rung := &c.Rungs[i]
		forbidden = forbidden || limits.Never(rung.Class, rung.Code)
		decided := rung.Result == string(recovery.ResultDecided)
		if !decided || a.Task == "" { // the end of its claim states the failure of a task
			f.failed("attempt", rung.Class, rung.Code)
		}
		if !decided {
			m.counter("arl_recovery_steps_total", within(strategies, rung.Strategy), within(texts(results), rung.Result)).Inc()
		}
		if rung.Tokens != nil {
			m.counter("arl_tokens_total", armOf(a)).Add(float64(*rung.Tokens))
		}
	}
	switch key := rollout.KeyOf("", a, c.Case); {
	case c.Status != entry.StatusPassedOn:
		if forbidden = f.forbidden.End(key) || forbidden; forbidden && c.Status == entry.StatusRecovered {
			m.Violated(ForbiddenRecovery)
		}
	case forbidden:
		f.forbidden.Note(key, a.Arm, c, true)
	}
}

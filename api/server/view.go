package server

import (
	"slices"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// NewIncident returns what GET /v1/incidents/{id} says of an incident, so that
// whoever derives it from the entries says the same.
func NewIncident(v *coord.IncidentView) *api.Incident {
	i := &api.Incident{
		ID: v.ID, Wid: v.Wid, State: v.State.String(), Epoch: v.Epoch, OpenedAt: v.OpenedAt, DecideAt: v.DecideAt,
		MergedInto: v.Into, Recorded: v.Recorded, Silence: v.Silent, Acknowledged: v.Acknowledged, Signals: newSignals(v.Signals),
		NotFenced: v.NotFenced, WaitsFor: v.WaitsFor, AsksPeople: v.AsksPeople(), StillFenced: v.StillFenced,
	}
	if f := v.Fence; f != nil {
		i.Fence = &api.Fence{Decision: f.Decision, EndsAt: f.Exp, Members: f.Members, Lines: f.Lines}
	}
	if p := v.Proposal; p != nil {
		i.Proposal = &api.Proposal{
			Ref: p.Ref, Issuer: p.Issuer, ExpiresAt: p.Exp, AnswerAt: p.AnswerAt, Pin: p.Pin, Scope: p.Scope,
			Unfounded: append([]uint64{}, p.Unfounded...), Approve: newAnswers(p.Approve), Refuse: newAnswers(p.Refuse), Quorum: p.Quorum,
		}
	}
	if d := v.Decision; d != nil {
		i.Decision = &api.InForce{
			Ref: d.Ref, Epoch: d.Epoch, ExpiresAt: d.Exp, DeadlineAt: d.Deadline, Overridden: d.Overridden, Void: d.Void,
			Members: d.Members, Tally: d.Tally, Review: d.Review, Decisions: slices.Clone(d.Decisions),
		}
	}
	return i
}

func newSignals(views []coord.SignalView) []api.IncidentSignal {
	signals := make([]api.IncidentSignal, 0, len(views))
	for _, v := range views {
		signals = append(signals, api.IncidentSignal{
			Index: v.Index, Incident: v.Incident, At: v.At, Issuer: v.Issuer, Subject: v.Subject, Standing: v.Standing,
			Evidence: v.Evidence, Disposition: v.Verdict.Disposition, Domains: v.Verdict.Domains, Independent: v.Verdict.Independent, Disposed: v.Disposed, Silence: v.Silent,
		})
	}
	return signals
}

func newAnswers(views []coord.AnswerView) []api.Answer {
	answers := make([]api.Answer, 0, len(views))
	for _, v := range views {
		answers = append(answers, api.Answer{Index: v.Index, Principal: v.Principal, ExpiresAt: v.Exp})
	}
	return answers
}

// NewPlan returns what GET /v1/incidents/{id}/plan says of a plan. decision is
// the index of the one in force, 0 in a preview.
func NewPlan(incident, decision uint64, v *coord.PlanView) *api.Plan {
	p := &api.Plan{
		Incident: incident, Decision: decision, Members: make([]api.PlanMember, 0, len(v.Members)), Review: append([]entry.Ref{}, v.Review...),
		Scope: v.Scope, Blast: v.Blast, Counters: []api.Counter{}, Limits: v.Limits, CostMicroUSD: v.CostMicroUSD, NotFenced: v.NotFenced,
	}
	for i := range v.Members {
		m := &v.Members[i]
		p.Members = append(p.Members, api.PlanMember{
			Agent: m.Agent, Exec: m.Exec, Index: m.Index, LeafHash: m.LeafHash, Method: m.Method, Checkpoint: m.Checkpoint,
			Effect: m.Effect, Progress: m.Progress, Drain: m.Drain, Direct: m.Direct, Rule: m.Rule, From: m.From, CostMicroUSD: m.Cost,
			Result: m.Result, ResultAt: m.ResultAt, Released: m.Released, Fenced: m.Fenced, DueAt: m.Due,
		})
	}
	for _, c := range v.Counters {
		purpose := "rollback"
		if c.Fence {
			purpose = "fence"
		}
		p.Counters = append(p.Counters, api.Counter{For: purpose, Whose: c.Whose, Principal: c.Principal, Members: c.Members, Agents: c.Agents,
			Domains: c.Domains, FencedMS: c.FencedMS, Limit: c.Limit})
	}
	if r := v.Refusal; r != nil {
		p.Asks = &api.Asks{Problem: r.Problem, Field: r.Field, Detail: r.Detail}
	}
	return p
}

// NewHistory returns what GET /v1/agents/{id}/history says of a principal,
// without outcomes, entries and tree head.
func NewHistory(h *coord.History) *api.History {
	out := &api.History{
		Principal: h.Principal, Judged: h.Judged, Corroborated: h.Corroborated, Independent: h.Independent, SelfReported: h.SelfReported,
		Unfounded: h.Unfounded, Corrections: h.Corrections,
		SignalLimit: h.SignalLimit, Signals: newSignals(h.Signals), Memberships: make([]api.Membership, 0, len(h.Memberships)),
		Outcomes: []api.HistoryOutcome{}, Entries: []api.Item{},
	}
	for _, m := range h.Memberships {
		out.Memberships = append(out.Memberships, api.Membership{
			Incident: m.Incident, Decision: m.Decision, Exec: m.Exec, Method: m.Method, Result: m.Result, ResultAt: m.ResultAt, Own: m.Own,
		})
	}
	return out
}

func newExecution(v *coord.ExecutionView) api.Execution {
	return api.Execution{
		Exec: v.Ref, Index: v.Index, Final: v.Final, Effect: v.Effect, Progress: v.Progress, Parents: v.Parents, Undone: v.Undone,
		FencedBy: v.FencedBy, Compensates: v.Compensates,
	}
}

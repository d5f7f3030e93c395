package admission

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"recoveryledger/api/conformance/stage"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// prepare has the authority write a policy that the cases rest on, revoke whoever coordinates, and
// enrol those whom the kit plays.
func (l *play) prepare() {
	inForce, previous := l.state.Chain().Policy()
	if inForce == nil {
		l.must(errors.New("conformance: the log has no policy: begin the ledger first"))
		return
	}
	authority := entry.Principal("")
	for _, a := range inForce.Authority {
		if a.Key.KeyID() == l.at.Authority.Public().KeyID() {
			authority = a.Principal
		}
	}
	if authority == "" {
		l.must(errors.New("conformance: the key is not that of an authority of the policy in force: pass the key of the ledger's authority"))
		return
	}
	l.signers[authority] = l.at.Authority
	l.signers[""] = l.at.Authority
	l.authority = authority
	policy := *inForce
	policy.Previous, policy.Crit = &previous, nil
	policy.Quorum = entry.Quorum{Approve: 2, Override: 2, Signalers: 2}
	policy.Quotas = entry.Quotas{SignalsPerHour: 1_000_000}
	policy.Limits.Incident = entry.Cap{Members: 1000, Agents: 10, Domains: 2, FencedMS: 1 << 40}
	policy.Limits.Signaler = entry.Cap{Members: 1_000_000, Agents: 1000, Domains: 100, FencedMS: 1 << 40}
	policy.Limits.Victim = policy.Limits.Signaler
	policy.Limits.Fence = nil
	l.write(authority, &policy)
	for _, link := range l.state.Chain().Links() {
		a, is := link.Body.(*entry.Agent)
		if is && a.Op != entry.Revoke && slices.Contains(a.Roles, entry.RoleCoordinator) && l.err == nil {
			revoked := *a
			revoked.Op, revoked.Capabilities, revoked.Crit = entry.Revoke, nil, nil
			if answer := l.post(l.seal(authority, &revoked).AppendEnvelope(nil), "application/json", true); l.err == nil && answer.status == 201 {
				l.must(l.follow(answer.receipt.Index + 1)) // others are revoked already
			}
		}
	}
	for _, p := range []struct {
		name string
		role entry.Role
	}{{"enroller", entry.RoleEnroller}, {"coordinator", entry.RoleCoordinator}, {"monitor", entry.RoleMonitor}, {"operator", entry.RoleOperator},
		{"ann", entry.RoleApprover}, {"bob", entry.RoleApprover}, {"a", entry.RoleAgent}, {"b", entry.RoleAgent}, {"c", entry.RoleAgent}} {
		l.enrol(p.name, p.role)
	}
}

// enrol enrols a principal of this run.
func (l *play) enrol(name string, roles ...entry.Role) {
	made := stage.Enrolment(l.name(name), l.signer(l.name(name)).Public(), roles[0])
	made.Roles = roles
	l.write(l.authority, made)
}

// fresh is a new execution of a principal of this run.
func (l *play) fresh(of string) entry.Ref {
	l.n++
	return entry.NewRef(l.name(of), "x"+strconv.Itoa(l.n))
}

// did registers a new execution up to its end.
func (l *play) did(of string, effect entry.Effect, parents ...entry.Ref) entry.Ref {
	ref := l.fresh(of)
	if effect != entry.EffectNone {
		l.step(ref, effect, entry.Started, parents...)
	}
	l.step(ref, effect, entry.Confirmed, parents...)
	return ref
}

// step registers an entry of an execution.
func (l *play) step(ref entry.Ref, effect entry.Effect, progress entry.Progress, parents ...entry.Ref) {
	by, _ := stage.Owner(ref)
	l.write(by, stage.Execution(ref, effect, progress, parents...))
}

// opens has somebody signal, and returns the incident.
func (l *play) opens(subject entry.Ref) uint64 {
	by, _ := stage.Owner(subject)
	return l.write(by, stage.Signal(subject, entry.StandingExecutor, l.now())).Index
}

// drafts is what a decision about an incident would say now.
func (l *play) drafts(incident uint64, act entry.Act, more ...func(*coord.Order)) *entry.Decision {
	if l.err != nil {
		return &entry.Decision{}
	}
	o := coord.Order{Incident: incident, Act: act, Reason: "as the case says"}
	for _, change := range more {
		change(&o)
	}
	d, err := l.state.Draft(o, l.now())
	if err != nil {
		l.must(fmt.Errorf("conformance: draft %s: %w", act, err))
		return &entry.Decision{}
	}
	return d
}

// decides has the coordinator decide.
func (l *play) decides(incident uint64, act entry.Act) entry.LogRef {
	return l.write(l.name("coordinator"), l.drafts(incident, act))
}

// charged is an incident of one compensable execution, authorized.
func (l *play) charged() (of entry.Ref, incident uint64, decision entry.LogRef) {
	of = l.did("a", entry.EffectCompensable)
	incident = l.opens(of)
	return of, incident, l.decides(incident, entry.ActAuthorize)
}

// proposed is an incident with an effect that nothing undoes, proposed to people.
func (l *play) proposed() (of entry.Ref, incident uint64, proposal entry.LogRef) {
	of = l.did("a", entry.EffectIrrevocable)
	incident = l.opens(of)
	return of, incident, l.decides(incident, entry.ActEscalate)
}

// answers has an approver answer a proposal.
func (l *play) answers(who string, incident uint64, proposal entry.LogRef, verdict string) entry.LogRef {
	return l.write(l.name(who), l.answerTo(incident, proposal, verdict))
}

func (l *play) answerTo(incident uint64, proposal entry.LogRef, verdict string) *entry.Approval {
	return &entry.Approval{Incident: incident, Proposal: proposal, Verdict: verdict, Exp: l.now()/1000 + 1800, Reason: "as the case says"}
}

// compensates registers the compensation of a member.
func (l *play) compensates(of entry.Ref, incident uint64, decision entry.LogRef) entry.Ref {
	by, _ := stage.Owner(of)
	ref := l.fresh("")
	_, id := stage.Owner(ref)
	for _, progress := range []entry.Progress{entry.Planned, entry.Started, entry.Confirmed} {
		l.write(by, compensation(of, id, progress, incident, decision))
	}
	return entry.NewRef(by, id)
}

func compensation(of entry.Ref, id string, progress entry.Progress, incident uint64, decision entry.LogRef) *entry.Execution {
	return &entry.Execution{Exec: id, Parents: []entry.Parent{}, Effect: entry.EffectIrrevocable, Progress: progress, IdempotencyKey: stage.ZeroDigest,
		Compensates: &entry.Compensates{Incident: incident, Decision: decision, Exec: of}}
}

// outcome is the outcome of a member.
func (l *play) outcome(of entry.Ref, incident uint64, decision entry.LogRef, result entry.Result) *entry.Outcome {
	o := &entry.Outcome{Incident: incident, Decision: decision, Exec: of, Result: result, ObservedAt: l.now()}
	switch result {
	case entry.Restored:
		o.PostDigest = stage.ZeroDigest
	case entry.Compensated, entry.NotExecuted:
	default:
		o.Residual = "what was done stands"
	}
	return o
}

// undone is an incident whose one member was compensated.
func (l *play) undone() (of entry.Ref, incident uint64, outcome entry.LogRef) {
	of, incident, decision := l.charged()
	by := l.compensates(of, incident, decision)
	o := l.outcome(of, incident, decision, entry.Compensated)
	o.CompExec = by
	return of, incident, l.write(l.name("a"), o)
}

// record is what the record of an incident says.
func (l *play) record(incident uint64) *entry.Record {
	if l.err != nil {
		return &entry.Record{}
	}
	r, err := l.state.DraftRecord(incident)
	if err != nil {
		l.must(fmt.Errorf("conformance: draft the record: %w", err))
		return &entry.Record{}
	}
	return r
}

package api

import (
	"errors"
	"slices"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// A statement about the log as a whole is the server's word: nothing in these answers proves it. A
// client that acts on such a statement derives it again from the entries, as the arl command does,
// or verifies the proof.

// Incidents is the answer of GET /v1/incidents.
type Incidents struct {
	Size      uint64     `json:"size" doc:"size of the log that the list follows from"`
	Incidents []Incident `json:"incidents" doc:"the newest first"`
	Next      string     `json:"next,omitempty" doc:"path of the next page; absent on the last page"`
}

// Incident is the answer of GET /v1/incidents/{id}: an incident as it stands.
type Incident struct {
	ID         uint64              `json:"id" doc:"index of its opening signal"`
	Wid        entry.WorkflowID    `json:"wid" doc:"workflow of its opening signal"`
	State      entry.IncidentState `json:"state" enum:"REPORTED,CONTAINED,ESCALATED,AUTHORIZED,DISMISSED,RECOVERED,NO_EFFECTS,PARTIAL,FAILED"`
	Epoch      int64               `json:"epoch"`
	OpenedAt   int64               `json:"opened_at" doc:"Unix milliseconds"`
	DecideAt   int64               `json:"decide_at" doc:"time from which principals other than the coordinator may escalate, Unix milliseconds"`
	MergedInto uint64              `json:"merged_into,omitzero" doc:"the older incident that took its signals"`
	Recorded   uint64              `json:"recorded,omitzero" doc:"index of the recovery record, or of the deny that closed the incident"`
	Silence    bool                `json:"silence,omitzero" doc:"whether the incident was dismissed because no approver answered in time"`
	// Acknowledged ends the wait for a person who acknowledges the silence.
	Acknowledged uint64           `json:"acknowledged,omitzero" doc:"with silence: index of the entry by which a person has acknowledged the silence; absent: no person has"`
	Lapsed       *Lapse           `json:"lapsed,omitempty" doc:"the newest amend that no approver answered in time; absent: there is none"`
	Signals      []IncidentSignal `json:"signals"`
	Fence        *Fence           `json:"fence,omitempty" doc:"fence of a contain or a proposal, while the fence lasts"`
	Waits        *Waits           `json:"waits,omitempty" doc:"what the incident waits for; absent: nothing"`
	WaitsFor     string           `json:"waits_for,omitempty" doc:"what the incident waits for, in a few words; absent: nothing"`
	Next         *NextStep        `json:"next,omitempty" doc:"the entry that the coordinator writes next if the log does not grow before; absent: there is none, or the incident stands in a list"`
	Approvers    []Approver       `json:"approvers,omitempty" doc:"with a proposal: principals with the role approver, and why some may not answer; absent in a list"`
	Cosignatures string           `json:"cosignatures,omitempty" doc:"which witnesses the quorum lacks, and why; agents do not obey the decision meanwhile; absent: no witness is lacking, or no agent has a decision to obey; only a running ledger knows this"`
	AsksPeople   bool             `json:"asks_people,omitzero" doc:"whether the incident waits for approvals: the incident is escalated, or an amend of the decision in force is proposed"`
	// StillFenced counts the fenced members of a closed incident.
	StillFenced int       `json:"still_fenced,omitzero" doc:"number of members that stay fenced although the incident is over; an approver can release them"`
	NotFenced   string    `json:"not_fenced,omitempty" doc:"why nothing is fenced although no decision is made; absent: the members are fenced, or a decision is made"`
	Proposal    *Proposal `json:"proposal,omitempty" doc:"proposal that waits for answers"`
	Decision    *InForce  `json:"decision,omitempty" doc:"decision in force"`
}

// Unacknowledged reports whether no approver answered the incident or an amend of it in time, and
// no person has acknowledged that.
func (i *Incident) Unacknowledged() bool {
	return i.Silence && i.Acknowledged == 0 || i.Lapsed != nil && i.Lapsed.Acknowledged == 0
}

// Matches reports whether a query asks for an incident of this workflow and state. Its other
// members choose the incidents to look at.
func (i *Incident) Matches(q *IncidentQuery) bool {
	switch {
	case q.Workflow != "" && i.Wid != q.Workflow:
		return false
	case q.State == StateOpen:
		return i.State.Open()
	case q.State == StateClosed:
		return !i.State.Open()
	case q.State == StateUnacknowledged:
		return i.Unacknowledged()
	}
	return q.State == "" || string(i.State) == q.State
}

// Undecided reports whether the incident is open and no plan of it is in force.
func (i *Incident) Undecided() bool {
	return i.Decision == nil && i.Waits != nil && i.Waits.For != ForAcknowledgement
}

// FenceObstacle says why other agents may build on the plan while it waits for a decision. It is
// empty if the fence of the plan holds. Before the first decision about the incident, the plan
// meets the obstacle that every decision will meet.
func (i *Incident) FenceObstacle(plan *Plan) string {
	if i.NotFenced != "" && i.State == entry.IncidentReported && plan.NotFenced != "" {
		return plan.NotFenced
	}
	return i.NotFenced
}

// NotedBy returns the index of the entry by which a person acknowledged the newest silence about
// the incident or about an amend; 0: there is no such entry.
func (i *Incident) NotedBy() uint64 {
	if i.Lapsed != nil {
		return i.Lapsed.Acknowledged
	}
	return i.Acknowledged
}

// Approved reports whether enough approvers approve the proposal.
func (p *Proposal) Approved() bool { return int64(len(p.Approve)) >= p.Quorum }

// Corrects reports whether an outcome at an index of the log is a correction: it stands
// behind the record that closed the incident.
func (i *Incident) Corrects(index uint64) bool { return i.Recorded != 0 && index > i.Recorded }

// Lapse is a proposed amend that no approver answered in time. The plan in force goes on without
// it.
type Lapse struct {
	Proposal     uint64 `json:"proposal" doc:"index of the escalate"`
	At           int64  `json:"at" doc:"end of the time to answer the proposal, Unix milliseconds"`
	Acknowledged uint64 `json:"acknowledged,omitzero" doc:"index of the entry by which a person has acknowledged the silence; absent: no person has"`
}

// IncidentSignal is a signal and its disposition.
type IncidentSignal struct {
	Index       uint64          `json:"index"`
	Incident    uint64          `json:"incident" doc:"incident that gives the signal its disposition"`
	At          int64           `json:"registered_at" doc:"Unix milliseconds"`
	Issuer      entry.Principal `json:"iss"`
	Subject     entry.Ref       `json:"subject"`
	Standing    entry.Standing  `json:"standing"`
	Evidence    bool            `json:"evidence" doc:"whether the signal names evidence"`
	Disposition string          `json:"disposition,omitempty" doc:"corroborated, self_reported, dismissed or inconclusive; absent: none yet"`
	Domains     []string        `json:"domains,omitempty" doc:"with corroborated: domains of the principals that corroborate the signal"`
	Independent bool            `json:"independent,omitzero" doc:"whether a corroborating principal has another domain than the issuer, or a role that the authority grants"`
	Disposed    uint64          `json:"disposed,omitzero" doc:"index of the recovery record or deny that has the disposition"`
	Silence     bool            `json:"silence,omitzero" doc:"whether the disposition comes from a deny for silence: no approver answered in time about the incident"`
}

// Fence is the fence of an incident: no execution may depend on its members until it ends.
type Fence struct {
	Decision uint64 `json:"decision" doc:"index of the decision that raised the fence"`
	EndsAt   int64  `json:"ends_at" doc:"Unix milliseconds"`
	Members  int    `json:"members"`
	Lines    int    `json:"lines"`
}

// Proposal is an escalate that waits for answers.
type Proposal struct {
	Ref         entry.LogRef    `json:"ref"`
	Issuer      entry.Principal `json:"iss"`
	ExpiresAt   int64           `json:"expires_at" doc:"Unix milliseconds"`
	AnswerAt    int64           `json:"answer_at" doc:"time from which silence denies the proposal, Unix milliseconds"`
	Pin         merkle.Head     `json:"pin" doc:"head of the log that the plan was computed at"`
	RollbackSet merkle.Head     `json:"rollback_set" doc:"head of the tree over the members of the proposed plan"`
	Dismissed   []uint64        `json:"dismissed" doc:"indexes of the signals that the proposal leaves out"`
	Approve     []Answer        `json:"approve" doc:"approvals that count"`
	Refuse      []Answer        `json:"refuse" doc:"refusals that count"`
	Quorum      int64           `json:"quorum" doc:"number of approvals that the proposal needs"`
}

// Answer is an approval or a refusal that counts.
type Answer struct {
	Index     uint64          `json:"index"`
	Principal entry.Principal `json:"principal"`
	ExpiresAt int64           `json:"expires_at" doc:"Unix milliseconds"`
}

// InForce is the decision in force.
type InForce struct {
	Ref        entry.LogRef           `json:"ref"`
	Epoch      int64                  `json:"epoch"`
	ExpiresAt  int64                  `json:"expires_at" doc:"Unix milliseconds"`
	DeadlineAt int64                  `json:"deadline_at" doc:"Unix milliseconds"`
	Overridden bool                   `json:"overridden"`
	Void       bool                   `json:"void" doc:"whether the key of the decision was compromised before the decision (TRU-4)"`
	Members    int                    `json:"members"`
	Tally      map[entry.Result]int64 `json:"tally" doc:"number of members by result"`
	Review     int                    `json:"review" doc:"number of soft dependents, which people review"`
	Decisions  []uint64               `json:"decisions" doc:"indexes of the authorize and the amends"`
}

// Plan is the answer of GET /v1/incidents/{id}/plan: the rollback set with methods and order.
type Plan struct {
	Incident     uint64       `json:"incident"`
	Decision     uint64       `json:"decision,omitzero" doc:"index of the decision in force; absent in a preview"`
	Members      []PlanMember `json:"members" doc:"descending by index"`
	Review       []entry.Ref  `json:"review" doc:"soft dependents: their agents are told, and nothing of them is undone; only on the first page"`
	RollbackSet  merkle.Head  `json:"rollback_set" doc:"head of the tree over the members"`
	Impact       entry.Impact `json:"impact"`
	Limits       entry.Limits `json:"limits" doc:"limits of the incident"`
	CostMicroUSD int64        `json:"cost_micro_usd" doc:"logged cost of the members' work"`
	Counters     []Counter    `json:"counters" doc:"counts of the rolling limits, each with its limit, this plan included; empty in a plan in force"`
	NotFenced    string       `json:"not_fenced,omitempty" doc:"why no decision could fence the plan now; absent if one could, and in a plan in force"`
	Asks         *Asks        `json:"asks,omitempty" doc:"why the coordinator may not authorize the plan alone; absent if the coordinator may, and in a plan in force"`
	Next         string       `json:"next,omitempty" doc:"path of the next page; absent on the last page"`
}

// Releasable returns the members whose fence a release would lift: their outcome is there, and the
// fence still stands.
func (p *Plan) Releasable() (list []entry.Ref) {
	for i := range p.Members {
		if m := &p.Members[i]; m.Fenced && m.Result != "" {
			list = append(list, m.Exec)
		}
	}
	return list
}

// Counter is the amount that counts against a cap, the plan included.
type Counter struct {
	For       string          `json:"for" enum:"rollback,fence" doc:"what is limited: rollbacks that the coordinator authorizes alone, or fences, which may reach farther"`
	Whose     string          `json:"whose" enum:"incident,signaler,victim"`
	Principal entry.Principal `json:"principal,omitempty" doc:"the signaler or the victim that is counted"`
	Members   int64           `json:"members"`
	Agents    int64           `json:"agents"`
	Domains   int64           `json:"domains"`
	FencedMS  int64           `json:"fenced_ms"`
	Limit     entry.Cap       `json:"limit"`
}

// Residual returns how many members cannot be undone. They are more than the irrevocable and the
// undeclared ones of Impact: a reversible member without a checkpoint to restore is one of them.
func (p *Plan) Residual() (count int) {
	for i := range p.Members {
		if p.Members[i].Residual() {
			count++
		}
	}
	return count
}

// Residual reports whether the member cannot be undone, with an outcome or without.
func (m *PlanMember) Residual() bool {
	return m.Method == entry.MethodResidual || m.Result == entry.ResultIrrevocable
}

// Asks is why people must decide.
type Asks struct {
	Problem entry.Problem `json:"problem" doc:"name of the problem type with which the ledger would refuse an authorize"`
	Field   string        `json:"field,omitempty"`
	Detail  string        `json:"detail"`
}

// PlanMember is a member of a plan.
type PlanMember struct {
	Agent        entry.Principal `json:"agent"`
	Exec         entry.Ref       `json:"exec"`
	Index        uint64          `json:"index" doc:"index of the execution's first entry"`
	LeafHash     merkle.Hash     `json:"leaf_hash" doc:"leaf hash of that entry, base64"`
	Method       entry.Method    `json:"method" enum:"none,cancel,restore,compensate,residual"`
	Checkpoint   entry.Ref       `json:"checkpoint,omitempty" doc:"with restore: checkpoint that the line goes back to"`
	Effect       entry.Effect    `json:"effect"`
	Progress     entry.Progress  `json:"progress"`
	Drain        bool            `json:"drain,omitzero" doc:"whether the agent first logs the final progress of the execution"`
	Direct       bool            `json:"direct" doc:"whether hard dependencies alone lead to the member (SCO-1)"`
	Rule         string          `json:"rule" enum:"seed,dependent,line" doc:"why the execution is a member"`
	From         entry.Ref       `json:"from" doc:"execution that leads to the member; the member itself for a seed"`
	CostMicroUSD int64           `json:"cost_micro_usd"`
	Result       entry.Result    `json:"result,omitempty" doc:"result of the outcome; absent: there is no outcome yet"`
	ResultAt     uint64          `json:"result_at,omitzero" doc:"index of the entry with the result"`
	Released     bool            `json:"released,omitzero" doc:"whether the undo of the member may begin (INC-7)"`
	Fenced       bool            `json:"fenced,omitzero" doc:"whether a fence stands around the member now"`
	DueAt        int64           `json:"due_at,omitzero" doc:"end of the member's time, Unix milliseconds"`
	Parents      []PlanParent    `json:"parents,omitempty" doc:"members that the execution was built on; absent: none"`
	After        []int           `json:"after,omitempty" doc:"places of members that hold this member up: their outcomes come first; at most 16; absent: none does"`
}

// PlanParent is a member that another member was built on.
type PlanParent struct {
	Place int       `json:"place" doc:"place of the parent among all members of the plan, from 0"`
	Dep   entry.Dep `json:"dep" enum:"hard,soft"`
}

// Set returns the members as the leaves of the tree with the head RollbackSet.
func (p *Plan) Set() []entry.Member {
	set := make([]entry.Member, len(p.Members))
	for i := range p.Members {
		set[i] = p.Members[i].Member()
	}
	return set
}

// Member returns the leaf of the member in the tree of the rollback set.
func (m *PlanMember) Member() entry.Member {
	return entry.Member{Agent: m.Agent, Exec: m.Exec, Index: m.Index, LeafHash: m.LeafHash, Method: m.Method, Checkpoint: m.Checkpoint}
}

// History is the answer of GET /v1/agents/{id}/history: statements of the log about a principal,
// with the entries that make them.
type History struct {
	Head         string           `json:"head" doc:"signed tree head that every proof leads to"`
	Principal    entry.Principal  `json:"principal"`
	Judged       int              `json:"judged" doc:"number of the principal's last 256 signals that have a disposition"`
	Corroborated int64            `json:"corroborated" doc:"number of judged signals that were corroborated"`
	Independent  int64            `json:"independent" doc:"number of corroborated signals with support by another domain, or by a role that the authority grants; only these count for the quota"`
	SelfReported int64            `json:"self_reported" doc:"number of judged signals that were believed on the principal's word alone"`
	Dismissed    int64            `json:"dismissed" doc:"number of judged signals that were not believed"`
	Corrections  int64            `json:"corrections" doc:"number of outcomes that the principal corrected after the record"`
	SignalLimit  int64            `json:"signal_limit" doc:"number of signals that the principal may send in an hour"`
	Signals      []IncidentSignal `json:"signals" doc:"signals of the principal, the newest incident first"`
	Memberships  []Membership     `json:"memberships" doc:"executions of the principal that were members of a plan"`
	Outcomes     []HistoryOutcome `json:"outcomes" doc:"outcomes that the principal reported"`
	Attempts     []HistoryAttempt `json:"attempts,omitempty" doc:"cases of the principal's work that an engine, the coordinator or the agent recorded, of the newest entries about the principal; without before and after"`
	Entries      []Item           `json:"entries" doc:"entries that the indexes above name, and entries that closed the incidents, by index, each with its proof"`
	Cursor       uint64           `json:"cursor,omitempty" doc:"with after: value of after for the next request, now or later"`
	Next         string           `json:"next,omitempty" doc:"path of the next page; absent on the last page"`
}

// Proof returns the indexes of the entries that prove a history over incidents, ascending, each
// once: the entries that its lines name, and the entries that closed the incidents.
func (h *History) Proof(incidents []Incident) []uint64 {
	var named []uint64
	for i := range incidents {
		named = append(named, incidents[i].Recorded)
	}
	for _, s := range h.Signals {
		named = append(named, s.Index, s.Disposed)
	}
	for _, m := range h.Memberships {
		named = append(named, m.Decision, m.ResultAt)
	}
	for _, o := range h.Outcomes {
		named = append(named, o.Index)
	}
	for i := range h.Attempts {
		named = append(named, h.Attempts[i].Index)
	}
	slices.Sort(named)
	named = slices.Compact(named)
	if len(named) > 0 && named[0] == 0 {
		return named[1:] // 0 names none: entry 0 is the genesis
	}
	return named
}

// Membership is an execution that was to be undone.
type Membership struct {
	Incident uint64       `json:"incident"`
	Decision uint64       `json:"decision" doc:"index of the decision that made the execution a member"`
	Exec     entry.Ref    `json:"exec"`
	Method   entry.Method `json:"method"`
	Result   entry.Result `json:"result,omitempty" doc:"result of the outcome; absent: there is no outcome yet"`
	ResultAt uint64       `json:"result_at,omitzero" doc:"index of the entry with the result"`
	Own      bool         `json:"own" doc:"whether the principal itself reported the result"`
}

// HistoryOutcome is an outcome that a principal reported.
type HistoryOutcome struct {
	Index      uint64       `json:"index"`
	Incident   uint64       `json:"incident"`
	Exec       entry.Ref    `json:"exec"`
	Result     entry.Result `json:"result"`
	Correction bool         `json:"correction,omitzero" doc:"whether the incident was closed before the outcome"`
}

// HistoryAttempt is a case of an attempt entry.
type HistoryAttempt struct {
	Index  uint64           `json:"index"`
	Case   string           `json:"case"`
	Status entry.CaseStatus `json:"status" enum:"auto_recovered,escalated,passed_on,no_failure"`
	Policy entry.Digest     `json:"policy,omitempty" doc:"digest of the rules that decided"`
	Arm    entry.Arm        `json:"arm,omitempty" doc:"of a rollout" enum:"control,canary"`
	Rungs  int              `json:"rungs" doc:"number of decisions"`
}

// AttemptsIn returns the lines of a history about an attempt entry.
func AttemptsIn(a *entry.Attempt, index uint64) (lines []HistoryAttempt) {
	for c := range a.Cases() {
		lines = append(lines, HistoryAttempt{Index: index, Case: c.Case, Status: c.Status, Policy: a.Policy, Arm: a.Arm, Rungs: len(c.Rungs)})
	}
	return lines
}

// Graph is the answer of GET /v1/workflows/{wid}/graph: executions and their dependencies.
type Graph struct {
	Size       uint64           `json:"size" doc:"size of the log that the graph follows from"`
	Wid        entry.WorkflowID `json:"wid"`
	Executions []Execution      `json:"executions" doc:"the newest first"`
	Next       string           `json:"next,omitempty" doc:"path of the next page; absent on the last page"`
}

// Execution is an execution as it stands.
type Execution struct {
	Exec        entry.Ref      `json:"exec"`
	Index       uint64         `json:"index" doc:"index of the execution's first entry"`
	Final       uint64         `json:"final,omitzero" doc:"index of the execution's final entry; absent: there is none yet"`
	Effect      entry.Effect   `json:"effect"`
	Progress    entry.Progress `json:"progress"`
	Parents     []entry.Parent `json:"parents"`
	Undone      bool           `json:"undone,omitzero"`
	FencedBy    uint64         `json:"fenced_by,omitzero" doc:"incident that fences the execution"`
	Compensates entry.Ref      `json:"compensates,omitempty"`
}

// Commands is the answer of GET /v1/agents/{id}/commands: the commands for an agent, by the
// server's word.
type Commands struct {
	Agent entry.Principal `json:"agent"`
	Size  uint64          `json:"size" doc:"size of the log that the answer follows from; value of from for the next request"`
	// News is told of separately, since it counts whatever there is to do.
	News     uint64    `json:"news" doc:"index of the newest policy, agent entry or override that the agent needs"`
	Since    int64     `json:"since,omitempty" doc:"since when the server remembers bundle_at of the commands, Unix milliseconds: its process began then"`
	Commands []Command `json:"commands" doc:"commands in ascending order of their incidents"`
}

// Command is the members of an agent in an incident that wait for their undo.
type Command struct {
	Incident uint64 `json:"incident"`
	Decision uint64 `json:"decision" doc:"index of the decision in force"`
	Members  int    `json:"members" doc:"number of the agent's members without an outcome"`
	Released int    `json:"released" doc:"number of these members whose undo may begin"`
	Changed  uint64 `json:"changed" doc:"index of the newest entry that put the decision into force, released a member, or is an outcome of the agent"`
	// BundleAt is no fact of the log. Whoever names the agent gets the bundle.
	BundleAt int64 `json:"bundle_at,omitempty" doc:"when the server last sent the command's bundle to whoever named the agent, Unix milliseconds; absent: not since the server started"`
}

// ErrOtherPlan reports that the plan differs from the plan that is proposed.
var ErrOtherPlan = errors.New("the plan differs from the proposed plan now: wait for a new proposal, or make one with arl incident escalate")

// Answer returns the answer to the incident's proposal, with a header that has only the workflow.
// exp is in Unix seconds. plan is the plan that the signer computed for the proposal's signals. An
// approver approves exactly that plan; a different plan gives [ErrOtherPlan].
func (i *Incident) Answer(plan *Plan, refuse bool, reason string, exp int64) (*entry.Approval, error) {
	verdict := "approve"
	if refuse {
		verdict = "refuse"
	} else if plan.RollbackSet != i.Proposal.RollbackSet {
		return nil, ErrOtherPlan
	}
	return &entry.Approval{Header: entry.Header{Wid: i.Wid}, Incident: i.ID, Proposal: i.Proposal.Ref, Verdict: verdict, Exp: exp, Reason: reason}, nil
}

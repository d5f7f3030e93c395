package api

import (
	"fmt"
	"time"

	"recoveryledger/ledger/entry"
)

// What an incident waits for: the values of For in [Waits].
const (
	ForApprovals       = "approvals"
	ForCoordinator     = "coordinator"
	ForOutcomes        = "outcomes"
	ForRecord          = "record"
	ForMerge           = "merge"
	ForAcknowledgement = "acknowledgement"
)

// Who ends a wait for people or agents, beside [WaitsOperator] and [WaitsCoordinator].
const (
	WaitsApprovers = "approvers"
	WaitsAgents    = "agents"
	WaitsPeople    = "people" // an approver or an operator
)

// Waits is what an incident waits for. [Waits.String] says the same in a few words.
type Waits struct {
	For      string `json:"for" enum:"approvals,coordinator,outcomes,record,merge,acknowledgement" doc:"what is lacking: approvals of the proposal; the coordinator's decision; outcomes of members; the record; the merge into an older incident; a person who acknowledges that no approver answered"`
	Who      string `json:"who" enum:"approvers,coordinator,agents,people" doc:"who can end the wait; people: an approver or an operator"`
	Have     int64  `json:"have,omitzero" doc:"with approvals and outcomes: how many there are"`
	Want     int64  `json:"want,omitzero" doc:"with approvals and outcomes: how many there must be"`
	Until    int64  `json:"until,omitzero" doc:"time at which something else happens, Unix milliseconds; absent: nothing else happens"`
	Then     string `json:"then,omitempty" doc:"what happens at until"`
	Incident uint64 `json:"incident,omitzero" doc:"with merge: the older incident, which takes over the signals"`
}

// String says in a few words what is waited for; empty: nothing.
func (w *Waits) String() string {
	if w == nil {
		return ""
	}
	switch w.For {
	case ForApprovals:
		return fmt.Sprintf("%d of %d approvals, until %s", w.Have, w.Want, Instant(w.Until))
	case ForCoordinator:
		return "the coordinator"
	case ForOutcomes:
		return fmt.Sprintf("%d of %d outcomes", w.Want-w.Have, w.Want)
	case ForRecord:
		return "its record"
	case ForMerge:
		return fmt.Sprintf("incident %d, which takes over its signals", w.Incident)
	}
	return "a person who acknowledges the incident"
}

// Instant returns a time of the ledger's clock, in Unix milliseconds, as RFC 3339 writes it in UTC.
func Instant(unixMilli int64) string {
	return time.UnixMilli(unixMilli).UTC().Format("2006-01-02T15:04:05.000Z")
}

// NextStep is the entry that the coordinator writes next about an incident if the log does not
// grow before.
type NextStep struct {
	At   int64      `json:"at,omitzero" doc:"time at which the entry is due, Unix milliseconds; absent: it is due already"`
	Kind entry.Kind `json:"kind" doc:"kind of the entry"`
	Says string     `json:"says" doc:"what the entry says, in a few words"`
}

// When says when the entry is due, as people read it.
func (n *NextStep) When() string {
	if n.At == 0 {
		return "now"
	}
	return Instant(n.At)
}

// Approver is a principal with the role approver, and whether the rules let it answer the proposal.
type Approver struct {
	Principal entry.Principal `json:"principal"`
	MayNot    string          `json:"may_not,omitempty" doc:"why no answer of the principal counts (INC-5); absent: an answer counts"`
}

// Escalation is something that waits for people.
type Escalation struct {
	Kind     string          `json:"kind" enum:"task,incident"`
	ID       string          `json:"id" doc:"the task as issuer#id, or the id of the incident"`
	Index    uint64          `json:"index" doc:"index of the first entry of the task or incident"`
	Since    int64           `json:"since" doc:"time from which it waits, Unix milliseconds"`
	State    string          `json:"state" doc:"state of the task or incident"`
	Question string          `json:"question" doc:"what is asked, in a few words"`
	About    *entry.TaskCase `json:"about,omitempty" doc:"of a task that an engine created: the case that the engine gave up"`
	Waits    *Waits          `json:"waits,omitempty" doc:"of an incident: for whom and until when it waits, and what happens then"`
	// NotFenced is why others may meanwhile build on what an incident may undo.
	NotFenced string `json:"not_fenced,omitempty" doc:"of an incident: why others may meanwhile build on what it may undo; absent: they may not"`
}

// Who returns who can end the wait: of a task, an operator.
func (e *Escalation) Who() string {
	if e.Waits == nil {
		return WaitsOperator
	}
	return e.Waits.Who
}

// Escalations is the answer of GET /v1/escalations.
type Escalations struct {
	Size        uint64       `json:"size" doc:"size of the log that the list follows from"`
	Escalations []Escalation `json:"escalations" doc:"the newest task or incident first"`
	Next        string       `json:"next,omitempty" doc:"path of the next page; absent on the last page"`
}

// Why is the answer of GET /v1/incidents/{id}/why/{exec}: why an execution is a member of the plan.
type Why struct {
	Incident uint64       `json:"incident"`
	Exec     entry.Ref    `json:"exec"`
	Chain    []PlanMember `json:"chain" doc:"executions that lead to the member, the one that a signal names first; the parents are places in this list"`
}

// AgentCounts is what the log counts of a principal.
type AgentCounts struct {
	Corroborated int64  `json:"corroborated" doc:"number of its judged signals that were corroborated"`
	Dismissed    int64  `json:"dismissed" doc:"number of its judged signals that were dismissed"`
	Memberships  int64  `json:"memberships" doc:"number of its executions in plans in force, each once for every incident"`
	Corrections  int64  `json:"corrections" doc:"number of outcomes that it corrected after the record"`
	SignalLimit  int64  `json:"signal_limit" doc:"number of signals that it may send in an hour"`
	SignalsLeft  int64  `json:"signals_left" doc:"number of signals that it may still send in the hour before now; a signal about its own executions is taken once an hour, in any case"`
	Last         uint64 `json:"last,omitzero" doc:"index of its newest entry; absent: it has written none"`
}

package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"recoveryledger/api"
	"recoveryledger/api/view"
	"recoveryledger/api/words"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/redact"
	"recoveryledger/verify"
)

// The types of events. A message has them behind [TypePrefix].
const (
	Escalated    = "incident.escalated"  // a plan waits for approvers
	Unanswered   = "incident.unanswered" // nobody answered, and the incident was dismissed
	Partial      = "incident.partial"    // not everything was undone
	Failed       = "incident.failed"     // nothing was undone that had to be
	TaskWaits    = "task.escalated"      // a task waits for an operator
	Unassignable = "task.unassignable"   // no agent can get a task
	Stopped      = "rollout.aborted"     // a gate, the deadline or a person ended a rollout
	Equivocation = "log.equivocation"    // an issuer signed two entries under one id
	Fork         = "log.fork"            // the log contradicts itself
)

// TypePrefix stands before the type of an event in a message.
const TypePrefix = "agent-recovery."

// types returns the types of events, without their prefix.
func types() []string {
	return []string{Escalated, Unanswered, Partial, Failed, TaskWaits, Unassignable, Stopped, Equivocation, Fork}
}

// Event is something that people have to know.
type Event struct {
	Type     string           `json:"-"`
	Subject  string           `json:"-"` // incident/ID, task/REF, rollout/NAME, or log
	Workflow entry.WorkflowID `json:"workflow,omitzero"`
	At       int64            `json:"-"` // Unix milliseconds; 0: not known
	// of tells the event from others of its type: an index, or a hash.
	of string

	Index    uint64    `json:"index,omitzero"` // of the entry that says so
	Incident uint64    `json:"incident,omitzero"`
	Task     entry.Ref `json:"task,omitzero"`
	Rollout  string    `json:"rollout,omitzero"`
	Says     string    `json:"says"`           // [written] is what principals wrote freely
	Command  string    `json:"command"`        // answers it
	Look     string    `json:"look,omitempty"` // shows more
}

// id returns the id of the event in messages of a ledger. It is the same however often the event is
// sent.
func (v *Event) id(origin string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{origin, v.Type, v.Subject, v.of}, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// Message returns the event of a ledger as a CloudEvent in the structured mode of JSON.
func (v *Event) Message(origin string) ([]byte, error) {
	e := event.New()
	e.SetID(v.id(origin))
	e.SetSource("urn:agent-recovery:ledger:" + url.PathEscape(origin))
	e.SetType(TypePrefix + v.Type)
	e.SetSubject(v.Subject)
	if v.At != 0 {
		e.SetTime(time.UnixMilli(v.At))
	}
	said := *v
	said.Says = words.Legible(v.Says)
	if err := e.SetData(event.ApplicationJSON, said); err != nil {
		return nil, err
	}
	return e.MarshalJSON()
}

// written is a text that a principal wrote freely, without its secrets. It keeps the names of
// executions, tasks and principals of the log, which are random as keys are: the command that
// answers the event has them, too. Everything else that an event says are the ledger's own words,
// and names that a message cannot do without.
func written(s *coord.State, text string, now int64) string {
	return redact.Sparing(text, func(word string) bool {
		_, isExecution := s.Execution(entry.Ref(word), now)
		_, isTask := s.Task(entry.Ref(word))
		_, isPrincipal := s.Chain().Agent(entry.Principal(word))
		return isExecution || isTask || isPrincipal
	})
}

// incidentEvent begins an event about an incident.
func incidentEvent(kind string, e *entry.Registered, incident uint64) Event {
	id := decimal(incident)
	return Event{Type: kind, Subject: "incident/" + id, Workflow: e.Header.Wid, At: e.RegisteredAt, of: decimal(e.Index), Index: e.Index, Incident: incident,
		Look: "arl incident show " + id}
}

// eventsOf returns the events that an entry makes. Those about tasks depend on the state, which may
// be newer than the entry: a task that has gone on since waits no more.
func eventsOf(e *entry.Registered, s *coord.State, rules *coord.Rules, now int64) []Event {
	switch b := e.Body.(type) {
	case *entry.Decision:
		return decided(e, b, s, now)
	case *entry.Record:
		return recorded(e, b)
	case *entry.Task:
		return waiting(e, b, s, rules, now)
	case *entry.Agent:
		return orphaned(e, b, s, rules, now)
	case *entry.Rollout:
		return aborted(e, b, s, now)
	}
	return nil
}

func decided(e *entry.Registered, d *entry.Decision, s *coord.State, now int64) []Event {
	id := decimal(d.Incident)
	switch d.Act {
	case entry.ActEscalate:
		v := incidentEvent(Escalated, e, d.Incident)
		v.Says = fmt.Sprintf("Incident %d waits for approvals of the plan in entry %d: %s", d.Incident, e.Index, written(s, d.Reason, now))
		if d.NotFenced != "" {
			v.Says += ". NOT FENCED: " + written(s, d.NotFenced, now)
		}
		v.Command, v.Look = "arl incident approve "+id+" --reason REASON", "arl incident preview "+id
		return []Event{v}
	case entry.ActDeny:
		view, ok := s.Incident(d.Incident, now)
		if !ok || !view.Silence || view.Recorded != e.Index {
			return nil
		}
		v := incidentEvent(Unanswered, e, d.Incident)
		v.Says = fmt.Sprintf("Nobody answered incident %d in time, and nothing was undone.", d.Incident)
		v.Command = "arl escalation acknowledge " + id + " --reason REASON"
		return []Event{v}
	}
	return nil
}

func recorded(e *entry.Registered, r *entry.Record) []Event {
	kind := map[entry.IncidentState]string{entry.IncidentPartial: Partial, entry.IncidentFailed: Failed}[r.State]
	if kind == "" {
		return nil
	}
	v := incidentEvent(kind, e, r.Incident)
	v.Says = fmt.Sprintf("Incident %d ended as %s: %s.", r.Incident, r.State, words.Tally(r.Tally))
	v.Command = "arl incident report " + decimal(r.Incident)
	return []Event{v}
}

// aborted returns the event of a rollout that was aborted. Other steps of a rollout ask nobody. The
// event has no workflow: the candidate decided cases of every workflow, so every endpoint that asks
// for the type is told.
func aborted(e *entry.Registered, r *entry.Rollout, s *coord.State, now int64) []Event {
	if r.Op != entry.RolloutAbort {
		return nil
	}
	why := "by " + string(e.Header.Iss)
	if r.Gate != "" {
		why = "by the gate " + string(r.Gate)
	}
	return []Event{{Type: Stopped, Subject: "rollout/" + r.Rollout, At: e.RegisteredAt, of: decimal(e.Index), Index: e.Index, Rollout: r.Rollout,
		Says:    fmt.Sprintf("Rollout %s was aborted %s, and the policy in force decides every case again: %s", r.Rollout, why, written(s, r.Reason, now)),
		Command: "arl rollout history", Look: "arl entry list --kind attempt"}}
}

// waiting returns the event of a task that waits for an operator since an entry.
func waiting(e *entry.Registered, t *entry.Task, s *coord.State, rules *coord.Rules, now int64) []Event {
	v, ok := s.Task(t.Task)
	if !ok || v.Changed != e.Index {
		return nil
	}
	v.Reason = written(s, t.Reason, now)
	s.Consult(&v, now, rules)
	if v.Waits != api.WaitsOperator {
		return nil
	}
	if v.Unassignable && lost(s.Chain(), "", e.Index+1, math.MaxUint64)[v.Type] {
		return nil // orphaned tells it
	}
	if v.Recovery != nil {
		v.Recovery.Remediation = written(s, v.Recovery.Remediation, now)
	}
	return []Event{taskEvent(e, &v)}
}

func taskEvent(e *entry.Registered, t *api.Task) Event {
	v := Event{Type: TaskWaits, Subject: "task/" + string(t.Task), Workflow: t.Wid, At: e.RegisteredAt, of: decimal(e.Index), Index: e.Index, Task: t.Task,
		Says:    fmt.Sprintf("Task %s waits for an operator: %s", t.Task, strings.TrimPrefix(words.TaskWaitsFor(t), api.WaitsOperator+": ")),
		Command: "arl escalation resolve " + quoted(string(t.Task)) + " --agent AGENT --reason REASON", Look: "arl task show " + quoted(string(t.Task))}
	if t.Unassignable {
		v.Type, v.Says = Unassignable, fmt.Sprintf("No agent can get task %s: %s", t.Task, words.NobodyFor(t))
		v.Command = "arl agent enrol --principal AGENT --key FILE --domain DOMAIN --capabilities " + quoted(t.Type)
	}
	return v
}

// tasksScanned is the number of waiting tasks that an agent entry is held against.
const tasksScanned = 1 << 14

// orphaned returns the events of tasks that no agent can get since an agent entry took a capability
// from its principal: a key was revoked, or a further key was enrolled without the capability. The
// last entry that took a capability tells a task alone, so that an endpoint that lags is told once.
func orphaned(e *entry.Registered, a *entry.Agent, s *coord.State, rules *coord.Rules, now int64) (list []Event) {
	gone := lost(s.Chain(), a.Principal, e.Index, e.Index)
	if len(gone) == 0 {
		return nil
	}
	later := lost(s.Chain(), "", e.Index+1, math.MaxUint64)
	found, _ := view.Tasks(s, rules, &api.TaskQuery{State: api.StateOperator, Limit: tasksScanned}, now)
	for i := range found {
		if t := &found[i]; t.Unassignable && t.Changed < e.Index && gone[t.Type] && !later[t.Type] {
			list = append(list, taskEvent(e, t))
		}
	}
	slices.Reverse(list) // the oldest task first
	return list
}

// lost returns the capabilities that the agent entries with an index of first to last took from
// their principals. It looks at the entries about one principal alone, or about all (""): what a
// principal can do follows from the entries about it.
func lost(now *verify.Chain, p entry.Principal, first, last uint64) map[string]bool {
	gone, then := map[string]bool{}, verify.NewChain()
	able := func(p entry.Principal) []string {
		info, _ := then.Agent(p)
		if !slices.Contains(info.Roles, entry.RoleAgent) {
			return nil
		}
		return info.Capabilities
	}
	for _, link := range now.Links() {
		a, ok := link.Body.(*entry.Agent)
		if !ok || p != "" && a.Principal != p || link.Index > last {
			continue
		}
		before := able(a.Principal)
		then.Apply(link.Entry, link.Index, link.RegisteredAt)
		for _, c := range before {
			if link.Index >= first && !slices.Contains(able(a.Principal), c) {
				gone[c] = true
			}
		}
	}
	return gone
}

// quoted is a word for a shell.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

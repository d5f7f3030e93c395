package entry

import (
	"slices"
	"strconv"
)

// SubjectType is a type of subject: what the index of the log lists entries
// under (IDX-1).
type SubjectType string

// The types of subjects.
const (
	SubjectWorkflow SubjectType = "workflow" // value: the workflow
	SubjectIncident SubjectType = "incident" // value: the index of its opening signal, as [IncidentValue] writes it
	SubjectTask     SubjectType = "task"     // value: the task's reference
	SubjectAgent    SubjectType = "agent"    // value: the principal
	SubjectLog      SubjectType = "log"      // value: empty; there is one
)

// SubjectTypes returns all types of subjects in the order of the protocol.
func SubjectTypes() []SubjectType {
	return []SubjectType{SubjectWorkflow, SubjectIncident, SubjectTask, SubjectAgent, SubjectLog}
}

// Subject is one thing that entries are about.
type Subject struct {
	Type  SubjectType `json:"type"`
	Value string      `json:"value"`
}

// Label says how an entry is listed under a subject: its kind, of a decision, an
// agent, a task or a rollout entry with its act or op, such as "decision/override". Under an
// agent, ">" behind it says that the agent issued the entry about another
// principal, and "<" that another principal issued the entry about the agent.
type Label string

// The marks of a label under an agent.
const (
	labelIssued   = ">"
	labelReceived = "<"
)

// Labels returns every label that [Entry.Subjects] may give under subjects of a
// type, ascending; none if there is no such type.
func Labels(of SubjectType) []Label {
	var all []Label
	for _, e := range labelled() {
		base := e.label()
		if !mayList(of, e) {
			continue
		}
		all = append(all, base)
		if of == SubjectAgent && aboutSomebody(e.Kind) {
			all = append(all, base+labelIssued, base+labelReceived)
		}
	}
	slices.Sort(all)
	return all
}

// Known reports whether the type of the subject exists, and whether subjects of the type can have
// the value.
func (s Subject) Known() bool {
	switch s.Type {
	case SubjectWorkflow, SubjectAgent:
		return checkName("", s.Value) == nil
	case SubjectTask:
		return checkRef("", Ref(s.Value)) == nil
	case SubjectIncident:
		index, err := strconv.ParseUint(s.Value, 10, 64)
		return err == nil && index <= MaxInteger && IncidentValue(index) == s.Value
	case SubjectLog:
		return s.Value == ""
	}
	return false
}

// Listing is a subject under which an entry is listed, with the label of the entry there.
type Listing struct {
	Subject
	Label Label `json:"label"`
}

// Subjects returns the subjects under which the entry at index is listed: each subject once, in the
// order of the protocol. The listings depend on the entry and its index alone, so that everyone who
// has the log derives the same lists (IDX-1).
//
// A signal is listed under the incident that it would open. Whether the signal joined an older
// incident is state of the fold and makes no listing.
func (e *Entry) Subjects(index uint64) []Listing { return e.AppendSubjects(nil, index) }

// AppendSubjects appends what [Entry.Subjects] returns to dst.
func (e *Entry) AppendSubjects(dst []Listing, index uint64) []Listing {
	label := e.label()
	add := func(of SubjectType, value string, label Label) {
		dst = append(dst, Listing{Subject{of, value}, label})
	}
	if e.Header.Wid != "" {
		add(SubjectWorkflow, string(e.Header.Wid), label)
	}
	if incident, ok := e.incident(index); ok {
		add(SubjectIncident, IncidentValue(incident), label)
	}
	if task := e.task(); task != "" {
		add(SubjectTask, string(task), label)
	}
	if about := e.about(); about == "" || about == e.Header.Iss {
		add(SubjectAgent, string(e.Header.Iss), label)
	} else {
		add(SubjectAgent, string(e.Header.Iss), label+labelIssued)
		add(SubjectAgent, string(about), label+labelReceived)
	}
	if ofLog(e.Kind) {
		add(SubjectLog, "", label)
	}
	return dst
}

// label returns the entry's label without a mark.
func (e *Entry) label() Label {
	switch body := e.Body.(type) {
	case *Agent:
		return Label(string(e.Kind) + "/" + string(body.Op))
	case *Decision:
		return Label(string(e.Kind) + "/" + string(body.Act))
	case *Task:
		return Label(string(e.Kind) + "/" + body.Op)
	case *Rollout:
		return Label(string(e.Kind) + "/" + string(body.Op))
	}
	return Label(e.Kind)
}

// incident returns the incident that the entry at index names. For a signal it is the incident that
// the signal would open.
func (e *Entry) incident(index uint64) (incident uint64, ok bool) {
	switch body := e.Body.(type) {
	case *Execution:
		if body.Compensates != nil {
			return body.Compensates.Incident, true
		}
	case *Signal:
		return index, true
	case *Decision:
		return body.Incident, true
	case *Approval:
		return body.Incident, true
	case *Outcome:
		return body.Incident, true
	case *Record:
		return body.Incident, true
	}
	return 0, false
}

// task returns the task that the entry names; empty: none.
func (e *Entry) task() Ref {
	switch body := e.Body.(type) {
	case *Execution:
		return body.Task
	case *Task:
		return body.Task
	case *Attempt:
		return body.Task
	}
	return ""
}

// about returns the principal that the entry is about; empty: nobody.
func (e *Entry) about() Principal {
	switch body := e.Body.(type) {
	case *Agent:
		return body.Principal
	case *Execution, *Checkpoint:
		return e.Header.Iss
	case *Signal:
		issuer, _ := body.Subject.Split()
		return issuer
	case *Outcome:
		issuer, _ := body.Exec.Split()
		return issuer
	case *Task:
		return body.Agent
	case *Attempt:
		return body.Agent
	}
	return ""
}

// aboutSomebody reports whether entries of a kind may be about another principal
// than their issuer.
func aboutSomebody(kind Kind) bool {
	return kind == KindAgent || kind == KindSignal || kind == KindOutcome || kind == KindTask || kind == KindAttempt
}

// ofLog reports whether entries of a kind stand under the subject of the log.
func ofLog(kind Kind) bool {
	return kind == KindPolicy || kind == KindAgent || kind == KindDecision || kind == KindRecord || kind == KindIndex
}

// mayList reports whether entries of a kind may stand under subjects of a type.
func mayList(of SubjectType, e *Entry) bool {
	switch of {
	case SubjectWorkflow:
		return e.Kind != KindPolicy && e.Kind != KindAgent && e.Kind != KindIndex
	case SubjectIncident:
		return slices.Contains([]Kind{KindExecution, KindSignal, KindDecision, KindApproval, KindOutcome, KindRecord}, e.Kind)
	case SubjectTask:
		return e.Kind == KindExecution || e.Kind == KindTask || e.Kind == KindAttempt
	case SubjectAgent:
		return true
	case SubjectLog:
		return ofLog(e.Kind)
	}
	return false
}

// labelled returns an entry for every label without a mark.
func labelled() []*Entry {
	var all []*Entry
	add := func(body Body) { all = append(all, &Entry{Kind: body.Kind(), Body: body}) }
	for _, kind := range Kinds() {
		switch kind {
		case KindAgent:
			for _, op := range []AgentOp{Enrol, Rotate, Revoke} {
				add(&Agent{Op: op})
			}
		case KindDecision:
			for _, act := range []Act{ActContain, ActEscalate, ActAuthorize, ActAmend, ActDeny, ActOverride, ActRelease} {
				add(&Decision{Act: act})
			}
		case KindTask:
			for _, op := range []string{TaskCreate, TaskReassign, TaskCancel, TaskRelease, TaskStart, TaskReview, TaskComplete, TaskBlock,
				TaskAssign, TaskFail, TaskInterrupt} {
				add(&Task{Op: op})
			}
		case KindRollout:
			for _, op := range RolloutOps() {
				add(&Rollout{Op: op})
			}
		default:
			add(newBody(kind))
		}
	}
	return all
}

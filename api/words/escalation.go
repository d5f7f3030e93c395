package words

import (
	"fmt"
	"strconv"

	"recoveryledger/api"
)

// Escalation is something that waits for people.
type Escalation struct {
	Kind     string `json:"kind"` // task, incident
	ID       string `json:"id"`
	Since    int64  `json:"since"` // Unix milliseconds
	State    string `json:"state"`
	Question string `json:"question"`
	// NotFenced is why others may meanwhile build on what an incident may undo.
	NotFenced string `json:"not_fenced,omitempty"`
}

// Asks is the question with a warning where others may build on what it is about.
func (e *Escalation) Asks() string {
	if e.NotFenced != "" {
		return e.Question + " NOT FENCED: " + e.NotFenced
	}
	return e.Question
}

// EscalatedTask is what a task that waits for an operator asks.
func EscalatedTask(t *api.Task) Escalation {
	question, found := HoldsUpTask(t)
	if !found {
		question = t.Reason
	}
	return Escalation{Kind: "task", ID: string(t.Task), Since: t.ChangedAt, State: string(t.State), Question: question}
}

// EscalatedIncident is what an incident asks people; ok is false if it asks nothing.
// The incident has a signal at least.
func EscalatedIncident(i *api.Incident) (e Escalation, ok bool) {
	id := strconv.FormatUint(i.ID, 10)
	e = Escalation{Kind: "incident", ID: id, Since: i.OpenedAt, State: i.State}
	switch {
	case i.AsksPeople:
		e.Question, e.NotFenced = "may what "+string(i.Signals[0].Subject)+" led to be undone?", i.NotFenced
	case !i.Unacknowledged():
		return Escalation{}, false
	case i.Lapsed != nil:
		e.Since = i.Lapsed.At
		e.Question = fmt.Sprintf("nobody answered the amend of entry %d in time, and the plan did not grow: arl escalation acknowledge %s", i.Lapsed.Proposal, id)
	default:
		e.Question = "nobody answered in time, and nothing was undone: arl escalation acknowledge " + id
	}
	return e, true
}

package words

import (
	"fmt"
	"strconv"

	"recoveryledger/api"
)

// Asks is the question of an escalation, with a warning where others may build on what it is about.
func Asks(e *api.Escalation) string {
	if e.NotFenced != "" {
		return e.Question + " NOT FENCED: " + e.NotFenced
	}
	return e.Question
}

// EscalatedTask is what a task that waits for an operator asks.
func EscalatedTask(t *api.Task) api.Escalation {
	question, found := HoldsUpTask(t)
	if !found {
		question = t.Reason
	}
	return api.Escalation{Kind: "task", ID: string(t.Task), Index: t.Created, Since: t.ChangedAt, State: string(t.State), Question: question, About: t.About}
}

// EscalatedIncident is what an incident asks people, who are asked for waits. The incident has a
// signal at least.
func EscalatedIncident(i *api.Incident, waits *api.Waits) api.Escalation {
	id := strconv.FormatUint(i.ID, 10)
	e := api.Escalation{Kind: "incident", ID: id, Index: i.ID, Since: i.OpenedAt, State: string(i.State), Waits: waits}
	switch {
	case waits.For != api.ForAcknowledgement:
		e.Question, e.NotFenced = "may what "+string(i.Signals[0].Subject)+" led to be undone?", i.NotFenced
	case i.Lapsed != nil:
		e.Since = i.Lapsed.At
		e.Question = fmt.Sprintf("nobody answered the amend of entry %d in time, and the plan did not grow: arl escalation acknowledge %s", i.Lapsed.Proposal, id)
	default:
		e.Question = "nobody answered in time, and nothing was undone: arl escalation acknowledge " + id
	}
	return e
}

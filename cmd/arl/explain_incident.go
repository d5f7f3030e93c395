package main

import (
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// incidentWords are the states of incidents and what is found of signals, as every
// command prints them.
func incidentWords() []explanation {
	state := func(s coord.IncidentState, text, remedy string) explanation {
		return explanation{s.String(), "state of an incident", text, remedy}
	}
	found := func(word, text string) explanation {
		return explanation{word, "what was found of a signal (INC-8)", text, ""}
	}
	return []explanation{
		state(coord.Reported, "A signal opened it, and nobody has decided yet.", "arl incident preview shows what a decision would undo"),
		state(coord.Contained, "What may be affected is fenced until somebody decides.", "arl incident preview shows what a decision would undo"),
		state(coord.Escalated, "The coordinator may not decide alone: a proposal waits for approvers.", "arl incident approve, which computes the plan first"),
		state(coord.Authorized, "A plan is in force: its agents undo their members and report outcomes.", "arl incident show says whose outcome is missing"),
		state(coord.Dismissed, "Nothing is undone: an approver denied it, nobody answered in time, or an older incident took its signals.", "arl incident show says which; arl escalation acknowledge, where nobody answered"),
		state(coord.Recovered, "Something was restored or compensated, and no effect is left.", ""),
		state(coord.NoEffects, "Nothing had to be undone: all members were without effect, or never carried out. Nothing was restored or compensated.", ""),
		state(coord.Partial, "Some members were undone; effects of others stand.", "arl incident show says which, and what their agents say of them"),
		{coord.Failed.String(), "state of an incident or a task", "Of an incident: no member with an effect was undone. Of a task: its agent failed, and the task waits for a retry or an operator.",
			"arl incident show says what stands; arl task show says how often it may be tried again"},
		found(entry.Corroborated, "Others bear it out: another principal, a monitor's or an operator's evidence, or an approver. The domains are named."),
		found(entry.SelfReported, "It was believed, and its issuer's word is all there is. It gives no quota back."),
		found(entry.NotFounded, "It was not believed. It costs its issuer quota, and after a deny the issuer waits before it may signal the subject again."),
		found(entry.Inconclusive, "It came too late to be judged, or nobody judged it."),
	}
}

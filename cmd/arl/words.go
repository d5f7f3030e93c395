package main

import "recoveryledger/ledger/entry"

// failureWords explains the classes of the failure taxonomy and their codes.
func failureWords() (all []explanation) {
	for _, class := range entry.Classes() {
		if class == entry.ClassUnknown {
			continue // explained with the other meanings of the word
		}
		all = append(all, explanation{Code: class, Title: "class of failures", Text: entry.Meaning(class, "")})
		for _, code := range entry.Codes(class) {
			e := explanation{Code: class + "." + code, Title: "failure", Text: entry.Meaning(class, code)}
			if entry.NeedsEvidence(class, code) {
				e.Text += " Without evidence in the signal the code counts as unknown (SIG-2)."
				e.Remedy = "give --evidence with the signal"
			}
			all = append(all, e)
		}
	}
	return all
}

// taskWords explains the states of tasks, but for FAILED, which incidents have
// too.
func taskWords() []explanation {
	const task = "state of a task"
	return []explanation{
		{"CREATED", task, "The task waits for an agent.", ""},
		{"ASSIGNED", task, "An agent is named and has not begun.", ""},
		{"IN_PROGRESS", task, "An agent works on it under a lease.", ""},
		{"IN_REVIEW", task, "The work is done and is looked at.", ""},
		{"BLOCKED", task, "The task waits for the answer of a person.", "arl escalation resolve"},
		{"INTERRUPTED", task, "Its agent was asked to end and handed it back, at no cost.", ""},
		{"COMPLETED", task, "The task is done.", ""},
		{"CANCELLED", task, "The task was ended by an operator.", ""},
	}
}

// memberWords explains methods and results.
func memberWords() []explanation {
	const method, result = "method for a member of a plan", "result of a member"
	return []explanation{
		{"none", "effect, effects or method", "An execution without an effect; a failure that left nothing; nothing to undo, but the output is invalid.", ""},
		{"cancel", method, "The execution was planned and is not to be started.", ""},
		{"restore", method, "The line of the agent goes back to a checkpoint.", ""},
		{"compensate", method, "Another execution undoes the effect.", ""},
		{"residual", method, "The effect cannot be undone: people are told.", ""},
		{"restored", result, "The line went back to its checkpoint.", ""},
		{"compensated", result, "The compensation took place.", ""},
		{"not_executed", result, "There was nothing to undo.", ""},
		{"irrevocable", "effect, or " + result, "The effect cannot be undone.", "arl incident show names what is left"},
		{"failed", result, "The undo was tried and failed.", "arl incident show names what is left"},
		{"refused", result, "The agent could not verify that it may undo this.", "arl verify BUNDLE says which rule is broken"},
		{"withheld", result, "An override stopped the plan before the undo began.", ""},
		{"unknown", "class of failures, or " + result,
			"Of a failure: nothing shows what failed. Of a member: its agent did not say in time what became of it.", "ask the agent, and look at the effect itself"},
	}
}

// recoveryWords explains how cases of the recovery engine end, and why an action
// was chosen.
func recoveryWords() []explanation {
	const status, reason, advice = "end of a case", "reason of an action", "recommendation of a report"
	return []explanation{
		{"auto_recovered", status, "The failure was dealt with by the policy alone.", ""},
		{"escalated", status, "A person has to decide.", "arl recover one shows the trace"},
		{"no_failure", status, "Nothing failed in the case.", ""},
		{"promote", advice, "Every gate holds.", ""},
		{"reject", advice, "A gate failed.", "arl report show says which, with value and limit"},
		{"ladder", reason, "It is the next rung of the rule.", ""},
		{"rule", reason, "The rule escalates at once.", ""},
		{"guard", reason, "A guard raised the action; the rule names which.", ""},
		{"effects_uncertain", reason, "The effect gate asks whether the effect took place.", ""},
		{"effects_unknown", reason, "Asking did not tell whether the effect took place.", "declare the effect of the step, and give its tool a probe"},
		{"effects_complete", reason, "Every rung left would add an effect to one that took place, or go back past one that cannot be undone.", ""},
		{"ladder_exhausted", reason, "No rung of the rule is left.", ""},
		{"attempts_exhausted", reason, "limits.attempts is used up.", ""},
		{"cost_exhausted", reason, "limits.cost_micro_usd is used up.", ""},
		{"tokens_exhausted", reason, "limits.tokens is used up.", ""},
		{"deadline_exceeded", reason, "limits.deadline_ms is over.", ""},
		{"condition_error", reason, "The condition of a rule could not be evaluated.", "arl policy lint"},
		{"not_observed", reason, "The attempt that the policy wants was never made or recorded.", "arl recover --live or --simulate"},
		{"after_quarantine", reason, "The agent is fenced; a person decides.", ""},
		{"after_abort", reason, "The case was stopped; a person decides.", ""},
		{"after_rollback", reason, "A rollback was signalled; the incident decides.", ""},
		{"unverified", reason, "The attempt succeeded, nothing verified it, and no rung is left.", ""},
		{"external", reason, "A strategy of the user's chose the action.", ""},
		{"answer_refused", reason, "A strategy chose what no rung may do here.", ""},
		{"strategy_failed", reason, "A strategy did not answer, and the ladder decided.", ""},
		{"strategy_missing", reason, "No strategy of that name is registered on this machine, and the ladder decided.", "pass --strategies"},
	}
}

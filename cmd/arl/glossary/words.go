package glossary

import (
	"slices"

	"recoveryledger/api/client/agent"
	"recoveryledger/coord"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/ledger/entry"
)

// vocabulary explains the words that entries, traces and views hold for a class, a
// code, a state, a result or a reason. A word with several meanings has an
// explanation for each.
func vocabulary() []Explanation {
	return slices.Concat(incidentWords(), taskWords(), executionWords(), signalWords(), memberWords(), agentWords(),
		recoveryWords(), reportWords(), failureWords(), doctorWords())
}

// sortOf gives a sort of words, which is the title of each, to their
// explanations.
func sortOf(title string, list ...Explanation) []Explanation {
	for i := range list {
		list[i].Title = title
	}
	return list
}

// sense returns the explanation of a word, whose title its sort gives.
func sense[T ~string](code T, text string) Explanation {
	return Explanation{Code: string(code), Text: text}
}

// but adds what to do about it.
func (e Explanation) but(remedy string) Explanation {
	e.Remedy = remedy
	return e
}

func incidentWords() []Explanation {
	state := func(s coord.IncidentState, text string) Explanation { return sense(s.String(), text) }
	return slices.Concat(
		sortOf("state of an incident",
			state(coord.Reported, "A signal opened it, and nobody has decided yet.").but("arl incident preview shows what a decision would undo"),
			state(coord.Contained, "What may be affected is fenced until somebody decides.").but("arl incident preview shows what a decision would undo"),
			state(coord.Escalated, "The coordinator may not decide alone: a proposal waits for approvers.").but("arl incident approve, which computes the plan first"),
			state(coord.Authorized, "A plan is in force: its agents undo their members and report outcomes.").
				but("arl incident show says whose outcome is missing; arl escalation acknowledge, where nobody answered an amend"),
			state(coord.Dismissed, "Nothing is undone: an approver denied it, nobody answered in time, or an older incident took its signals.").
				but("arl incident show says which; arl escalation acknowledge, where nobody answered"),
			state(coord.Recovered, "Something was restored or compensated, and no effect is left."),
			state(coord.NoEffects, "Nothing had to be undone: all members were without effect, or never carried out. Nothing was restored or compensated."),
			state(coord.Partial, "Some members were undone; effects of others stand.").but("arl incident show says which, and what their agents say of them"),
			state(coord.Failed, "No member with an effect was undone.").but("arl incident show says what stands"),
		),
		sortOf("act of a decision about an incident",
			sense(entry.ActContain, "Fences what may be affected. Nothing is undone yet."),
			sense(entry.ActEscalate, "Proposes a plan to the approvers."),
			sense(entry.ActAuthorize, "Puts a plan into force."),
			sense(entry.ActAmend, "Extends the plan in force."),
			sense(entry.ActDeny, "Dismisses the incident, or takes note of what nobody answered: the incident, or an amend of its plan."),
			sense(entry.ActOverride, "Stops the plan in force. Members without an outcome are withheld."),
			sense(entry.ActRelease, "Lifts the fence around members that have an outcome."),
		),
		sortOf("what was found of a signal (INC-8)",
			sense(entry.Corroborated, "Another principal, evidence of a monitor or operator, or an approver supports the signal. The record names the domains."),
			sense(entry.SelfReported, "The signal was believed on its issuer's word alone. It restores no quota."),
			sense(entry.Dismissed, "The signal was not believed. It costs its issuer quota. After a deny the issuer must wait before it may signal the subject again."),
			sense(entry.Inconclusive, "The signal came too late to be judged, or nobody judged it."),
		),
		sortOf("answer to a proposal",
			sense("approve", "The approver agrees to exactly the proposed plan."),
			sense("refuse", "The approver rejects the proposed plan."),
		),
	)
}

func taskWords() []Explanation {
	return slices.Concat(
		sortOf("state of a task",
			sense(entry.TaskCreated, "The task waits for an agent."),
			sense(entry.TaskAssigned, "An agent is named and has not begun."),
			sense(entry.TaskInProgress, "An agent works on it under a lease."),
			sense(entry.TaskInReview, "The work is done and is looked at."),
			sense(entry.TaskBlocked, "The task waits for the answer of a person.").but("arl escalation resolve"),
			sense(entry.TaskFailed, "Its agent failed, and the task waits for a retry or an operator.").but("arl task show says how often it may be tried again"),
			sense(entry.TaskInterrupted, "The agent was asked to end and handed the task back. That costs no retry."),
			sense(entry.TaskCompleted, "The task is done."),
			sense(entry.TaskCancelled, "The task was ended by an operator."),
		),
		sortOf("operation on a task",
			sense(entry.TaskCreate, "An operator creates it."),
			sense(entry.TaskReassign, "An operator names another agent for it."),
			sense(entry.TaskRelease, "An operator takes responsibility for what held the task up, and the task goes on."),
			sense(entry.TaskCancel, "An operator ends it."),
			sense(entry.TaskAssign, "The coordinator names an agent for it."),
			sense(entry.TaskFail, "The coordinator records that the agent failed: the agent said so, or its lease is over."),
			sense(entry.TaskInterrupt, "The coordinator takes the task back from an agent that was asked to end."),
			sense(entry.TaskStart, "Its agent begins."),
			sense(entry.TaskReview, "Its agent hands the work over to be looked at."),
			sense(entry.TaskComplete, "Its agent says that it is done."),
			sense(entry.TaskBlock, "Its agent asks a person."),
		),
	)
}

func executionWords() []Explanation {
	return slices.Concat(
		sortOf("effect of an execution",
			sense(entry.EffectNone, "It changes nothing outside of its output."),
			sense(entry.EffectReversible, "Going back to a checkpoint undoes it."),
			sense(entry.EffectCompensable, "Another execution can undo it."),
			sense(entry.EffectIrrevocable, "It cannot be undone."),
			sense(entry.EffectUndeclared, "The agent did not declare the effect. Automatic decisions treat it as irrevocable (EXE-3).").but("declare the effect"),
		),
		sortOf("progress of an execution",
			sense(entry.Planned, "It has not begun."),
			sense(entry.Started, "It was begun, and may have had its effect."),
			sense(entry.Confirmed, "It ended, with its effect."),
			sense(entry.Failed, "It ended without success. Its effect may have taken place."),
			sense(entry.Cancelled, "It will not be begun."),
		),
		sortOf("dependency of an execution",
			sense(entry.Hard, "If the parent is rolled back, this execution is rolled back too."),
			sense(entry.Soft, "This execution used the parent's output, and stays valid without it. People review it if the parent is rolled back."),
		),
	)
}

func signalWords() []Explanation {
	return slices.Concat(
		sortOf("standing of a signaler",
			sense(entry.StandingExecutor, "The subject is an execution of the signaler."),
			sense(entry.StandingUpstream, "The subject depends on an execution of the signaler."),
			sense(entry.StandingDownstream, "An execution of the signaler depends on the subject."),
			sense(entry.StandingMonitor, "The policy lets the signaler watch others."),
			sense(entry.StandingOperator, "The signaler operates the system."),
		),
		sortOf("effects of a failure",
			sense(entry.EffectsNone, "Nothing took place."),
			sense(entry.EffectsPartial, "A part of the effect took place."),
			sense(entry.EffectsComplete, "The whole effect took place."),
			sense(entry.EffectsUnknown, "Nobody knows whether the effect took place."),
		),
		sortOf("whether a failed step may be executed again as it was",
			sense(entry.ReplaySafe, "Executing the step again does no harm."),
			sense(entry.ReplayUnsafe, "Executing the step again may repeat an effect."),
			sense(entry.ReplayUnknown, "Nobody knows."),
		),
		sortOf("severity, which orders what people look at",
			sense(entry.SeverityInfo, "Good to know."),
			sense(entry.SeverityWarning, "Somebody should look at it."),
			sense(entry.SeverityError, "Somebody has to look at it."),
			sense(entry.SeverityCritical, "Somebody has to look at it now."),
		),
	)
}

func memberWords() []Explanation {
	return slices.Concat(
		sortOf("why an execution is a member of a plan",
			sense("seed", "A signal is about it (SCO-3)."),
			sense("dependent", "It depends on a member (SCO-1)."),
			sense("line", "The line of its agent goes back past it (SCO-2)."),
		),
		sortOf("method for a member of a plan",
			sense(entry.MethodNone, "Nothing is to be undone, but the output is invalid."),
			sense(entry.MethodCancel, "The execution was planned and is not to be started."),
			sense(entry.MethodRestore, "The line of the agent goes back to a checkpoint."),
			sense(entry.MethodCompensate, "Another execution undoes the effect."),
			sense(entry.MethodResidual, "The effect cannot be undone: people are told."),
		),
		sortOf("result of a member",
			sense(entry.Restored, "The line went back to its checkpoint."),
			sense(entry.Compensated, "The compensation took place."),
			sense(entry.NotExecuted, "There was nothing to undo."),
			sense(entry.ResultIrrevocable, "The effect cannot be undone.").but("arl incident show names what is left"),
			sense(entry.ResultFailed, "The undo was tried and failed.").but("arl incident show names what is left"),
			sense(entry.Refused, "The agent could not verify the authorization to undo this member.").but("arl verify BUNDLE says which rule is broken"),
			sense(entry.Withheld, "An override stopped the plan before the undo began."),
			sense(entry.ResultUnknown, "The agent reported no result in time.").but("ask the agent, and look at the effect itself"),
		),
	)
}

// agentWords are what an agent says of its hooks, and arl agent listen of the
// agent.
func agentWords() []Explanation {
	return slices.Concat(
		sortOf("how a hook ended",
			sense(agent.Done, "It had its effect."),
			sense(agent.NoEffect, "It had no effect and will have none, for certain: it may be tried again."),
			sense(agent.Failed, "Something may be left of it."),
			sense(agent.Unknown, "Nobody knows what became of it."),
		),
		sortOf("event of an agent",
			sense(agent.EventAccepted, "It has verified a decision."),
			sense(agent.EventStarted, "It is about to run a hook."),
			sense(agent.EventEnded, "A hook has reported."),
			sense(agent.EventLogged, "The log has an entry of its own."),
			sense(agent.EventRefused, "It could not verify a bundle or a member, or the ledger refused an entry.").but("arl verify BUNDLE says which rule is broken"),
			sense(agent.EventRetry, "Something failed and is tried again."),
			sense(agent.EventHidden, "The log has a decision for it that the server does not give.").but("ask the operator of the ledger"),
			sense(agent.EventLost, "Its store is lost or damaged.").but("an operator looks at what its members became"),
			sense(agent.EventFork, "It was shown two logs, and does nothing.").but("keep the evidence file, and tell the operator of the ledger"),
		),
	)
}

// recoveryWords explain what the recovery engine does about cases, and why.
func recoveryWords() []Explanation {
	return slices.Concat(
		sortOf("strategy of recovery",
			sense(recovery.Retry, "Executes the step again as it was."),
			sense(recovery.RetryAltered, "Executes the step again with what its variant changes."),
			sense(recovery.FallbackModel, "Executes the step again on the next model of the policy's chain."),
			sense(recovery.StateReset, "Resets the state that its scope names, and executes the step again."),
			sense(recovery.FailReassign, "Gives the step to another agent, which executes it."),
			sense(recovery.CheckpointResume, "Goes on from the newest usable checkpoint."),
			sense(recovery.Reconcile, "Asks the authoritative state whether the effect took place."),
			sense(recovery.Wait, "Waits."),
			sense(recovery.Rollback, "Signals the failure, so that the step and what depends on it are undone."),
			sense(recovery.Quarantine, "Fences the agent. An escalation follows."),
			sense(recovery.Escalate, "Gives the case to a person, which ends it."),
			sense(recovery.Abort, "Stops what still runs for the case. An escalation follows."),
		),
		sortOf("variant of retry_altered",
			sense(recovery.Reflect, "Shows the model its error."),
			sense(recovery.RepairArgs, "Corrects the arguments."),
			sense(recovery.StricterSchema, "Constrains the output."),
			sense(recovery.CompactContext, "Shortens the context."),
			sense(recovery.Decompose, "Splits the task."),
			sense(recovery.AlternateTool, "Uses another tool."),
			sense(recovery.LowerVariance, "Samples with less freedom."),
			sense(recovery.FreshContext, "Begins with an empty context."),
			sense(recovery.RefreshCredential, "Gets a new credential."),
			sense(recovery.Reread, "Reads the state again first."),
		),
		sortOf("scope of state_reset",
			sense(recovery.ScopeContext, "The model's context. Its work stays."),
			sense(recovery.ScopeStart, "The whole task, to its beginning."),
			sense(recovery.ScopeProgress, "To the last checkpoint that made progress."),
			sense(recovery.ScopeVerified, "To an earlier checkpoint whose digest verifies."),
		),
		sortOf("rule of recovery that every policy has",
			sense(recovery.RuleGate, "The effect gate: no step is executed again whose effect may have taken place."),
			sense(recovery.RuleLimits, "The limits of the policy, or the budget of the case."),
			sense(recovery.RuleRuntime, "What the runtime could not do."),
		),
		reasonWords(),
		sortOf("result of an action",
			sense(recovery.ResultOK, "The attempt succeeded, or the wait or the question is over."),
			sense(recovery.ResultFailed, "The step failed again."),
			sense(recovery.ResultDecided, "Nobody has carried the action out yet."),
			sense(recovery.ResultNotObserved, "The run knows nothing of such an attempt."),
			sense(recovery.ResultUnverified, "The attempt claims success, and nothing verified it where the action asked for that."),
		),
		sortOf("end of a case",
			sense(engine.AutoRecovered, "The policy alone dealt with the failure."),
			sense(engine.Escalated, "A person has to decide.").but("arl recover one shows the trace"),
			sense(engine.NoFailure, "Nothing failed in the case."),
		),
	)
}

func reasonWords() []Explanation {
	return sortOf("reason of an action",
		sense(recovery.ReasonLadder, "It is the next rung of the rule."),
		sense(recovery.ReasonRule, "The rule escalates at once."),
		sense(recovery.ReasonGuard, "A guard raised the action; the rule names which."),
		sense(recovery.ReasonEffectsUncertain, "The effect gate asks whether the effect took place."),
		sense(recovery.ReasonEffectsUnknown, "Asking did not tell whether the effect took place.").but("declare the effect of the step, and give its tool a probe"),
		sense(recovery.ReasonEffectsComplete, "Every rung left would add an effect to one that took place, or go back past one that cannot be undone."),
		sense(recovery.ReasonLadderExhausted, "No rung of the rule is left."),
		sense(recovery.ReasonAttemptsExhausted, "limits.attempts is used up."),
		sense(recovery.ReasonCostExhausted, "limits.cost_micro_usd is used up."),
		sense(recovery.ReasonTokensExhausted, "limits.tokens is used up."),
		sense(recovery.ReasonDeadlineExceeded, "limits.deadline_ms is over."),
		sense(recovery.ReasonConditionError, "The condition of a rule could not be evaluated.").but("arl policy lint"),
		sense(recovery.ReasonNotObserved, "The attempt that the policy wants was never made or recorded.").but("arl recover --live or --simulate"),
		sense(recovery.ReasonAfterQuarantine, "The agent is fenced; a person decides."),
		sense(recovery.ReasonAfterAbort, "The case was stopped; a person decides."),
		sense(recovery.ReasonAfterRollback, "A rollback was signalled; the incident decides."),
		sense(recovery.ReasonUnverified, "The attempt succeeded, nothing verified it, and no rung is left."),
		sense(recovery.ReasonExternal, "A strategy of the user's chose the action."),
		sense(recovery.ReasonAnswerRefused, "A strategy chose what no rung may do here."),
		sense(recovery.ReasonStrategyFailed, "A strategy did not answer, and the ladder decided."),
		sense(recovery.ReasonStrategyMissing, "No strategy of that name is registered on this machine, and the ladder decided.").but("pass --strategies"),
	)
}

// reportWords are those of reports, and of what compares with them.
func reportWords() []Explanation {
	return slices.Concat(
		sortOf("recommendation of a report",
			sense(engine.Promote, "Every gate holds."),
			sense(engine.Reject, "A gate failed.").but("arl report show says which, with value and limit"),
			sense(engine.Inconclusive, "The report can neither promote nor reject: too few cases failed, or a gate needs a value that was not observed."),
		),
		sortOf("verdict of a gate",
			sense(engine.Pass, "The value keeps to the limit."),
			sense(engine.Fail, "The value does not keep to the limit."),
			sense(engine.Unknown, "The value was not observed."),
			sense(engine.NotAsked, "Neither the policy nor the command asks for it."),
		),
		sortOf("gate of a report",
			sense("cases_min", "At least this number of cases must have failed: with fewer the report is inconclusive."),
			sense("recovery_rate_min", "At least this share of the failing cases must recover without a person."),
			sense("cost_per_case_max", "A failing case may cost at most this amount, on average."),
			sense("latency_p95_max", "95 % of the failing cases must take at most this time."),
			sense("never_auto_recover", "Of the classes that the policy names, and of safety-critical cases, none may recover without a person."),
			sense("baseline", "No class may recover less often than in the report that is compared with."),
			sense("strategies", "No ladder may decide in place of a strategy that is not registered."),
		),
		sortOf("mode of a run",
			sense(engine.ModeRecorded, "Only what the scenario recorded is compared."),
			sense(engine.ModeSimulated, "A model of failures answers what was not recorded."),
			sense(engine.ModeLive, "Attempts are made by programs, tools and models."),
		),
		sortOf("how a replay compares",
			sense(engine.Matches, "The same traces and the same report."),
			sense(engine.Diverged, "A trace or the report does not follow from scenario and policy.").but("arl replay names the first difference"),
			sense(engine.NotComparable, "Engine, policy, configuration or scenario differs from the run's."),
		),
		sortOf("a trace that is out of place",
			sense(engine.Missing, "The case has no trace."),
			sense(engine.Extra, "The trace belongs to no case at this place."),
			sense(engine.Another, "The trace of another case stands there."),
		),
	)
}

// failureWords explains the classes of the failure taxonomy and their codes.
func failureWords() (all []Explanation) {
	for _, class := range entry.Classes() {
		all = append(all, Explanation{Code: class, Title: "class of failures", Text: entry.Meaning(class, "")})
		for _, code := range entry.Codes(class) {
			e := Explanation{Code: class + "." + code, Title: "failure", Text: entry.Meaning(class, code)}
			if entry.NeedsEvidence(class, code) {
				e.Text += " Without evidence in the signal the code counts as unknown (SIG-2)."
				e.Remedy = "give --evidence with the signal"
			}
			all = append(all, e)
		}
		if class != entry.ClassUnknown {
			all = append(all, Explanation{Code: class + "." + entry.ClassUnknown, Title: "failure", Text: "A failure of the class that no code of the class fits."})
		}
	}
	return all
}

func doctorWords() []Explanation {
	return sortOf("state of a check of arl doctor",
		sense("ok", "Nothing is wrong."),
		sense("warn", "Something may become wrong. The exit code stays 0."),
		sense("fail", "Commands on this machine will not work. The remedy stands beside it."),
	)
}

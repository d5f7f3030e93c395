package glossary

import (
	"slices"

	"recoveryledger/api/client/agent"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/ledger/entry"
)

// vocabulary explains the words that entries, traces and views hold for a class, a
// code, a state, a result or a reason. A word with several meanings has an
// explanation for each.
func vocabulary() []Explanation {
	return slices.Concat(incidentWords(), taskWords(), executionWords(), signalWords(), memberWords(), agentWords(),
		recoveryWords(), reportWords(), failureWords(), commandWords())
}

// sortOf sets the title of explanations: the sort of their words.
func sortOf(title string, list ...Explanation) []Explanation {
	for i := range list {
		list[i].Title = title
	}
	return list
}

// sense returns the explanation of a word. sortOf sets the title.
func sense[T ~string](code T, text string) Explanation {
	return Explanation{Code: string(code), Text: text}
}

// but returns the explanation with a remedy.
func (e Explanation) but(remedy string) Explanation {
	e.Remedy = remedy
	return e
}

func incidentWords() []Explanation {
	state := func(s entry.IncidentState, text string) Explanation { return sense(string(s), text) }
	return slices.Concat(
		sortOf("state of an incident",
			state(entry.IncidentReported, "A signal opened the incident. No decision is made yet.").but("arl incident preview shows what a decision would undo"),
			state(entry.IncidentContained, "A fence stands around the executions that a rollback may undo. No decision about the "+
				"rollback is made yet.").but("arl incident preview shows what a decision would undo"),
			state(entry.IncidentEscalated, "The coordinator may not decide alone. A proposal waits for approvers.").but("arl incident approve computes the plan, and signs the answer"),
			state(entry.IncidentAuthorized, "A plan is in force. Its agents undo their members and report outcomes.").
				but("arl incident show names the agents whose outcome is missing; arl escalation acknowledge answers an amend that no approver answered"),
			state(entry.IncidentDismissed, "Nothing is undone. An approver denied the rollback, no approver answered in time, or an older incident took the signals.").
				but("arl incident show names the reason; arl escalation acknowledge answers an incident that no approver answered"),
			state(entry.IncidentRecovered, "A member was restored or compensated, and no effect is left."),
			state(entry.IncidentNoEffects, "No member had an effect to undo. Nothing was restored or compensated."),
			state(entry.IncidentPartial, "Some members were undone. The effects of other members stand.").but("arl incident show names these members, with the reports of their agents"),
			state(entry.IncidentFailed, "No member with an effect was undone.").but("arl incident show names the effects that stand"),
		),
		sortOf("act of a decision about an incident",
			sense(entry.ActContain, "Fences the executions that a rollback may undo. Nothing is undone yet."),
			sense(entry.ActEscalate, "Proposes a plan to the approvers."),
			sense(entry.ActAuthorize, "Puts a plan into force."),
			sense(entry.ActAmend, "Extends the plan in force."),
			sense(entry.ActDeny, "Dismisses the incident, or acknowledges that no approver answered the incident or an amend of its plan."),
			sense(entry.ActOverride, "Stops the plan in force. Members without an outcome are withheld."),
			sense(entry.ActRelease, "Lifts the fence around members that have an outcome."),
		),
		sortOf("disposition of a signal (INC-8)",
			sense(entry.Corroborated, "Another principal, evidence of a monitor or operator, or an approver supports the signal. The record names the domains."),
			sense(entry.SelfReported, "The signal was believed on its issuer's word alone. The signal restores no quota."),
			sense(entry.Dismissed, "The signal was not believed. The signal costs its issuer quota. After a deny the issuer must wait before the issuer may signal the subject again."),
			sense(entry.Inconclusive, "The signal came too late for a verdict, or no approver gave one."),
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
			sense(entry.TaskInProgress, "An agent works on the task under a lease."),
			sense(entry.TaskInReview, "The work is done, and is under review."),
			sense(entry.TaskBlocked, "The task waits for the answer of a person.").but("arl escalation resolve"),
			sense(entry.TaskFailed, "The agent failed, and the task waits for a retry or an operator.").but("arl task show says how many retries are left"),
			sense(entry.TaskInterrupted, "The agent was asked to end, and handed the task back. An interruption costs no retry."),
			sense(entry.TaskCompleted, "The task is done."),
			sense(entry.TaskCancelled, "An operator ended the task."),
		),
		sortOf("operation on a task",
			sense(entry.TaskCreate, "An operator creates the task."),
			sense(entry.TaskReassign, "An operator names another agent for the task."),
			sense(entry.TaskRelease, "An operator answers for what held the task up, and the task goes on."),
			sense(entry.TaskCancel, "An operator ends the task."),
			sense(entry.TaskAssign, "The coordinator names an agent for the task."),
			sense(entry.TaskFail, "The coordinator records that the agent failed: the agent reported a failure, or lost its lease."),
			sense(entry.TaskInterrupt, "The coordinator takes the task back from an agent that was asked to end."),
			sense(entry.TaskStart, "The agent begins the task."),
			sense(entry.TaskReview, "The agent hands the work over for review."),
			sense(entry.TaskComplete, "The agent reports that the task is done."),
			sense(entry.TaskBlock, "The agent asks a person a question."),
		),
	)
}

func executionWords() []Explanation {
	return slices.Concat(
		sortOf("effect of an execution",
			sense(entry.EffectNone, "The execution changes nothing outside of its output."),
			sense(entry.EffectReversible, "A restore of a checkpoint undoes the effect."),
			sense(entry.EffectCompensable, "Another execution can undo the effect."),
			sense(entry.EffectIrrevocable, "Nothing can undo the effect."),
			sense(entry.EffectUndeclared, "The agent did not declare the effect. Automatic decisions treat an undeclared effect as irrevocable (EXE-3).").but("declare the effect"),
		),
		sortOf("progress of an execution",
			sense(entry.Planned, "The execution has not begun."),
			sense(entry.Started, "The execution began. Its effect may have taken place."),
			sense(entry.Confirmed, "The execution ended, and its effect took place."),
			sense(entry.Failed, "The execution ended without success. Its effect may have taken place."),
			sense(entry.Cancelled, "The execution will never begin."),
		),
		sortOf("dependency of an execution",
			sense(entry.Hard, "If the parent is rolled back, this execution is rolled back too."),
			sense(entry.Soft, "This execution used the parent's output, and stays valid without that output. People review this execution if the parent is rolled back."),
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
			sense(entry.ReplayUnknown, "Nobody knows whether executing the step again does harm."),
		),
		sortOf("severity, which orders what people look at",
			sense(entry.SeverityInfo, "The failure is good to know."),
			sense(entry.SeverityWarning, "A person should look at the failure."),
			sense(entry.SeverityError, "A person must look at the failure."),
			sense(entry.SeverityCritical, "A person must look at the failure now."),
		),
	)
}

func memberWords() []Explanation {
	return slices.Concat(
		sortOf("why an execution is a member of a plan",
			sense("seed", "A signal is about the execution (SCO-3)."),
			sense("dependent", "The execution depends on a member (SCO-1)."),
			sense("line", "The line of the agent goes back to a checkpoint before the execution (SCO-2)."),
		),
		sortOf("method for a member of a plan",
			sense(entry.MethodNone, "The execution has no effect to undo, but its output is invalid."),
			sense(entry.MethodCancel, "The execution was planned, and must not be started."),
			sense(entry.MethodRestore, "The line of the agent goes back to a checkpoint."),
			sense(entry.MethodCompensate, "Another execution undoes the effect."),
			sense(entry.MethodResidual, "The effect cannot be undone. The record tells people."),
		),
		sortOf("result of a member",
			sense(entry.Restored, "The line went back to its checkpoint."),
			sense(entry.Compensated, "The compensation took place."),
			sense(entry.NotExecuted, "There was nothing to undo."),
			sense(entry.ResultIrrevocable, "The effect cannot be undone.").but("arl incident show names the effect that is left"),
			sense(entry.ResultFailed, "The undo was tried and failed.").but("arl incident show names the effect that is left"),
			sense(entry.Refused, "The agent could not verify the authorization to undo this member.").but("arl verify BUNDLE names the rule that does not hold"),
			sense(entry.Withheld, "An override stopped the plan before the undo began."),
			sense(entry.ResultUnknown, "The agent reported no result in time.").but("ask the agent's operator, and check whether the effect stands"),
		),
	)
}

// agentWords are the words of an agent's reports about hooks, and of arl agent listen about the
// agent.
func agentWords() []Explanation {
	return slices.Concat(
		sortOf("how a hook ended",
			sense(agent.Done, "The hook had its effect."),
			sense(agent.NoEffect, "The hook certainly had no effect, and will have none. The hook may be tried again."),
			sense(agent.Failed, "The hook failed. A part of its effect may be left."),
			sense(agent.Unknown, "Nobody knows whether the hook had its effect."),
		),
		sortOf("event of an agent",
			sense(agent.EventAccepted, "The agent verified a decision."),
			sense(agent.EventStarted, "The agent is about to run a hook."),
			sense(agent.EventEnded, "A hook reported how it ended."),
			sense(agent.EventLogged, "The ledger registered an entry of the agent."),
			sense(agent.EventRefused, "The agent could not verify a bundle or a member, or the ledger refused an entry.").but("arl verify BUNDLE names the rule that does not hold"),
			sense(agent.EventRetry, "An action of the agent failed, and the agent tries again."),
			sense(agent.EventHidden, "The log has a decision for the agent, and the server does not deliver that decision.").but("ask the operator of the ledger"),
			sense(agent.EventLost, "The agent's store is lost or damaged.").but("check whether the effects of the agent's members stand"),
			sense(agent.EventFork, "The agent was shown two logs, and does nothing.").but("keep the evidence file, and tell the operator of the ledger"),
		),
	)
}

// recoveryWords explain the actions of the recovery engine, and their reasons.
func recoveryWords() []Explanation {
	return slices.Concat(
		sortOf("strategy of recovery",
			sense(recovery.Retry, "Executes the step again as it was."),
			sense(recovery.RetryAltered, "Executes the step again, with the change that the variant names."),
			sense(recovery.FallbackModel, "Executes the step again on the next model of the policy's chain."),
			sense(recovery.StateReset, "Resets the state that its scope names, and executes the step again."),
			sense(recovery.FailReassign, "Gives the step to another agent, which executes the step."),
			sense(recovery.CheckpointResume, "Goes on from the newest usable checkpoint."),
			sense(recovery.Reconcile, "Asks the authoritative state whether the effect took place."),
			sense(recovery.Wait, "Waits."),
			sense(recovery.Rollback, "Signals the failure, so that the step and its dependents are undone."),
			sense(recovery.Quarantine, "Fences the agent. An escalation follows."),
			sense(recovery.Escalate, "Gives the case to a person. The case ends."),
			sense(recovery.Abort, "Stops everything that still runs for the case. An escalation follows."),
		),
		sortOf("variant of retry_altered",
			sense(recovery.Reflect, "Shows the model the error of the last attempt."),
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
			sense(recovery.ScopeContext, "Resets the model's context. The work stays."),
			sense(recovery.ScopeStart, "Resets the whole task to its beginning."),
			sense(recovery.ScopeProgress, "Goes back to the last checkpoint that made progress."),
			sense(recovery.ScopeVerified, "Goes back to an earlier checkpoint whose digest verifies."),
		),
		sortOf("rule of recovery that every policy has",
			sense(recovery.RuleGate, "The effect gate: a step whose effect may have taken place is not executed again."),
			sense(recovery.RuleLimits, "A limit of the policy, or the budget of the case, ends the case."),
			sense(recovery.RuleRuntime, "The runtime could not carry the action out."),
		),
		reasonWords(),
		sortOf("result of an action",
			sense(recovery.ResultOK, "The attempt succeeded, or the wait is over, or the question is answered."),
			sense(recovery.ResultFailed, "The step failed again."),
			sense(recovery.ResultDecided, "Nobody has carried the action out yet."),
			sense(recovery.ResultNotObserved, "The run has no record of such an attempt."),
			sense(recovery.ResultUnverified, "The attempt claims success. The action asked for a check, and no check verified the success."),
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
		sense(recovery.ReasonLadder, "The action is the next rung of the rule's ladder."),
		sense(recovery.ReasonRule, "The rule escalates at once."),
		sense(recovery.ReasonGuard, "A guard made the action more severe. The rule names the guard."),
		sense(recovery.ReasonEffectsUncertain, "The effect gate asks whether the effect took place."),
		sense(recovery.ReasonEffectsUnknown, "The question whether the effect took place got no certain answer.").but("declare the effect of the step, and give its tool a probe"),
		sense(recovery.ReasonEffectsComplete, "Every rung that is left would repeat an effect that took place, or go back past an effect that cannot be undone."),
		sense(recovery.ReasonLadderExhausted, "No rung of the rule is left."),
		sense(recovery.ReasonRetriesSpent, "The task has no retry left. An operator releases or cancels the task.").but("arl task release"),
		sense(recovery.ReasonAttemptsExhausted, "limits.attempts is used up."),
		sense(recovery.ReasonCostExhausted, "limits.cost_micro_usd is used up."),
		sense(recovery.ReasonTokensExhausted, "limits.tokens is used up."),
		sense(recovery.ReasonDeadlineExceeded, "The time of limits.deadline_ms is over."),
		sense(recovery.ReasonConditionError, "The condition of a rule could not be evaluated.").but("arl policy lint names the condition"),
		sense(recovery.ReasonNotObserved, "The attempt that the policy wants was never made or recorded.").but("arl recover --live makes attempts, and --simulate draws them"),
		sense(recovery.ReasonAfterQuarantine, "The agent is fenced. A person decides."),
		sense(recovery.ReasonAfterAbort, "The case was stopped. A person decides."),
		sense(recovery.ReasonAfterRollback, "A rollback was signalled. The incident decides."),
		sense(recovery.ReasonUnverified, "The attempt succeeded, nothing verified it, and no rung is left."),
		sense(recovery.ReasonExternal, "A strategy from outside the policy's ladders chose the action."),
		sense(recovery.ReasonAnswerRefused, "A strategy chose an action that no rung may take here."),
		sense(recovery.ReasonStrategyFailed, "A strategy did not answer. The ladder decided."),
		sense(recovery.ReasonStrategyMissing, "No strategy of that name is registered on this machine. The ladder decided.").but("pass --strategies"),
	)
}

// reportWords are the words of reports, and of comparisons.
func reportWords() []Explanation {
	return slices.Concat(
		sortOf("recommendation of a report",
			sense(engine.Promote, "Every gate holds."),
			sense(engine.Reject, "A gate failed.").but("arl report show says which, with value and limit"),
			sense(engine.Inconclusive, "The report can neither promote nor reject: too few cases failed, or a gate needs a value that was not observed."),
		),
		sortOf("verdict of a gate",
			sense(engine.Pass, "The value is within the limit."),
			sense(engine.Fail, "The value is not within the limit."),
			sense(engine.Unknown, "The value was not observed."),
			sense(engine.NotAsked, "Neither the policy nor the command asks for this gate."),
		),
		sortOf("gate of a report",
			sense("cases_min", "At least this number of cases must have failed. With fewer failing cases the report is inconclusive."),
			sense("recovery_rate_min", "At least this share of the failing cases must recover without a person."),
			sense("cost_per_case_max", "The mean cost of a failing case may be at most this amount."),
			sense("latency_p95_max", "95 % of the failing cases must take at most this time."),
			sense("never_auto_recover", "No failure of a class that the policy names, and no safety-critical case, may recover without a person."),
			sense("baseline", "No class may recover less often than in the baseline report."),
			sense("slices", "Each slice must recover at least the share that the policy asks of it."),
			sense("baseline_missing", "No class and no slice of the baseline report may be missing, apart from those that the policy names."),
			sense("baseline_cost", "A case may cost no more than in the baseline report, beyond the tolerance of the policy."),
			sense("baseline_latency", "The 95th percentile of the time may be no longer than in the baseline report, beyond the tolerance of the policy."),
			sense("calibration_error_max", "The confidences of attempts may differ from what came of the attempts by at most this share, in the mean."),
			sense("strategies", "No ladder may decide in place of a strategy that is not registered."),
		),
		sortOf("mode of a run",
			sense(engine.ModeRecorded, "The recorded attempts of the scenario answer the decisions."),
			sense(engine.ModeSimulated, "An outcome model draws the attempts that the scenario did not record."),
			sense(engine.ModeLive, "Programs, tools and models make the attempts for real."),
		),
		sortOf("how a replay compares",
			sense(engine.Matches, "The traces and the report are the same."),
			sense(engine.Diverged, "A trace or the report does not follow from scenario and policy.").but("arl replay names the first difference"),
			sense(engine.NotComparable, "Engine, policy, configuration or scenario differs from that of the run."),
		),
		sortOf("a trace that is out of place",
			sense(engine.Missing, "The case has no trace."),
			sense(engine.Extra, "The trace belongs to no case at this place."),
			sense(engine.Another, "The place has the trace of another case."),
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
				e.Remedy = "pass --evidence with the signal"
			}
			all = append(all, e)
		}
		if class != entry.ClassUnknown {
			all = append(all, Explanation{Code: class + "." + entry.ClassUnknown, Title: "failure", Text: "No code of the class fits the failure."})
		}
	}
	return all
}

// commandWords explains the words that commands alone print.
func commandWords() []Explanation {
	return slices.Concat(
		sortOf("state of a check of arl doctor",
			sense("ok", "Nothing is wrong."),
			sense("warn", "A problem may come. The exit code stays 0."),
			sense("fail", "Commands on this machine will not work. The line has the remedy."),
		),
		sortOf("state of an entry that was submitted",
			sense("new", "The entry is registered."),
			sense("was there", "The log had the same entry before. Nothing is added, and the receipt is that of the entry in the log."),
		),
		sortOf("verdict of arl log fsck",
			sense("sound", "The database holds the log whole, and the log has every tree head that is known to be signed."),
		),
	)
}

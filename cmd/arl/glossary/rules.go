package glossary

// entryRules are the rules about entries and trust, up to the rollback set. docs/protocol.md has
// the text of all rules.
func entryRules() []Explanation {
	return []Explanation{
		{"REG-1", "size, JSON, kind, schema",
			"An envelope is strict JSON with exactly one signature. Its payload is strict JSON of a known kind: no duplicate members, integers within ±(2^53−1), depth ≤ 16, at most 48 KiB.",
			"correct the member that the problem's field names"},
		{"REG-2", "the same entry again, or another entry under the same id",
			"Issuer and jti identify an entry. The ledger answers the same signed bytes with the first receipt, whatever the time, key or quota. The ledger refuses other bytes under the same id: id-conflict.",
			"give every new entry a new jti"},
		{"REG-3", "audience", "aud must be the origin of this ledger. So an entry that was signed for one ledger is worth nothing at another.", "sign the entry for this ledger"},
		{"REG-4", "issuer and role",
			"The key must be enrolled for exactly this issuer and must not be revoked. The key's role must allow the kind, act or standing.",
			"arl agent list shows keys and roles; the policy's authority grants roles"},
		{"REG-5", "signature", "The signature must be the key's, over the DSSE pre-authentication encoding of the exact payload bytes.", "sign exactly the bytes that you send"},
		{"REG-6", "time of issue", "iat must be within the policy's window (default ±300 s) of the ledger's clock.", "correct the clock, and sign again with a new jti"},
		{"REG-7", "quota", "The policy limits the entries of an issuer over a rolling hour. It limits signals more tightly.", "wait, or apply a policy with other quotas"},
		{"REG-8", "references", "An entry may refer only to executions, checkpoints and entries that are already in the log.", "first register the entry that the new entry refers to"},
		{"REG-9", "state", "An entry must be allowed after what the log holds. The EXE, CHK, SIG and TRU rules say what is allowed for each kind.", "read the entries that the new entry refers to"},
		{"REG-10", "carriers and batches",
			"Anyone may deliver another party's envelope, since the signature is the authority. The ledger registers a batch up to the first line " +
				"that it refuses. Sending a batch again is safe. An entry without a receipt counts as not delivered.", ""},
		{"TRU-1", "the pinned root", "A verifier gets the origin, the ledger key and the leaf hash of the genesis policy out of band. The verifier " +
			"checks everything else against them.", "keep the profile or root file that arl serve wrote"},
		{"TRU-2", "inclusion is never authority",
			"A policy counts only through a chain from the genesis: the authority named in each policy signs the next. A key counts only through an " +
				"agent entry whose signer the policy then in force lets enrol that role.", ""},
		{"TRU-3", "what was accepted stays accepted", "An agent keeps the newest policy and every revocation that it accepted. It refuses decisions that contradict them.", ""},
		{"TRU-4", "compromised keys", "A revocation may name the index from which on the key is not trusted. The entries stay in the log, and reports " +
			"warn of them.", "arl agent revoke --compromised-since INDEX"},
		{"TRU-5", "the ledger's key changes in the log",
			"A policy changes the ledger's key: it names the next key (ledger_keys), and both keys sign heads for a while. Every head must be signed " +
				"by a key that the newest policy under it names, and each policy keeps at least one key of the policy before. A ledger that lost " +
				"acknowledged entries continues only under a new origin.",
			"arl key next makes the next key, and arl policy apply puts it into force; a verifier that missed the change pins the new root; after a " +
				"loss restore a backup, or use arl log import, or arl ledger new-origin (docs/disk-gone.md)"},
		{"EXE-1", "progress only advances",
			"Only the agent of an execution may add entries to it. Progress goes from planned to started, and then to confirmed, failed or cancelled. Parents and effect never change.", ""},
		{"EXE-2", "log before act", "An agent registers started, and holds the receipt, before it causes an effect. The ledger accepts confirmed only " +
			"after started.", "submit the started entry first, and wait for its receipt"},
		{"EXE-3", "undeclared is irrevocable", "Automatic decisions treat an undeclared effect as irrevocable.", "declare the effect"},
		{"EXE-4", "compensations need a decision", "The ledger accepts an execution that compensates another only under a decision in force.", ""},
		{"CHK-1", "checkpoints cover finished work", "after must be null, or an execution of the agent on this line whose final entry is in the log. " +
			"Along a line, after never goes back.", "register the final progress first"},
		{"SIG-1", "when to signal", "An agent signals when its retries are spent, or when an attempt failed with effects that it cannot reconcile. A failed attempt alone is no reason to signal.", ""},
		{"SIG-2", "evidence and unknown classes", "Some codes need evidence. Without evidence, such a code counts as unknown. The ledger accepts an " +
			"unknown class, and treats it as unknown.", "give --evidence"},
		{"SCO-1", "dependents are rolled back too", "If an execution is rolled back, every execution that hard-depends on it is rolled back too, in any workflow.", ""},
		{"SCO-2", "a line goes back to a checkpoint",
			"A line is an agent's executions in a workflow. A line goes back to its newest usable checkpoint. Everything after that checkpoint is rolled back too.", "write checkpoints more often"},
		{"SCO-3", "seeds", "The rollback set starts with the subjects of the believed signals, and the executions in their since ranges. It starts with nothing else.", ""},
		{"SCO-4", "methods",
			"Progress and declared effect give each member its method: none, cancel, restore, compensate or residual. A residual member cannot be " +
				"undone; its dependents are members too.", "declare effects, and log compensation handles"},
		{"SCO-5", "the rollback set is computed, not chosen",
			"The ledger computes rollback set, signals, impact and pin at the decision's own index. It refuses a decision with other values: " +
				"scope-mismatch.", "draft the decision again: arl incident preview shows the plan as it is now"},
	}
}

// workRules are the rules about incidents, tasks and runs.
func workRules() []Explanation {
	return []Explanation{
		{"INC-1", "what the coordinator does by itself", "The coordinator contains what a third party signals, and what another incident will take " +
			"over. It authorizes what INC-2 allows, and escalates the rest. It denies only after silence and after merges.", ""},
		{"INC-2", "what may be authorized without people", "The cause must be believed. The plan must stay within the limits and within one domain, " +
			"and have no residual members. A member that is in the set only because of its line must have no effect, or a reversible one.",
			"if people must decide, arl incident approve answers the proposal"},
		{"INC-3", "the stricter policy", "An open incident takes each limit and each quorum from the policy at its opening or from the policy in force, whichever is stricter.", ""},
		{"INC-4", "fences", "While a fence stands, nothing new may depend on a member or join a fenced line, and no member may be started. Members " +
			"that were undone stay fenced: do the step again under a new id, with parents that are not fenced.",
			"arl incident show says what the incident waits for; an approver who owns no member lifts its fence with arl incident release"},
		{"INC-5", "who may approve",
			"Approvals answer the proposal in force. An approver must not have signaled, must not have proposed, and must own no member. A new " +
				"proposal voids the approvals. Silence denies the proposal. Silence over an incident or an amend is listed until somebody " +
				"acknowledges it.", "arl incident approve computes the plan before it signs"},
		{"INC-6", "one outcome for each member", "An outcome must fit the member's method, and may supersede only what the rules name. Results are claims of the agent.", ""},
		{"INC-7", "order and time",
			"A compensation waits for the compensations that depend on it. A member waits for its drain, and a line for all of its drains. Each " +
				"member has a time limit, and the incident's deadline caps all of them.", ""},
		{"OVR-3", "after an override only people go on", "After an override, an amend of the incident needs a quorum of approvals. So does a plan of " +
			"another incident with an execution that the override withheld.",
			"the coordinator proposes, and arl incident approve answers the proposal"},
		{"INC-8", "a signaler's own word confirms nothing",
			"A believed signal is corroborated if another principal, evidence of a monitor or operator, or an approver supports it. Otherwise it is " +
				"self_reported. The record names the corroborating domains. " +
				"Only corroboration by another domain, or by a role that the authority alone grants, counts for the signal quota.", "arl agent history PRINCIPAL shows the verdicts on its signals"},
		{"TSK-1", "claims count retries", "A failed task is assigned again while retry_count is below max_retries and its effects allow it. Resumes " +
			"from a checkpoint are counted separately. Interruptions are not counted.", "once the retries are spent, an operator gives the task to an agent: arl task release TASK --agent AGENT"},
		{"TSK-2", "leases", "Renewals of a lease are not logged. The coordinator registers the loss of a lease, at least one term after the last " +
			"entry under it. A result under an old epoch is stale.", "stop working on the task: another agent may hold it"},
		{"TSK-3", "snapshot on failure", "A snapshot of a failed execution holds counts, times, class, code and a keyed digest. It never holds contents.", ""},
		{"TSK-4", "questions to people", "A task that waits for people is BLOCKED; an incident that waits for people is ESCALATED. An entry of an operator or approver moves it on.", "arl escalation list"},
		{"RUN-1", "a run is opened once and closed once", "A run of the engine keeps one id, workflow, digests and seed from its opening to its close.", ""},
		{"RUN-2", "whose attempts these are", "An attempt that names a run belongs to an open run of its issuer. Without a run, an agent writes only of its own work.", ""},
	}
}

// agentRules are the rules that agents check, and the rules of the index.
func agentRules() []Explanation {
	return []Explanation{
		{"AGT-1", "the head of a bundle", "The ledger's key must sign the tree head. The head must not be smaller than the head accepted last, must " +
			"continue it, and must have the witnesses that the pinned root asks for.",
			"on a fork: do nothing, keep the evidence file, and tell the operator of the ledger"},
		{"WIT-1", "which witnesses are asked", "The ledger asks every witness of the policy in force that has a URL, and those of policies before it that " +
			"agents may still be under. A witness without a URL pushes its cosignature.", ""},
		{"WIT-2", "one tree head a round", "A round asks all witnesses about one tree head: the newest one, or the one right behind a newer index entry. A round ends with " +
			"the quorum. Without the quorum it ends after five seconds, or when a witness has a newer tree head.", ""},
		{"WIT-3", "what a witness gets", "A witness gets the size that it cosigned last, the consistency proof and the tree head. A witness that does not " +
			"answer is asked again after 1 second, then after twice that time, up to a minute.", "arl doctor names the witnesses that the quorum lacks, and why"},
		{"WIT-4", "witnessed", "When the quorum has cosigned, the tree head is witnessed, and kept. Late cosignatures are added for 16 rounds.", ""},
		{"WIT-5", "when a round begins", "A round begins when there are new entries and --witness-every is over, or somebody waits for the cosignatures. A log without " +
			"new entries is cosigned again every third of bundle_max_age_ms.", ""},
		{"WIT-6", "who may waive the witnesses", "Agents take up a policy with other witnesses only under a head that the witnesses of the policy " +
			"before have cosigned. If these are down, the group emergency of the policy before may cosign that head in their place. It can waive nothing else.",
			"apply a policy with other witnesses, and have the approvers of the group cosign the tree head (docs/witness.md)"},
		{"AGT-2", "the decision of a bundle",
			"The decision must authorize or amend. It must rest on the chain of policies and keys, be meant for this ledger, not be expired, and have " +
				"the approvals or stay within the limits.", "fetch the bundle again"},
		{"AGT-3", "the members of a bundle", "Each member must be proven to be in the rollback set. It must be an execution of this agent, have a " +
			"method that fits its effect, and have a chain of reasons from a signal. The agent refuses any other member.", ""},
		{"AGT-4", "started before done", "The agent durably notes the start before it runs a hook. After a crash it asks the probe hook, or repeats " +
			"an idempotent action with the same key.", "give the program a probe hook"},
		{"AGT-5", "what a restore takes along", "A restore names the executions of the line whose effects still stand. A restore brings back no key, approval or decision.", ""},
	}
}

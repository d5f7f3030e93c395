package main

// rules are the rules of the protocol that this version enforces
// (docs/protocol.md has them all, and their words).
func rules() []explanation {
	return []explanation{
		{"REG-1", "size, JSON, kind, schema",
			"An envelope is strict JSON with exactly one signature, its payload strict JSON of a known kind: no duplicate members, integers within ±(2^53−1), depth ≤ 16, at most 48 KiB.",
			"correct the member that the problem's field names"},
		{"REG-2", "the same entry again, or another one under its id",
			"An entry is known by issuer and jti. The same signed bytes again get the receipt of the first time, whatever the time, key or quota; other bytes are id-conflict.",
			"give every new object a new jti"},
		{"REG-3", "audience", "aud is the origin of this ledger, so that an entry signed for one ledger is worth nothing at another.", "sign the entry for this ledger"},
		{"REG-4", "issuer and role",
			"The key is enrolled for exactly this issuer, is not revoked, and its role allows the kind, act or standing.",
			"arl agent list shows keys and roles; the policy's authority grants roles"},
		{"REG-5", "signature", "The signature is the key's over the DSSE pre-authentication encoding of the exact payload bytes.", "sign the bytes that are sent"},
		{"REG-6", "time of issue", "iat is within the policy's window (±300 s by default) of the ledger's now.", "set the clock right and sign again with a new jti"},
		{"REG-7", "quota", "An issuer's entries, and more tightly its signals, are limited over a rolling hour by the policy.", "wait, or apply a policy with other quotas"},
		{"REG-8", "references", "Executions, checkpoints and entries that are referred to stand in the log, before the entry that refers to them.", "register what is referred to first"},
		{"REG-9", "state", "The entry may follow what the log holds: EXE, CHK, SIG and TRU rules say what that means for each kind.", "read the entries it refers to"},
		{"REG-10", "carriers and batches",
			"Anyone may carry another's envelope: the signature is the authority. A batch is a prefix: the first refusal ends it, and resending is safe. No receipt means not delivered.", ""},
		{"TRU-1", "the pinned root", "A verifier obtains origin, ledger key and leaf hash of the genesis policy out of band. Everything else is checked against them.", "keep the profile or root file that arl serve wrote"},
		{"TRU-2", "inclusion is never authority",
			"A policy counts only through a chain from the genesis, each signed by the authority named in the one before; a key counts only through an agent entry whose signer the policy then in force lets enrol that role.", ""},
		{"TRU-3", "what was accepted stays accepted", "An agent keeps the newest policy and every revocation it accepted, and refuses decisions that contradict them.", ""},
		{"TRU-4", "compromised keys", "A revocation may name the index since which the key is not to be believed. Entries stay; reports warn of them.", "arl agent revoke --compromised-since INDEX"},
		{"TRU-5", "lost entries end an origin", "A ledger that lost acknowledged entries continues only under a new origin; a ledger key changes by a policy entry.", ""},
		{"EXE-1", "progress only advances",
			"Later entries of an execution come from its agent and advance progress: planned, dispatched, then confirmed, failed or cancelled. Parents and effect never change.", ""},
		{"EXE-2", "log before act", "An execution with an effect is confirmed only after dispatched was logged; the agent holds that receipt before it acts.", "submit dispatched first, and wait for its receipt"},
		{"EXE-3", "undeclared is irrevocable", "An undeclared effect counts as irrevocable for anything automatic.", "declare the effect"},
		{"EXE-4", "compensations need a decision", "An execution that compensates another is accepted only under a decision in force.", ""},
		{"CHK-1", "checkpoints cover finished work", "after is null or an own execution of the line whose final entry is older; along a line it never falls behind.", "log the final progress first"},
		{"SIG-1", "when to signal", "An agent signals when its retries are spent, or when an attempt failed with effects that it cannot reconcile. A mere attempt error writes no signal.", ""},
		{"SIG-2", "evidence and unknown classes", "Where the class asks for evidence and there is none, the code counts as unknown; an unknown class is accepted as unknown.", "give --evidence"},
	}
}

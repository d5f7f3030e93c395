package recovery

import "recoveryledger/ledger/entry"

// Arms says which rules decide a case.
type Arms struct {
	Rules *Policy
	Arm   entry.Arm // of a rollout that the case belongs to; empty: no rollout is under way
	// Beside is the candidate of a shadow. It decides beside Rules, and nothing is done about its
	// decision. nil: none does.
	Beside *Policy
	// Other is what decides the other arm of a canary. Traces say what it would decide, entries do
	// not: the evidence of a canary is what was done. nil: there is none.
	Other *Policy
}

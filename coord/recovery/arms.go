package recovery

import "recoveryledger/ledger/entry"

// Arms says which rules decide a case.
type Arms struct {
	Rules *Policy
	Arm   entry.Arm // of a rollout that the case belongs to; empty: no rollout is under way
	// Beside is the candidate of a shadow. It decides beside Rules, and nothing is done about its
	// decision. nil: none does.
	Beside *Policy
}

package recovery

import "recoveryledger/ledger/entry"

// Limits of everything that is read from outside; those of single members stand
// in schema.json. Each is tested at the limit and one past it.
const (
	// DocumentMax is the size of a policy file in bytes: what it says must fit
	// an envelope.
	DocumentMax = entry.MaxEnvelope

	timesMax     = 64      // attempts of one kind in a row
	depthMax     = 16      // nesting of a policy file
	conditionMax = 1 << 10 // characters of a condition
	nodesMax     = 256     // operators and operands of a condition
	reasonMax    = 64      // bytes of the reason of an action that a strategy answers
)

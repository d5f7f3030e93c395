package recovery

import "recoveryledger/ledger/entry"

// These are limits of all input from outside. schema.json has the limits of single members. A test
// tries each limit at its value and one past it.
const (
	// DocumentMax is the size of a policy file in bytes. The content must fit an envelope.
	DocumentMax = entry.MaxEnvelope

	timesMax     = 64      // attempts of one kind in a row
	depthMax     = 16      // nesting of a policy file
	conditionMax = 1 << 10 // characters of a condition
	nodesMax     = 256     // operators and operands of a condition
	reasonMax    = 64      // bytes of the reason of an action that a strategy answers
)

package client

import (
	"time"

	"recoveryledger/verify"
)

// Limits of a server's answers, and defaults of [Config].
const (
	maxAnswer  = 256 << 20 // bytes of a page or of the answer to a batch
	maxProblem = 64 << 10  // bytes of problem details
	maxValue   = 1 << 20   // bytes of every other JSON value
	maxTile    = 256 * (2 + verify.MaxLeaf)
	maxMetrics = 4 << 20   // bytes of the metrics; a ledger has less than 1 MiB
	maxKnown   = 256       // signed heads that are remembered
	maxEvent   = 512 << 10 // bytes of a line of an event stream
	// maxEvidence is the number of documents in a list of evidence. No ledger has so many: a
	// ledger keeps 64 MiB of objects, and each object has more than 512 bytes.
	maxEvidence = 1 << 17

	// scanMin is the least number of entries that a server has looked at when it gives an
	// empty page of a list and says that the list goes on. Servers look at 8,192.
	scanMin = 1024

	attemptsDefault = 5
	timeoutDefault  = time.Minute
	waitDefault     = 30 * time.Second

	backoffMin = 100 * time.Millisecond
	backoffMax = 5 * time.Second
)

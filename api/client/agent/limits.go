package agent

import "recoveryledger/verify/bundle"

// Limits of all input from outside. Tests check each limit at its value and one past it.
const (
	// MaxDocument is the size of a document of the store in bytes.
	MaxDocument = bundle.MaxAccepted + 256
	// MaxDocuments is the number of documents in a store.
	MaxDocuments = 1 << 20
	// MaxReport is the size of the JSON of a [Report] in bytes.
	MaxReport = 64 << 10
	// MaxEvidence is the number of pieces of evidence in a [Report].
	MaxEvidence = 256
	// MaxHints is the number of incidents in [Hints].
	MaxHints = bundle.MaxIncidents

	secretMin = 16 // bytes
)

// Bounds on repetitions, which no outsider can stretch.
const (
	lookDefault     = 30_000 // milliseconds
	attemptsDefault = 3
	crashFactor     = 4 // how many more attempts there are if they end in crashes
	// keysMax is the greatest number of keys that the compensation of an execution may ever have
	// (EXE-4). After the loss of a store the agent asks Probe about all of them, and continues with
	// number keysLost or a later one.
	keysMax     = 2 * keysLost
	keysLost    = 32
	probesMax   = 5 // of one undertaking, before it is unknown
	proofsMax   = 3 // bundles in a row whose proof of consistency fails, before that is a fork
	distrustMax = 8 // bundles of an incident in a row that do not verify, before the next hint is waited for
	doubtsMax   = 5 // bundles in a row that a carrier may have altered, before their members are refused
	refusalsMax = 8 // of one entry, before it is set aside until something changes that it may have rested on
)

// The shortest and the longest pause after a failure, in milliseconds.
const (
	pauseMin int64 = 500
	pauseMax int64 = 60_000
	asideMax int64 = 600_000   // of an entry that is set aside
	leastMax int64 = 3_600_000 // that a ledger may ask for
)

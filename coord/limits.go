package coord

import "recoveryledger/ledger/entry"

// Limits of what is read from outside. Payloads have their own in package
// entry.
const (
	// localKeyMax is the length of an issuer's number and a local id.
	localKeyMax = 4 + entry.MaxName
	// leafMax is the length of a leaf of the policy chain in a snapshot.
	leafMax = 1<<16 - 1
	// judgedMax is the number of verdicts on its signals by which a principal's
	// quota is measured.
	judgedMax = 256
	// incidentSignalsMax is the number of signals that an incident takes.
	incidentSignalsMax = 64
	// principalSignalsMax is how many of them may be of one principal.
	principalSignalsMax = 32
	// mergesMax is the number of younger incidents that one amend takes up; the
	// next amend takes up more.
	mergesMax = 64
	// retriesDefault is the max_retries of a task that names none, leaseDefaultMS
	// its lease_ms; agentTasksMax is how many tasks the coordinator gives one agent
	// at a time. Package entry bounds the first two.
	retriesDefault = 1
	leaseDefaultMS = 90_000
	agentTasksMax  = 16
	// failuresMax is how many failures of a task are kept, the newest: more than a
	// ladder has rungs, whose position follows from them.
	failuresMax = 128
	// routeMax is how many tasks are given to agents at once, so that incidents
	// need not wait for all of them.
	routeMax = 128
	// candidatesMax is how many of those who may get a task are told.
	candidatesMax = 16
	// decidedMax is about how many tasks it is remembered what the rules want done.
	decidedMax = 1 << 16
)

package coord

import "recoveryledger/ledger/entry"

// Limits of input from outside. Package entry has the limits of payloads.
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
	// principalSignalsMax is the number of signals of an incident that one principal may send.
	principalSignalsMax = 32
	// mergesMax is the number of younger incidents that one amend takes up; the
	// next amend takes up more.
	mergesMax = 64
	// retriesDefault is the max_retries of a task that names none. leaseDefaultMS is the lease_ms
	// of a task that names none. Package entry bounds both. agentTasksMax is the number of tasks
	// that the coordinator gives one agent at a time.
	retriesDefault = 1
	leaseDefaultMS = 90_000
	agentTasksMax  = 16
	// failuresMax is the number of newest failures of a task that are kept. It is larger than the
	// number of rungs of a ladder, because the position on the ladder follows from the failures.
	failuresMax = 128
	// routeMax is the number of tasks that are given to agents at once, so that incidents need not
	// wait for all tasks.
	routeMax = 128
	// candidatesMax is the number of candidates for a task that a view of the task lists.
	candidatesMax = 16
	// checkpointsMax is the number of checkpoints of a task that a view of the task lists.
	checkpointsMax = 16
	// reportedMax is the number of incidents that a view of an execution lists.
	reportedMax = 10
	// decidedMax is the approximate number of tasks for which [Rules] keeps the decision.
	decidedMax = 1 << 16
)

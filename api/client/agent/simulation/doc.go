// Package simulation runs whole incidents in one goroutine: the coordinator's
// coordinator, agents, approvers, an operator and a ledger, on one queue of events that
// a seed determines, with lost, late and doubled messages, partitions, crashes,
// wrong clocks and hostile parties. There is nothing in it but tests; what they
// check, and how a seed is replayed, stands in docs/simulation.md.
package simulation

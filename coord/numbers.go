package coord

import (
	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
)

// Principals and executions have numbers in the order of their first entries, from 0
// on. Two states of the same log give the same numbers.

// Principals returns how many principals wrote entries.
func (s *State) Principals() uint32 { return uint32(s.principals.Size()) }

// FindPrincipal returns the number of a principal; ok is false if it wrote no entry.
func (s *State) FindPrincipal(p entry.Principal) (number uint32, ok bool) {
	return s.principals.Find([]byte(p))
}

// FindExecution returns the number of an execution; ok is false if it is not in the log.
func (s *State) FindExecution(ref entry.Ref) (number uint32, ok bool) {
	return s.resolve(s.executions.names, ref)
}

// ExecutionRef returns the reference to the execution with a number.
func (s *State) ExecutionRef(number uint32) entry.Ref { return s.refOf(number) }

// Graph returns the executions and checkpoints by their numbers. It changes with the
// state and is not to be changed.
func (s *State) Graph() *scope.Graph { return &s.graph }

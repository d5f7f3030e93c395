package coord

import (
	"cmp"
	"slices"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// signal is what rules need of a logged signal.
type signal struct {
	index   uint64
	leaf    merkle.Hash
	issuer  uint32
	subject uint32 // number of the execution
}

// admitSignal checks what a signal refers to and whether its issuer may speak.
// That the class asks for evidence, or is unknown, refuses nothing: readers act
// on [entry.Signal.Effective] (SIG-2). A subject is never a compensation: none
// is admitted (EXE-4).
func (s *State) admitSignal(sig *entry.Signal) error {
	number, subject, ok := s.findExecution(sig.Subject)
	if !ok { // REG-8
		return unknown("subject", "no execution or task %s in the log", sig.Subject)
	}
	var since *execution
	if sig.Since != "" {
		if _, since, ok = s.findExecution(sig.Since); !ok {
			return unknown("since", "no execution %s in the log", sig.Since)
		}
	}
	if err := s.checkLastKnownGood(sig.LastKnownGood); err != nil {
		return err
	}
	if sig.Supersedes != nil && !s.supersedes(sig, number) {
		return unknown("supersedes", "entry %d is not this signal of %s about %s", sig.Supersedes.Index, sig.Iss, sig.Subject).
			WithRemedy("name an earlier signal of the same issuer about the same subject, by index and leaf hash")
	}
	switch { // REG-9
	case !s.standing(sig, number):
		return entry.Refuse(entry.NoStanding, "standing", "%s is not %s of %s", sig.Iss, sig.Standing, sig.Subject).
			WithRemedy("executor: its agent; upstream, downstream: the agent of a direct parent or child, as declared in the log")
	case string(sig.Wid) != string(s.workflows.Text(subject.workflow)):
		return conflict("wid", "%s belongs to workflow %s", sig.Subject, s.workflows.Text(subject.workflow))
	case since != nil && since.agent != subject.agent:
		return conflict("since", "%s is not an execution of the subject's agent", sig.Since)
	}
	return nil
}

// checkLastKnownGood wants an execution or a checkpoint.
func (s *State) checkLastKnownGood(ref entry.Ref) error {
	if ref == "" {
		return nil
	}
	_, _, execution := s.findExecution(ref)
	if _, checkpoint := s.resolve(s.checkpoints, ref); execution || checkpoint {
		return nil
	}
	return unknown("last_known_good", "no execution or checkpoint %s in the log", ref)
}

// supersedes reports whether the older signal is there, by the same issuer and
// about the same subject.
func (s *State) supersedes(sig *entry.Signal, subject uint32) bool {
	issuer, ok := s.principals.Find([]byte(sig.Iss))
	if !ok {
		return false
	}
	i, ok := slices.BinarySearchFunc(s.signals, sig.Supersedes.Index, func(old signal, index uint64) int {
		return cmp.Compare(old.index, index)
	})
	if !ok {
		return false
	}
	old := &s.signals[i]
	return old.leaf == sig.Supersedes.LeafHash && old.issuer == issuer && old.subject == subject
}

// standing reports whether the issuer has the standing that it claims. That of
// a monitor or an operator is a role, which REG-4 has checked.
func (s *State) standing(sig *entry.Signal, subject uint32) bool {
	if sig.Standing == entry.StandingMonitor || sig.Standing == entry.StandingOperator {
		return true
	}
	issuer, ok := s.principals.Find([]byte(sig.Iss))
	if !ok {
		return false
	}
	switch sig.Standing {
	case entry.StandingExecutor:
		return s.executions.list.At(subject).agent == issuer
	case entry.StandingDownstream:
		return s.executions.hasChildOf(subject, issuer)
	case entry.StandingUpstream:
		return s.executions.hasParentOf(subject, issuer)
	}
	return false
}

func (s *State) applySignal(e *entry.Entry, issuer uint32, index uint64, at int64) {
	sig, _ := e.Body.(*entry.Signal)
	s.signals = append(s.signals, signal{
		index: index, leaf: merkle.HashLeaf(e.AppendLeaf(nil, at)), issuer: issuer,
		subject: s.mustResolve(s.executions.names, sig.Subject),
	})
}

package coord

import (
	"cmp"
	"fmt"
	"slices"

	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
)

// signal holds what the rules need of a logged signal.
type signal struct {
	index    uint64
	at       int64
	issuer   uint32
	keyID    string // that signed it; shared with the chain
	subject  uint32 // number of the execution; with taskBit, of the task
	since    uint32 // 1 + the execution from which on all are seeds with it (SCO-3); 0: none
	incident uint32 // number of the incident that it opened or joined
	standing entry.Standing
	evidence bool // whether it has evidence
	inDoubt  bool // whether it leaves effects partial or unknown
	// early says that the edge of an upstream or downstream signaler was logged before the subject
	// was final (INC-2).
	early    bool
	verdict  verdict
	domains  []string // of the principals that corroborate it; never changed in place
	disposed uint64   // index of the record or deny with the verdict; 0: none yet
}

// verdict is the verdict on a signal.
type verdict struct {
	disposition disposition
	independent bool // of a corroborated signal, as in [entry.Disposition]
}

// disposition is the number of the word for a verdict on a signal.
type disposition uint8

const (
	undisposed disposition = iota
	corroborated
	selfReported
	dismissed
	inconclusive
)

var dispositions = []string{"", entry.Corroborated, entry.SelfReported, entry.Dismissed, entry.Inconclusive}

// cooldownKey names a signaler and its subject: a principal, and an execution or a task.
type cooldownKey struct{ issuer, subject uint32 }

// admitSignal checks the references of a signal, whether its issuer may speak, and whether the
// incident that the signal would join takes it. It refuses no signal because the class asks for
// evidence or is unknown: readers act on [entry.Signal.Effective] (SIG-2).
func (s *State) admitSignal(sig *entry.Signal, at int64) error {
	subject, ok := s.findSubject(sig.Subject)
	if !ok { // REG-8
		return unknown("subject", "no execution or task %s in the log", sig.Subject)
	}
	var since *scope.Node
	if sig.Since != "" {
		if _, since, ok = s.findExecution(sig.Since); !ok {
			return unknown("since", "no execution %s in the log", sig.Since)
		}
	}
	if err := s.checkLastKnownGood(sig.LastKnownGood); err != nil {
		return err
	}
	if sig.Supersedes != nil && !s.supersedes(sig, subject) {
		return unknown("supersedes", "entry %d is neither an earlier signal of %s about %s, nor the opening signal of the earlier incident", sig.Supersedes.Index, sig.Iss, sig.Subject).
			WithRemedy("name an earlier signal of the same issuer about the same subject, by index and leaf hash")
	}
	switch { // REG-9
	case !s.standing(sig, subject):
		return entry.Refuse(entry.NoStanding, "standing", "%s is not %s of %s", sig.Iss, sig.Standing, sig.Subject).
			WithRemedy("the executor is the agent of the subject; upstream and downstream are the agents of a direct parent and of a direct child in the log")
	case string(sig.Wid) != string(s.workflows.Text(s.subjectWorkflow(subject))):
		return conflict("wid", "%s belongs to workflow %s", sig.Subject, s.workflows.Text(s.subjectWorkflow(subject)))
	}
	if err := s.checkSubject(sig, subject, since); err != nil {
		return err
	}
	return s.admitJoining(sig, subject, at)
}

// checkSubject checks that something of the subject can still be undone.
func (s *State) checkSubject(sig *entry.Signal, subject uint32, since *scope.Node) error {
	if _, is := s.taskOf(subject); is {
		for exec := range s.executionsOf(subject) {
			if !s.graph.Node(exec).Undone && since == nil {
				return nil
			}
		}
		if since != nil {
			return conflict("since", "since names a range up to an execution, and the subject is a task")
		}
		return conflict("subject", "%s has no execution to undo", sig.Subject).
			WithRemedy("send no signal: the task fails when its lease is lost")
	}
	x := s.graph.Node(subject)
	switch {
	case since != nil && since.Agent != x.Agent:
		return conflict("since", "%s is not an execution of the subject's agent", sig.Since)
	case x.Undone:
		return conflict("subject", "%s was undone", sig.Subject)
	case x.Line == scope.NoLine:
		return conflict("subject", "%s is a compensation: its failure is an outcome, not a signal", sig.Subject)
	}
	return nil
}

// admitJoining checks the cooldown after a dismissal, and the number of signals that an incident
// takes: of all principals together, and of one principal, so that no principal can fill it up.
func (s *State) admitJoining(sig *entry.Signal, subject uint32, at int64) error {
	issuer, known := s.principals.Find([]byte(sig.Iss))
	policy, _ := s.chain.Policy()
	if dismissed, ok := s.cooldowns[cooldownKey{issuer, subject}]; ok && known && at < dismissed+policy.Windows.CooldownMS {
		refusal := entry.Refuse(entry.RateLimited, "subject", "a signal of %s about %s was dismissed", sig.Iss, sig.Subject)
		refusal.RetryAfterMS = dismissed + policy.Windows.CooldownMS - at
		return refusal
	}
	number, ok := s.joins(subject)
	if !ok {
		return s.admitOpening(sig, subject)
	}
	inc, own := s.incidents[number], 0
	for _, other := range inc.signals {
		if known && s.signals[other].issuer == issuer {
			own++
		}
	}
	switch {
	case len(inc.signals) >= incidentSignalsMax:
		return conflict("subject", "incident %d has %d signals, the limit", inc.opened, len(inc.signals))
	case own >= principalSignalsMax:
		return conflict("subject", "incident %d has %d signals of %s, the limit", inc.opened, own, sig.Iss)
	}
	return nil
}

// admitOpening checks a signal that opens an incident about a subject that an earlier incident
// could not undo. The signal must name the newest such incident by its opening signal.
func (s *State) admitOpening(sig *entry.Signal, subject uint32) error {
	before, ok := s.recordedOf(subject)
	if !ok || sig.Supersedes != nil && sig.Supersedes.Index == before.opened {
		return nil
	}
	ref := s.logRef(before.opened)
	return conflict("supersedes", "%s was a member of incident %d, which is %s", sig.Subject, before.opened, before.state).
		WithRemedy(fmt.Sprintf("name the signal that opened it: index %d, leaf_hash %s", ref.Index, ref.LeafHash))
}

// recordedOf returns the newest recorded incident that had the subject as a member. For a task, it
// is the newest that had any execution of the task.
func (s *State) recordedOf(subject uint32) (newest *incident, ok bool) {
	for exec := range s.executionsOf(subject) {
		if inc, recorded := s.recordedOne(exec); recorded && (newest == nil || inc.opened > newest.opened) {
			newest = inc
		}
	}
	return newest, newest != nil
}

func (s *State) recordedOne(exec uint32) (*incident, bool) {
	for _, number := range slices.Backward(s.incidentsByExecution[exec]) {
		inc := s.incidents[number]
		if inc.state.Open() || inc.current == nil {
			continue
		}
		if _, member := inc.current.find(exec); member {
			return inc, true
		}
	}
	return nil, false
}

// checkLastKnownGood checks that a reference names an execution or a checkpoint.
func (s *State) checkLastKnownGood(ref entry.Ref) error {
	if ref == "" {
		return nil
	}
	_, _, execution := s.findExecution(ref)
	if _, checkpoint := s.resolve(s.checkpoints.names, ref); execution || checkpoint {
		return nil
	}
	return unknown("last_known_good", "no execution or checkpoint %s in the log", ref)
}

// findSignal returns the signal at an index.
func (s *State) findSignal(index uint64) (*signal, bool) {
	i, ok := slices.BinarySearchFunc(s.signals, index, func(old signal, index uint64) int { return cmp.Compare(old.index, index) })
	if !ok {
		return nil, false
	}
	return &s.signals[i], true
}

// supersedes reports whether the log has the signal that another signal supersedes: one by the same
// issuer about the same subject, or the opening signal of the incident before.
func (s *State) supersedes(sig *entry.Signal, subject uint32) bool {
	if !s.isRef(*sig.Supersedes) {
		return false
	}
	if before, ok := s.recordedOf(subject); ok && sig.Supersedes.Index == before.opened {
		return true
	}
	issuer, known := s.principals.Find([]byte(sig.Iss))
	old, ok := s.findSignal(sig.Supersedes.Index)
	return known && ok && old.issuer == issuer && old.subject == subject
}

// standing reports whether the issuer has the standing that it claims. The standing of a monitor
// or an operator is a role, and REG-4 has checked it.
func (s *State) standing(sig *entry.Signal, subject uint32) bool {
	if sig.Standing == entry.StandingMonitor || sig.Standing == entry.StandingOperator {
		return true
	}
	if t, is := s.taskOf(subject); is && sig.Standing == entry.StandingExecutor {
		return t.Agent == sig.Iss
	}
	issuer, ok := s.principals.Find([]byte(sig.Iss))
	if !ok {
		return false
	}
	for exec := range s.executionsOf(subject) {
		if s.linked(sig.Standing, exec, issuer) {
			return true
		}
	}
	return false
}

// linked reports whether a principal has the standing to an execution that it claims.
func (s *State) linked(standing entry.Standing, exec, issuer uint32) (is bool) {
	switch standing {
	case entry.StandingExecutor:
		is = s.graph.Node(exec).Agent == issuer
	case entry.StandingDownstream:
		_, is = s.executions.users[childOf{exec, issuer}]
	case entry.StandingUpstream:
		is = s.hasParentOf(exec, issuer)
	}
	return is
}

func (s *State) applySignal(e *entry.Entry, issuer uint32, index uint64, at int64) {
	sig, _ := e.Body.(*entry.Signal)
	one := signal{
		index: index, at: at, issuer: issuer, keyID: s.sharedKeyID(e.KeyID), subject: s.mustSubject(sig.Subject),
		standing: sig.Standing, evidence: len(sig.Evidence) > 0,
		inDoubt: sig.Effects == entry.EffectsPartial || sig.Effects == entry.EffectsUnknown,
	}
	for exec := range s.executionsOf(one.subject) {
		switch x := s.graph.Node(exec); sig.Standing {
		case entry.StandingExecutor:
			if x.Agent == issuer {
				s.graph.SetClean(exec, sig.Effects == entry.EffectsNone)
			}
		case entry.StandingUpstream:
			one.early = true // its edge stands in the subject's first entry
		case entry.StandingDownstream:
			used, ok := s.executions.users[childOf{exec, issuer}]
			one.early = one.early || ok && (x.Final == 0 || used < x.Final)
		}
	}
	one.since = s.sinceOf(sig, &one, at)
	number, joined := s.joins(one.subject)
	if !joined {
		number = uint32(len(s.incidents))
		s.incidents = append(s.incidents, &incident{opened: index, openedAt: at, state: entry.IncidentReported, workflow: s.subjectWorkflow(one.subject), policy: len(s.policies) - 1})
		s.open[number] = struct{}{}
	}
	one.incident = number
	s.incidents[number].signals = append(s.incidents[number].signals, uint32(len(s.signals)))
	s.signals = append(s.signals, one)
	s.indexExecutions(number, one.subject)
	s.involve(issuer, number)
}

// sharedKeyID returns a key id as the chain has it, so that it is in memory once.
func (s *State) sharedKeyID(keyID string) string {
	if key, ok := s.chain.KeyInfo(keyID); ok {
		return key.Key.KeyID()
	}
	return keyID
}

// sinceOf returns the since of a signal as far as it counts by SCO-3. It counts from the executor,
// or from a monitor or operator with evidence. It counts within the same agent and workflow, and
// within the policy's maximum age.
func (s *State) sinceOf(sig *entry.Signal, one *signal, at int64) uint32 {
	if _, is := s.taskOf(one.subject); is || sig.Since == "" {
		return 0
	}
	third := sig.Standing == entry.StandingMonitor || sig.Standing == entry.StandingOperator
	if sig.Standing != entry.StandingExecutor && (!third || !one.evidence) {
		return 0
	}
	exec := s.mustResolve(s.executions.names, sig.Since)
	first, subject := s.graph.Node(exec), s.graph.Node(one.subject)
	policy, _ := s.chain.Policy()
	if first.Line == scope.NoLine || first.Workflow != subject.Workflow || exec > one.subject || at-first.At > policy.Windows.SinceMaxMS {
		return 0
	}
	return exec + 1
}

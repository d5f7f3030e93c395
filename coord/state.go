// Package coord is the fold: the meaning of the entries of a log. [State] is a pure,
// deterministic function of the log's prefix. It decides which entry may come next. Two parties
// with the same prefix compute the same state, so that package audit derives every verdict again.
// The package knows no storage and no network.
//
// Registration checks the same rules for every issuer, in this order. The first rule that fails
// refuses the entry, and nothing is appended:
//
//	REG-3  aud is this ledger
//	REG-4  the key is enrolled for exactly this issuer, counts, and its role allows the kind
//	REG-5  signature
//	REG-6  iat within the window of now, which is registered_at
//	REG-7  quota of the issuer over a rolling hour
//	REG-8  references exist and are older
//	REG-9  the state machine accepts
//
// [entry.Decode] checks REG-1. The ledger checks REG-2, the same entry again.
//
// REG-3 to REG-5 are also checked before the order, by [Precheck]. Package
// coordinator runs the fold beside a ledger.
package coord

import (
	"encoding/binary"
	"fmt"
	"slices"

	"recoveryledger/coord/compact"
	"recoveryledger/coord/rollout"
	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// SignatureCheck returns nil if sig is the key's signature over message. Its verdict must be the
// verdict of [verify.Signature].
type SignatureCheck func(key entry.PublicKey, message, sig []byte) error

// State is the fold: the meaning of the entries of a log, as of the last applied entry. It is not
// safe for concurrent use.
type State struct {
	origin string
	check  SignatureCheck

	size  uint64        // entries applied
	chain *verify.Chain // policy in force, keys and roles

	policies           []policyAt         // of the chain
	privilegeGrants    []uint64           // indexes of agent entries about more than plain agents
	agentsByCapability agentsByCapability // agents by capability

	principals *compact.Names // issuers of entries
	usage      []usage        // of the principals, by number
	workflows  *compact.Names // of executions

	tree        compact.Tree
	graph       scope.Graph
	executions  executions
	checkpoints checkpoints
	runs        runs
	tasks       tasks
	rollouts    rollout.Fold
	indexed     uint64 // entries that the newest index entry covers; 0: there is none

	signals   []signal              // by index
	incidents []*incident           // by the index of their opening signal
	open      map[uint32]struct{}   // incidents that wait for something, by number
	cooldowns map[cooldownKey]int64 // when a signal got the disposition dismissed

	// Incidents that may concern an execution, a task or a line: ascending numbers. Each reader
	// looks at the incidents.
	incidentsByExecution map[uint32][]uint32
	incidentsByLine      map[uint32][]uint32

	assessed assessed
}

// NewState returns the state of the empty log of that origin.
func NewState(origin string) *State { return NewCheckedState(origin, verify.Signature) }

// NewCheckedState is NewState with another check of signatures.
func NewCheckedState(origin string, check SignatureCheck) *State {
	return &State{
		origin: origin, check: check, chain: verify.NewChain(), agentsByCapability: agentsByCapability{},
		principals: compact.NewNames(0), workflows: compact.NewNames(0),
		executions:  executions{names: compact.NewNames(0), users: map[childOf]uint64{}, comps: map[uint32]compensated{}},
		checkpoints: checkpoints{names: compact.NewNames(0)},
		runs:        runs{names: compact.NewNames(0)},
		tasks: tasks{names: compact.NewNames(0), of: map[uint32]uint32{}, pointOf: map[uint32]uint32{}, byPoint: map[string]uint32{},
			waiting: map[uint32]struct{}{}, held: map[entry.Principal][]uint32{}, states: map[entry.TaskState]int64{}},
		open: map[uint32]struct{}{}, cooldowns: map[cooldownKey]int64{},
		incidentsByExecution: map[uint32][]uint32{}, incidentsByLine: map[uint32][]uint32{},
	}
}

// Chain returns the chain of policies and keys. It changes with the state. Do not change it.
func (s *State) Chain() *verify.Chain { return s.chain }

// Size returns how many entries were applied.
func (s *State) Size() uint64 { return s.size }

// Node returns the root over the 2^level entries from index·2^level on. It
// implements [merkle.NodeReader] for every tree that the log has been.
func (s *State) Node(level uint, index uint64) (merkle.Hash, error) { return s.tree.Node(level, index) }

// Admit checks e as the entry at index, registered at the instant at (Unix milliseconds), by the
// rules REG-3 to REG-9 in their order. It does not change the state. [entry.Decode] checks REG-1,
// and the ledger checks REG-2. The error is the [*entry.Refusal] of the first rule that fails.
func (s *State) Admit(e *entry.Entry, index uint64, at int64) error {
	if index != s.size {
		return fmt.Errorf("coord: admit entry %d: the state is of size %d", index, s.size)
	}
	if err := checkAudience(e, s.origin); err != nil { // REG-3
		return err
	}
	signer, err := s.chain.Signer(e) // REG-4
	if err != nil {
		return err
	}
	if !e.SignatureChecked { // REG-5
		if err := checkSignature(s.check, signer.Key, e); err != nil {
			return err
		}
	}
	if err := s.admitIat(e, at); err != nil { // REG-6
		return err
	}
	if err := s.admitQuota(e, at); err != nil { // REG-7
		return err
	}
	switch body := e.Body.(type) { // REG-8, REG-9
	case *entry.Policy:
		if err := s.chain.Admit(e, index); err != nil {
			return err
		}
		return s.rollouts.AdmitPolicy(body, s.Law())
	case *entry.Agent:
		return s.chain.Admit(e, index)
	case *entry.Rollout:
		return s.rollouts.Admit(body, signer.Roles, s.Law(), at)
	case *entry.Execution:
		return s.admitExecution(body, at)
	case *entry.Checkpoint:
		return s.admitCheckpoint(body)
	case *entry.Signal:
		return s.admitSignal(body, at)
	case *entry.Run:
		return s.admitRun(body)
	case *entry.Attempt:
		return s.admitAttempt(body, signer.Roles)
	case *entry.LogIndex:
		return s.admitIndex(body)
	case *entry.Task:
		return s.admitTask(body, at)
	case *entry.Decision:
		return s.admitDecision(e, body, signer, at)
	case *entry.Approval:
		return s.admitApproval(e, body, at)
	case *entry.Outcome:
		return s.admitOutcome(body, signer.Roles, at)
	case *entry.Record:
		return s.admitRecord(body, signer.Roles, at)
	}
	return conflict("", "%s entries are not accepted by this version", e.Kind)
}

// Rollouts returns the state of rollouts. It is valid until the state changes. Do not change it.
func (s *State) Rollouts() *rollout.Fold { return &s.rollouts }

// Law returns what rollouts need of the policy in force.
func (s *State) Law() rollout.Law {
	policy, _ := s.chain.Policy()
	return rollout.LawOf(policy)
}

// checkAudience checks REG-3.
func checkAudience(e *entry.Entry, origin string) error {
	if e.Header.Aud == origin {
		return nil
	}
	return entry.Refuse(entry.WrongAudience, "aud", "%q is not this ledger, which is %q", e.Header.Aud, origin).
		WithRemedy("sign the entry for this ledger, or send it to the ledger that aud names")
}

// checkSignature checks REG-5.
func checkSignature(check SignatureCheck, key entry.PublicKey, e *entry.Entry) error {
	if check(key, e.PAE(), e.Sig) == nil {
		return nil
	}
	return entry.Refuse(entry.BadSignature, "signatures[0].sig", "not a signature by %s over the PAE", e.KeyID).
		WithRemedy("sign the DSSE pre-authentication encoding of the exact payload bytes")
}

// admitIat checks REG-6.
func (s *State) admitIat(e *entry.Entry, at int64) error {
	window := int64(5 * minuteMS) // for the genesis, whose own window does not count yet
	if policy, _ := s.chain.Policy(); policy != nil {
		window = policy.Windows.IatMS
	}
	off := e.Header.Iat*1000 - at
	if -window <= off && off <= window {
		return nil
	}
	return entry.Refuse(entry.Stale, "iat", "%d is %d ms off the ledger's now, the window is ±%d ms", e.Header.Iat, off, window).
		WithRemedy("set the clock right, and sign the entry again with a new jti")
}

// Apply takes up an entry that was admitted, now or when it was logged. It panics if the entry
// has a reference that the log does not have. Then the entry never was admitted, and no state can
// follow from the log.
func (s *State) Apply(e *entry.Entry, index uint64, at int64) {
	issuer, added := s.principals.Add([]byte(e.Header.Iss))
	if added {
		s.usage = append(s.usage, usage{name: e.Header.Iss})
	}
	s.usage[issuer].last = uint32(index)
	s.applyQuota(e, issuer, at)
	s.tree.Add(e.LeafHash(at))
	s.applyBody(e, issuer, index, at)
	s.size++
}

func (s *State) applyBody(e *entry.Entry, issuer uint32, index uint64, at int64) {
	switch body := e.Body.(type) {
	case *entry.Policy:
		s.applyLink(e, index, at)
		s.rollouts.ApplyPolicy(body, index, at)
	case *entry.Agent:
		s.applyLink(e, index, at)
	case *entry.Rollout:
		s.rollouts.Apply(body, index, at)
	case *entry.Execution:
		s.applyExecution(body, issuer, index, at)
	case *entry.Checkpoint:
		s.applyCheckpoint(body, issuer, index)
	case *entry.Signal:
		s.applySignal(e, issuer, index, at)
	case *entry.Decision:
		s.applyDecision(e, body, issuer, index, at)
	case *entry.Approval:
		s.applyApproval(e, body, issuer, index)
	case *entry.Outcome:
		s.applyOutcome(body, issuer, index, at)
	case *entry.Record:
		s.applyRecord(body, issuer, index, at)
	case *entry.Run:
		s.applyRun(body, issuer)
	case *entry.Attempt:
		s.rollouts.Observe(body)
	case *entry.LogIndex:
		s.indexed = body.Size
	case *entry.Task:
		s.applyTask(body, issuer, index, at)
	}
}

// applyLink takes up a policy or an agent entry.
func (s *State) applyLink(e *entry.Entry, index uint64, at int64) {
	if body, ok := e.Body.(*entry.Agent); ok {
		old, _ := s.chain.Agent(body.Principal)
		s.agentsByCapability.remove(&old)
	}
	s.chain.Apply(e, index, at)
	switch body := e.Body.(type) {
	case *entry.Policy:
		s.policies = append(s.policies, policyAt{index, body})
	case *entry.Agent:
		info, _ := s.chain.Agent(body.Principal)
		s.agentsByCapability.add(&info)
		if slices.ContainsFunc(info.Keys, func(k verify.KeyInfo) bool { return verify.AuthorityOnly(k.Roles) }) {
			s.privilegeGrants = append(s.privilegeGrants, index)
		}
	}
}

// localKey returns the key of an execution or a checkpoint in its names: the number of the issuer
// and the local id.
func localKey(buf []byte, issuer uint32, id string) []byte {
	return append(binary.BigEndian.AppendUint32(buf, issuer), id...)
}

// resolve returns the number of a reference in the names.
func (s *State) resolve(in *compact.Names, ref entry.Ref) (number uint32, ok bool) {
	issuer, id := ref.Split()
	principal, ok := s.principals.Find([]byte(issuer))
	if !ok {
		return 0, false
	}
	return in.Find(localKey(make([]byte, 0, localKeyMax), principal, id))
}

// mustResolve is resolve for an entry that was admitted.
func (s *State) mustResolve(in *compact.Names, ref entry.Ref) uint32 {
	number, ok := s.resolve(in, ref)
	if !ok {
		s.impossible("%s is unknown", ref)
	}
	return number
}

// impossible ends the fold at an entry that never was admitted.
func (s *State) impossible(format string, args ...any) {
	panic(fmt.Sprintf("coord: apply entry %d: %s, so it never was admitted", s.size, fmt.Sprintf(format, args...)))
}

// principal returns the name of a principal.
func (s *State) principal(number uint32) entry.Principal { return s.usage[number].name }

// ref returns the reference with a number in the names.
func (s *State) ref(in *compact.Names, number uint32) entry.Ref {
	key := in.Text(number)
	text := make([]byte, 0, 2*entry.MaxName+1)
	text = append(append(text, s.principal(binary.BigEndian.Uint32(key))...), '#')
	return entry.Ref(append(text, key[4:]...))
}

func conflict(field, format string, args ...any) *entry.Refusal {
	return entry.Refuse(entry.StateConflict, field, format, args...)
}

func unknown(field, format string, args ...any) *entry.Refusal {
	return entry.Refuse(entry.UnknownSubject, field, format, args...)
}

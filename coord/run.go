package coord

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"

	"recoveryledger/coord/compact"
	"recoveryledger/ledger/entry"
)

// runs are the runs of recovery engines and the cases that each has an attempt
// for.
type runs struct {
	names *compact.Names // issuer's number and local id
	list  []runState
	cases *compact.Names // the run's number and the case
}

// runState is what rules need of a run.
type runState struct {
	config digest // of what open and close both say
	cases  uint64 // attempts so far
	closed bool
}

// configOf digests what a run is opened with and must be closed with.
func configOf(r *entry.Run) (d digest) {
	text := string(r.Wid) + "|" + r.ConfigDigest + "|" + r.ScenarioDigest + "|" + strconv.FormatInt(r.Seed, 10) + "|" + r.Engine
	sum := sha256.Sum256([]byte(text))
	copy(d[1:], sum[:])
	return d
}

// caseKey is what an attempt is known by in the cases.
func caseKey(run uint32, id string) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, localKeyMax), run), id...)
}

// admitRun is RUN-1: a run is opened once and closed once, as what it was
// opened. That both come from one engine needs no check: the id belongs to the
// issuer.
func (s *State) admitRun(r *entry.Run) error {
	number, known := s.resolve(s.runs.names, entry.NewRef(r.Iss, r.Run))
	switch {
	case r.Op == "open" && known:
		return conflict("run", "%s has a run %s already", r.Iss, r.Run).WithRemedy("give every run a new id")
	case r.Op == "open":
		return nil
	case !known:
		return unknown("run", "%s has no run %s", r.Iss, r.Run).WithRemedy("open the run first")
	case s.runs.list[number].closed:
		return conflict("op", "%s is closed already", r.Run)
	case s.runs.list[number].config != configOf(r):
		return conflict("op", "wid, config_digest, scenario_digest, seed or engine is not what %s was opened with", r.Run)
	}
	return nil
}

// admitAttempt is RUN-2: one attempt a case, while its run is open.
func (s *State) admitAttempt(a *entry.Attempt) error {
	number, known := s.resolve(s.runs.names, entry.NewRef(a.Iss, a.Run))
	if !known { // REG-8
		return unknown("run", "%s has no run %s", a.Iss, a.Run).WithRemedy("open the run first")
	}
	if s.runs.list[number].closed {
		return conflict("run", "%s is closed", a.Run)
	}
	if _, there := s.runs.cases.Find(caseKey(number, a.Case)); there {
		return conflict("case", "%s has an attempt for %s already", a.Run, a.Case)
	}
	return nil
}

func (s *State) applyRun(r *entry.Run, issuer uint32) {
	number, added := s.runs.names.Add(localKey(make([]byte, 0, localKeyMax), issuer, r.Run))
	if added {
		s.runs.list = append(s.runs.list, runState{config: configOf(r)})
		return
	}
	s.runs.list[number].closed = true
}

func (s *State) applyAttempt(a *entry.Attempt) {
	number := s.mustResolve(s.runs.names, entry.NewRef(a.Iss, a.Run))
	s.runs.cases.Add(caseKey(number, a.Case))
	s.runs.list[number].cases++
}

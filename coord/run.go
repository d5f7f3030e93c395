package coord

import (
	"crypto/sha256"
	"strconv"

	"recoveryledger/coord/compact"
	"recoveryledger/ledger/entry"
)

// runs are the runs of recovery engines. Of their cases nothing is kept: the log
// itself holds one attempt a case, see [entry.AttemptJTI].
type runs struct {
	names *compact.Names // issuer's number and local id
	list  []runState
}

// runState is what rules need of a run.
type runState struct {
	config digest // of what open and close both say
	closed bool
}

// configOf digests what a run is opened with and must be closed with.
func configOf(r *entry.Run) (d digest) {
	text := string(r.Wid) + "|" + string(r.ConfigDigest) + "|" + string(r.ScenarioDigest) + "|" + strconv.FormatInt(r.Seed, 10) + "|" + r.Engine
	sum := sha256.Sum256([]byte(text))
	copy(d[1:], sum[:])
	return d
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

// admitAttempt is RUN-2: one attempt a case, while its run is open. That it is
// one follows from its jti, which is that of the case, and REG-2.
func (s *State) admitAttempt(a *entry.Attempt) error {
	number, known := s.resolve(s.runs.names, entry.NewRef(a.Iss, a.Run))
	if !known { // REG-8
		return unknown("run", "%s has no run %s", a.Iss, a.Run).WithRemedy("open the run first")
	}
	if s.runs.list[number].closed {
		return conflict("run", "%s is closed", a.Run)
	}
	if want := entry.AttemptJTI(a.Run, a.Case); a.JTI != want {
		return conflict("jti", "%s is not that of case %s in run %s", a.JTI, a.Case, a.Run).WithRemedy("derive it from run and case: " + want)
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

// admitIndex holds an index entry to what it covers (IDX-3). Whether the root is
// that of the log up to there the fold does not know: package complete computes it,
// for the ledger before the order and for whoever audits.
func (s *State) admitIndex(x *entry.LogIndex) error {
	switch {
	case x.Size > s.size:
		return conflict("size", "%d, and %d stand before it", x.Size, s.size).WithRemedy("cover no more entries than there are")
	case x.Size <= s.indexed:
		return conflict("size", "%d, and the index entry before covers %d", x.Size, s.indexed).WithRemedy("cover more, or leave it")
	}
	return nil
}

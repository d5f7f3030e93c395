package coord

import (
	"crypto/sha256"
	"slices"
	"strconv"

	"recoveryledger/coord/compact"
	"recoveryledger/ledger/entry"
)

// runs are the runs of recovery engines. The state keeps nothing of their cases. The log itself
// allows one entry for each first case, see [entry.AttemptJTI].
type runs struct {
	names *compact.Names // issuer's number and local id
	list  []runState
}

// runState holds what the rules need of a run.
type runState struct {
	config digest // of the members that open and close share
	closed bool
}

// configOf returns the digest of the members that open and close of a run must share.
func configOf(r *entry.Run) (d digest) {
	text := string(r.Wid) + "|" + string(r.ConfigDigest) + "|" + string(r.ScenarioDigest) + "|" + strconv.FormatInt(r.Seed, 10) + "|" + r.Engine
	if r.PolicyDigest != "" || r.BaselineDigest != "" {
		text += "|" + string(r.PolicyDigest) + "|" + string(r.BaselineDigest)
	}
	sum := sha256.Sum256([]byte(text))
	copy(d[1:], sum[:])
	return d
}

// admitRun checks RUN-1: a run is opened once, and closed once with the members that it was opened
// with. It need not check that both entries come from one engine, because the id belongs to the
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
		return conflict("op", "wid, a digest, seed or engine differs from the entry that opened %s", r.Run)
	}
	return nil
}

// admitAttempt checks RUN-2: within a run, an attempt comes while the run is open, and its jti is
// that of its first case, so that REG-2 refuses a second one. Outside of a run, a principal that is
// merely an agent writes only of its own work.
func (s *State) admitAttempt(a *entry.Attempt, signerRoles []entry.Role) error {
	if err := s.rollouts.AdmitAttempt(a); err != nil {
		return err
	}
	if a.Run == "" {
		if a.Agent == a.Iss || slices.Contains(signerRoles, entry.RoleEngine) || slices.Contains(signerRoles, entry.RoleCoordinator) {
			return nil
		}
		return entry.Refuse(entry.UnauthorizedRole, "agent", "%s is neither engine nor coordinator, and the work is of %s", a.Iss, a.Agent).
			WithRemedy("record the attempts of your own agent")
	}
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
	s.rollouts.ApplyRun(r)
	number, added := s.runs.names.Add(localKey(make([]byte, 0, localKeyMax), issuer, r.Run))
	if added {
		s.runs.list = append(s.runs.list, runState{config: configOf(r)})
		return
	}
	s.runs.list[number].closed = true
}

// admitIndex checks an index entry against the entries that it covers (IDX-3). The fold does not
// know whether the root is right. Package complete computes the root, for the ledger before the
// order and for an audit.
func (s *State) admitIndex(x *entry.LogIndex) error {
	switch {
	case x.Size > s.size:
		return conflict("size", "%d, and the index entry is entry %d", x.Size, s.size).WithRemedy("cover only entries before the index entry")
	case x.Size <= s.indexed:
		return conflict("size", "%d, and the previous index entry covers %d", x.Size, s.indexed).WithRemedy("cover more entries, or send no index entry")
	}
	return nil
}

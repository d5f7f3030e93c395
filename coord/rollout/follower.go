package rollout

import (
	"iter"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// Follower says which arm decides a case, for a program that reads policies and rollouts of a log
// from somebody else. While the log is lost, no arm decides: the rollout may have ended. The zero
// value has read nothing. It is not safe for concurrent use.
type Follower struct {
	fold Fold
	next uint64 // index behind the newest entry that Read took up
	lost bool
	// bound says that arms of one rollout alone decide: of that with a name; empty: of none.
	bound bool
	name  string
}

// Next returns the index behind the newest entry that Read took up.
func (f *Follower) Next() uint64 { return f.next }

// Lose notes that the log does not answer, until it is read without an error.
func (f *Follower) Lose() { f.lost = true }

// Read takes up the policies and rollouts of the log from Next on, in their order. An error, of
// entries or of [Fold.follow], ends the reading: the log is lost then, and the next Read goes on
// where this one ended.
func (f *Follower) Read(entries iter.Seq2[*entry.Registered, error]) error {
	f.lost = true
	for e, err := range entries {
		if err == nil {
			err = f.fold.follow(e)
		}
		if err != nil {
			return err
		}
		f.next = e.Index + 1
	}
	f.lost = false
	return nil
}

// Reread takes up all policies and rollouts of the log anew, in their order. After an error of
// [Fold.follow] the log is lost, and nothing is taken up.
func (f *Follower) Reread(all []entry.Registered) error {
	var fold Fold
	for i := range all {
		if err := fold.follow(&all[i]); err != nil {
			f.lost = true
			return err
		}
	}
	f.fold, f.lost = fold, false
	return nil
}

// Bind has the arms of the rollout decide that is under way, and of none that begins later.
// inForce are the rules of a run that begins. It returns the rules of the candidate; nil: none is
// rolled out against these rules.
func (f *Follower) Bind(inForce *recovery.Policy) (candidate *recovery.Policy) {
	f.bound, f.name = true, ""
	now := f.fold.Current()
	if now == nil || f.fold.Of(inForce, "").Arm == "" {
		return nil
	}
	f.name = now.Name
	return now.compiled()
}

// Rebind is Bind for a run that is resumed, and that began with a candidate. If another candidate
// is under way now, the rollout of the run is over, and no arm decides.
func (f *Follower) Rebind(inForce, candidate *recovery.Policy) {
	if now := f.Bind(inForce); now == nil || now.Hash() != candidate.Hash() {
		f.name = ""
	}
}

// Of is [Fold.Of], by what was read of the log.
func (f *Follower) Of(inForce *recovery.Policy, id string) recovery.Arms {
	if now := f.fold.Current(); f.lost || f.bound && (now == nil || now.Name != f.name) {
		return recovery.Arms{Rules: inForce}
	}
	return f.fold.Of(inForce, id)
}

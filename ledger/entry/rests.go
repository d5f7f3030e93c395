package entry

import "slices"

// RestsOn reports whether the entry rests on an older one of its log. It does in three cases. It
// refers to the older one by a [LogRef], as an approval, or as a signal that it judges or leaves
// out. It is a plan, and the older one is a signal below its pin. It continues the execution of the
// older one, or depends on that execution. A body does not say which signals an incident has, so
// that a signal that is asked about must be of the plan's incident.
func (r *Registered) RestsOn(older *Registered) bool {
	if older.Index >= r.Index {
		return false
	}
	refers := func(ref *LogRef) bool { return ref != nil && ref.Index == older.Index }
	judges := func(d Disposition) bool { return d.Index == older.Index }
	switch b := r.Body.(type) {
	case *Policy:
		return refers(b.Previous)
	case *Execution:
		return b.Compensates != nil && refers(&b.Compensates.Decision) || b.restsOn(older.Body)
	case *Signal:
		return refers(b.Supersedes)
	case *Decision:
		return refers(&b.Policy) || refers(b.Supersedes) || slices.Contains(b.Approvals, older.Index) ||
			slices.ContainsFunc(b.Dispositions, judges) || b.restsOn(older)
	case *Approval:
		return refers(&b.Proposal)
	case *Outcome:
		return refers(&b.Decision) || refers(b.Supersedes)
	case *Record:
		return refers(&b.Decision) || slices.ContainsFunc(b.Dispositions, judges)
	}
	return false
}

// restsOn reports whether an execution is that of an older body, or depends on it.
func (x *Execution) restsOn(older Body) bool {
	before, is := older.(*Execution)
	return is && (before.Ref() == x.Ref() || slices.ContainsFunc(x.Parents, func(p Parent) bool { return p.Exec == before.Ref() }))
}

// restsOn reports whether a plan counts an older signal as a seed, or leaves the signal out.
func (d *Decision) restsOn(older *Registered) bool {
	return older.Kind == KindSignal && d.Pin != nil && d.Pin.Size > older.Index ||
		slices.ContainsFunc(d.Dismissed, func(left Dismissal) bool { return left.Index == older.Index })
}

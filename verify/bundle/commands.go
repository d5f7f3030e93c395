package bundle

import (
	"fmt"
	"slices"

	"recoveryledger/ledger/entry"
)

// commands gives the command for each member of the agent (INC-7, AGT-5).
func (c *checking) commands() error {
	refused, released := 0, 0
	for _, m := range c.members {
		waits, err := c.waits(m)
		if err != nil {
			return err
		}
		if !m.own {
			continue
		}
		command := Command{Member: m.Member, Digest: m.digest, Result: m.result, Refused: m.refused, Chain: c.path(m.Member.Index)}
		if m.outcome != nil {
			command.Outcome = m.outcome.Index
		}
		if m.refused != nil {
			refused++
		} else {
			command.Effect, command.Wid, command.Line = m.evidence.body.Effect, m.evidence.body.Wid, m.line.wid
			command.Waits, command.Released = waits, len(waits) == 0
			if m.Member.Method == entry.MethodRestore && command.Released {
				command.Standing = c.standingEffects(m)
			}
		}
		if command.Released {
			released++
		}
		c.out.Commands = append(c.out.Commands, command)
	}
	c.passed(stepMembers, "leaf_hash", len(c.out.Commands)-refused,
		"entries of the agent itself, with a method that suits the effect (SCO-4) and a chain from a seed (SCO-1 to SCO-3); %d refused", refused)
	c.passed(stepMembers, "INC-7", released, "for which nothing shown has to come before")
	return nil
}

// waits returns the shown members that a member waits for. A compensation waits for the members
// that the bundle puts before it. A restore waits for the members of its line.
func (c *checking) waits(m *member) ([]entry.Ref, error) {
	var waits []entry.Ref
	refuse := func(format string, args ...any) ([]entry.Ref, error) {
		return nil, broken(stepMembers, "INC-7", string(m.Member.Exec), format, args...)
	}
	if len(m.After) > 0 && (!m.own || m.Member.Method != entry.MethodCompensate) {
		return refuse("it is no compensation of %s and waits for nobody", c.Agent)
	}
	for _, place := range m.After {
		other := c.find(place)
		switch {
		case other == nil:
			return refuse("%w: the member at place %d", ErrMissing, place)
		case other.Member.Method != entry.MethodCompensate:
			return refuse("%s, before it, is no compensation", other.Member.Exec)
		}
		other.asked = true
		if other.outcome == nil {
			waits = append(waits, other.Member.Exec)
		}
	}
	return append(waits, c.lineWaits(m)...), nil
}

// lineWaits returns the compensations on a line that goes back.
func (c *checking) lineWaits(m *member) (waits []entry.Ref) {
	if m.Member.Method != entry.MethodRestore {
		return nil
	}
	for _, other := range c.members {
		if m.line == other.line && other.Member.Method == entry.MethodCompensate && other.outcome == nil {
			waits = append(waits, other.Member.Exec)
		}
	}
	return waits
}

// standingEffects returns the members on the member's line whose effects stand (AGT-5):
// members that cannot be undone, and members whose compensation was ordered and did not
// take place.
func (c *checking) standingEffects(m *member) (standing []entry.Ref) {
	for _, other := range slices.Backward(c.members) { // by index
		undone := other.result == entry.Compensated || other.result == entry.NotExecuted
		if m.line == other.line && !undone && (other.Member.Method == entry.MethodResidual || other.Member.Method == entry.MethodCompensate) {
			standing = append(standing, other.Member.Exec)
		}
	}
	return standing
}

// path returns the steps that lead to a member, the seed first, and marks the steps and their
// evidence as used; nil if a step does not hold.
func (c *checking) path(index uint64) (path []ChainStep) {
	s := c.steps[index]
	if s == nil || s.err != nil {
		return nil // only steps that hold cannot form a circle
	}
	c.markUsed(s)
	for ; s.Rule != RuleSeed; s = c.steps[s.From] {
		path = append(path, *s.ChainStep)
	}
	path = append(path, *s.ChainStep)
	slices.Reverse(path)
	return path
}

func (c *checking) markUsed(s *stepVerdict) {
	for !s.used {
		s.used = true
		if s.By != 0 {
			c.markUsed(c.steps[s.By])
		}
		if s.Rule == RuleSeed {
			return
		}
		s = c.steps[s.From]
	}
}

// checkNothingUnused checks that the bundle holds no entry without a use. If a member
// was refused, the entries that it rests on were not looked at, so the check is left
// out.
func (c *checking) checkNothingUnused() error {
	if slices.ContainsFunc(c.members, func(m *member) bool { return m.refused != nil }) {
		return nil
	}
	unplaced := func(what string) error {
		return broken(stepMembers, stepMembers, what, "nothing rests on it: it has no place in this bundle")
	}
	for _, m := range c.members {
		if !m.own && !m.asked {
			return unplaced("member " + string(m.Member.Exec))
		}
	}
	for i := range c.Steps {
		if s := c.steps[c.Steps[i].Exec]; !s.used {
			return unplaced(fmt.Sprintf("step to %d", s.Exec))
		}
	}
	for i := range c.entries {
		if p := &c.entries[i]; !c.used[p.Index] {
			return unplaced(fmt.Sprintf("%s (%s)", entryName(p.Index), p.Kind))
		}
	}
	return nil
}

// absences lists the properties that no bundle can show.
func (c *checking) absences() {
	if !c.quorum {
		c.notChecked("witnesses: none are named, so that a fork shown to nobody else stays unseen")
	}
	if !c.next.Confirmed {
		c.out.Warnings = append(c.out.Warnings,
			"first contact: the head was shown by this ledger alone; nothing is to be undone until a second source confirms it")
	}
	if c.Decision == 0 {
		c.notChecked("absences: a later policy, revocation or decision that was not given")
		return
	}
	later := "a later policy, revocation or decision; "
	if c.whole {
		later = ""
		c.notChecked("that the root of the index follows from the log: an audit of the log shows it, or the quorum of witnesses if auditors are among them")
	}
	c.notChecked("absences: %sfurther members of %s; a newer usable checkpoint; an earlier entry, or a final one; "+
		"an earlier undo by another incident; further compensations that come first", later, c.Agent)
	c.notChecked("that the rollback set is what the rules give, and its pin a state of the log: that needs the whole log (arl log audit)")
	c.notChecked("registered_at: it is the ledger's word")
}

package bundle

import (
	"errors"
	"fmt"
	"slices"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// The rules of absences, which come behind the epoch: a bundle that holds them leaves
// out no decision about the incident, no key that was taken back, and no policy.
const (
	ruleTail        = "ABS-1"
	ruleDecisions   = "ABS-2"
	ruleRevocations = "ABS-3"
	rulePolicies    = "ABS-4"
)

// IndexLabels are the labels of the lists that ABS-2 to ABS-4 need, by the type of their subject.
func IndexLabels() map[entry.SubjectType][]entry.Label {
	return map[entry.SubjectType][]entry.Label{
		entry.SubjectIncident: {"decision/authorize", "decision/amend", "decision/override", "decision/escalate", "record"},
		entry.SubjectAgent:    {"agent/revoke", "agent/revoke<", "agent/rotate", "agent/rotate<"},
		entry.SubjectLog:      {"policy"},
	}
}

// findIndex finds the index entry, which the chain has judged already. What it does not
// cover is given as it is, whatever it is.
func (c *checking) findIndex() error {
	refuse := func(format string, args ...any) error {
		return broken(stepDecision, ruleTail, entryName(c.Index), format, args...)
	}
	if c.Index == 0 {
		return nil
	}
	p := c.at(c.Index)
	if p == nil {
		return refuse("%w: the index entry", ErrMissing)
	}
	x, ok := p.Body.(*entry.LogIndex)
	switch {
	case !ok:
		return refuse("an entry of kind %s, want %s", p.Kind, entry.KindIndex)
	case x.Algorithm != entry.IndexAlgorithm:
		return refuse("algorithm %.40q, want %q", x.Algorithm, entry.IndexAlgorithm)
	case x.Size > c.Index:
		return refuse("it covers %d entries, and %d stand before it", x.Size, c.Index)
	case x.Size <= c.Decision:
		return refuse("it covers %d entries, and not the decision at %d", x.Size, c.Decision)
	case c.void(p):
		return refuse("its key %s was revoked as compromised since before it (TRU-4)", p.KeyID)
	}
	c.index, c.tail, c.used[c.Index] = x, x.Size, true
	return nil
}

// complete proves that no entry up to the head takes back the bundle's evidence, if the newest
// policy asks for that proof or the bundle brings it.
func (c *checking) complete() error {
	if c.index == nil {
		if policy, _ := c.chain.Policy(); policy.IndexRequired() {
			return broken(stepDecision, ruleTail, "index", "%w: the policy wants a proof that nothing is left out", ErrMissing)
		}
		return nil
	}
	shown, err := c.Indexed.Check(c.index)
	if err != nil {
		return broken(stepDecision, ruleTail, entryName(c.Index), "%w", cause(err))
	}
	for index := c.tail; index < c.newest.Size; index++ {
		if c.at(index) == nil {
			return broken(stepDecision, ruleTail, entryName(index), "%w: the index covers %d entries, and all behind it up to the head are needed", ErrMissing, c.tail)
		}
		c.used[index] = true
	}
	c.passed(stepDecision, ruleTail, 1, "the index at %d covers the decision; %d entries behind it are all given", c.Index, c.newest.Size-c.tail)
	if err := c.noneLeftOut(shown); err != nil {
		return err
	}
	c.whole, c.out.Whole = true, true
	return nil
}

// cause is the text of a step of package verify, without its number.
func cause(err error) error {
	if step, ok := errors.AsType[*verify.StepError](err); ok {
		return fmt.Errorf("%s: %s: %w", step.Step, step.What, step.Cause)
	}
	return err
}

// noneLeftOut asks for every entry that could take back the bundle's evidence. Each answer must be
// in the bundle, or accepted before.
func (c *checking) noneLeftOut(shown *verify.Shown) error {
	incident := entry.Subject{Type: entry.SubjectIncident, Value: entry.IncidentValue(c.decision.Incident)}
	asked := map[entry.Subject]bool{incident: true, {Type: entry.SubjectLog}: true}
	decisions, err := c.ask(shown, ruleDecisions, incident)
	if err != nil {
		return err
	}
	c.passed(stepDecision, ruleDecisions, decisions, "decisions about incident %d, and no others up to the head", c.decision.Incident)
	signers := c.signers()
	for _, name := range signers {
		agent := entry.Subject{Type: entry.SubjectAgent, Value: string(name)}
		asked[agent] = true
		if _, err := c.ask(shown, ruleRevocations, agent); err != nil {
			return err
		}
	}
	c.passed(stepDecision, ruleRevocations, len(signers), "signers of which no key was taken back but by entries that are known")
	policies, err := c.ask(shown, rulePolicies, entry.Subject{Type: entry.SubjectLog})
	if err != nil {
		return err
	}
	c.passed(stepDecision, rulePolicies, policies, "policies, and no others up to the head")
	for i := range c.Subjects {
		if s := &c.Subjects[i]; !asked[s.Subject] {
			return broken(stepDecision, ruleTail, s.Name(), "nothing rests on this subject")
		}
	}
	return nil
}

// signers are the principals whose signatures the verdict rests on, by name.
func (c *checking) signers() (names []entry.Principal) {
	for i := range c.entries {
		switch p := &c.entries[i]; p.Kind {
		case entry.KindDecision, entry.KindApproval, entry.KindSignal, entry.KindIndex:
			if c.used[p.Index] && (p.Index <= c.Decision || p.Index == c.Index) {
				names = append(names, p.Header.Iss)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ask has a question answered for each label that a rule asks for, and returns how many
// entries there are.
func (c *checking) ask(shown *verify.Shown, rule string, subject entry.Subject) (count int, err error) {
	for _, label := range IndexLabels()[subject.Type] {
		q := verify.Question{Subject: subject, Label: label, Size: c.newest.Size}
		a, err := shown.Answer(q, c.known)
		if err != nil {
			if step, ok := errors.AsType[*verify.StepError](err); ok {
				err = fmt.Errorf("%w: %w", ErrMissing, step.Cause)
			}
			return 0, &RuleError{Step: stepDecision, Rule: rule, What: q.String(), Cause: err}
		}
		for _, index := range a.Entries {
			c.used[index] = true
		}
		count += len(a.Entries)
	}
	return count, nil
}

// known returns the entry at an index, of the bundle or of the chain; nil: it is of
// neither.
func (c *checking) known(index uint64) *entry.Entry {
	if p := c.at(index); p != nil {
		return p.Entry
	}
	if i, ok := findProven(c.links, index); ok {
		return c.links[i].Entry
	}
	return nil
}

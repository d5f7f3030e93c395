package scenario

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// Facts returns what a log may keep of a case: all that decisions depend on, and no text or digest
// of contents. Inputs, demands, raw errors, citations and digests are left out. Of evidence, and of
// a result that a probe found, the facts say only that there was some. A case with more than max
// bytes of facts, or with longer lists than an entry may have, keeps no steps. [FromFacts] reads
// facts.
func Facts(c *Case, most int) (jsontext.Value, error) {
	kept := *c
	kept.ContextDigest, kept.Keep, kept.Answers, kept.Verdict = "", nil, nil, nil
	kept.Steps = make([]Step, 0, len(c.Steps))
	fits := len(c.Steps) <= entry.MaxList && len(c.Tags) <= entry.MaxList
	for i := range c.Steps {
		s := factsOf(&c.Steps[i])
		fits = fits && len(s.Attempts) <= entry.MaxList && len(s.Parents) <= entry.MaxList
		kept.Steps = append(kept.Steps, s)
	}
	if fits {
		text, err := json.Marshal(&kept, json.Deterministic(true))
		if err != nil || len(text) <= most {
			return text, err
		}
	}
	kept.Steps, kept.Tags = []Step{}, kept.Tags[:min(len(kept.Tags), entry.MaxList)]
	text, err := json.Marshal(&kept, json.Deterministic(true))
	return text, err
}

// factsOf is what is kept of a step.
func factsOf(s *Step) Step {
	kept := *s
	kept.InputDigest, kept.Input, kept.InputText, kept.Expect = "", nil, "", nil
	kept.Attempt = factsOfAttempt(s.Attempt)
	kept.Attempts = nil
	for _, a := range s.Attempts {
		kept.Attempts = append(kept.Attempts, factsOfAttempt(a))
	}
	return kept
}

func factsOfAttempt(a Attempt) Attempt {
	found := a.OutputDigest != "" && a.Strategy == string(recovery.Reconcile)
	if a.OutputDigest, a.Payload, a.Citations = "", "", nil; found {
		a.OutputDigest = somethingThere // the step ends with the result that was found
	}
	if a.Failure == nil {
		return a
	}
	f := *a.Failure
	f.Raw = RawError{RetryAfterMS: f.Raw.RetryAfterMS}
	if f.Evidence != "" {
		f.Evidence = somethingThere
	}
	a.Failure = &f
	return a
}

// somethingThere stands for evidence, and for the result that a probe found, whose digests a log
// does not keep.
var somethingThere = entry.DigestOf("")

// FromFacts returns the case of facts. Complete is false if the facts have no steps.
func FromFacts(facts jsontext.Value) (c Case, complete bool, err error) {
	if err := json.Unmarshal(facts, &c, json.RejectUnknownMembers(true)); err != nil {
		return Case{}, false, fmt.Errorf("scenario: facts: %w", err)
	}
	if len(c.Steps) == 0 {
		return c, false, nil
	}
	c.complete()
	if wrong := c.check(); wrong != nil {
		return Case{}, false, wrong
	}
	return c, true, nil
}

package scenario

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/canonical"
	"recoveryledger/ledger/entry"
)

// Facts returns what a log may keep of a case: all that decisions depend on, and no text or digest
// of contents. Inputs, demands, raw errors, citations and digests are left out. Of evidence, and of
// a result that a probe found, the facts say only that there was some. A case with more than max
// bytes of facts, or with longer lists than an entry may have, keeps no steps. Facts are in
// canonical form. [FromFacts] reads facts.
func Facts(c *Case, most int) (jsontext.Value, error) {
	draft := drafts.Get().(*draft)
	defer draft.release()
	kept := *c
	kept.ContextDigest, kept.Keep, kept.Answers, kept.Verdict = "", nil, nil, nil
	kept.Steps = draft.steps[:0]
	fits := len(c.Steps) <= entry.MaxList && len(c.Tags) <= entry.MaxList
	for i := range c.Steps {
		s := factsOf(&c.Steps[i])
		fits = fits && len(s.Attempts) <= entry.MaxList && len(s.Parents) <= entry.MaxList
		kept.Steps = append(kept.Steps, s)
	}
	draft.steps = kept.Steps
	if fits {
		text, err := draft.write(&kept)
		if err != nil || len(text) <= most {
			return bytes.Clone(text), err
		}
	}
	kept.Steps, kept.Tags = []Step{}, kept.Tags[:min(len(kept.Tags), entry.MaxList)]
	text, err := draft.write(&kept)
	return bytes.Clone(text), err
}

// draft is memory for facts under way.
type draft struct {
	steps []Step
	text  []byte
}

// drafts has the drafts that nobody uses: engines make facts of thousands of cases a second.
var drafts = sync.Pool{New: func() any { return new(draft) }}

// release gives a draft back. It holds on to no case.
func (d *draft) release() {
	clear(d.steps)
	drafts.Put(d)
}

// write returns the canonical form of a case until the next call.
func (d *draft) write(c *Case) (text []byte, err error) {
	d.text, err = caseForm().Append(d.text[:0], c)
	return d.text, err
}

// caseForm is the canonical form of cases. Facts are in it, so that an entry takes them as they
// are.
var caseForm = sync.OnceValue(canonical.Of[Case])

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

package run

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// check refuses a case that is not what a scenario may hold.
func (c *Case) check() *Error {
	wrong := firstOf(
		checkName("/id", c.ID), checkName("/agent", string(c.Agent)), optional("/workflow", string(c.Workflow), checkName),
		optional("/source", string(c.Source), checkWord), optional("/task_type", c.TaskType, checkWord), optional("/intent", c.Intent, checkWord),
		optional("/risk/level", c.Risk.Level, oneOf("low", "medium", "high", "critical")),
		optional("/context_digest", c.ContextDigest, checkDigest),
		optional("/outcome", string(c.Outcome), oneOf(outcomes()...)),
		checkBudget(&c.Budget), checkLen("/tags", len(c.Tags), 0, tagsMax), checkLen("/answers", len(c.Answers), 0, answersMax), checkLen("/steps", len(c.Steps), 1, stepsMax))
	if wrong != nil {
		return wrong
	}
	for i, tag := range c.Tags {
		if wrong := checkWord("", tag); wrong != nil || slices.Contains(c.Tags[:i], tag) {
			return below("/tags", i, firstOf(wrong, malformed("", fmt.Sprintf("%q stands here twice", tag), "name each tag once")))
		}
	}
	for i := range c.Answers {
		if wrong := checkAction(&c.Answers[i]); wrong != nil {
			return below("/answers", i, wrong)
		}
	}
	return c.checkSteps()
}

func checkBudget(b *recovery.Budget) *Error {
	return firstOf(checkCount("/budget/attempts", b.Attempts), checkCount("/budget/cost_micro_usd", b.CostMicroUSD),
		checkCount("/budget/tokens", b.Tokens), checkCount("/budget/deadline_ms", b.DeadlineMS))
}

// checkSteps checks each step, that ids are unique, and that parents stand
// before their children.
func (c *Case) checkSteps() *Error {
	index := make(map[string]int, len(c.Steps))
	for i := range c.Steps {
		s := &c.Steps[i]
		if wrong := s.check(); wrong != nil {
			return below("/steps", i, wrong)
		}
		if first, twice := index[s.ID]; twice {
			return below("/steps", i, malformed("/id", fmt.Sprintf("%q is already step %d", s.ID, first), "give each step of a case its own id"))
		}
		index[s.ID] = i
	}
	for i := range c.Steps {
		s := &c.Steps[i]
		for j, p := range s.Parents {
			at, known := index[p.Step]
			if known && at < i && !slices.ContainsFunc(s.Parents[:j], func(q Parent) bool { return q.Step == p.Step }) {
				continue
			}
			return below("/steps", i, below("/parents", j, c.wrongParent(i, p.Step, index)))
		}
	}
	return nil
}

// wrongParent says what is wrong with a parent that is not one earlier step.
func (c *Case) wrongParent(child int, parent string, index map[string]int) *Error {
	at, known := index[parent]
	switch {
	case !known:
		return malformed("/step", fmt.Sprintf("%q is no step of the case", parent), "name a step of the same case by its id")
	case at < child:
		return malformed("/step", fmt.Sprintf("%q stands here twice", parent), "name each parent once")
	}
	if path := c.pathTo(c.Steps[child].ID, at, index, map[int]bool{}); path != nil {
		return malformed("/step", "makes a cycle: "+strings.Join(append([]string{c.Steps[child].ID}, path...), " depends on "),
			"remove one of these dependencies")
	}
	return malformed("/step", fmt.Sprintf("%q stands after the step that depends on it", parent), "write the steps in the order of their execution, parents first")
}

// pathTo is a way from a step along its parents to the one with the id.
func (c *Case) pathTo(id string, from int, index map[string]int, seen map[int]bool) []string {
	step := &c.Steps[from]
	if step.ID == id {
		return []string{id}
	}
	if seen[from] {
		return nil
	}
	seen[from] = true
	for _, p := range step.Parents {
		if at, known := index[p.Step]; known {
			if path := c.pathTo(id, at, index, seen); path != nil {
				return append([]string{step.ID}, path...)
			}
		}
	}
	return nil
}

func (s *Step) check() *Error {
	wrong := firstOf(
		checkName("/id", s.ID), checkName("/agent", string(s.Agent)), checkSize("/tool", s.Tool, toolMax),
		oneOf(effects()...)("/effect", string(s.Effect)), optional("/input_digest", s.InputDigest, checkDigest),
		checkLen("/parents", len(s.Parents), 0, parentsMax), checkLen("/attempts", len(s.Attempts), 0, attemptsMax),
		s.Attempt.check(), prefixed("/expect", s.Expect.check()))
	if wrong != nil {
		return wrong
	}
	if s.Strategy != "" || s.Variant != "" {
		return malformed("/strategy", "stands with the first attempt", "write later attempts into attempts")
	}
	if len(s.Attempts) > 0 && s.Outcome != Failed {
		return malformed("/attempts", "follow a first attempt that did not fail", `write the outcome "failed" and the failure of the first attempt`)
	}
	for i, p := range s.Parents {
		if wrong := oneOf(string(entry.Hard), string(entry.Soft))("/dep", string(p.Dep)); wrong != nil {
			return below("/parents", i, wrong)
		}
	}
	for i := range s.Attempts {
		a := &s.Attempts[i]
		wrong := firstOf(checkWord("/strategy", a.Strategy), oneOf(string(OK), string(Failed))("/outcome", string(a.Outcome)), a.check())
		if wrong != nil {
			return below("/attempts", i, wrong)
		}
	}
	return nil
}

func (a *Attempt) check() *Error {
	wrong := firstOf(
		optional("/variant", a.Variant, checkWord), optional("/model", a.Model, checkName),
		optional("/outcome", string(a.Outcome), oneOf(outcomes()...)), optional("/reason", a.Reason, checkWord),
		optional("/effects", string(a.Effects), oneOf(string(entry.EffectsNone), string(entry.EffectsComplete), string(entry.EffectsUnknown))),
		optional("/output_digest", a.OutputDigest, checkDigest), checkLen("/citations", len(a.Citations), 0, citationsMax),
		checkCount("/tokens_in", a.TokensIn), checkCount("/tokens_out", a.TokensOut),
		checkCount("/cost_micro_usd", a.CostMicroUSD), checkCount("/latency_ms", a.LatencyMS), checkCount("/confidence_ppm", a.ConfidencePPM))
	if wrong != nil {
		return wrong
	}
	if a.ConfidencePPM != nil && *a.ConfidencePPM > 1_000_000 {
		return malformed("/confidence_ppm", fmt.Sprintf("is %d", *a.ConfidencePPM), "write parts per million, at most 1000000")
	}
	for i, citation := range a.Citations {
		if citation == "" || len(citation) > citationMax {
			return below("/citations", i, malformed("", fmt.Sprintf("has %d bytes", len(citation)), fmt.Sprintf("write 1 to %d bytes", citationMax)))
		}
	}
	if a.Effects != "" && (a.Strategy != string(recovery.Reconcile) || a.Outcome != OK) {
		return malformed("/effects", "stands with another attempt than a reconcile that ended ok", "write the effects of a failure into the failure")
	}
	switch {
	case a.Failure == nil && a.Outcome == Failed:
		return malformed("/failure", "is missing", `describe the failure; {} is one of which nothing is known`)
	case a.Failure == nil:
		return nil
	case a.Outcome != Failed:
		return malformed("/failure", "stands with an attempt that did not fail", `write the outcome "failed", or remove the failure`)
	}
	return prefixed("/failure", a.Failure.check())
}

func (f *Failure) check() *Error {
	wrong := firstOf(
		checkWord("/class", f.Class), optional("/code", f.Code, checkWord), oneOf(partsOfEffect()...)("/effects", string(f.Effects)),
		oneOf(replaySafeties()...)("/replay_safety", string(f.ReplaySafety)), optional("/evidence", f.Evidence, checkDigest),
		checkSize("/raw/text", f.Raw.Text, textMax), checkSize("/raw/grpc_code", f.Raw.GRPCCode, codeMax),
		checkSize("/raw/provider_code", f.Raw.ProviderCode, codeMax), checkCount("/raw/retry_after_ms", f.Raw.RetryAfterMS))
	if status := f.Raw.HTTPStatus; wrong == nil && status != 0 && (status < 100 || status > 599) {
		return malformed("/raw/http_status", fmt.Sprintf("is %d", status), "write a status of HTTP, 100 to 599")
	}
	return wrong
}

func outcomes() []string { return []string{string(OK), string(Failed), string(NotObserved)} }

func effects() []string {
	return []string{string(entry.EffectNone), string(entry.EffectReversible), string(entry.EffectCompensable),
		string(entry.EffectIrrevocable), string(entry.EffectUndeclared)}
}

func partsOfEffect() []string {
	return []string{string(entry.EffectsNone), string(entry.EffectsPartial), string(entry.EffectsComplete), string(entry.EffectsUnknown)}
}

func replaySafeties() []string {
	return []string{string(entry.ReplaySafe), string(entry.ReplayUnsafe), string(entry.ReplayUnknown)}
}

// The checks below return what is wrong with the member named field.

func checkName(field, name string) *Error {
	if name == "" {
		return malformed(field, "is missing", "write 1 to 128 of the characters A–Z a–z 0–9 . _ : / @ -")
	}
	fits := len(name) <= entry.MaxName
	for i := 0; fits && i < len(name); i++ {
		fits = isAlnum(name[i]) || strings.IndexByte("._:/@-", name[i]) >= 0
	}
	if !fits {
		return malformed(field, fmt.Sprintf("%.140q is no id", name), "write 1 to 128 of the characters A–Z a–z 0–9 . _ : / @ -")
	}
	return nil
}

func checkWord(field, word string) *Error {
	fits := word != "" && len(word) <= codeMax
	for i := 0; fits && i < len(word); i++ {
		c := word[i]
		fits = 'a' <= c && c <= 'z' || isDigit(c) || strings.IndexByte("_.-", c) >= 0
	}
	if !fits {
		return malformed(field, fmt.Sprintf("%.80q is no word", word), fmt.Sprintf("write 1 to %d of the characters a–z 0–9 _ . -", codeMax))
	}
	return nil
}

func checkDigest(field, text string) *Error {
	hex, ok := strings.CutPrefix(text, "sha256:")
	if !ok {
		hex, ok = strings.CutPrefix(text, "hmac-sha256:")
	}
	for i := 0; ok && i < len(hex); i++ {
		ok = isDigit(hex[i]) || 'a' <= hex[i] && hex[i] <= 'f'
	}
	if !ok || len(hex) != 64 {
		return malformed(field, fmt.Sprintf("%.100q is no digest", text), "write sha256: or hmac-sha256: and 64 hexadecimal digits in lower case")
	}
	return nil
}

func checkSize(field, text string, most int) *Error {
	if len(text) > most {
		return &Error{Problem: entry.TooLarge, Field: field, Detail: fmt.Sprintf("has %d bytes, over the limit of %d", len(text), most), Remedy: "shorten it"}
	}
	return nil
}

func checkLen(field string, n, least, most int) *Error {
	switch {
	case n < least:
		return malformed(field, "is missing or empty", fmt.Sprintf("write at least %d", least))
	case n > most:
		return &Error{Problem: entry.TooLarge, Field: field, Detail: fmt.Sprintf("holds %d elements, over the limit of %d", n, most), Remedy: "split the case"}
	}
	return nil
}

func checkCount(field string, n *int64) *Error {
	if n != nil && (*n < 0 || *n > entry.MaxInteger) {
		return malformed(field, fmt.Sprintf("is %d", *n), "write an integer from 0 to 2^53−1, or leave it out")
	}
	return nil
}

func oneOf(allowed ...string) func(field, value string) *Error {
	return func(field, value string) *Error {
		if slices.Contains(allowed, value) {
			return nil
		}
		return malformed(field, fmt.Sprintf("is %.60q", value), "write "+strings.Join(allowed, ", "))
	}
}

// optional checks a member that is there.
func optional(field, value string, check func(field, value string) *Error) *Error {
	if value == "" {
		return nil
	}
	return check(field, value)
}

// firstOf returns the first error there is.
func firstOf(all ...*Error) *Error {
	for _, wrong := range all {
		if wrong != nil {
			return wrong
		}
	}
	return nil
}

// below puts the field of an error under an element of a list.
func below(list string, index int, wrong *Error) *Error {
	return prefixed(list+"/"+strconv.Itoa(index), wrong)
}

func prefixed(field string, wrong *Error) *Error {
	if wrong != nil {
		wrong.Field = field + wrong.Field
	}
	return wrong
}

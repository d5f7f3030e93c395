package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// check refuses a case that a scenario may not hold.
func (c *Case) check() *Error {
	wrong := FirstOf(
		CheckName("/id", c.ID), CheckName("/agent", string(c.Agent)), Optional("/workflow", string(c.Workflow), CheckName),
		Optional("/source", c.Source, CheckWord), Optional("/task_type", c.TaskType, CheckWord), Optional("/intent", c.Intent, CheckWord),
		Optional("/risk/level", c.Risk.Level, OneOf("low", "medium", "high", "critical")),
		Optional("/context_digest", c.ContextDigest, checkDigest),
		Optional("/outcome", string(c.Outcome), OneOf(outcomes()...)),
		checkBudget(&c.Budget), checkLen("/tags", len(c.Tags), 0, tagsMax), checkKeep(c.Keep), checkLen("/answers", len(c.Answers), 0, AnswersMax), checkLen("/steps", len(c.Steps), 1, StepsMax))
	if wrong != nil {
		return wrong
	}
	for i, tag := range c.Tags {
		if wrong := CheckWord("", tag); wrong != nil || slices.Contains(c.Tags[:i], tag) {
			return Below("/tags", i, FirstOf(wrong, Malformed("", fmt.Sprintf("%q is listed twice", tag), "name each tag once")))
		}
	}
	for i := range c.Answers {
		if wrong := CheckAction(&c.Answers[i]); wrong != nil {
			return Below("/answers", i, wrong)
		}
	}
	return c.checkSteps()
}

func checkBudget(b *recovery.Budget) *Error {
	return FirstOf(CheckCount("/budget/attempts", b.Attempts), CheckCount("/budget/cost_micro_usd", b.CostMicroUSD),
		CheckCount("/budget/tokens", b.Tokens), CheckCount("/budget/deadline_ms", b.DeadlineMS))
}

// checkSteps checks each step, that ids are unique, and that parents stand
// before their children.
func (c *Case) checkSteps() *Error {
	index := make(map[string]int, len(c.Steps))
	for i := range c.Steps {
		s := &c.Steps[i]
		if wrong := s.check(); wrong != nil {
			return Below("/steps", i, wrong)
		}
		if first, twice := index[s.ID]; twice {
			return Below("/steps", i, Malformed("/id", fmt.Sprintf("%q is already step %d", s.ID, first), "give each step of a case its own id"))
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
			return Below("/steps", i, Below("/parents", j, c.wrongParent(i, p.Step, index)))
		}
	}
	return nil
}

// wrongParent says why a parent is not an earlier step of the case.
func (c *Case) wrongParent(child int, parent string, index map[string]int) *Error {
	at, known := index[parent]
	switch {
	case !known:
		return Malformed("/step", fmt.Sprintf("%q is not a step of the case", parent), "name a step of the same case by its id")
	case at < child:
		return Malformed("/step", fmt.Sprintf("%q is listed twice", parent), "name each parent once")
	}
	if path := c.pathTo(c.Steps[child].ID, at, index, map[int]bool{}); path != nil {
		return Malformed("/step", "makes a cycle: "+strings.Join(append([]string{c.Steps[child].ID}, path...), " depends on "),
			"remove one of these dependencies")
	}
	return Malformed("/step", fmt.Sprintf("%q stands after the step that depends on it", parent), "write the steps in the order of their execution, parents first")
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
	wrong := FirstOf(
		CheckName("/id", s.ID), CheckName("/agent", string(s.Agent)), CheckSize("/tool", s.Tool, ToolMax),
		OneOf(effects()...)("/effect", string(s.Effect)), Optional("/input_digest", s.InputDigest, checkDigest),
		checkLen("/parents", len(s.Parents), 0, ParentsMax), checkLen("/attempts", len(s.Attempts), 0, attemptsMax),
		s.Check(), Prefixed("/expect", s.Expect.check()))
	if wrong != nil {
		return wrong
	}
	if s.Strategy != "" || s.Variant != "" {
		return Malformed("/strategy", "belongs to the first attempt here", "write later attempts into attempts")
	}
	if len(s.Attempts) > 0 && s.Outcome != Failed {
		return Malformed("/attempts", "follow a first attempt that did not fail", `write the outcome "failed" and the failure of the first attempt`)
	}
	for i, p := range s.Parents {
		if wrong := OneOf(string(entry.Hard), string(entry.Soft))("/dep", string(p.Dep)); wrong != nil {
			return Below("/parents", i, wrong)
		}
	}
	for i := range s.Attempts {
		a := &s.Attempts[i]
		wrong := FirstOf(CheckWord("/strategy", a.Strategy), OneOf(string(OK), string(Failed))("/outcome", string(a.Outcome)), a.Check())
		if wrong != nil {
			return Below("/attempts", i, wrong)
		}
	}
	return nil
}

// Check refuses an attempt that a scenario may not hold.
func (a *Attempt) Check() *Error {
	wrong := FirstOf(
		Optional("/variant", a.Variant, CheckWord), Optional("/model", a.Model, CheckName),
		Optional("/outcome", string(a.Outcome), OneOf(outcomes()...)), Optional("/reason", a.Reason, CheckWord),
		Optional("/effects", string(a.Effects), OneOf(string(entry.EffectsNone), string(entry.EffectsComplete), string(entry.EffectsUnknown))),
		Optional("/output_digest", a.OutputDigest, checkDigest), checkLen("/citations", len(a.Citations), 0, citationsMax),
		CheckCount("/tokens_in", a.TokensIn), CheckCount("/tokens_out", a.TokensOut),
		CheckCount("/cost_micro_usd", a.CostMicroUSD), CheckCount("/latency_ms", a.LatencyMS), CheckCount("/confidence_ppm", a.ConfidencePPM))
	if wrong != nil {
		return wrong
	}
	if wrong := a.checkPayload(); wrong != nil {
		return wrong
	}
	if a.ConfidencePPM != nil && *a.ConfidencePPM > 1_000_000 {
		return Malformed("/confidence_ppm", fmt.Sprintf("is %d", *a.ConfidencePPM), "write parts per million, at most 1000000")
	}
	for i, citation := range a.Citations {
		if citation == "" || len(citation) > citationMax {
			return Below("/citations", i, Malformed("", fmt.Sprintf("has %d bytes", len(citation)), fmt.Sprintf("write 1 to %d bytes", citationMax)))
		}
	}
	if a.Effects != "" && (a.Strategy != string(recovery.Reconcile) || a.Outcome != OK) {
		return Malformed("/effects", "is allowed only in a reconcile that ended ok", "write the effects of a failure into the failure")
	}
	switch {
	case a.Failure == nil && a.Outcome == Failed:
		return Malformed("/failure", "is missing", `describe the failure; {} is a failure of which nothing is known`)
	case a.Failure == nil:
		return nil
	case a.Outcome != Failed:
		return Malformed("/failure", "is allowed only in an attempt that failed", `write the outcome "failed", or remove the failure`)
	}
	return Prefixed("/failure", a.Failure.check())
}

// checkKeep refuses what is no part of an answer.
func checkKeep(keep []string) *Error {
	for i, part := range keep {
		wrong := OneOf(KeepPayload, KeepCitations)("", part)
		if wrong == nil && slices.Contains(keep[:i], part) {
			wrong = Malformed("", fmt.Sprintf("%q is listed twice", part), "name each part once")
		}
		if wrong != nil {
			return Below("/keep", i, wrong)
		}
	}
	return nil
}

// checkPayload holds a payload to its digest.
func (a *Attempt) checkPayload() *Error {
	switch {
	case a.Payload == "":
		return nil
	case len(a.Payload) > PayloadMax:
		return Malformed("/payload", fmt.Sprintf("has %d bytes", len(a.Payload)), fmt.Sprintf("write at most %d bytes, or the output_digest alone", PayloadMax))
	case a.OutputDigest != entry.DigestOf(a.Payload):
		return Malformed("/payload", "is not what output_digest is of", "write the SHA-256 of the payload's bytes as output_digest")
	}
	return nil
}

func (f *Failure) check() *Error {
	wrong := FirstOf(
		CheckWord("/class", f.Class), Optional("/code", f.Code, CheckWord), OneOf(partsOfEffect()...)("/effects", string(f.Effects)),
		OneOf(replaySafeties()...)("/replay_safety", string(f.ReplaySafety)), Optional("/evidence", f.Evidence, checkDigest))
	return FirstOf(wrong, Prefixed("/raw", f.Raw.Check()))
}

// Check refuses a raw error that a scenario may not hold.
func (e *RawError) Check() *Error {
	wrong := FirstOf(CheckSize("/text", e.Text, TextMax), CheckSize("/grpc_code", e.GRPCCode, CodeMax),
		CheckSize("/provider_code", e.ProviderCode, CodeMax), CheckCount("/retry_after_ms", e.RetryAfterMS))
	if status := e.HTTPStatus; wrong == nil && status != 0 && (status < 100 || status > 599) {
		return Malformed("/http_status", fmt.Sprintf("is %d", status), "write an HTTP status, 100 to 599")
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

// The checks below return the mistake in the member named field.

// CheckName refuses a text that is neither a principal nor a local id.
func CheckName(field, name string) *Error {
	if name == "" {
		return Malformed(field, "is missing", "write 1 to 128 of the characters A–Z a–z 0–9 . _ : / @ -")
	}
	fits := len(name) <= entry.MaxName
	for i := 0; fits && i < len(name); i++ {
		fits = isAlnum(name[i]) || strings.IndexByte("._:/@-", name[i]) >= 0
	}
	if !fits {
		return Malformed(field, fmt.Sprintf("%.140q is not an id", name), "write 1 to 128 of the characters A–Z a–z 0–9 . _ : / @ -")
	}
	return nil
}

// CheckWord refuses a text that is no word. Words are codes, tags and the names of strategies.
func CheckWord(field, word string) *Error {
	fits := word != "" && len(word) <= CodeMax
	for i := 0; fits && i < len(word); i++ {
		c := word[i]
		fits = 'a' <= c && c <= 'z' || isDigit(c) || strings.IndexByte("_.-", c) >= 0
	}
	if !fits {
		return Malformed(field, fmt.Sprintf("%.80q is not a word", word), fmt.Sprintf("write 1 to %d of the characters a–z 0–9 _ . -", CodeMax))
	}
	return nil
}

func checkDigest(field string, d entry.Digest) *Error {
	if err := d.Check(field); err != nil {
		return Malformed(field, fmt.Sprintf("%.100q is not a digest", string(d)), "write sha256: or hmac-sha256: and 64 hexadecimal digits in lower case")
	}
	return nil
}

// CheckSize refuses a text of more than so many bytes.
func CheckSize(field, text string, most int) *Error {
	if len(text) > most {
		return &Error{Problem: entry.TooLarge, Field: field, Detail: fmt.Sprintf("has %d bytes, over the limit of %d", len(text), most), Remedy: "shorten it"}
	}
	return nil
}

func checkLen(field string, n, least, most int) *Error {
	switch {
	case n < least:
		return Malformed(field, "is missing or empty", fmt.Sprintf("write at least %d", least))
	case n > most:
		return &Error{Problem: entry.TooLarge, Field: field, Detail: fmt.Sprintf("holds %d elements, over the limit of %d", n, most), Remedy: "split the case"}
	}
	return nil
}

// CheckCount refuses a number that an entry of a log cannot hold; nil is none.
func CheckCount(field string, n *int64) *Error {
	if n != nil && (*n < 0 || *n > entry.MaxInteger) {
		return Malformed(field, fmt.Sprintf("is %d", *n), "write an integer from 0 to 2^53−1, or leave it out")
	}
	return nil
}

// OneOf makes a check that takes these values alone.
func OneOf(allowed ...string) func(field, value string) *Error {
	return func(field, value string) *Error {
		if slices.Contains(allowed, value) {
			return nil
		}
		return Malformed(field, fmt.Sprintf("is %.60q", value), "write "+strings.Join(allowed, ", "))
	}
}

// Optional checks a member that is there.
func Optional[T ~string](field string, value T, check func(field string, value T) *Error) *Error {
	if value == "" {
		return nil
	}
	return check(field, value)
}

// FirstOf returns the first error there is.
func FirstOf(all ...*Error) *Error {
	for _, wrong := range all {
		if wrong != nil {
			return wrong
		}
	}
	return nil
}

// Below puts the field of an error under an element of a list.
func Below(list string, index int, wrong *Error) *Error {
	return Prefixed(list+"/"+strconv.Itoa(index), wrong)
}

// Prefixed puts the field of an error under another field.
func Prefixed(field string, wrong *Error) *Error {
	if wrong != nil {
		wrong.Field = field + wrong.Field
	}
	return wrong
}

// CheckAction refuses a value that is no action.
func CheckAction(a *recovery.Action) *Error {
	if wrong, ok := errors.AsType[*recovery.AnswerError](a.Check()); ok {
		return Malformed(wrong.Field, wrong.Detail, wrong.Remedy)
	}
	return nil
}

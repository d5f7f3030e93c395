package scenario

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/entry"
)

// Expect is the demands of a live run on a step's output, and the score of the output. An output
// that does not fit the schema is malformed. An output that fails a required check, or scores below
// ConfidenceMinPPM, fails its gate. An output with too few citations is ungrounded.
type Expect struct {
	// Schema is a JSON Schema (2020-12) that the output fits. It refers to
	// nothing outside of itself.
	Schema jsontext.Value `json:"schema,omitzero"`
	// Checks look at the output; the score is the share of their weights that
	// passed.
	Checks []Check `json:"checks,omitzero"`
	// ConfidenceMinPPM is the least score, in parts per million.
	ConfidenceMinPPM *int64 `json:"confidence_min_ppm,omitzero"`
	// CitationsAt is a JSON pointer to the strings in the output that name its sources.
	// CitationsMin is the least number of these strings.
	CitationsAt  string `json:"citations_at,omitzero"`
	CitationsMin int64  `json:"citations_min,omitzero"`
}

// Check looks at one value of an output in one way.
type Check struct {
	// Name is a word for the check: the reason of a failure is check.NAME.
	Name string `json:"name"`
	// Weight in the score; 0 counts as 1.
	Weight int64 `json:"weight,omitzero"`
	// Required: without it there is no success, whatever the score.
	Required bool `json:"required,omitzero"`
	// At is a JSON pointer to the value; empty is the whole output. A value
	// that is not there fails the check.
	At string `json:"at,omitzero"`

	// Equals is the value itself, Contains a part of a text, Matches a regular
	// expression (RE2) for all of a text, Min and Max bounds of an integer.
	// Tool is a tool of the live configuration that judges: it gets input and
	// output, and a score_ppm in its answer counts as a part of the weight.
	Equals   jsontext.Value `json:"equals,omitzero"`
	Contains string         `json:"contains,omitzero"`
	Matches  string         `json:"matches,omitzero"`
	Min      *int64         `json:"min,omitzero"`
	Max      *int64         `json:"max,omitzero"`
	Tool     string         `json:"tool,omitzero"`
}

// FullPPM is all of something, in parts per million.
const FullPPM = 1_000_000

// check refuses a demand that no output can be held to.
func (e *Expect) check() *Error {
	if e == nil {
		return nil
	}
	wrong := FirstOf(e.checkSchema(), CheckCount("/confidence_min_ppm", e.ConfidenceMinPPM), CheckCount("/citations_min", &e.CitationsMin),
		checkPointer("/citations_at", e.CitationsAt), checkLen("/checks", len(e.Checks), 0, checksMax))
	if wrong == nil && e.ConfidenceMinPPM != nil && *e.ConfidenceMinPPM > FullPPM {
		wrong = Malformed("/confidence_min_ppm", fmt.Sprintf("is %d", *e.ConfidenceMinPPM), "write parts per million, at most 1000000")
	}
	for i := range e.Checks {
		wrong = FirstOf(wrong, Below("/checks", i, e.Checks[i].check()))
	}
	return wrong
}

func (c *Check) check() *Error {
	wrong := FirstOf(CheckWord("/name", c.Name), CheckCount("/weight", &c.Weight), checkPointer("/at", c.At),
		CheckSize("/contains", c.Contains, TextMax), CheckSize("/matches", c.Matches, TextMax), CheckSize("/tool", c.Tool, ToolMax))
	if wrong != nil {
		return wrong
	}
	if c.Weight > weightMax {
		return Malformed("/weight", fmt.Sprintf("is %d", c.Weight), fmt.Sprintf("write at most %d", weightMax))
	}
	if _, err := regexp.Compile(c.Matches); err != nil {
		return Malformed("/matches", "is not a regular expression: "+err.Error(), "write one in the syntax of RE2")
	}
	looks := 0
	for _, there := range []bool{len(c.Equals) > 0, c.Contains != "", c.Matches != "", c.Min != nil || c.Max != nil, c.Tool != ""} {
		if there {
			looks++
		}
	}
	if looks != 1 {
		return Malformed("", fmt.Sprintf("has %d ways to look at the output", looks), "write one of equals, contains, matches, min and max, tool")
	}
	return nil
}

func checkPointer(field, pointer string) *Error {
	if !jsontext.Pointer(pointer).IsValid() || len(pointer) > TextMax {
		return Malformed(field, fmt.Sprintf("%.60q is not a JSON pointer", pointer), "write a pointer such as /items/0/price")
	}
	return nil
}

// Verdict is the result of the demands on an output.
type Verdict struct {
	// Code is the provider code of the failure: malformed_output,
	// quality_gate_failed or ungrounded_output; empty for an output that fits.
	Code string
	// Reason is a word for why.
	Reason string
	// Verified says that something looked at the output and was satisfied.
	Verified bool
	// Confidence is the score of the checks in parts per million; nil without checks.
	Confidence *int64
	// Citations are the sources of the output.
	Citations []string
}

// Judgement gives the score of a check in parts per million.
type Judgement func(c *Check, value jsontext.Value) (ppm int64, err error)

// Judge compares an output with the demands. The tool of a check is asked
// through ask; its error ends the run.
func (e *Expect) Judge(output jsontext.Value, ask Judgement) (Verdict, error) {
	if e == nil {
		return Verdict{}, nil
	}
	schema, wrong := e.compile()
	if wrong != nil {
		return Verdict{}, wrong
	}
	if schema != nil {
		if !schema.ValidateJSON(output).IsValid() {
			return Verdict{Code: "malformed_output", Reason: "schema_violation"}, nil
		}
	}
	v := Verdict{Verified: schema != nil, Citations: citations(output, e.CitationsAt)}
	if int64(len(v.Citations)) < e.CitationsMin {
		v.Code, v.Reason, v.Verified = "ungrounded_output", "citations_missing", false
		return v, nil
	}
	if e.CitationsMin > 0 {
		v.Verified = true
	}
	return v, e.score(&v, output, ask)
}

// score runs the checks.
func (e *Expect) score(v *Verdict, output jsontext.Value, ask Judgement) error {
	if len(e.Checks) == 0 {
		return nil
	}
	var passed, total int64
	var required, failed string // the first check that did not pass
	for i := range e.Checks {
		c := &e.Checks[i]
		ppm, err := c.look(output, ask)
		if err != nil {
			return err
		}
		weight := max(1, c.Weight)
		passed, total = passed+weight*ppm, total+weight
		if ppm < FullPPM {
			failed = cmp.Or(failed, c.Name)
			if c.Required {
				required = cmp.Or(required, c.Name)
			}
		}
	}
	score := passed / total
	v.Confidence, v.Verified = &score, true
	if required != "" || e.ConfidenceMinPPM != nil && score < *e.ConfidenceMinPPM {
		v.Code, v.Verified = "quality_gate_failed", false
		v.Reason = Cut("check."+cmp.Or(required, failed), CodeMax)
	}
	return nil
}

// look scores one check.
func (c *Check) look(output jsontext.Value, ask Judgement) (int64, error) {
	value, ok := ValueAt(output, c.At)
	if !ok {
		return 0, nil
	}
	text := ContentText(value)
	var passed bool
	switch {
	case c.Tool != "":
		return ask(c, value)
	case len(c.Equals) > 0:
		passed = sameJSON(value, c.Equals)
	case c.Contains != "":
		passed = strings.Contains(text, c.Contains)
	case c.Matches != "":
		whole, err := regexp.MatchString(`^(?:`+c.Matches+`)$`, text)
		passed = whole && err == nil
	default:
		n, err := strconv.ParseInt(text, 10, 64)
		passed = err == nil && value.Kind() == '0' && (c.Min == nil || n >= *c.Min) && (c.Max == nil || n <= *c.Max)
	}
	if passed {
		return FullPPM, nil
	}
	return 0, nil
}

// sameJSON says whether two values are the same in canonical form.
func sameJSON(a, b jsontext.Value) bool {
	a, b = a.Clone(), b.Clone()
	return a.Canonicalize() == nil && b.Canonicalize() == nil && bytes.Equal(a, b)
}

// ValueAt gives the value that a JSON pointer names.
func ValueAt(doc jsontext.Value, pointer string) (jsontext.Value, bool) {
	dec := jsontext.NewDecoder(bytes.NewReader(doc))
	for token := range jsontext.Pointer(pointer).Tokens() {
		if !enter(dec, token) {
			return nil, false
		}
	}
	value, err := dec.ReadValue()
	return value.Clone(), err == nil
}

// enter moves a decoder to a member or element of the value before it.
func enter(dec *jsontext.Decoder, token string) bool {
	kind := dec.PeekKind()
	if _, err := dec.ReadToken(); err != nil || kind != '{' && kind != '[' {
		return false
	}
	for i := 0; ; i++ {
		name := strconv.Itoa(i)
		if kind == '{' {
			member, err := dec.ReadToken()
			if err != nil || member.Kind() != '"' {
				return false
			}
			name = member.String()
		} else if dec.PeekKind() == ']' {
			return false
		}
		if name == token {
			return true
		}
		if dec.SkipValue() != nil {
			return false
		}
	}
}

// citations are the strings at a pointer, as far as they are of a size to be
// kept.
func citations(output jsontext.Value, pointer string) []string {
	if pointer == "" {
		return nil
	}
	list, ok := ValueAt(output, pointer)
	if !ok {
		return nil
	}
	var all []string
	dec := jsontext.NewDecoder(bytes.NewReader(list))
	for {
		token, err := dec.ReadToken()
		if err != nil || len(all) == citationsMax {
			return all
		}
		if text := token.String(); token.Kind() == '"' && text != "" && len(text) <= citationMax {
			all = append(all, text)
		}
	}
}

// ReplaySafety says whether the step may be executed again, from the effects that a failed attempt
// left.
func (s *Step) ReplaySafety(left entry.Effects) entry.ReplaySafety {
	switch {
	case left == entry.EffectsNone, s.Effect == entry.EffectNone, s.Idempotent:
		return entry.ReplaySafe
	case left == entry.EffectsComplete:
		return entry.ReplayUnsafe
	}
	return entry.ReplayUnknown
}

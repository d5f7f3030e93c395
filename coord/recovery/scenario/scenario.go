package scenario

import (
	"bytes"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/entry"
)

// A scenario is a file of cases, one JSON object a line in UTF-8:
//
//	{"v":1,"id":"refund-7","agent":"agents/desk","steps":[…]}
//
// The members are those of [Case]; schema/case.json is their JSON Schema.
// Reading fails closed: an unknown, repeated or ill-typed member, a number that
// is no integer, a reference to a step that does not stand before, and
// anything over a limit is an [*Error]. What is left out is not known, with
// these meanings: a step's agent is that of the case, its effect undeclared;
// effects and replay safety of a failure are unknown; its class and code are
// what [Classify] makes of the raw error.

// scenarioVersion is the v of every line.
const scenarioVersion = 1

// scenarioLine is a line of a scenario.
type scenarioLine struct {
	V int64 `json:"v"`
	Case
}

// Decode reads one line of a scenario. An error is an [*Error] without file and
// line.
func Decode(line []byte) (Case, error) {
	c, wrong := decode(line)
	if wrong != nil {
		return Case{}, wrong
	}
	return c, nil
}

func decode(line []byte) (Case, *Error) {
	if wrong := FirstOf(byteOrderMark(line), refuseNull(line)); wrong != nil {
		return Case{}, wrong
	}
	var l scenarioLine
	if steps := min(bytes.Count(line, []byte(`"id":`))-1, stepsGuessed); steps > 0 {
		l.Steps = make([]Step, 0, steps) // else the decoder copies the steps again and again
	}
	if wrong := (Document{What: "a scenario", Help: "docs/recovery-reference.md describes the format"}).DecodeJSON(line, &l); wrong != nil {
		return Case{}, wrong
	}
	if l.V != scenarioVersion {
		return Case{}, Malformed("/v", fmt.Sprintf("is %d", l.V), fmt.Sprintf(`write "v":%d; another version needs another engine`, scenarioVersion))
	}
	c := l.Case
	c.complete()
	if wrong := c.check(); wrong != nil {
		return Case{}, wrong
	}
	return c, nil
}

// stepsGuessed bounds the steps for which there is room before a case is read.
const stepsGuessed = 64

// ReadCase reads a file that holds one case, on one line or over several. The check, if there is
// one, refuses a case that the caller cannot use. The name stands in errors, which are [*Error],
// except for errors of the reader.
func ReadCase(name string, r io.Reader, check func(*Case) *Error) (Case, error) {
	fail := func(line int, wrong *Error) (Case, error) {
		wrong.File, wrong.Line = name, line
		return Case{}, wrong
	}
	text, err := io.ReadAll(io.LimitReader(r, CaseBytesMax+1))
	switch {
	case err != nil:
		return Case{}, fmt.Errorf("scenario: read %s: %w", name, err)
	case len(text) > CaseBytesMax:
		return fail(1, &Error{Problem: entry.TooLarge, Detail: fmt.Sprintf("is longer than %d bytes", CaseBytesMax), Remedy: "split the case"})
	case len(bytes.TrimSpace(text)) == 0:
		return fail(0, Malformed("", "holds no case", "pass the right file, and check that the file is complete"))
	}
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	if dec.SkipValue() == nil && len(bytes.TrimSpace(text[dec.InputOffset():])) > 0 {
		return fail(lineAt(text, dec.InputOffset()), Malformed("", "has text after its case", "pass a file with one case; arl recover --scenario takes many cases"))
	}
	of, wrong := decode(text)
	if wrong == nil && check != nil {
		wrong = check(&of)
	}
	if wrong != nil {
		return fail(lineOf(text, wrong.Field), wrong)
	}
	return of, nil
}

// lineOf is the first line of the value at a JSON pointer, or of the innermost existing value on
// the way to it.
func lineOf(text []byte, field string) int {
	dec, at := jsontext.NewDecoder(bytes.NewReader(text)), int64(0)
	for token := range jsontext.Pointer(field).Tokens() {
		if !enter(dec, token) {
			break
		}
		at = dec.InputOffset()
	}
	return lineAt(text, at)
}

// lineAt is the line of the first value behind an offset.
func lineAt(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:offset], []byte("\n")) + NewlinesBefore(text[offset:])
}

// refuseNull refuses null where a member should be left out: everywhere but in
// JSON that is handed on as it stands.
func refuseNull(line []byte) *Error {
	if !bytes.Contains(line, []byte("null")) {
		return nil
	}
	dec := jsontext.NewDecoder(bytes.NewReader(line))
	var err error
	for err == nil {
		var token jsontext.Token
		if token, err = dec.ReadToken(); err != nil {
			continue // the end, or an error that decoding will report
		}
		in, length := dec.StackIndex(dec.StackDepth())
		isName := token.Kind() == '"' && in == '{' && length%2 == 1
		switch {
		case token.Kind() == 'n':
			return Malformed(string(dec.StackPointer()), "is null", "leave an unknown member out")
		case isName && (token.String() == "input" || token.String() == "schema" || token.String() == "equals"):
			err = dec.SkipValue()
		}
	}
	return nil
}

// Encode writes a case as a line of a scenario, without the newline. A case
// that [Decode] would not read is an [*Error].
func Encode(c Case) ([]byte, error) {
	c.complete()
	if wrong := c.check(); wrong != nil {
		return nil, wrong
	}
	line, err := json.Marshal(scenarioLine{V: scenarioVersion, Case: c}, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("scenario: encode case %s: %w", c.ID, err)
	}
	return line, nil
}

// complete writes the meaning of absent members into the case.
func (c *Case) complete() {
	for i := range c.Steps {
		s := &c.Steps[i]
		if s.Agent == "" {
			s.Agent = c.Agent
		}
		if s.Effect == "" {
			s.Effect = entry.EffectUndeclared
		}
		s.Failure.complete()
		for j := range s.Attempts {
			s.Attempts[j].Failure.complete()
		}
	}
}

func (f *Failure) complete() {
	if f == nil {
		return
	}
	if f.Label == (Label{}) {
		f.Label = Classify(f.Raw)
	}
	if f.Effects == "" {
		f.Effects = entry.EffectsUnknown
	}
	if f.ReplaySafety == "" {
		f.ReplaySafety = entry.ReplayUnknown
	}
}

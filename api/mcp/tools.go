package mcp

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// Tools is a tools file: what an operator declares of the tools of one server.
type Tools struct {
	// TrustAnnotations is whether the hints of the server count for what a tool does not declare
	// here. Nil: they count.
	TrustAnnotations *bool `json:"trust_annotations,omitzero"`
	// KeepDays is how long the compensation of a call is kept, in days from the end of the call. A
	// rollback after that ends as failed. 0: for ever.
	KeepDays int              `json:"keep_days,omitzero"`
	Tools    map[string]*Tool `json:"tools"`
}

// Tool declares one tool.
type Tool struct {
	// Effect of a call: none, compensable, irrevocable or undeclared. Empty: compensable with a
	// compensation, otherwise what the hints of the server say.
	Effect entry.Effect `json:"effect,omitzero"`
	// Idempotent says whether a second call with the same arguments has no further effect. Nil:
	// what the hints of the server say.
	Idempotent *bool `json:"idempotent,omitzero"`
	// Informational says that calls after this one do not rest on its result.
	Informational bool `json:"informational,omitzero"`
	// Errors says what an answer with an error means: unknown (the call may have had its effect) or
	// no_effect. Empty: unknown.
	Errors string `json:"errors,omitzero"`
	// Key names the argument that takes the idempotency key of a call; empty: there is none.
	Key string `json:"key,omitzero"`
	// Before is a call of a tool without effect that is made before each call. Its result is there
	// for templates as before.
	Before *Call `json:"before,omitzero"`
	// Compensation lists calls that undo a call. The first one whose When holds is made.
	Compensation []Compensation `json:"compensation,omitzero"`
	// Probe is a call of a tool without effect that tells whether a call of this tool had its
	// effect.
	Probe *ToolProbe `json:"probe,omitzero"`
}

// Call is a call of a tool, with templates in its arguments.
type Call struct {
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments,omitzero"`
}

// Compensation is a call that undoes another call.
type Compensation struct {
	When string `json:"when,omitzero"` // before.done or before.failed; empty: always
	Call
}

// ToolProbe is a call that tells whether another call had its effect.
type ToolProbe struct {
	Call
	// Done says which answer means that the other call had its effect: ok (no error), error, or an
	// object with JSON pointers into the answer, and the values that stand there. An answer with an
	// error tells nothing where Done is an object.
	Done any `json:"done"`
}

// The words of a tools file.
const (
	errorsUnknown  = "unknown"
	errorsNoEffect = "no_effect"
	whenDone       = "before.done"
	whenFailed     = "before.failed"
	doneOK         = "ok"
	doneError      = "error"
)

// toolsDocument describes the file to its reader.
func toolsDocument() scenario.Document {
	return scenario.Document{What: "a tools file", Help: "docs/mcp.md lists the members", BytesMax: MaxToolsFile}
}

// ParseTools reads a tools file in YAML. Name is the file's, for errors. The error is a
// [*scenario.Error] with line, field and remedy.
func ParseTools(name string, text []byte) (*Tools, error) {
	t := new(Tools)
	err := toolsDocument().DecodeYAML(text, t)
	if err == nil {
		if err = t.check(); err != nil {
			err.Line = scenario.LineInYAML(text, err.Field)
		}
	}
	if err != nil {
		err.File = name
		return nil, err
	}
	return t, nil
}

// check returns the first mistake in the order of the tools' names.
func (t *Tools) check() *scenario.Error {
	if len(t.Tools) == 0 {
		return scenario.Malformed("/tools", "names no tool", "list at least one tool, as docs/mcp.md shows")
	}
	if t.KeepDays < 0 || t.KeepDays > maxKeepDays {
		return scenario.Malformed("/keep_days", fmt.Sprintf("is %d", t.KeepDays), fmt.Sprintf("write a number of days from 1 to %d, or remove the member", maxKeepDays))
	}
	for _, name := range slices.Sorted(maps.Keys(t.Tools)) {
		at := "/tools/" + escape(name)
		tool := t.Tools[name]
		if tool == nil {
			return scenario.Malformed(at, "declares nothing", "give the effect, or remove the tool")
		}
		if err := tool.check(at); err != nil {
			return err
		}
	}
	return nil
}

func escape(token string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(token) }

// check checks a tool at a JSON pointer.
func (t *Tool) check(at string) *scenario.Error {
	effects := []entry.Effect{"", entry.EffectNone, entry.EffectCompensable, entry.EffectIrrevocable, entry.EffectUndeclared}
	switch {
	case t.Effect == entry.EffectReversible:
		return scenario.Malformed(at+"/effect", "is reversible, and a tool server has no checkpoints", "write compensable with a compensation, or irrevocable")
	case !slices.Contains(effects, t.Effect):
		return scenario.Malformed(at+"/effect", fmt.Sprintf("is %.40q", string(t.Effect)), "write none, compensable, irrevocable or undeclared")
	case t.Errors != "" && t.Errors != errorsUnknown && t.Errors != errorsNoEffect:
		return scenario.Malformed(at+"/errors", fmt.Sprintf("is %.40q", t.Errors), "write unknown or no_effect")
	case t.Effect == entry.EffectCompensable && len(t.Compensation) == 0:
		return scenario.Malformed(at+"/effect", "is compensable, and there is no compensation", "add a compensation, or write irrevocable")
	case t.Effect != "" && t.Effect != entry.EffectCompensable && len(t.Compensation) > 0:
		return scenario.Malformed(at+"/effect", "is "+string(t.Effect)+", and there is a compensation", "write compensable, or remove the compensation")
	case t.Effect == entry.EffectNone && (t.Before != nil || t.Probe != nil || t.Key != ""):
		return scenario.Malformed(at+"/effect", "is none, and the tool has before, probe or key", "remove these, or give the effect of the tool")
	case t.Before != nil && len(t.Compensation) == 0:
		return scenario.Malformed(at+"/before", "has no compensation that uses it", "add a compensation, or remove before")
	}
	if t.Before != nil {
		if err := t.Before.check(at+"/before", "arguments"); err != nil {
			return err
		}
	}
	if err := t.checkCompensation(at + "/compensation"); err != nil {
		return err
	}
	return t.checkProbe(at + "/probe")
}

func (t *Tool) checkCompensation(at string) *scenario.Error {
	for i := range t.Compensation {
		c, at := &t.Compensation[i], fmt.Sprintf("%s/%d", at, i)
		roots := []string{"arguments", "result", valueKey}
		switch {
		case c.When != "" && c.When != whenDone && c.When != whenFailed:
			return scenario.Malformed(at+"/when", fmt.Sprintf("is %.40q", c.When), "write before.done or before.failed")
		case c.When != "" && t.Before == nil:
			return scenario.Malformed(at+"/when", "is "+c.When+", and the tool has no before", "add before, or remove when")
		case c.When == "" && i < len(t.Compensation)-1:
			return scenario.Malformed(at, "always holds, so that those after it are never made", "give when, or remove those after it")
		case c.When == "" && t.Before != nil && i == 0:
			return scenario.Malformed(at, "does not say when it holds, and the call before may fail", "write when: before.done, and another one for before.failed if it can be undone then, too")
		case c.When == whenDone || c.When == "" && t.Before != nil:
			roots = append(roots, "before")
		}
		if err := c.check(at, roots...); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tool) checkProbe(at string) *scenario.Error {
	if t.Probe == nil {
		return nil
	}
	roots := []string{"arguments", valueKey}
	if err := t.Probe.check(at, roots...); err != nil {
		return err
	}
	switch done := t.Probe.Done.(type) {
	case string:
		if done == doneOK || done == doneError {
			return nil
		}
	case map[string]any:
		if len(done) > 0 {
			return checkTemplates(at+"/done", done, roots)
		}
	}
	return scenario.Malformed(at+"/done", "does not say which answer means that the call had its effect",
		"write ok, error, or an object such as {content/0/text: \"${arguments/text}\"}")
}

// check checks a call at a JSON pointer, whose templates begin with one of the roots.
func (c *Call) check(at string, roots ...string) *scenario.Error {
	if c.Tool == "" {
		return scenario.Malformed(at+"/tool", "is missing", "name the tool to call")
	}
	return checkTemplates(at+"/arguments", c.Arguments, roots)
}

func checkTemplates(at string, v map[string]any, roots []string) *scenario.Error {
	if depth(v) > depthMax {
		return scenario.Malformed(at, fmt.Sprintf("is nested deeper than %d", depthMax), "flatten it")
	}
	err := pointers(v, func(pointer string) error {
		root, rest, inside := strings.Cut(pointer, "/")
		switch {
		case !slices.Contains(roots, root):
			return fmt.Errorf("${%s} begins with none of %s", pointer, strings.Join(roots, ", "))
		case root == valueKey && inside:
			return errors.New("${key} has nothing inside")
		case inside && rest == "":
			return fmt.Errorf("${%s} ends with a slash", pointer)
		}
		return nil
	})
	if err != nil {
		return scenario.Malformed(at, err.Error(), "see the templates in docs/mcp.md")
	}
	return nil
}

func depth(v any) int {
	most := 0
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			most = max(most, depth(element))
		}
	case map[string]any:
		for _, element := range v {
			most = max(most, depth(element))
		}
	default:
		return 0
	}
	return most + 1
}

// of returns the declaration of a tool, empty if there is none.
func (t *Tools) of(name string) *Tool {
	if t != nil && t.Tools[name] != nil {
		return t.Tools[name]
	}
	return new(Tool)
}

// trusts reports whether the hints of the server count.
func (t *Tools) trusts() bool { return t == nil || t.TrustAnnotations == nil || *t.TrustAnnotations }

// hints are the annotations of a tool that the proxy reads. A nil pointer is a hint that is not
// there.
type hints struct {
	ReadOnly    *bool `json:"readOnlyHint"`
	Destructive *bool `json:"destructiveHint"`
	Idempotent  *bool `json:"idempotentHint"`
}

func is(hint *bool) bool { return hint != nil && *hint }

// contradict reports hints that cannot both hold.
func (h *hints) contradict() bool { return h != nil && is(h.ReadOnly) && is(h.Destructive) }

// effect returns the effect that the hints claim. Only a tool that says that it reads, and says
// nothing against that, has none.
func (h *hints) effect() entry.Effect {
	switch {
	case h == nil || h.ReadOnly == nil && h.Destructive == nil && h.Idempotent == nil:
		return entry.EffectUndeclared
	case is(h.ReadOnly) && !is(h.Destructive):
		return entry.EffectNone
	}
	return entry.EffectIrrevocable
}

// stricter joins hints of one tool that a server gave at two times: the one that allows less
// counts.
func (h *hints) stricter(other *hints) *hints {
	if h == nil || other == nil {
		return nil
	}
	no, yes := false, true
	joined := *h
	if !is(h.ReadOnly) || !is(other.ReadOnly) {
		joined.ReadOnly = &no
		if h.ReadOnly == nil && other.ReadOnly == nil {
			joined.ReadOnly = nil
		}
	}
	if is(h.Destructive) || is(other.Destructive) {
		joined.Destructive = &yes
	}
	if !is(h.Idempotent) || !is(other.Idempotent) {
		joined.Idempotent = &no
	}
	return &joined
}

// effect returns the effect of a call, from the file first, then from the hints.
func (t *Tools) effect(name string, h *hints) entry.Effect {
	tool := t.of(name)
	switch {
	case tool.Effect != "":
		return tool.Effect
	case len(tool.Compensation) > 0:
		return entry.EffectCompensable
	case !t.trusts():
		return entry.EffectUndeclared
	}
	return h.effect()
}

// idempotent reports whether a second call has no further effect.
func (t *Tools) idempotent(name string, h *hints) bool {
	if tool := t.of(name); tool.Idempotent != nil {
		return *tool.Idempotent
	}
	return t.trusts() && h != nil && is(h.Idempotent)
}

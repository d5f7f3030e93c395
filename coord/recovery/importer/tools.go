package importer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// Tools says what the tools of recorded runs do, by their names. What it says counts, and not what
// effects.go takes from a name.
type Tools map[string]Tool

// Tool says what a tool does.
type Tool struct {
	// Effect of a call; empty: as without the declaration.
	Effect entry.Effect `json:"effect,omitzero"`
	// Idempotent says that a second call with the same arguments has no further effect.
	Idempotent bool `json:"idempotent,omitzero"`
	// Informational says that calls after this one do not rest on its result.
	Informational bool `json:"informational,omitzero"`
}

// ParseTools reads a tools file: the members effect, idempotent and informational of each tool.
// Other members, as a proxy needs them (docs/mcp.md), are passed over.
func ParseTools(name string, text []byte) (Tools, error) {
	var file struct {
		TrustAnnotations *bool                     `json:"trust_annotations,omitzero"`
		KeepDays         int                       `json:"keep_days,omitzero"`
		Tools            map[string]map[string]any `json:"tools"`
	}
	wrong := scenario.Document{What: "a tools file", Help: "docs/traces.md describes it", BytesMax: toolsBytesMax}.DecodeYAML(text, &file)
	if wrong == nil && len(file.Tools) == 0 {
		wrong = scenario.Malformed("/tools", "is missing or empty", "declare at least one tool; arl scenario tools writes a beginning")
	}
	tools := Tools{}
	for _, tool := range slices.Sorted(maps.Keys(file.Tools)) {
		if wrong != nil {
			break
		}
		tools[tool], wrong = readTool(tool, file.Tools[tool])
	}
	if wrong != nil {
		wrong.File = name
		return nil, wrong
	}
	return tools, nil
}

func readTool(name string, members map[string]any) (tool Tool, wrong *scenario.Error) {
	field := "/tools/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	effect, _ := members["effect"].(string)
	tool.Effect = entry.Effect(effect)
	for _, m := range []struct {
		name string
		into *bool
	}{{"idempotent", &tool.Idempotent}, {"informational", &tool.Informational}} {
		value, said := members[m.name]
		if *m.into, _ = value.(bool); said && value != *m.into {
			return tool, scenario.Malformed(field+"/"+m.name, "is no boolean", "write true or false")
		}
	}
	if members["effect"] == nil {
		return tool, nil
	}
	return tool, scenario.OneOf(string(entry.EffectNone), string(entry.EffectReversible), string(entry.EffectCompensable), string(entry.EffectIrrevocable),
		string(entry.EffectUndeclared))(field+"/effect", effect)
}

// declare applies the declarations to the steps of a case. A failed call of a tool without effect
// left none. A tool whose name shows no effect, and that is declared to have one, may have left it.
func (t Tools) declare(c *scenario.Case) {
	if len(t) == 0 {
		return
	}
	c.Steps = slices.Clone(c.Steps)
	for i := range c.Steps {
		s := &c.Steps[i]
		tool, ok := t[s.Tool]
		if !ok || s.Tool == "" {
			continue
		}
		s.Idempotent = s.Idempotent || tool.Idempotent
		if tool.Effect == "" {
			continue
		}
		before := s.Effect
		s.Effect = tool.Effect
		s.Failure = declared(s.Failure, before, tool.Effect)
		s.Attempts = slices.Clone(s.Attempts)
		for j := range s.Attempts {
			s.Attempts[j].Failure = declared(s.Attempts[j].Failure, before, tool.Effect)
		}
	}
}

// declared is the failure of a call of a tool that has the effect now, and had another one by its
// name. What a failure left follows from the effect only where it is none.
func declared(f *scenario.Failure, before, now entry.Effect) *scenario.Failure {
	if f == nil || before == now || before != entry.EffectNone && now != entry.EffectNone {
		return f
	}
	known := scenario.NewFailure(now, f.Raw, f.Evidence)
	changed := *f
	changed.Effects, changed.ReplaySafety = known.Effects, known.ReplaySafety
	return &changed
}

// Use is how recorded runs used a tool.
type Use struct {
	Tool          string
	Effect        entry.Effect // as it counted
	Calls, Failed int
}

// count counts the calls of each tool of a case.
func (w *Writer) count(c *scenario.Case) {
	for i := range c.Steps {
		s := &c.Steps[i]
		if s.Tool == "" {
			continue
		}
		if w.used == nil {
			w.used = map[string]*Use{}
		}
		u := w.used[s.Tool]
		if u == nil {
			if len(w.used) == usesMax {
				continue
			}
			u = &Use{Tool: s.Tool}
			w.used[s.Tool] = u
		}
		u.Effect, u.Calls = s.Effect, u.Calls+1
		if s.Outcome == scenario.Failed {
			u.Failed++
		}
	}
}

// Used returns how the cases so far used their tools, by name.
func (w *Writer) Used() []Use {
	all := make([]Use, 0, len(w.used))
	for _, name := range slices.Sorted(maps.Keys(w.used)) {
		all = append(all, *w.used[name])
	}
	return all
}

// Starter is a tools file in which each tool has the effect that it counted with, and the number of
// its calls as a comment.
func Starter(used []Use) string {
	var b strings.Builder
	b.WriteString("# effect: none, reversible, compensable, irrevocable or undeclared, which counts as irrevocable.\n" +
		"# idempotent: true where a second call with the same arguments has no further effect.\ntools:\n")
	for _, u := range used {
		fmt.Fprintf(&b, "  %q: {effect: %s} # calls: %d, failed: %d\n", u.Tool, u.Effect, u.Calls, u.Failed)
	}
	return b.String()
}

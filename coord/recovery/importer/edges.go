package importer

import (
	"slices"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/redact"
)

// Edges says which of the things that an agent had read are dependencies of what it did next.
type Edges string

const (
	// Conversation is the default: a step depends on every result that its agent had read, as a
	// model may use whatever stands in its context. A mistake then reaches all that was done in its
	// knowledge.
	Conversation Edges = "conversation"
	// Dataflow is what the source shows of the use of results: ids that a call takes from an
	// answer, calls inside calls, links. Results that were read are listed for review.
	Dataflow Edges = "dataflow"
)

// ParseEdges reads the name of one of the kinds; empty is Conversation.
func ParseEdges(name string) (Edges, bool) {
	switch e := Edges(name); e {
	case "":
		return Conversation, true
	case Conversation, Dataflow:
		return e, true
	}
	return "", false
}

// Shape is what a reader of runs says beside the files.
type Shape struct {
	// Tools says what tools do; nil: their names alone do.
	Tools Tools
	// Edges says which results are dependencies; empty is Conversation.
	Edges  Edges
	Inputs bool // gives calls of tools their inputs, redacted
}

// Apply puts effects, dependencies and inputs into a case, whose steps become new ones. A result of
// a tool that is declared informational is a soft dependency: a step depends on what came before.
func (s Shape) Apply(c *scenario.Case) *scenario.Error {
	s.Tools.declare(c)
	c.Steps = slices.Clone(c.Steps)
	if s.Edges != Dataflow && c.Source != string(Attempts) { // an attempt begins anew, and has read nothing
		s.rest(c)
	}
	s.inform(c)
	for i := range c.Steps {
		if step := &c.Steps[i]; s.Inputs && step.Tool != "" && step.InputText != "" {
			step.Input = redact.JSON(step.InputText)
		}
		if wrong := checkStep(c.Steps[i]); wrong != nil {
			return wrong
		}
	}
	return nil
}

// rest makes every result that was read a hard dependency.
func (s Shape) rest(c *scenario.Case) {
	rests := map[string][]string{} // what each informational step rested on
	for i := range c.Steps {
		step := &c.Steps[i]
		read := step.Read
		if read == nil {
			read = soft(step.Parents)
		}
		var on []string
		for _, id := range read {
			if before, informs := rests[id]; informs {
				on = append(on, before...)
			} else {
				on = append(on, id)
			}
		}
		if s.Tools[step.Tool].Informational && step.Tool != "" {
			rests[step.ID] = append([]string{}, on...)
		}
		var parents []scenario.Parent
		for _, p := range step.Parents {
			if !slices.Contains(on, p.Step) {
				parents = append(parents, p)
			}
		}
		for _, id := range read {
			if _, informs := rests[id]; informs && !slices.ContainsFunc(parents, func(p scenario.Parent) bool { return p.Step == id }) {
				parents = append(parents, scenario.Parent{Step: id, Dep: entry.Soft})
			}
		}
		slices.Sort(on)
		for _, id := range slices.Compact(on) {
			parents = append(parents, scenario.Parent{Step: id, Dep: entry.Hard})
		}
		step.Parents = parents
	}
}

// inform makes the dependencies on informational steps soft.
func (s Shape) inform(c *scenario.Case) {
	informs := map[string]bool{}
	for i := range c.Steps {
		step := &c.Steps[i]
		if s.Tools[step.Tool].Informational && step.Tool != "" {
			informs[step.ID] = true
		}
		for j, p := range step.Parents {
			if informs[p.Step] && p.Dep == entry.Hard {
				step.Parents = slices.Clone(step.Parents)
				step.Parents[j].Dep = entry.Soft
			}
		}
	}
}

// soft is the steps of the soft dependencies.
func soft(parents []scenario.Parent) []string {
	var all []string
	for _, p := range parents {
		if p.Dep == entry.Soft {
			all = append(all, p.Step)
		}
	}
	return all
}

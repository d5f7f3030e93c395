package importer

import (
	"fmt"
	"slices"
	"strconv"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// flattener turns a workflow with subworkflows into one list of steps. A node
// is a step by its index in steps; edges go to parents.
type flattener struct {
	agent   entry.Principal
	steps   []scenario.Step
	parents [][]int
	paths   []string // JSON pointers, for errors
}

// place is where a graph stands in the workflow.
type place struct {
	prefix      string // of its steps' ids: "" or "7/"
	pointer     string // of the graph in the document
	depth       int    // how many graphs it is inside of
	conditional bool   // a condition on the whole graph
}

// flat is a flattened graph as those around it see it.
type flat struct {
	// nodes maps the number of a plain step to its node, inner that of a
	// subworkflow step to its graph.
	nodes map[int64]int
	inner map[int64]flat
	// exits maps the names of the graph's outputs to the nodes they come
	// from: a label, or the step's number and the output's own name.
	exits map[string]int
	// starts are the nodes that wait for nothing inside the graph.
	starts []int
}

// flatten appends the steps of a graph and of all below it, then its edges.
func (f *flattener) flatten(graph *galaxyGraph, at place) (flat, *scenario.Error) {
	result := flat{nodes: map[int64]int{}, inner: map[int64]flat{}, exits: map[string]int{}}
	if at.depth == graphsMax {
		return result, &scenario.Error{
			Problem: entry.TooLarge, Field: at.pointer, Detail: fmt.Sprintf("is nested inside %d workflows", graphsMax),
			Remedy: "put the inner workflows side by side",
		}
	}
	numbers, wrong := graph.numbered()
	if wrong != nil {
		return result, at.within(wrong)
	}
	for _, number := range numbers {
		step := graph.Steps[strconv.FormatInt(number, 10)]
		if wrong := f.place(&result, &step, number, at); wrong != nil {
			return result, wrong
		}
	}
	for _, number := range numbers {
		step := graph.Steps[strconv.FormatInt(number, 10)]
		if wrong := f.connect(result, &step, number); wrong != nil {
			wrong.Field = at.step(number) + wrong.Field
			return result, wrong
		}
		if wrong := f.exit(result, &step, number, at); wrong != nil {
			return result, wrong
		}
	}
	return result, nil
}

// place appends the node of a plain step, or the nodes of a subworkflow.
func (f *flattener) place(result *flat, step *galaxyStep, number int64, at place) *scenario.Error {
	id := at.prefix + strconv.FormatInt(number, 10)
	if step.Subworkflow == nil {
		if len(f.steps) == scenario.StepsMax {
			return tooManySteps()
		}
		result.nodes[number] = len(f.steps)
		if len(step.InputConnections) == 0 {
			result.starts = append(result.starts, len(f.steps))
		}
		f.steps = append(f.steps, step.step(f.agent, id, at.conditional))
		f.parents = append(f.parents, nil)
		f.paths = append(f.paths, at.step(number))
		return nil
	}
	inner, wrong := f.flatten(step.Subworkflow, place{
		prefix: id + "/", pointer: at.step(number) + "/subworkflow",
		depth: at.depth + 1, conditional: at.conditional || step.When != "",
	})
	result.inner[number] = inner
	if len(step.InputConnections) == 0 {
		result.starts = append(result.starts, inner.starts...)
	}
	return wrong
}

// connect adds the edges into a step.
func (f *flattener) connect(result flat, step *galaxyStep, number int64) *scenario.Error {
	connections, wrong := step.connections()
	if wrong != nil {
		return wrong
	}
	for _, c := range connections {
		from, ok := result.output(c.ID, c.OutputName)
		if !ok {
			return scenario.Malformed("/input_connections", fmt.Sprintf("names output %q of step %d, which is not there", scenario.Cut(c.OutputName, scenario.ToolMax), c.ID),
				"export the workflow again with all its steps")
		}
		into, ok := result.entries(number, c.Inner)
		if !ok {
			return scenario.Malformed("/input_connections", fmt.Sprintf("names inner step %d, which is not there", *c.Inner),
				"export the workflow again with its subworkflows")
		}
		for _, node := range into {
			if !slices.Contains(f.parents[node], from) {
				f.parents[node] = append(f.parents[node], from)
			}
		}
	}
	return nil
}

// exit names the outputs that a step gives to the graph as a whole. The outputs of the outermost
// graph are those of the workflow, and make checkpoints.
func (f *flattener) exit(result flat, step *galaxyStep, number int64, at place) *scenario.Error {
	for _, out := range step.WorkflowOutputs {
		node, ok := result.output(number, out.OutputName)
		if !ok {
			return scenario.Malformed(at.step(number)+"/workflow_outputs", fmt.Sprintf("names output %q, which the subworkflow does not have", scenario.Cut(out.OutputName, scenario.ToolMax)),
				"export the workflow again with its subworkflows")
		}
		if out.Label != "" {
			result.exits[out.Label] = node
		}
		result.exits[strconv.FormatInt(number, 10)+":"+out.OutputName] = node
		if at.prefix == "" {
			f.steps[node].Checkpoint = true
		}
	}
	return nil
}

// output is the node that an output of a step comes from.
func (g flat) output(number int64, name string) (int, bool) {
	if node, ok := g.nodes[number]; ok {
		return node, true
	}
	node, ok := g.inner[number].exits[name]
	return node, ok
}

// entries are the nodes that a connection into a step reaches.
func (g flat) entries(number int64, inner *int64) ([]int, bool) {
	if node, ok := g.nodes[number]; ok {
		return []int{node}, true
	}
	if inner == nil {
		return g.inner[number].starts, true
	}
	node, ok := g.inner[number].nodes[*inner]
	return []int{node}, ok
}

func (at place) step(number int64) string {
	return at.pointer + "/steps/" + strconv.FormatInt(number, 10)
}

func (at place) within(wrong *scenario.Error) *scenario.Error {
	wrong.Field = at.pointer + wrong.Field
	return wrong
}

// ordered gives the steps with their edges, every step after its parents and
// otherwise in the order of their numbers.
func (f *flattener) ordered() ([]scenario.Step, *scenario.Error) {
	const waiting, done = 1, 2
	state := make([]int, len(f.steps))
	var sorted []scenario.Step
	var visit func(node int) *scenario.Error
	visit = func(node int) *scenario.Error {
		switch state[node] {
		case done:
			return nil
		case waiting:
			return scenario.Malformed(f.paths[node], "depends on itself", "remove the cycle of input connections")
		}
		state[node] = waiting
		slices.Sort(f.parents[node])
		step := f.steps[node]
		for _, parent := range f.parents[node] {
			if wrong := visit(parent); wrong != nil {
				return wrong
			}
			step.Parents = append(step.Parents, scenario.Parent{Step: f.steps[parent].ID, Dep: entry.Hard})
		}
		state[node] = done
		sorted = append(sorted, step)
		return nil
	}
	for node := range f.steps {
		if wrong := visit(node); wrong != nil {
			return nil, wrong
		}
	}
	return sorted, nil
}

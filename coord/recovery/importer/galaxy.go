package importer

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// A galaxy file is a workflow of Galaxy: a graph, not a run, so that nothing
// of it is observed.
//
//   - A step is a step of the graph, inputs included. Subworkflows are
//     flattened: step 7 with an inner step 2 becomes step 7/2.
//   - Every input connection is a hard edge. One into a subworkflow goes to
//     the inner step it names, or, for a condition on the whole of it, to all
//     inner steps that start it; one out of it comes from the inner step
//     with the named output.
//   - A step with a condition (when), or inside a subworkflow with one, is
//     conditional.
//   - Inputs have no effect. A tool's effect is reversible: it adds datasets
//     to a history and never changes those it reads; the two tools that send
//     data elsewhere are undeclared, as is any other type of step.
//   - A checkpoint is a step with an output of the whole workflow.
//   - One agent runs all steps of a workflow.
type galaxyGraph struct {
	Steps map[string]galaxyStep `json:"steps"`
}

type galaxyStep struct {
	ID               *int64                    `json:"id"`
	Type             string                    `json:"type"`
	ToolID           string                    `json:"tool_id"`
	ToolState        jsontext.Value            `json:"tool_state"`
	When             string                    `json:"when"`
	InputConnections map[string]jsontext.Value `json:"input_connections"`
	WorkflowOutputs  []galaxyOutput            `json:"workflow_outputs"`
	Subworkflow      *galaxyGraph              `json:"subworkflow"`
}

type galaxyOutput struct {
	Label      string `json:"label"`
	OutputName string `json:"output_name"`
}

type galaxyConnection struct {
	ID         int64  `json:"id"`
	OutputName string `json:"output_name"`
	Inner      *int64 `json:"input_subworkflow_step_id"`
}

// galaxyCase converts one workflow.
func galaxyCase(file string, rec record) (scenario.Case, *scenario.Error) {
	var graph galaxyGraph
	if wrong := scenario.DecodeRecord(rec.value, &graph); wrong != nil {
		return scenario.Case{}, wrong
	}
	if graph.Steps == nil {
		return scenario.Case{}, scenario.Malformed("/steps", "is missing", "pass a workflow file that Galaxy exported (.ga)")
	}
	f := flattener{agent: principal(Galaxy, stem(file))}
	if _, wrong := f.flatten(&graph, place{}); wrong != nil {
		return scenario.Case{}, wrong
	}
	steps, wrong := f.ordered()
	if wrong != nil {
		return scenario.Case{}, wrong
	}
	id := fileID(file)
	return scenario.Case{
		ID: id, Agent: f.agent, Workflow: workflowID(Galaxy, id),
		Source: string(Galaxy), Outcome: scenario.NotObserved, Steps: steps,
	}, nil
}

// step is the step without its edges.
func (g *galaxyStep) step(agent entry.Principal, id string, conditional bool) scenario.Step {
	step := scenario.Step{
		ID: scenario.LocalID(id), Agent: agent, Tool: g.Type, Effect: g.effect(),
		Conditional: conditional || g.When != "", Attempt: scenario.Attempt{Outcome: scenario.NotObserved},
	}
	if g.ToolID != "" {
		step.Tool = g.ToolID
	}
	if state := scenario.ContentText(g.ToolState); state != "" {
		step.InputDigest = entry.DigestOf(state)
	}
	return step
}

func (g *galaxyStep) effect() entry.Effect {
	switch g.Type {
	case "data_input", "data_collection_input", "parameter_input", "pause":
		return entry.EffectNone
	case "tool":
		if g.ToolID != "export_remote" && g.ToolID != "send_to_cloud" {
			return entry.EffectReversible
		}
	}
	return entry.EffectUndeclared
}

// connections gives the sources of the step's inputs, in order of the
// inputs' names.
func (g *galaxyStep) connections() ([]galaxyConnection, *scenario.Error) {
	var all []galaxyConnection
	for _, name := range slices.Sorted(maps.Keys(g.InputConnections)) {
		value := g.InputConnections[name]
		var several []galaxyConnection
		var wrong *scenario.Error
		if value.Kind() == '[' {
			wrong = scenario.DecodeRecord(value, &several)
		} else {
			several = make([]galaxyConnection, 1)
			wrong = scenario.DecodeRecord(value, &several[0])
		}
		if wrong != nil {
			wrong.Field = "/input_connections" + string(jsontext.Pointer("").AppendToken(name)) + wrong.Field
			return nil, wrong
		}
		all = append(all, several...)
	}
	if len(all) > scenario.ParentsMax {
		return nil, &scenario.Error{
			Problem: entry.TooLarge, Field: "/input_connections",
			Detail: fmt.Sprintf("holds %d connections, over the limit of %d", len(all), scenario.ParentsMax),
			Remedy: "collect the inputs in separate steps",
		}
	}
	return all, nil
}

// numbered gives the numbers of the graph's steps, ascending.
func (graph *galaxyGraph) numbered() ([]int64, *scenario.Error) {
	var numbers []int64
	for _, key := range slices.Sorted(maps.Keys(graph.Steps)) {
		step := graph.Steps[key]
		number, err := strconv.ParseInt(key, 10, 64)
		if err != nil || strconv.FormatInt(number, 10) != key || step.ID != nil && *step.ID != number {
			return nil, scenario.Malformed(string(jsontext.Pointer("/steps").AppendToken(key)), "does not have its number as name and id",
				"name each step by its id")
		}
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	return numbers, nil
}

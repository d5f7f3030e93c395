package importer

import (
	"cmp"
	"fmt"

	"recoveryledger/coord/recovery/importer/foreign"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// A wfcommons file is instances of workflows, as WfCommons collects them from logs of workflow
// systems. Room foreign reads them.
//
//   - A step is a task; its tool is the program, otherwise the name of the task.
//   - Every parent is a hard edge.
//   - A task with a runtime ended: the format has no failures. One without is not observed.
//   - A task that writes files, and none that it reads, is reversible, any other undeclared.
//   - One agent runs all tasks of an instance.
func workflowCase(file string, rec record) (scenario.Case, *scenario.Error) {
	graph, wrong := foreign.Workflow(rec.value, scenario.StepsMax)
	if wrong != nil {
		return scenario.Case{}, wrong
	}
	id := fileID(file)
	if rec.number > 1 {
		id = fmt.Sprintf("%s/%d", id, rec.number)
	}
	c := scenario.Case{ID: scenario.LocalID(id), Agent: principal(WfCommons, cmp.Or(graph.Name, stem(file))), Workflow: workflowID(WfCommons, id),
		Source: string(WfCommons), Outcome: scenario.NotObserved}
	for i := range graph.Tasks {
		t := &graph.Tasks[i]
		step := scenario.Step{ID: scenario.LocalID(t.ID), Agent: c.Agent, Tool: scenario.Cut(cmp.Or(t.Program, t.Name), scenario.ToolMax),
			Effect: entry.EffectUndeclared, Attempt: scenario.Attempt{Outcome: scenario.NotObserved}}
		if t.MakesFiles {
			step.Effect = entry.EffectReversible
		}
		if t.Command != "" {
			step.InputDigest = entry.DigestOf(t.Command)
		}
		for _, parent := range t.Parents {
			step.Parents = append(step.Parents, scenario.Parent{Step: c.Steps[parent].ID, Dep: entry.Hard})
		}
		if t.Runtime != nil {
			latency, wrong := seconds(t)
			if wrong != nil {
				return scenario.Case{}, wrong
			}
			step.Outcome, step.LatencyMS = scenario.OK, latency
		}
		c.Steps = append(c.Steps, step)
	}
	return c, nil
}

// seconds is the runtime of a task in milliseconds, rounded half up.
func seconds(t *foreign.Task) (*int64, *scenario.Error) {
	text := string(t.Runtime)
	if t.Runtime.Kind() != '0' || text[0] == '-' {
		return nil, scenario.Malformed(t.Field, fmt.Sprintf("is %.40s", text), "write a number of seconds of at least 0, or leave it out")
	}
	ms, fits := shiftDecimal(text, 3)
	if !fits {
		return nil, scenario.Malformed(t.Field, "is too large", "write a number of seconds, or leave it out")
	}
	return &ms, nil
}

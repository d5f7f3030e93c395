package importer

import (
	"cmp"
	"strconv"
	"strings"

	"recoveryledger/coord/recovery/importer/foreign"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// A toolbench file is the search tree of one task. Its nodes are thoughts,
// actions (the name of an API) and action inputs (its arguments), which carry
// the observation, the answer of the API.
//
//   - A step is an action input below an action. Pre-order is the order in
//     which the search made the calls.
//   - It depends hard on the nearest step above it: a node is expanded in the
//     state that its parent left, and the search drops whole subtrees.
//   - The effect is that of effects.go. The tree does not record the HTTP
//     method, so that most APIs stay undeclared.
//   - A checkpoint is a step from which the search went on more than once: it
//     came back to it.
//   - A failure is what the observation's content shows. observation_code is
//     not read: 0 hides errors, and 11 marks any answer with the word error
//     in it. Ending a branch, also by giving up, is not a failure of a call.
//   - A call tries one again that failed when it is the next of that tool
//     below it; other arguments were repaired.
//   - The outcome of the run is its member win.
type toolbenchFile struct {
	Win  *bool `json:"win"`
	Tree struct {
		Tree *toolbenchNode `json:"tree"`
	} `json:"tree"`
}

type toolbenchNode struct {
	NodeType    string          `json:"node_type"`
	Description string          `json:"description"`
	Observation *string         `json:"observation"`
	Children    []toolbenchNode `json:"children"`
}

// toolbenchCase converts one tree.
func toolbenchCase(file string, rec record) (scenario.Case, *scenario.Error) {
	var doc toolbenchFile
	if wrong := scenario.DecodeRecord(rec.value, &doc); wrong != nil {
		return scenario.Case{}, wrong
	}
	if doc.Tree.Tree == nil {
		return scenario.Case{}, scenario.Malformed("/tree/tree", "is missing", "pass an answer file of ToolBench with its search tree")
	}
	t := tree{agent: principal(ToolBench, method(stem(file))), latest: map[string]int{}}
	t.walk(doc.Tree.Tree, spot{step: -1})
	if len(t.steps) > scenario.StepsMax {
		return scenario.Case{}, tooManySteps()
	}
	for i := range t.steps {
		t.steps[i].Checkpoint = t.branches[i] > 1
	}
	outcome := scenario.NotObserved
	if doc.Win != nil {
		outcome = scenario.Failed
		if *doc.Win {
			outcome = scenario.OK
		}
	}
	id := fileID(file)
	return scenario.Case{
		ID: id, Agent: t.agent, Workflow: workflowID(ToolBench, id),
		Source: string(ToolBench), Outcome: outcome, Verdict: unanswered(rec, outcome), Steps: t.steps,
	}, nil
}

// unanswered is the failure of a search that gave no answer.
func unanswered(rec record, outcome scenario.Outcome) *scenario.Failure {
	if outcome != scenario.Failed {
		return nil
	}
	return &scenario.Failure{Label: scenario.Label{Class: "progress", Code: "premature_end"}, Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown, Evidence: entry.DigestOf(rec.value)}
}

// method is the agent in the name of an answer file, such as 10_ChatGPT_DFS:
// what follows the number of the task.
func method(stem string) string {
	task, agent, ok := strings.Cut(stem, "_")
	if _, err := strconv.Atoi(task); ok && err == nil && agent != "" {
		return agent
	}
	return stem
}

// tree collects the steps below a root.
type tree struct {
	agent    entry.Principal
	steps    []scenario.Step
	above    []int          // the nearest step above each, or -1
	branches []int          // how many steps follow each
	latest   map[string]int // the latest try of each step that begins a chain of them
}

// spot is where in the tree a node stands: the nearest step above it, or -1,
// and the action it is the input of, if any.
type spot struct {
	step   int
	action string
}

func (t *tree) walk(node *toolbenchNode, at spot) {
	if len(t.steps) > scenario.StepsMax {
		return
	}
	below := spot{step: at.step}
	switch {
	case node.NodeType == "Action":
		below.action = node.Description
	case node.NodeType == "Action Input" && at.action != "":
		below.step = t.call(node, at)
	}
	for i := range node.Children {
		t.walk(&node.Children[i], below)
	}
}

// call appends the step of an action input and gives its index.
func (t *tree) call(node *toolbenchNode, at spot) int {
	step := scenario.Step{
		ID: strconv.Itoa(len(t.steps)), Agent: t.agent, Tool: at.action, Effect: foreign.ToolEffect(at.action),
		InputText: node.Description, InputDigest: entry.DigestOf(node.Description), Attempt: scenario.Attempt{Outcome: scenario.NotObserved},
	}
	if at.step >= 0 {
		step.Parents = []scenario.Parent{{Step: strconv.Itoa(at.step), Dep: entry.Hard}}
		t.branches[at.step]++
		t.retry(&step, at.step)
	}
	if node.Observation != nil {
		step.Outcome, step.OutputDigest = scenario.OK, entry.DigestOf(*node.Observation)
		if raw, failed := observed(*node.Observation); failed {
			step.Outcome, step.Failure = scenario.Failed, scenario.NewFailure(step.Effect, raw, step.OutputDigest)
		}
	}
	index := len(t.steps)
	t.latest[cmp.Or(step.RetryOf, step.ID)] = index
	t.steps, t.above, t.branches = append(t.steps, step), append(t.above, at.step), append(t.branches, 0)
	return index
}

// retry notes that a call tries one again that failed: the nearest of the same
// tool above it, if that failed and no other branch has tried it again.
func (t *tree) retry(step *scenario.Step, above int) {
	for ; above >= 0; above = t.above[above] {
		before := &t.steps[above]
		if before.Tool != step.Tool {
			continue
		}
		if before.Outcome == scenario.Failed && t.latest[cmp.Or(before.RetryOf, before.ID)] == above {
			tryAgain(step, before, sameArguments(before.InputDigest == step.InputDigest))
		}
		return
	}
}

// observed says whether an observation shows a failure. It is an object with
// the wrapper's error and the API's response as text, cut off after 1 KiB.
// The wrapper's "Message error..." is a guess from a word in the response,
// which is therefore asked itself; its other errors are its own.
func observed(observation string) (scenario.RawError, bool) {
	wrapper, response := "", ""
	for _, m := range scenario.Members(observation) {
		switch m.Name {
		case "error":
			wrapper = m.Value
		case "response":
			response = m.Value
		}
	}
	if wrapper == "" || wrapper == "Message error..." {
		return scenario.FailureIn(response)
	}
	if status, ok := strings.CutPrefix(wrapper, "request invalid, data error. status_code="); ok {
		code, err := strconv.Atoi(status)
		if err != nil {
			code = 0
		}
		return scenario.RawError{Text: wrapper, HTTPStatus: code}, true
	}
	if strings.HasPrefix(wrapper, "Function executing from ") {
		wrapper = wrapper[strings.LastIndexByte(wrapper, '\n')+1:]
	}
	return scenario.RawError{Text: wrapper}, true
}

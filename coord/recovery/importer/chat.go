package importer

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// An openai-chat run is a transcript with tool calls in the form of the chat
// completions API, bare or with what a benchmark adds: {id | task_id and
// trial, model, messages | traj, reward}.
//
//   - A step is a tool call; its input is the arguments, its output the
//     answer. Messages without a call are not steps.
//   - Answers belong to calls by tool_call_id, which real transcripts repeat
//     within a run: of several open calls with the id it is the oldest. A call
//     without answer is not observed.
//   - Edges are those of lineage.go, effects those of effects.go, failures
//     those of content.go.
//   - A checkpoint is the last step of a turn that came to rest: all its calls
//     are answered and the user speaks next.
//   - A call tries one again that failed when it is the next of that tool and
//     names the same things, or nothing; other arguments were repaired.
//   - The outcome of the run is its reward: 1 is ok, less is failed.
type chatRun struct {
	ID       jsontext.Value `json:"id"`
	TaskID   jsontext.Value `json:"task_id"`
	Trial    jsontext.Value `json:"trial"`
	Model    string         `json:"model"`
	Reward   jsontext.Value `json:"reward"`
	Messages []chatMessage  `json:"messages"`
	Traj     []chatMessage  `json:"traj"`
}

type chatMessage struct {
	Role       string         `json:"role"`
	Content    jsontext.Value `json:"content"`
	ToolCalls  []chatCall     `json:"tool_calls"`
	ToolCallID string         `json:"tool_call_id"`
}

type chatCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	} `json:"function"`
}

// chatCase converts one run.
func chatCase(file string, rec record) (scenario.Case, *scenario.Error) {
	var run chatRun
	if wrong := scenario.DecodeRecord(rec.value, &run); wrong != nil {
		return scenario.Case{}, wrong
	}
	id, wrong := run.id(rec)
	if wrong != nil {
		return scenario.Case{}, wrong
	}
	outcome, wrong := run.outcome()
	if wrong != nil {
		return scenario.Case{}, wrong
	}
	name := run.Model
	if name == "" {
		name = stem(file)
	}
	t := transcript{agent: principal(OpenAIChat, name), lineage: newLineage(), failed: map[string]failedCall{}}
	field, messages := "/messages", run.Messages
	if messages == nil {
		field, messages = "/traj", run.Traj
	}
	if messages == nil {
		return scenario.Case{}, scenario.Malformed("/messages", "is missing", "write the transcript as an array of messages")
	}
	for i, message := range messages {
		if wrong := t.add(message); wrong != nil {
			wrong.Field = fmt.Sprintf("%s/%d%s", field, i, wrong.Field)
			return scenario.Case{}, wrong
		}
	}
	return scenario.Case{
		ID: scenario.LocalID(id), Agent: t.agent, Workflow: workflowID(OpenAIChat, stem(file), id),
		Source: string(OpenAIChat), Outcome: outcome, Verdict: graded(rec, outcome), Steps: t.steps,
	}, nil
}

// graded is the failure of a run with a reward that calls the run failed.
func graded(rec record, outcome scenario.Outcome) *scenario.Failure {
	if outcome != scenario.Failed {
		return nil
	}
	return &scenario.Failure{Label: scenario.Label{Class: "verify", Code: "gate_failed"}, Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown, Evidence: entry.DigestOf(rec.value)}
}

// id is the run's own id, or its task and trial, or its place in the file.
func (run *chatRun) id(rec record) (string, *scenario.Error) {
	own, wrong := scalar("/id", run.ID)
	if wrong != nil || own != "" {
		return own, wrong
	}
	task, wrong := scalar("/task_id", run.TaskID)
	if wrong != nil {
		return "", wrong
	}
	trial, wrong := scalar("/trial", run.Trial)
	switch {
	case wrong != nil:
		return "", wrong
	case task == "":
		return "run-" + strconv.Itoa(rec.number), nil
	case trial == "":
		return "task-" + task, nil
	default:
		return "task-" + task + "/trial-" + trial, nil
	}
}

func (run *chatRun) outcome() (scenario.Outcome, *scenario.Error) {
	reward, wrong := micros("/reward", run.Reward)
	const full = 1_000_000 // a reward of 1, in the unit of micros
	switch {
	case wrong != nil:
		return "", scenario.Malformed("/reward", wrong.Detail, "write a number from 0 to 1")
	case reward == nil:
		return scenario.NotObserved, nil
	case *reward >= full:
		return scenario.OK, nil
	default:
		return scenario.Failed, nil
	}
}

// transcript collects the steps of a run message by message.
type transcript struct {
	agent   entry.Principal
	lineage *lineage
	steps   []scenario.Step
	// open holds the calls without an answer so far, oldest first, and turn
	// the number of steps before the user spoke last.
	open []openCall
	turn int
	// failed holds the last call of each tool, by its name, where that failed
	// and was not made again since, with the ids in its arguments.
	failed map[string]failedCall
}

type failedCall struct {
	step int
	ids  []string
}

type openCall struct {
	id   string
	step int
	ids  []string // in its arguments
}

func (t *transcript) add(message chatMessage) *scenario.Error {
	switch message.Role {
	case "assistant":
		return t.calls(message.ToolCalls)
	case "tool":
		return t.answer(message)
	case "user":
		if len(t.open) == 0 && t.turn < len(t.steps) {
			t.steps[len(t.steps)-1].Checkpoint = true
		}
		t.turn = len(t.steps)
		return nil
	case "system", "developer":
		return nil
	default:
		return scenario.Malformed("/role", fmt.Sprintf("is %q", scenario.Cut(message.Role, scenario.ToolMax)),
			"use system, developer, user, assistant or tool; rewrite function calls as tool_calls")
	}
}

func (t *transcript) calls(calls []chatCall) *scenario.Error {
	for i, call := range calls {
		step := len(t.steps)
		if step == scenario.StepsMax {
			return tooManySteps()
		}
		if call.Function.Name == "" {
			return scenario.Malformed(fmt.Sprintf("/tool_calls/%d/function/name", i), "is missing", "name the tool")
		}
		arguments := scenario.ContentText(call.Function.Arguments)
		names := argumentIDs(arguments)
		t.open = append(t.open, openCall{id: call.ID, step: step, ids: names})
		t.steps = append(t.steps, scenario.Step{
			ID: strconv.Itoa(step), Agent: t.agent, Tool: call.Function.Name,
			Parents: t.lineage.parents(step, arguments), Effect: toolEffect(call.Function.Name),
			InputDigest: entry.DigestOf(arguments), Attempt: scenario.Attempt{Outcome: scenario.NotObserved},
		})
		t.retry(step, names)
	}
	return nil
}

// retry notes that a call tries one again that failed: the last call of the
// same tool, unless both name things and none of them is the same.
func (t *transcript) retry(index int, names []string) {
	step := &t.steps[index]
	before, ok := t.failed[step.Tool]
	if !ok {
		return
	}
	related := len(names) == 0 || len(before.ids) == 0 ||
		slices.ContainsFunc(names, func(id string) bool { return slices.Contains(before.ids, id) })
	if related {
		first := &t.steps[before.step]
		tryAgain(step, first, sameArguments(first.InputDigest == step.InputDigest))
		delete(t.failed, step.Tool)
	}
}

func (t *transcript) answer(message chatMessage) *scenario.Error {
	at := 0
	for at < len(t.open) && t.open[at].id != message.ToolCallID {
		at++
	}
	if at == len(t.open) {
		return scenario.Malformed("/tool_call_id", fmt.Sprintf("%q answers no open call", scenario.Cut(message.ToolCallID, scenario.ToolMax)),
			"put the answer after the assistant message with its call")
	}
	index, names := t.open[at].step, t.open[at].ids
	t.open = append(t.open[:at], t.open[at+1:]...)
	step, text := &t.steps[index], scenario.ContentText(message.Content)
	step.OutputDigest = entry.DigestOf(text)
	if raw, failed := scenario.FailureIn(text); failed {
		step.Outcome, step.Failure = scenario.Failed, scenario.NewFailure(step.Effect, raw, step.OutputDigest)
		t.failed[step.Tool] = failedCall{step: index, ids: names}
		return nil
	}
	step.Outcome = scenario.OK
	t.lineage.learn(index, text, step.Effect)
	return nil
}

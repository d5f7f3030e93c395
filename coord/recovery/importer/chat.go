package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/importer/foreign"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// A conversation (openai-chat, openai-responses, anthropic, group-chat) is a transcript of an agent
// with its tools, or of agents with each other. Room foreign reads the documents.
//
//   - A step is a tool call; its input is the arguments, its output the answer. In a group chat a
//     message is a step, too: a call of a model. Other messages are not steps.
//   - Answers belong to calls by the id of the call, which real transcripts repeat within a run: of
//     several open calls with the id it is the oldest. A call without answer is not observed.
//   - Edges are those of lineage.go, effects those of effects.go, failures those of content.go.
//     Read has what the agent had read before.
//   - A checkpoint is the last step of a turn that came to rest: all its calls are answered and the
//     user speaks next.
//   - A call tries one again that failed when it is the next of that tool and names the same
//     things, or nothing; other arguments were repaired.
//   - The outcome of the run is its reward: 1 is ok, less is failed. A run that the document calls
//     failed or incorrect failed, too.
func (s *source) conversationCase(format Format, rec record) (scenario.Case, *scenario.Error) {
	run, wrong := readers[format](rec.value)
	if wrong != nil {
		return scenario.Case{}, wrong
	}
	outcome, wrong := rewarded(run.Reward)
	if wrong != nil {
		return scenario.Case{}, wrong
	}
	id := cmp.Or(run.ID, "run-"+strconv.Itoa(rec.number))
	t := transcript{format: format, agent: principal(format, cmp.Or(run.Model, stem(s.file))), lineage: newLineage(), failed: map[string]failedCall{}}
	for i := range run.Turns {
		if wrong := t.add(&run.Turns[i]); wrong != nil {
			return scenario.Case{}, wrong
		}
	}
	c := scenario.Case{
		ID: scenario.LocalID(id), Agent: t.agent, Workflow: workflowID(format, stem(s.file), id),
		Source: string(format), Outcome: outcome, Verdict: graded(rec, outcome), Steps: t.steps,
	}
	if run.Failure != nil && c.Verdict == nil {
		c.Outcome, c.Verdict = scenario.Failed, scenario.NewFailure(entry.EffectNone, *run.Failure, entry.DigestOf(rec.value))
		if c.Verdict.Label == scenario.UnknownLabel() && format == GroupChat {
			c.Verdict = graded(rec, scenario.Failed)
		}
	}
	s.counts.unknown(run.Unknown)
	return c, nil
}

// readers read the formats of conversations.
var readers = map[Format]func(jsontext.Value) (foreign.Conversation, *scenario.Error){
	OpenAIChat: foreign.Chat, OpenAIResponses: foreign.Responses, Anthropic: foreign.Messages, GroupChat: foreign.Group,
}

// graded is the failure of a run with a reward that calls the run failed.
func graded(rec record, outcome scenario.Outcome) *scenario.Failure {
	if outcome != scenario.Failed {
		return nil
	}
	return &scenario.Failure{Label: scenario.Label{Class: "verify", Code: "gate_failed"}, Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown, Evidence: entry.DigestOf(rec.value)}
}

// rewarded is the outcome of a run with a reward.
func rewarded(value jsontext.Value) (scenario.Outcome, *scenario.Error) {
	reward, wrong := micros("/reward", value)
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
	format  Format
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
	// read holds the steps whose results are known, without those that another of them rests on.
	read []string
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

func (t *transcript) add(turn *foreign.Turn) *scenario.Error {
	switch turn.Kind {
	case foreign.Call, foreign.Speech:
		return t.step(turn)
	case foreign.Answer:
		return t.answer(turn)
	}
	if len(t.open) == 0 && t.turn < len(t.steps) {
		t.steps[len(t.steps)-1].Checkpoint = true
	}
	t.turn = len(t.steps)
	return nil
}

// step appends the step of a call, or of a message that is a step.
func (t *transcript) step(turn *foreign.Turn) *scenario.Error {
	index := len(t.steps)
	if index == scenario.StepsMax {
		return tooManySteps()
	}
	s := scenario.Step{
		ID: strconv.Itoa(index), Agent: t.agent, Tool: turn.Tool, Effect: entry.EffectNone, Read: append([]string{}, t.read...),
		Attempt: scenario.Attempt{Outcome: scenario.NotObserved},
	}
	if turn.Agent != "" {
		s.Agent = principal(t.format, turn.Agent)
	}
	if turn.Kind == foreign.Speech {
		s.Parents = t.lineage.parents(index, "")
		s.Outcome, s.OutputDigest, s.TokensIn, s.TokensOut = scenario.OK, entry.DigestOf(turn.Text), turn.TokensIn, turn.TokensOut
		t.steps = append(t.steps, s)
		t.hasRead(index)
		return nil
	}
	names := argumentIDs(turn.Text)
	t.open = append(t.open, openCall{id: turn.ID, step: index, ids: names})
	s.InputText = turn.Text
	s.Effect, s.Parents, s.InputDigest = foreign.ToolEffect(turn.Tool), t.lineage.parents(index, turn.Text), entry.DigestOf(turn.Text)
	t.steps = append(t.steps, s)
	t.retry(index, names)
	return nil
}

// hasRead notes that the result of a step is known to the agents: what they had read before it they
// know through it.
func (t *transcript) hasRead(index int) {
	s := &t.steps[index]
	t.read = slices.DeleteFunc(t.read, func(id string) bool { return slices.Contains(s.Read, id) })
	t.read = append(t.read, s.ID)
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

func (t *transcript) answer(turn *foreign.Turn) *scenario.Error {
	at := slices.IndexFunc(t.open, func(o openCall) bool { return o.id == turn.ID })
	if at < 0 {
		return scenario.Malformed(turn.Field, fmt.Sprintf("%q answers no open call", scenario.Cut(turn.ID, scenario.ToolMax)),
			"put the answer after the message with its call")
	}
	index, names := t.open[at].step, t.open[at].ids
	t.open = slices.Delete(t.open, at, at+1)
	step := &t.steps[index]
	step.OutputDigest = entry.DigestOf(turn.Text)
	t.hasRead(index)
	raw, failed := scenario.FailureIn(turn.Text)
	if turn.Failure != nil && (!failed || turn.Failure.Typed() || !raw.Typed()) {
		raw, failed = *turn.Failure, true
	}
	if failed {
		step.Outcome, step.Failure = scenario.Failed, scenario.NewFailure(step.Effect, raw, step.OutputDigest)
		t.failed[step.Tool] = failedCall{step: index, ids: names}
		return nil
	}
	step.Outcome = scenario.OK
	t.lineage.learn(index, turn.Text, step.Effect)
	return nil
}

package importer

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"recoveryledger/coord/recovery/importer/foreign"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// A swe-agent file is the trajectory of a run of SWE-agent (.traj), an openhands file the events of
// a run of OpenHands, as an array.
//
//   - A step is an action of the agent and what it saw after it: of swe-agent each element of
//     trajectory, of openhands each action but talk and the agent's own reasoning, with the event
//     that names it as its cause.
//   - The tool of a command is its first word, in swe-agent, or the kind of the action.
//   - A step failed if the observation is an error, has an exit code above 0, or is a failure by
//     its form (package scenario). OpenHands writes -1 where the command goes on.
//   - A step depends softly on the one before: the transcript does not say what the agent used.
//   - The next action with the same tool tries a failed one again.
//   - Commands that read have no effect, edits go back with the files, all others are undeclared.
//   - The outcome is not observed: a patch that was submitted was not judged. A trajectory that its
//     limits ended failed.
type codingRun struct {
	agent  entry.Principal
	steps  []scenario.Step
	failed map[string]int // the last failed step of each tool
}

// add appends a step, without what came of it.
func (r *codingRun) add(tool string, effect entry.Effect, input string) {
	step := scenario.Step{ID: strconv.Itoa(len(r.steps)), Agent: r.agent, Tool: scenario.Cut(tool, scenario.ToolMax), Effect: effect,
		InputText: input, InputDigest: entry.DigestOf(input), Attempt: scenario.Attempt{Outcome: scenario.NotObserved}}
	if last := len(r.steps) - 1; last >= 0 {
		step.Parents = []scenario.Parent{{Step: r.steps[last].ID, Dep: entry.Soft}}
	}
	r.steps = append(r.steps, step)
}

// seen sets what came of a step. A raw error is that of a failure that the source itself names.
func (r *codingRun) seen(at int, observation string, named *scenario.RawError) {
	s := &r.steps[at]
	s.Outcome, s.OutputDigest = scenario.OK, entry.DigestOf(observation)
	raw, failed := scenario.FailureIn(observation)
	if named != nil {
		raw, failed = *named, true
	}
	before, again := r.failed[s.Tool]
	if again && before < at {
		tryAgain(s, &r.steps[before], sameArguments(r.steps[before].InputDigest == s.InputDigest))
	}
	delete(r.failed, s.Tool)
	if failed {
		s.Outcome, s.Failure = scenario.Failed, scenario.NewFailure(s.Effect, raw, s.OutputDigest)
		r.failed[s.Tool] = at
	}
}

// sweCase converts one trajectory.
func sweCase(file string, rec record) (scenario.Case, *scenario.Error) {
	var run foreign.SWERun
	if wrong := scenario.DecodeRecord(rec.value, &run); wrong != nil {
		return scenario.Case{}, wrong
	}
	if run.Trajectory == nil {
		return scenario.Case{}, scenario.Malformed("/trajectory", "is missing", "pass a trajectory of a run; a demonstration has a history alone")
	}
	if len(run.Trajectory) > scenario.StepsMax {
		return scenario.Case{}, tooManySteps()
	}
	status, wrong := scalar("/info/exit_status", run.Info.ExitStatus)
	if wrong != nil {
		return scenario.Case{}, wrong
	}
	r := codingRun{agent: principal(SWEAgent, cmp.Or(run.Environment, stem(file))), failed: map[string]int{}}
	for i, step := range run.Trajectory {
		tool := "none"
		if words := strings.Fields(step.Action); len(words) > 0 {
			tool = words[0]
		}
		r.add(tool, foreign.CommandEffect(tool), step.Action)
		r.seen(i, step.Observation, nil)
	}
	c := scenario.Case{ID: fileID(file), Agent: r.agent, Workflow: workflowID(SWEAgent, fileID(file)), Source: string(SWEAgent), Outcome: scenario.NotObserved, Steps: r.steps}
	if label, limited := sweLimits[status]; limited {
		c.Outcome = scenario.Failed
		c.Verdict = &scenario.Failure{Label: label, Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown, Evidence: entry.DigestOf(rec.value)}
	}
	return c, nil
}

// sweLimits are the ways in which limits end a trajectory.
var sweLimits = map[string]scenario.Label{
	"exit_cost": {Class: "budget", Code: "exceeded"}, "exit_context": {Class: "request", Code: "context_overflow"},
	"exit_format": {Class: "output", Code: "malformed"}, "exit_command_timeout": {Class: "transient", Code: "timeout"},
}

// openHands yields the case of a file of events.
func (s *source) openHands(yield func(scenario.Case, error) bool) {
	s.counts.unit = "events"
	r := codingRun{agent: principal(OpenHands, stem(s.file)), failed: map[string]int{}}
	at := map[string]int{} // steps by the id of their action
	first := record{}
	for {
		rec, more, err := s.next()
		if err == nil && !more {
			break
		}
		if err == nil && first.number == 0 {
			first = record{number: rec.number, line: rec.line}
		}
		wrong, _ := errors.AsType[*scenario.Error](err)
		if err == nil {
			if wrong = s.handsEvent(&r, rec, at); wrong == nil {
				continue
			}
			wrong.File, wrong.Record, wrong.Line = s.file, rec.number, rec.line
			err = wrong
		}
		if wrong != nil { // the events of a file are one run, and a part of a run is no run
			wrong.Detail += "; the run is not imported"
		}
		s.counts.settle(false)
		yield(scenario.Case{}, err)
		return
	}
	if first.number == 0 {
		return
	}
	s.deliver(yield, first, scenario.Case{ID: fileID(s.file), Agent: r.agent, Workflow: workflowID(OpenHands, fileID(s.file)), Source: string(OpenHands),
		Outcome: scenario.NotObserved, Steps: r.steps}, nil)
}

// handsEvent takes one event.
func (s *source) handsEvent(r *codingRun, rec record, at map[string]int) *scenario.Error {
	var e foreign.HandsEvent
	s.counts.Records++
	if wrong := scenario.DecodeRecord(rec.value, &e); wrong != nil {
		return wrong
	}
	id, wrong := scalar("/id", e.ID)
	cause, wrongCause := scalar("/cause", e.Cause)
	switch {
	case wrong != nil || wrongCause != nil:
		return scenario.FirstOf(wrong, wrongCause)
	case e.Action != "" && e.Source == "agent" && !handsTalk[e.Action]:
		if len(r.steps) == scenario.StepsMax {
			return tooManySteps()
		}
		at[id] = len(r.steps)
		r.add(e.Action, foreign.CommandEffect(e.Action), string(e.Args))
		s.counts.Taken++
		return nil
	case e.Observation != "" && cause != "":
		step, known := at[cause]
		if !known {
			s.counts.leave("observations of what is no step")
			return nil
		}
		var named *scenario.RawError
		if code := e.Extras.Metadata.ExitCode; code != nil && *code > 0 {
			named = &scenario.RawError{Text: "exit code " + strconv.FormatInt(*code, 10)}
		} else if e.Observation == "error" {
			named = &scenario.RawError{Text: e.Content}
		}
		r.seen(step, e.Content, named)
		s.counts.Taken++
		return nil
	case e.Action == "" && e.Observation == "":
		return scenario.Malformed("/action", "is missing, and so is observation", "pass the events of a run of OpenHands")
	}
	s.counts.leave("messages and states, which are no actions of the agent")
	return nil
}

// handsTalk are actions of an agent that are no steps.
var handsTalk = map[string]bool{"message": true, "finish": true, "think": true, "reject": true, "change_agent_state": true, "system": true, "null": true, "recall": true, "condensation": true}

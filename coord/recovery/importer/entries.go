package importer

import (
	"crypto/hmac"
	"crypto/sha256"
	"slices"
	"strings"

	"github.com/google/uuid"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// EntryBuilder says how cases become entries of a log.
type EntryBuilder struct {
	// Origin names the log; it is the aud of the entries.
	Origin string
	// File is the digest of the file that the cases come from. The ids of entries are made of File,
	// Origin and Instance: the same file gives the same ids again.
	File string
	// Instance distinguishes several imports of one file, such as the runs of a repeated workflow.
	// Empty: the first import.
	Instance string
	// Secret returns the key of an agent's digests. Without the key, no party can find out content
	// by guessing.
	Secret func(agent entry.Principal) []byte
	// Iat returns the issue time of the entry with that id, in Unix seconds.
	Iat func(jti string) int64
}

// Entries returns what the agents of a case log, in the order in which they
// do, so that every reference is to an earlier entry:
//
//   - A step that was not observed is an execution that is planned.
//   - A step without effect is an execution with its final progress.
//   - Any other step is started first (EXE-2), then final.
//   - After a step where the source shows a restore point stands a checkpoint;
//     not after one that was not observed (CHK-1).
//   - A case that failed ends with a signal about the last step that failed, by
//     its executor: retries are spent then (SIG-1). The signal is observed when
//     it is issued.
//   - Where no step failed, and the source says that the run did, the signal is
//     about the last step that was observed: what the run came to rests on it. Its
//     class and code are those of the source's verdict, unknown without one.
//   - A run that failed and made no call has the execution "run", which failed.
//
// Digests are HMAC-SHA256 under the agent's secret: of the SHA-256 of content
// where the source has it; the idempotency key of origin|exec|0, where the
// effect asks for one. A checkpoint's digest is over its line's executions so
// far with their outputs, all that a source shows of a state.
func (s *EntryBuilder) Entries(c scenario.Case) []entry.Body {
	b := builder{EntryBuilder: s, c: c, wid: s.Workflow(c), agent: map[string]entry.Principal{}, state: map[entry.Principal]entry.Digest{}}
	var failed, last *scenario.Step
	steps := loggedSteps(&c)
	for i := range steps {
		step := &steps[i]
		if len(step.Attempts) > 0 { // the log has the final progress
			ended := *step
			ended.Attempt = *step.Final()
			step = &ended
		}
		b.step(step)
		if step.Failure != nil {
			failed = step
		}
		if step.Outcome != scenario.NotObserved {
			last = step
		}
	}
	switch {
	case c.Outcome != scenario.Failed:
	case failed != nil:
		b.signal(failed)
	default:
		b.signal(blamed(&c, last))
	}
	return b.out
}

// Writers returns the agents whose entries [EntryBuilder.Entries] returns for a case.
func Writers(c scenario.Case) []entry.Principal {
	var all []entry.Principal
	for _, step := range loggedSteps(&c) {
		if !slices.Contains(all, step.Agent) {
			all = append(all, step.Agent)
		}
	}
	return all
}

// loggedSteps returns the steps of a case that go into the log: its own steps, and a step for the
// whole run if the run failed before any step was observed.
func loggedSteps(c *scenario.Case) []scenario.Step {
	if c.Outcome != scenario.Failed || slices.ContainsFunc(c.Steps, func(s scenario.Step) bool { return s.Final().Outcome != scenario.NotObserved }) {
		return c.Steps
	}
	run := scenario.Step{ID: "run", Agent: c.Agent, Effect: entry.EffectNone, Attempt: scenario.Attempt{Outcome: scenario.Failed}}
	if slices.ContainsFunc(c.Steps, func(s scenario.Step) bool { return s.ID == run.ID }) {
		run.ID = scenario.LocalID(run.ID + "/" + c.ID)
	}
	run.Failure = blamed(c, &run).Failure
	return append(slices.Clip(c.Steps), run)
}

// blamed returns a step with the failure of the run. The effect of the step stays.
func blamed(c *scenario.Case, step *scenario.Step) *scenario.Step {
	failure := scenario.Failure{Label: scenario.UnknownLabel()}
	if c.Verdict != nil {
		failure = *c.Verdict
	}
	failure.Effects = entry.EffectsComplete
	if step.Effect == entry.EffectNone {
		failure.Effects = entry.EffectsNone
	}
	failure.ReplaySafety = step.ReplaySafety(failure.Effects)
	of := *step
	of.Failure = &failure
	return &of
}

// Workflow returns the workflow id of a case's entries.
func (s *EntryBuilder) Workflow(c scenario.Case) entry.WorkflowID {
	if s.Instance == "" {
		return c.Workflow
	}
	return entry.WorkflowID(scenario.LocalID(string(c.Workflow) + "@" + s.Instance))
}

// builder makes the entries of one case.
type builder struct {
	*EntryBuilder
	c     scenario.Case
	wid   entry.WorkflowID
	agent map[string]entry.Principal       // by step
	state map[entry.Principal]entry.Digest // what checkpoints digest
	out   []entry.Body
}

func (b *builder) header(step *scenario.Step, phase string) entry.Header {
	name := strings.Join([]string{b.Origin, b.File, b.Instance, b.c.ID, step.ID, phase}, "|")
	const version = 8 // RFC 9562: made as its maker likes
	jti := uuid.NewHash(sha256.New(), uuid.Nil, []byte(name), version).String()
	return entry.Header{V: 1, JTI: jti, Iss: step.Agent, Aud: b.Origin, Iat: b.Iat(jti), Wid: b.wid}
}

// exec is the local id of a step's execution, unique over cases and files.
func (b *builder) exec(step string) string { return scenario.LocalID(string(b.wid) + "/" + step) }

func (b *builder) step(step *scenario.Step) {
	b.agent[step.ID] = step.Agent
	b.state[step.Agent] = entry.DigestOf(string(b.state[step.Agent]) + "|" + b.exec(step.ID) + "|" + string(step.OutputDigest))
	switch {
	case step.Outcome == scenario.NotObserved:
		b.execution(step, entry.Planned)
		return
	case step.Effect != entry.EffectNone:
		b.execution(step, entry.Started)
	}
	if step.Outcome == scenario.Failed {
		b.execution(step, entry.Failed)
	} else {
		b.execution(step, entry.Confirmed)
	}
	if step.Checkpoint {
		after := entry.NewRef(step.Agent, b.exec(step.ID))
		b.out = append(b.out, &entry.Checkpoint{Header: b.header(step, "checkpoint"), Checkpoint: b.exec(step.ID), After: &after,
			Digest: b.keyed(step.Agent, string(b.state[step.Agent]))})
	}
}

// execution appends an entry of the step. The final entry has the result of the step.
func (b *builder) execution(step *scenario.Step, progress entry.Progress) {
	x := &entry.Execution{
		Header: b.header(step, string(progress)), Exec: b.exec(step.ID), Parents: []entry.Parent{},
		Effect: step.Effect, Progress: progress,
	}
	for _, p := range step.Parents {
		x.Parents = append(x.Parents, entry.Parent{Exec: entry.NewRef(b.agent[p.Step], b.exec(p.Step)), Dep: p.Dep})
	}
	if step.Effect == entry.EffectCompensable || step.Effect == entry.EffectIrrevocable || step.Effect == entry.EffectUndeclared {
		x.IdempotencyKey = b.keyed(step.Agent, b.Origin+"|"+string(x.Ref())+"|0")
	}
	if step.InputDigest != "" {
		x.InpHash = b.keyed(step.Agent, string(step.InputDigest))
	}
	if progress.Final() {
		x.CostMicroUSD, x.LatencyMS = step.CostMicroUSD, step.LatencyMS
		if step.OutputDigest != "" {
			x.OutHash = b.keyed(step.Agent, string(step.OutputDigest))
		}
	}
	b.out = append(b.out, x)
}

func (b *builder) signal(step *scenario.Step) {
	f := step.Failure
	s := &entry.Signal{
		Header: b.header(step, "signal"), Subject: entry.NewRef(step.Agent, b.exec(step.ID)),
		Class: f.Class, Code: f.Code, Standing: entry.StandingExecutor,
		Effects: f.Effects, ReplaySafety: f.ReplaySafety,
		Evidence: []entry.Evidence{{Digest: b.keyed(step.Agent, string(f.Evidence))}},
	}
	s.ObservedAt = s.Iat * 1000
	b.out = append(b.out, s)
}

// keyed is the digest of a text under the agent's secret.
func (b *builder) keyed(agent entry.Principal, text string) entry.Digest {
	mac := hmac.New(sha256.New, b.Secret(agent))
	mac.Write([]byte(text))
	return entry.KeyedDigestFrom(mac.Sum(nil))
}

package run

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/openai/openai-go/v3"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// Live is the runtime that makes attempts for real. A step with a tool is a
// request over HTTP or a process; one without is a call of a model at an
// endpoint in the form of OpenAI's chat completions. What may be called stands
// in the [LiveConfig] alone: a scenario names tools and models and can add none.
//
// Every attempt is one request or one process: nothing below is repeated in
// secret, and no redirect is followed. An attempt has a deadline, the stricter
// of the tool's and of what the case's budget leaves, and carries the step's
// idempotency key. What is known of its effect afterwards:
//
//   - none, if the step has none, if nothing was ever sent or started, or if
//     the answer is a refusal (a status from 400 to 499, 408 and 409 excepted);
//   - what the answer itself says in its member effects;
//   - complete, if the output came and was then found wanting;
//   - else unknown: after a timeout, a broken answer or a crash the effect may
//     have taken place, and only a probe of the authoritative state can tell.
//
// An attempt that differs from the first one does so in one of these ways:
// a model step is asked otherwise (liveprompt.go); Instead names the tool or
// model that takes its place; Before names what is called first. Where none of
// them is configured, the attempt is [NotObserved].
type Live struct {
	config LiveConfig
	models map[string]*liveModel
	tools  map[string]*liveTool
	prices map[string]recovery.Model
	client *http.Client
}

type liveModel struct {
	LiveModel
	name   string
	chat   openai.ChatCompletionService
	places places
}

type liveTool struct {
	LiveTool
	name   string
	places places
}

// places bounds how many calls are made at once; nil: there is no bound.
type places chan struct{}

// enter waits for a place.
func (p places) enter(ctx context.Context) error {
	if p == nil {
		return ctx.Err()
	}
	select {
	case p <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p places) leave() {
	if p != nil {
		<-p
	}
}

func newPlaces(n int64) places {
	if n == 0 {
		return nil
	}
	return make(places, n)
}

// NewLive makes the runtime of a configuration. It starts nothing. The policy's
// models have the prices.
func NewLive(c *LiveConfig, prices []recovery.Model) (*Live, error) {
	if wrong := c.check(); wrong != nil {
		return nil, wrong
	}
	l := &Live{config: *c, models: map[string]*liveModel{}, tools: map[string]*liveTool{}, prices: map[string]recovery.Model{}, client: newClient()}
	if l.config.LookupEnv == nil {
		l.config.LookupEnv = os.LookupEnv
	}
	for _, m := range prices {
		l.prices[m.Name] = m
	}
	for name, m := range c.Models {
		l.models[name] = &liveModel{LiveModel: m, name: name, chat: newChat(m, l.client), places: newPlaces(m.Concurrency)}
	}
	for name, t := range c.Tools {
		l.tools[name] = &liveTool{LiveTool: t, name: name, places: newPlaces(t.Concurrency)}
	}
	if wrong := l.checkEnvironment(); wrong != nil {
		return nil, wrong
	}
	return l, nil
}

// check refuses a case with a step whose tool, model or check is not configured.
func (l *Live) check(c *Case) *Error {
	for i := range c.Steps {
		s := &c.Steps[i]
		wrong := l.checkPlace(s)
		if wrong == nil && s.Expect != nil {
			for j := range s.Expect.Checks {
				if name := s.Expect.Checks[j].Tool; name != "" && l.tools[name] == nil {
					wrong = below("/expect/checks", j, notConfigured("/tool", "tool", name))
					break
				}
			}
		}
		if wrong != nil {
			return below("/steps", i, wrong)
		}
	}
	return nil
}

// checkPlace refuses a step that runs on nothing.
func (l *Live) checkPlace(s *Step) *Error {
	switch name := cmp.Or(s.Model, l.config.DefaultModel); {
	case s.Tool != "" && l.tools[s.Tool] == nil:
		return notConfigured("/tool", "tool", s.Tool)
	case s.Tool != "" || l.models[name] != nil:
		return nil
	case name == "":
		return malformed("/model", "is left out, and the live configuration has no default_model", "name a model in the step, or a default_model in the file of --live")
	default:
		return notConfigured("/model", "model", name)
	}
}

func notConfigured(field, what, name string) *Error {
	return malformed(field, fmt.Sprintf("names the %s %.60q, which is not in the live configuration", what, name),
		fmt.Sprintf("describe it under %ss in the file of --live, or correct its name", what))
}

// answer is what came of one call, before anything is demanded of it.
type answer struct {
	output   jsontext.Value // set where it succeeded
	raw      RawError       // else
	failed   bool
	effects  entry.Effects // what is known of the effect; empty: nothing
	reason   string
	evidence string // what the answer was

	confidence          *int64
	citations           []string
	tokensIn, tokensOut *int64
	cost                *int64
	model               string
}

// failure makes an answer of an error. The code is one of the taxonomy's.
func failure(code, reason, text string) answer {
	return answer{failed: true, raw: RawError{ProviderCode: code, Text: text}, reason: reason}
}

// Attempt implements [Runtime].
func (l *Live) Attempt(ctx context.Context, q Request) (Attempt, error) {
	if q.Way.Strategy == string(recovery.Reconcile) {
		return l.reconcile(ctx, q)
	}
	began := time.Now()
	p, ok, err := l.plan(ctx, q)
	if err != nil || !ok {
		return Attempt{Way: q.Way, Outcome: NotObserved}, err
	}
	var a answer
	switch {
	case p.failed != nil: // what comes before the attempt failed
		a = *p.failed
	case p.tool != nil:
		a, err = l.callTool(ctx, p.tool, &p.tool.Call, p.request(q))
	default:
		a, err = l.callModel(ctx, p, q)
	}
	if err != nil {
		return Attempt{}, err
	}
	out, err := l.conclude(ctx, q, p, a)
	elapsed := time.Since(began).Milliseconds()
	out.LatencyMS = &elapsed
	return out, err
}

// plan says what is to be called for an attempt; not ok where nothing is
// configured for the way it goes.
type plan struct {
	tool   *liveTool  // or
	model  *liveModel // of which one is set
	input  jsontext.Value
	ask    prompt
	failed *answer
}

func (l *Live) plan(ctx context.Context, q Request) (*plan, bool, error) {
	p := &plan{}
	var wrong *Error
	if p.input, wrong = resolve(q.Step.Input, q.Outputs); wrong != nil {
		a := failure("dependency_failed", "input_missing", wrong.Error())
		a.effects, p.failed = entry.EffectsNone, &a
		return p, true, nil
	}
	name := cmp.Or(q.Step.Tool, q.Way.Model, q.Step.Model, l.config.DefaultModel)
	var before map[string]Call
	var instead map[string]string
	if q.Step.Tool != "" {
		p.tool = l.tools[name]
		if p.tool == nil {
			return nil, false, fmt.Errorf("run: tool %q is not in the live configuration", name)
		}
		before, instead = p.tool.Before, p.tool.Instead
	} else {
		p.model = l.models[name]
		if p.model == nil && q.Way.Strategy != "" {
			return nil, false, nil // nobody can be asked
		}
		if p.model == nil {
			return nil, false, fmt.Errorf("run: model %q is not in the live configuration", name)
		}
		before, instead = p.model.Before, p.model.Instead
	}
	return l.alter(ctx, q, p, before, instead)
}

// alter makes the attempt differ from the first one as its way says.
func (l *Live) alter(ctx context.Context, q Request, p *plan, before map[string]Call, instead map[string]string) (*plan, bool, error) {
	strategy := recovery.Strategy(q.Way.Strategy)
	switch strategy {
	case "", recovery.Retry:
		return p, true, nil
	case recovery.FallbackModel:
		return p, p.model != nil, nil // a tool runs on no model
	}
	key := wayKey(q.Way)
	if other, ok := instead[key]; ok {
		if p.tool != nil {
			p.tool = l.tools[other]
		} else {
			p.model = l.models[other]
		}
		return p, true, nil
	}
	if call, ok := before[key]; ok {
		return l.prepare(ctx, q, p, &call)
	}
	var ok bool
	if p.model != nil {
		p.ask, ok = promptFor(q)
	}
	return p, ok, nil
}

// wayKey is the name of a way in Before and Instead: the variant of
// retry_altered, else the strategy.
func wayKey(w Way) string {
	if w.Strategy == string(recovery.RetryAltered) {
		return w.Variant
	}
	return w.Strategy
}

// prepare makes the call that stands before an attempt. Its answer may hold
// another input.
func (l *Live) prepare(ctx context.Context, q Request, p *plan, call *Call) (*plan, bool, error) {
	a, err := l.callTool(ctx, &liveTool{name: wayKey(q.Way)}, call, p.request(q))
	if err != nil {
		return nil, false, err
	}
	if a.failed {
		a.effects, a.reason = entry.EffectsNone, "before_failed" // the step itself was not begun
		p.failed = &a
		return p, true, nil
	}
	if input, ok := valueAt(a.output, "/input"); ok {
		p.input = input
	}
	return p, true, nil
}

// conclude turns an answer into an attempt: an output is compared with what is
// demanded of it, a failure is put into the taxonomy.
func (l *Live) conclude(ctx context.Context, q Request, p *plan, a answer) (Attempt, error) {
	out := Attempt{
		Way: Way{Model: a.model}, Outcome: OK, Output: a.output, Reason: a.reason, ConfidencePPM: a.confidence, Citations: a.citations,
		TokensIn: a.tokensIn, TokensOut: a.tokensOut, CostMicroUSD: a.cost,
	}
	if len(a.output) > 0 {
		out.OutputDigest = digest(string(a.output))
	}
	if !a.failed {
		v, err := q.Step.Expect.judge(a.output, func(c *Check, value jsontext.Value) (int64, error) {
			return l.grade(ctx, q, c, p.input, value)
		})
		if err != nil {
			return Attempt{}, err
		}
		out.Verified, out.Reason = v.verified, cmp.Or(v.reason, out.Reason)
		if v.confidence != nil {
			out.ConfidencePPM = v.confidence
		}
		if v.citations != nil {
			out.Citations = v.citations
		}
		if v.code == "" {
			return out, nil
		}
		a.failed, a.raw, a.evidence = true, RawError{ProviderCode: v.code}, out.OutputDigest
		if a.effects == "" {
			a.effects = entry.EffectsComplete
		}
	}
	out.Outcome, out.Output = Failed, nil
	out.Failure = failedWith(q.Step.Effect, a.raw, cmp.Or(a.evidence, digest(a.raw.Text)))
	if f := out.Failure; q.Step.Effect != entry.EffectNone {
		f.Effects = cmp.Or(a.effects, entry.EffectsUnknown)
		f.ReplaySafety = replaySafety(q.Step, f.Effects)
	}
	return out, nil
}

// grade asks the tool of a check for a score.
func (l *Live) grade(ctx context.Context, q Request, c *Check, input, value jsontext.Value) (int64, error) {
	tool := l.tools[c.Tool]
	if tool == nil {
		return 0, fmt.Errorf("run: tool %q of check %s is not in the live configuration", c.Tool, c.Name)
	}
	a, err := l.callTool(ctx, tool, &tool.Call, callRequest{
		Case: q.Case.ID, Step: q.Step.ID, Attempt: q.Attempt, Check: c.Name, Input: input, Output: value, deadlineMS: q.TimeLeftMS,
	})
	if err != nil || a.failed {
		return 0, err
	}
	score, ok := valueAt(a.output, "/score_ppm")
	if !ok {
		return onePPM, nil
	}
	return ppmOf(score), nil
}

// reconcile asks the probe of a tool whether the effect of a step took place.
// A probe that fails has not found out.
func (l *Live) reconcile(ctx context.Context, q Request) (Attempt, error) {
	tool := l.tools[q.Step.Tool]
	if tool == nil || tool.Probe == nil {
		return Attempt{Way: q.Way, Outcome: NotObserved}, nil
	}
	var p plan
	p.input, _ = resolve(q.Step.Input, q.Outputs) // without an input nothing was begun that is looked for
	began := time.Now()
	a, err := l.probe(ctx, tool, p.request(q))
	if err != nil {
		return Attempt{}, err
	}
	out := Attempt{Outcome: OK, Effects: entry.EffectsUnknown, Reason: cmp.Or(a.reason, "probe_undecided")}
	if a.failed {
		out.Reason = "probe_failed"
	} else if state, ok := valueAt(a.output, "/effects"); ok {
		switch effects := entry.Effects(contentText(state)); effects {
		case entry.EffectsNone, entry.EffectsComplete:
			out.Effects, out.Reason = effects, "probed"
		}
	}
	if output, ok := valueAt(a.output, "/output"); ok && out.Effects == entry.EffectsComplete {
		out.Output, out.OutputDigest = output, digest(string(output))
	}
	elapsed := time.Since(began).Milliseconds()
	out.LatencyMS = &elapsed
	return out, nil
}

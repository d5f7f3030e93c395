// Package live makes the attempts of a case for real: requests over HTTP, calls of
// models, programs. A [Config] says what may be called; [Runtime] calls it, compares
// the output with what the step expects, and says what is known of the effect.
package live

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// Runtime is the runtime that makes attempts for real. A step with a tool is a
// request over HTTP or a process; one without is a call of a model at an
// endpoint in the form of OpenAI's chat completions. What may be called stands
// in the [Config] alone: a scenario names tools and models and can add none.
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
type Runtime struct {
	config Config
	models map[string]*liveModel
	tools  map[string]*liveTool
	prices map[string]recovery.Model
	client *http.Client
}

type liveModel struct {
	Endpoint
	name   string
	places places
}

type liveTool struct {
	Tool
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

// New makes the runtime of a configuration. It starts nothing. The policy's
// models have the prices.
func New(c *Config, prices []recovery.Model) (*Runtime, error) {
	if wrong := c.check(); wrong != nil {
		return nil, wrong
	}
	l := &Runtime{config: *c, models: map[string]*liveModel{}, tools: map[string]*liveTool{}, prices: map[string]recovery.Model{}, client: newClient()}
	if l.config.LookupEnv == nil {
		l.config.LookupEnv = os.LookupEnv
	}
	for _, m := range prices {
		l.prices[m.Name] = m
	}
	for name, m := range c.Models {
		l.models[name] = &liveModel{Endpoint: m, name: name, places: newPlaces(m.Concurrency)}
	}
	for name, t := range c.Tools {
		l.tools[name] = &liveTool{Tool: t, name: name, places: newPlaces(t.Concurrency)}
	}
	if wrong := l.checkEnvironment(); wrong != nil {
		return nil, wrong
	}
	return l, nil
}

// Check refuses a case with a step whose tool, model or check is not configured.
func (l *Runtime) Check(c *scenario.Case) *scenario.Error {
	for i := range c.Steps {
		s := &c.Steps[i]
		wrong := l.checkPlace(s)
		if wrong == nil && s.Expect != nil {
			for j := range s.Expect.Checks {
				if name := s.Expect.Checks[j].Tool; name != "" && l.tools[name] == nil {
					wrong = scenario.Below("/expect/checks", j, notConfigured("/tool", "tool", name))
					break
				}
			}
		}
		if wrong != nil {
			return scenario.Below("/steps", i, wrong)
		}
	}
	return nil
}

// checkPlace refuses a step that runs on nothing.
func (l *Runtime) checkPlace(s *scenario.Step) *scenario.Error {
	switch name := cmp.Or(s.Model, l.config.DefaultModel); {
	case s.Tool != "" && l.tools[s.Tool] == nil:
		return notConfigured("/tool", "tool", s.Tool)
	case s.Tool != "" || l.models[name] != nil:
		return nil
	case name == "":
		return scenario.Malformed("/model", "is left out, and the live configuration has no default_model", "name a model in the step, or a default_model in the file of --live")
	default:
		return notConfigured("/model", "model", name)
	}
}

func notConfigured(field, what, name string) *scenario.Error {
	return scenario.Malformed(field, fmt.Sprintf("names the %s %.60q, which is not in the live configuration", what, name),
		fmt.Sprintf("describe it under %ss in the file of --live, or correct its name", what))
}

// answer is what came of one call, before anything is demanded of it.
type answer struct {
	output   jsontext.Value    // set where it succeeded
	raw      scenario.RawError // else
	failed   bool
	effects  entry.Effects // what is known of the effect; empty: nothing
	reason   string
	evidence entry.Digest // what the answer was

	confidence          *int64
	citations           []string
	tokensIn, tokensOut *int64
	cost                *int64
	model               string
}

// failure makes an answer of an error. The code is one of the taxonomy's.
func failure(code, reason, text string) answer {
	return answer{failed: true, raw: scenario.RawError{ProviderCode: code, Text: text}, reason: reason}
}

// Attempt implements [Runtime].
func (l *Runtime) Attempt(ctx context.Context, q scenario.Request) (scenario.Attempt, error) {
	if q.Variation.Strategy == string(recovery.Reconcile) {
		return l.reconcile(ctx, q)
	}
	began := time.Now()
	p, ok, err := l.plan(ctx, q)
	if err != nil || !ok {
		return scenario.Attempt{Variation: q.Variation, Outcome: scenario.NotObserved}, err
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
		return scenario.Attempt{}, err
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

func (l *Runtime) plan(ctx context.Context, q scenario.Request) (*plan, bool, error) {
	p := &plan{}
	var wrong *scenario.Error
	if p.input, wrong = resolve(q.Step.Input, q.Outputs); wrong != nil {
		a := failure("dependency_failed", "input_missing", wrong.Error())
		a.effects, p.failed = entry.EffectsNone, &a
		return p, true, nil
	}
	name := cmp.Or(q.Step.Tool, q.Variation.Model, q.Step.Model, l.config.DefaultModel)
	var before map[string]Call
	var instead map[string]string
	if q.Step.Tool != "" {
		p.tool = l.tools[name]
		if p.tool == nil {
			return nil, false, fmt.Errorf("live: tool %q is not in the live configuration", name)
		}
		before, instead = p.tool.Before, p.tool.Instead
	} else {
		p.model = l.models[name]
		if p.model == nil && q.Variation.Strategy != "" {
			return nil, false, nil // nobody can be asked
		}
		if p.model == nil {
			return nil, false, fmt.Errorf("live: model %q is not in the live configuration", name)
		}
		before, instead = p.model.Before, p.model.Instead
	}
	return l.alter(ctx, q, p, before, instead)
}

// alter makes the attempt differ from the first one as its way says.
func (l *Runtime) alter(ctx context.Context, q scenario.Request, p *plan, before map[string]Call, instead map[string]string) (*plan, bool, error) {
	strategy := recovery.Strategy(q.Variation.Strategy)
	switch strategy {
	case "", recovery.Retry:
		return p, true, nil
	case recovery.FallbackModel:
		return p, p.model != nil, nil // a tool runs on no model
	}
	key := variationKey(q.Variation)
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

// variationKey is the name of a variation in Before and Instead: the variant of
// retry_altered, else the strategy.
func variationKey(w scenario.Variation) string {
	if w.Strategy == string(recovery.RetryAltered) {
		return w.Variant
	}
	return w.Strategy
}

// prepare makes the call that stands before an attempt. Its answer may hold
// another input.
func (l *Runtime) prepare(ctx context.Context, q scenario.Request, p *plan, call *Call) (*plan, bool, error) {
	a, err := l.callTool(ctx, &liveTool{name: variationKey(q.Variation)}, call, p.request(q))
	if err != nil {
		return nil, false, err
	}
	if a.failed {
		a.effects, a.reason = entry.EffectsNone, "before_failed" // the step itself was not begun
		p.failed = &a
		return p, true, nil
	}
	if input, ok := scenario.ValueAt(a.output, "/input"); ok {
		p.input = input
	}
	return p, true, nil
}

// conclude turns an answer into an attempt: an output is compared with what is
// demanded of it, a failure is put into the taxonomy.
func (l *Runtime) conclude(ctx context.Context, q scenario.Request, p *plan, a answer) (scenario.Attempt, error) {
	out := scenario.Attempt{
		Variation: scenario.Variation{Model: a.model}, Outcome: scenario.OK, Output: a.output, Reason: a.reason, ConfidencePPM: a.confidence, Citations: a.citations,
		TokensIn: a.tokensIn, TokensOut: a.tokensOut, CostMicroUSD: a.cost,
	}
	if len(a.output) > 0 {
		out.OutputDigest = entry.DigestOf(a.output)
	}
	if !a.failed {
		v, err := q.Step.Expect.Judge(a.output, func(c *scenario.Check, value jsontext.Value) (int64, error) {
			return l.grade(ctx, q, c, p.input, value)
		})
		if err != nil {
			return scenario.Attempt{}, err
		}
		out.Verified, out.Reason = v.Verified, cmp.Or(v.Reason, out.Reason)
		if v.Confidence != nil {
			out.ConfidencePPM = v.Confidence
		}
		if v.Citations != nil {
			out.Citations = v.Citations
		}
		if v.Code == "" {
			return out, nil
		}
		a.failed, a.raw, a.evidence = true, scenario.RawError{ProviderCode: v.Code}, out.OutputDigest
		if a.effects == "" {
			a.effects = entry.EffectsComplete
		}
	}
	out.Outcome, out.Output = scenario.Failed, nil
	out.Failure = scenario.NewFailure(q.Step.Effect, a.raw, cmp.Or(a.evidence, entry.DigestOf(a.raw.Text)))
	if f := out.Failure; q.Step.Effect != entry.EffectNone {
		f.Effects = cmp.Or(a.effects, entry.EffectsUnknown)
		f.ReplaySafety = q.Step.ReplaySafety(f.Effects)
	}
	return out, nil
}

// grade asks the tool of a check for a score.
func (l *Runtime) grade(ctx context.Context, q scenario.Request, c *scenario.Check, input, value jsontext.Value) (int64, error) {
	tool := l.tools[c.Tool]
	if tool == nil {
		return 0, fmt.Errorf("live: tool %q of check %s is not in the live configuration", c.Tool, c.Name)
	}
	a, err := l.callTool(ctx, tool, &tool.Call, callRequest{
		Case: q.Case.ID, Step: q.Step.ID, Attempt: q.Attempt, Check: c.Name, Input: input, Output: value, deadlineMS: q.TimeLeftMS,
	})
	if err != nil || a.failed {
		return 0, err
	}
	score, ok := scenario.ValueAt(a.output, "/score_ppm")
	if !ok {
		return scenario.FullPPM, nil
	}
	return ppmOf(score), nil
}

// reconcile asks the probe of a tool whether the effect of a step took place.
// A probe that fails has not found out.
func (l *Runtime) reconcile(ctx context.Context, q scenario.Request) (scenario.Attempt, error) {
	tool := l.tools[q.Step.Tool]
	if tool == nil || tool.Probe == nil {
		return scenario.Attempt{Variation: q.Variation, Outcome: scenario.NotObserved}, nil
	}
	var p plan
	p.input, _ = resolve(q.Step.Input, q.Outputs) // without an input nothing was begun that is looked for
	began := time.Now()
	a, err := l.probe(ctx, tool, p.request(q))
	if err != nil {
		return scenario.Attempt{}, err
	}
	out := scenario.Attempt{Outcome: scenario.OK, Effects: entry.EffectsUnknown, Reason: cmp.Or(a.reason, "probe_undecided")}
	if a.failed {
		out.Reason = "probe_failed"
	} else if state, ok := scenario.ValueAt(a.output, "/effects"); ok {
		switch effects := entry.Effects(scenario.ContentText(state)); effects {
		case entry.EffectsNone, entry.EffectsComplete:
			out.Effects, out.Reason = effects, "probed"
		}
	}
	if output, ok := scenario.ValueAt(a.output, "/output"); ok && out.Effects == entry.EffectsComplete {
		out.Output, out.OutputDigest = output, entry.DigestOf(output)
	}
	elapsed := time.Since(began).Milliseconds()
	out.LatencyMS = &elapsed
	return out, nil
}

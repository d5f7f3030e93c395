package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// callTimeout bounds a call that no configuration bounds.
const callTimeout = 2 * time.Minute

// newClient is the client of all requests. It follows no redirect, reads no
// answer beyond its limit, and sends nothing twice: the transport of Go repeats
// a request that carries an idempotency key when its connection breaks, unless
// it cannot read the body again.
func newClient() *http.Client {
	return &http.Client{
		Transport:     sentOnce{http.DefaultTransport.(*http.Transport).Clone()},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type sentOnce struct{ transport *http.Transport }

// RoundTrip implements [http.RoundTripper].
func (s sentOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	once := *r
	once.GetBody = nil
	res, err := s.transport.RoundTrip(&once)
	if err == nil {
		res.Body = http.MaxBytesReader(nil, res.Body, outputMax)
	}
	return res, err
}

// timeLimit is the stricter of a call's own bound and of what is left.
func timeLimit(ownMS, leftMS int64) (limit time.Duration, budget bool) {
	limit = time.Duration(ownMS) * time.Millisecond
	if ownMS == 0 {
		limit = callTimeout
	}
	if left := time.Duration(leftMS) * time.Millisecond; leftMS > 0 && left < limit {
		return left, true
	}
	return limit, false
}

// errDeadline is the cause of a context that a time limit ended.
var errDeadline = errors.New("live: the call reached its time limit")

// callTool makes one call. An error is that the run itself is to end, or that
// the call cannot be made as it is configured.
func (l *Runtime) callTool(ctx context.Context, tool *liveTool, call *Call, r callRequest) (answer, error) {
	body, err := r.body(call.Raw)
	if err != nil {
		return answer{}, fmt.Errorf("live: request to tool %s: %w", tool.name, err)
	}
	if err := tool.places.enter(ctx); err != nil {
		return answer{}, err
	}
	defer tool.places.leave()
	limit, budget := timeLimit(call.TimeoutMS, r.deadlineMS)
	limited, cancel := context.WithTimeoutCause(ctx, limit, errDeadline)
	defer cancel()
	var a answer
	if call.URL != "" {
		a, err = l.callHTTP(limited, call, &r, body)
	} else {
		a, err = l.callProcess(limited, call, &r, body)
	}
	if ctx.Err() != nil {
		return answer{}, ctx.Err()
	}
	if err != nil {
		return answer{}, fmt.Errorf("live: tool %s: %w", tool.name, err)
	}
	if errors.Is(context.Cause(limited), errDeadline) && a.failed && a.effects != entry.EffectsNone {
		a = timedOut(budget)
	}
	if !a.failed && tool.Envelope {
		a = opened(a)
	}
	return a, nil
}

// timedOut is the answer of a call whose time was over: its own, or that of
// the budget of the case.
func timedOut(budget bool) answer {
	if budget {
		return failure("budget_exceeded", "deadline", "the deadline of the case passed")
	}
	return failure("timeout", "timeout", "the time of the call passed")
}

// callHTTP makes one request.
func (l *Runtime) callHTTP(ctx context.Context, call *Call, r *callRequest, body []byte) (answer, error) {
	method := call.Method
	if method == "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, call.URL, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	if r.Key != "" {
		req.Header.Set("Idempotency-Key", r.Key)
	}
	for name, value := range call.Headers {
		req.Header.Set(name, value)
	}
	for name, variable := range call.HeaderEnv {
		value, ok := l.config.LookupEnv(variable)
		if !ok {
			return answer{}, fmt.Errorf("header %s: the environment has no %s", name, variable)
		}
		req.Header.Set(name, value)
	}
	text, mediaType, refused := l.exchange(req)
	if refused != nil {
		return *refused, nil
	}
	return plainOutput(text, strings.HasPrefix(mediaType, "application/json")), nil
}

// exchange sends a request and reads the answer, or says why there is none to be
// used.
func (l *Runtime) exchange(req *http.Request) (text []byte, mediaType string, refused *answer) {
	fail := func(a answer) ([]byte, string, *answer) { return nil, "", &a }
	res, err := l.client.Do(req)
	if err != nil {
		return fail(unsent(err))
	}
	defer res.Body.Close()
	text, err = io.ReadAll(res.Body)
	switch _, tooLarge := errors.AsType[*http.MaxBytesError](err); {
	case tooLarge:
		return fail(failure("malformed_output", "output_too_large", ""))
	case err != nil:
		return fail(failure("unavailable", "response_cut", err.Error()))
	case res.StatusCode >= 300:
		return fail(refusal(res, text))
	}
	return text, res.Header.Get("Content-Type"), nil
}

// unsent is the answer of a request that got none. Without a connection there
// was no effect.
func unsent(err error) answer {
	a := failure("unavailable", "no_response", err.Error())
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		a.effects, a.reason = entry.EffectsNone, "no_connection"
	}
	return a
}

// refusal is the answer of a request with another status than success. What
// the body says of the error is read as it is in transcripts.
func refusal(res *http.Response, body []byte) answer {
	raw, _ := scenario.FailureIn(string(body))
	raw.HTTPStatus, raw.RetryAfterMS = res.StatusCode, scenario.RetryAfterMS(res.Header.Get("Retry-After"))
	if res.StatusCode < 400 {
		raw = scenario.RawError{ProviderCode: "invalid_request", Text: "redirects to " + res.Header.Get("Location")}
	}
	return answer{failed: true, raw: raw, evidence: entry.DigestOf(body), reason: fmt.Sprintf("http_%d", res.StatusCode),
		effects: effectsOfRefusal(res.StatusCode, body)}
}

// effectsOfRefusal is what a refusal leaves of the effect: what its body says, or
// what its status does; empty: nothing is known. A tool and a model's endpoint
// refuse alike.
func effectsOfRefusal(status int, body []byte) entry.Effects {
	for _, at := range []string{"/effects", "/error/effects"} {
		if declared, ok := scenario.ValueAt(body, at); ok {
			if known := knownEffects(scenario.ContentText(declared)); known != "" {
				return known
			}
		}
	}
	if refusesBefore(status) {
		return entry.EffectsNone
	}
	return ""
}

// refusesBefore says whether a status refuses a request before it has an
// effect. A request that took too long or met another may have had one.
func refusesBefore(status int) bool {
	return status < 500 && status != http.StatusRequestTimeout && status != http.StatusConflict
}

func knownEffects(text string) entry.Effects {
	switch e := entry.Effects(text); e {
	case entry.EffectsNone, entry.EffectsPartial, entry.EffectsComplete:
		return e
	}
	return ""
}

// plainOutput is the answer that a text is: JSON as it stands, another text as
// a string. What begins as JSON, or is said to be, and is not, was cut off.
func plainOutput(text []byte, isJSON bool) answer {
	trimmed := bytes.TrimSpace(text)
	if value := jsontext.Value(trimmed); value.IsValid() {
		if raw, failed := scenario.FailureIn(string(trimmed)); failed && value.Kind() == '{' {
			a := answer{failed: true, raw: raw, evidence: entry.DigestOf(trimmed), reason: "reported"}
			if declared, ok := scenario.ValueAt(value, "/effects"); ok {
				a.effects = knownEffects(scenario.ContentText(declared))
			}
			return a
		}
		return answer{output: value}
	}
	if isJSON || len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		a := failure("malformed_output", "truncated_json", "")
		a.evidence = entry.DigestOf(text)
		return a
	}
	quoted, err := jsontext.AppendQuote(nil, trimmed)
	if err != nil {
		return failure("malformed_output", "not_utf8", err.Error())
	}
	return answer{output: quoted}
}

// envelope is what a tool answers that says more than its output.
type envelope struct {
	Status        string         `json:"status"`
	Output        jsontext.Value `json:"output"`
	Reason        string         `json:"reason"`
	Effects       string         `json:"effects"`
	ConfidencePPM *int64         `json:"confidence_ppm"`
	Citations     []string       `json:"citations"`
}

// opened reads the envelope of an answer.
func opened(a answer) answer {
	var e envelope
	err := json.Unmarshal(a.output, &e, json.RejectUnknownMembers(true))
	wrong := checkEnvelope(&e)
	if err != nil || wrong != nil {
		bad := failure("malformed_output", "envelope_violation", "")
		bad.evidence = entry.DigestOf(a.output)
		return bad
	}
	out := answer{output: e.Output, reason: e.Reason, effects: knownEffects(e.Effects), confidence: e.ConfidencePPM, citations: e.Citations}
	if e.Status == string(scenario.Failed) {
		out.failed, out.output, out.raw, out.evidence = true, nil, scenario.RawError{ProviderCode: e.Reason}, entry.DigestOf(a.output)
		if out.raw.Typed() {
			return out
		}
		out.raw = scenario.RawError{ProviderCode: "tool_error"}
	}
	return out
}

func checkEnvelope(e *envelope) *scenario.Error {
	return scenario.FirstOf(scenario.OneOf(string(scenario.OK), string(scenario.Failed))("/status", e.Status), scenario.Optional("/reason", e.Reason, scenario.CheckWord),
		(&scenario.Attempt{ConfidencePPM: e.ConfidencePPM, Citations: e.Citations}).Check())
}

// probe asks whether an effect took place. A probe only reads, so that one that
// cannot be reached is asked again; the run still sees one answer.
func (l *Runtime) probe(ctx context.Context, tool *liveTool, r callRequest) (answer, error) {
	again := retrypolicy.NewBuilder[answer]().
		HandleIf(func(a answer, err error) bool {
			return err == nil && a.failed && scenario.Classify(a.raw).Class == "transient"
		}).
		WithMaxRetries(probesMax-1).WithBackoff(50*time.Millisecond, time.Second).ReturnLastFailure().Build()
	return failsafe.With(again).WithContext(ctx).Get(func() (answer, error) {
		return l.callTool(ctx, &liveTool{name: tool.name, places: tool.places}, tool.Probe, r)
	})
}

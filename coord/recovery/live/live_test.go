package live

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// endpoint is a server on loopback whose answers are written by a test. It
// keeps the requests that it got.
type endpoint struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
}

func serve(t *testing.T, answer http.HandlerFunc) *endpoint {
	t.Helper()
	e := &endpoint{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read request: %v", err)
		}
		e.mu.Lock()
		e.requests, e.bodies = append(e.requests, r), append(e.bodies, string(body))
		e.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(e.Close)
	return e
}

// count is the number of requests so far.
func (e *endpoint) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.requests)
}

// answers gives the texts in turn, the last for ever.
func answers(texts ...string) http.HandlerFunc {
	next := 0
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		status, text := http.StatusOK, texts[min(next, len(texts)-1)]
		if code, rest, ok := strings.Cut(text, " "); ok && len(code) == 3 && '0' <= code[0] && code[0] <= '9' {
			status, _ = strconv.Atoi(code)
			text = rest
		}
		if status == 429 {
			w.Header().Set("Retry-After", "3")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
		next++
	}
}

// newLive makes a runtime of a configuration with one tool, "tool".
func newLive(t *testing.T, c Config) *Runtime {
	t.Helper()
	l, err := New(&c, testPrices)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var testPrices = []recovery.Model{{Name: "primary", InputPrice: 3_000_000, OutputPrice: 15_000_000}}

// toolStep is a step that calls the tool, with an effect that can be undone.
func toolStep(input string) scenario.Step {
	return scenario.Step{ID: "s", Agent: "a", Tool: "tool", Effect: entry.EffectCompensable, Input: jsontext.Value(input)}
}

func modelStep(input string) scenario.Step {
	return scenario.Step{ID: "s", Agent: "a", Effect: entry.EffectNone, Input: jsontext.Value(input)}
}

// try makes one attempt of a step in the given way.
func try(t *testing.T, l *Runtime, step scenario.Step, way scenario.Variation) scenario.Attempt {
	t.Helper()
	q := scenario.Request{Case: &scenario.Case{ID: "c", Steps: []scenario.Step{step}}, Step: &step, Variation: way, Key: "key-1"}
	if way.Strategy != "" {
		q.Attempt, q.Failure = 1, &scenario.Failure{Label: scenario.Label{Class: "output", Code: "malformed"}}
	}
	a, err := l.Attempt(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// told is what an attempt tells, in short: outcome, label, effects, reason.
func told(a scenario.Attempt) string {
	parts := []string{string(a.Outcome)}
	if a.Failure != nil {
		parts = append(parts, a.Failure.String(), string(a.Failure.Effects), string(a.Failure.ReplaySafety))
	}
	if a.Reason != "" {
		parts = append(parts, a.Reason)
	}
	return strings.Join(parts, " ")
}

// What a tool over HTTP answers, and what is known of its effect then.
func TestLiveHTTP(t *testing.T) {
	for _, c := range []struct{ desc, answer, want string }{
		{"an output", `{"id": 7}`, "ok"},
		{"a text", `"7"`, "ok"},
		{"a limit", `429 {"error": {"code": "rate_limit_exceeded"}}`, "failed capacity.rate_limited none safe http_429"},
		{"an overload", `529 {"error": {"type": "overloaded_error"}}`, "failed capacity.overloaded unknown unknown http_529"},
		{"an error inside", `500 {"error": {"message": "x", "cause": {"code": "insufficient_quota"}}}`, "failed capacity.quota_exhausted unknown unknown http_500"},
		{"an error of the server", `500 oops`, "failed transient.unavailable unknown unknown http_500"},
		{"an error that knows its effects", `503 {"error": "x", "effects": "partial"}`, "failed transient.unavailable partial unknown http_503"},
		{"a refusal", `403 {}`, "failed access.denied none safe http_403"},
		{"a conflict", `409 {}`, "failed state.conflict unknown unknown http_409"},
		{"a redirect", `302 {}`, "failed request.invalid none safe http_302"},
		{"truncated JSON", `{"id": `, "failed output.malformed unknown unknown truncated_json"},
		{"an error with success", `{"isError": true, "status": 422}`, "failed request.invalid unknown unknown reported"},
	} {
		e := serve(t, answers(c.answer))
		l := newLive(t, Config{Tools: map[string]Tool{"tool": {Call: Call{URL: e.URL}}}})
		a := try(t, l, toolStep(`{"sku": 1}`), scenario.Variation{})
		if got := told(a); got != c.want {
			t.Errorf("%s: %s, want %s", c.desc, got, c.want)
		}
		if a.LatencyMS == nil || (a.Outcome == scenario.OK) != (a.OutputDigest != "") || a.Failure != nil && a.Failure.Evidence == "" {
			t.Errorf("%s: incomplete %+v", c.desc, a)
		}
		if strings.HasPrefix(c.answer, "429") && *a.Failure.Raw.RetryAfterMS != 3000 {
			t.Errorf("%s: retry after %v", c.desc, a.Failure.Raw.RetryAfterMS)
		}
		if got := e.requests[0].Header.Get("Idempotency-Key"); got != "key-1" || e.count() != 1 {
			t.Errorf("%s: %d requests, key %q", c.desc, e.count(), got)
		}
		if want := `{"case":"c","step":"s","attempt":0,"idempotency_key":"key-1","input":{"sku":1}}`; e.bodies[0] != want {
			t.Errorf("%s: body %s", c.desc, e.bodies[0])
		}
	}
}

// What happens to connections: none, one that hangs, one that breaks. None of
// it is tried twice in secret.
func TestLiveHTTPConnections(t *testing.T) {
	gone := serve(t, answers("{}"))
	gone.Close()
	for _, c := range []struct {
		desc   string
		answer http.HandlerFunc
		left   int64 // of the case's deadline
		want   string
	}{
		{"no connection", nil, 0, "failed transient.unavailable none safe no_connection"},
		{"a hang", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 0, "failed transient.timeout unknown unknown timeout"},
		{"the deadline of the case", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 20, "failed budget.exceeded unknown unknown deadline"},
		{"broken before the answer", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, "failed transient.unavailable unknown unknown no_response"},
		{"broken in the answer", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"id": 7`)
		}, 0, "failed transient.unavailable unknown unknown response_cut"},
		{"an answer of the largest size", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `"`+strings.Repeat("x", outputMax-2)+`"`)
		}, 0, "ok"},
		{"an answer beyond it", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `"`+strings.Repeat("x", outputMax-1)+`"`)
		}, 0, "failed output.malformed unknown unknown output_too_large"},
	} {
		url, e := gone.URL, gone
		if c.answer != nil {
			e = serve(t, c.answer)
			url = e.URL
		}
		call := Call{URL: url, TimeoutMS: 60_000}
		if c.desc == "a hang" {
			call.TimeoutMS = 20
		}
		l := newLive(t, Config{Tools: map[string]Tool{"tool": {Call: call}}})
		step := toolStep(`1`)
		a, err := l.Attempt(t.Context(), scenario.Request{Case: &scenario.Case{ID: "c"}, Step: &step, Key: "k", TimeLeftMS: c.left})
		if err != nil {
			t.Fatal(err)
		}
		if got := told(a); got != c.want {
			t.Errorf("%s: %s, want %s", c.desc, got, c.want)
		}
		// On a busy machine the time may be over before the request is on its way.
		ends := c.left != 0 || call.TimeoutMS < 60_000
		if n := e.count(); c.answer != nil && n != 1 && (!ends || n != 0) {
			t.Errorf("%s: %d requests", c.desc, n)
		}
	}
}

// The client of Go repeats a request with an idempotency key when a connection
// that was used before breaks; ours does not.
func TestLiveSendsOnce(t *testing.T) {
	var answered atomic.Bool
	e := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if answered.Swap(true) {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "{}")
	})
	l := newLive(t, Config{Tools: map[string]Tool{"tool": {Call: Call{URL: e.URL}}}, Models: map[string]Endpoint{"m": {BaseURL: e.URL}}, DefaultModel: "m"})
	try(t, l, toolStep(`1`), scenario.Variation{})
	if got := told(try(t, l, toolStep(`1`), scenario.Variation{})); got != "failed transient.unavailable unknown unknown no_response" || e.count() != 2 {
		t.Errorf("%s after %d requests", got, e.count())
	}
	answered.Store(false)
	try(t, l, modelStep(`"x"`), scenario.Variation{})
	if got := told(try(t, l, modelStep(`"x"`), scenario.Variation{})); got != "failed transient.unavailable none safe no_response" || e.count() != 4 {
		t.Errorf("model: %s after %d requests", got, e.count())
	}
}

// Headers come from the configuration and the environment; without one of them
// there is no live run.
func TestLiveHeaders(t *testing.T) {
	e := serve(t, answers("{}"))
	tool := Tool{Call: Call{URL: e.URL, Method: "PUT", Raw: true, Headers: map[string]string{"X-A": "1"}, HeaderEnv: map[string]string{"X-B": "TOKEN"}}}
	c := Config{Tools: map[string]Tool{"tool": tool}, LookupEnv: func(name string) (string, bool) { return "secret", name == "TOKEN" }}
	try(t, newLive(t, c), toolStep(`[1]`), scenario.Variation{})
	r := e.requests[0]
	if r.Method != http.MethodPut || r.Header.Get("X-A") != "1" || r.Header.Get("X-B") != "secret" || e.bodies[0] != "[1]" {
		t.Errorf("request %s %v %q", r.Method, r.Header, e.bodies[0])
	}
	c.LookupEnv = func(string) (string, bool) { return "", false }
	for field, missing := range map[string]Config{
		"/tools/tool/header_env/X-B":       c,
		"/tools/tool/probe/header_env/X-B": {Tools: map[string]Tool{"tool": {Call: Call{URL: e.URL}, Probe: &tool.Call}}, LookupEnv: c.LookupEnv},
		"/models/m/key_env":                {Models: map[string]Endpoint{"m": {BaseURL: e.URL, KeyEnv: "TOKEN"}}, LookupEnv: c.LookupEnv},
		"/models/m/before/reflect/header_env/X-B": {Models: map[string]Endpoint{"m": {BaseURL: e.URL, Before: map[string]Call{"reflect": tool.Call}}},
			LookupEnv: c.LookupEnv},
	} {
		_, err := New(&missing, nil)
		if wrong, ok := errors.AsType[*scenario.Error](err); !ok || wrong.Field != field || wrong.Detail != "the environment has no TOKEN" {
			t.Errorf("%s: error %v", field, err)
		}
	}
	if e.count() != 1 {
		t.Errorf("%d requests", e.count())
	}
}

// An envelope says more than the output; one that breaks its form is malformed.
func TestLiveEnvelope(t *testing.T) {
	for _, c := range []struct{ answer, want string }{
		{`{"status": "ok", "output": {"n": 1}, "confidence_ppm": 900000, "citations": ["doc:1"], "reason": "cached"}`, "ok cached"},
		{`{"status": "failed", "reason": "quota_exhausted", "effects": "none"}`, "failed capacity.quota_exhausted none safe quota_exhausted"},
		{`{"status": "failed", "reason": "odd"}`, "failed tool.error unknown unknown odd"},
		{`{"status": "done"}`, "failed output.malformed unknown unknown envelope_violation"},
		{`{"status": "ok", "output": 1, "confidence_ppm": 1000001}`, "failed output.malformed unknown unknown envelope_violation"},
		{`{"status": "ok", "outptu": 1}`, "failed output.malformed unknown unknown envelope_violation"},
	} {
		e := serve(t, answers(c.answer))
		a := try(t, newLive(t, Config{Tools: map[string]Tool{"tool": {Call: Call{URL: e.URL}, Envelope: true}}}), toolStep("1"), scenario.Variation{})
		if got := told(a); got != c.want {
			t.Errorf("%s: %s, want %s", c.answer, got, c.want)
		}
		if a.Outcome == scenario.OK && (*a.ConfidencePPM != 900_000 || !slices.Equal(a.Citations, []string{"doc:1"}) || a.OutputDigest != entry.DigestOf(`{"n": 1}`)) {
			t.Errorf("attempt %+v", a)
		}
	}
}

// A way is gone only where something is configured for it.
func TestLiveWays(t *testing.T) {
	other, reset, tool := serve(t, answers(`"other"`)), serve(t, answers(`{"input": {"sku": 2}}`, "500 x")), serve(t, answers(`"tool"`))
	l := newLive(t, Config{Tools: map[string]Tool{
		"tool": {Call: Call{URL: tool.URL, Raw: true}, Instead: map[string]string{"alternate_tool": "spare", "fail_reassign": "spare"},
			Before: map[string]Call{"repair_args": {URL: reset.URL}, "state_reset": {URL: reset.URL}}},
		"spare": {Call: Call{URL: other.URL}},
	}})
	for _, c := range []struct {
		way  scenario.Variation
		want string
	}{
		{scenario.Variation{Strategy: "retry"}, "ok tool 1"},
		{scenario.Variation{Strategy: "retry_altered", Variant: "alternate_tool"}, "ok other 1"},
		{scenario.Variation{Strategy: "fail_reassign"}, "ok other 1"},
		{scenario.Variation{Strategy: "retry_altered", Variant: "repair_args"}, `ok tool {"sku": 2}`},
		{scenario.Variation{Strategy: "state_reset", Variant: "start"}, "failed transient.unavailable none safe before_failed"},
		{scenario.Variation{Strategy: "retry_altered", Variant: "reread"}, "not_observed"},
		{scenario.Variation{Strategy: "retry_altered", Variant: "reflect"}, "not_observed"},
		{scenario.Variation{Strategy: "fallback_model", Model: "primary"}, "not_observed"},
		{scenario.Variation{Strategy: "checkpoint_resume"}, "not_observed"},
		{scenario.Variation{Strategy: "reconcile"}, "not_observed"},
	} {
		a := try(t, l, toolStep(`1`), c.way)
		got := told(a)
		switch scenario.ContentText(a.Output) {
		case "other":
			got += " other 1"
		case "tool":
			got += " tool " + tool.bodies[tool.count()-1]
		}
		if got != c.want {
			t.Errorf("%+v: %s, want %s", c.way, got, c.want)
		}
	}
	if want := `{"case":"c","step":"s","attempt":1,"strategy":"retry_altered","variant":"repair_args","class":"output","code":"malformed","idempotency_key":"key-1","input":1}`; reset.bodies[0] != want {
		t.Errorf("before: %s", reset.bodies[0])
	}
}

// The input of a step takes in what earlier steps gave.
func TestLiveInputTakesOutputs(t *testing.T) {
	e := serve(t, answers(`{}`))
	l := newLive(t, Config{Tools: map[string]Tool{"tool": {Call: Call{URL: e.URL, Raw: true}}}})
	outputs := map[string]jsontext.Value{"a": jsontext.Value(`{"items": [{"id": 7}, "x"]}`)}
	for input, want := range map[string]string{
		`{"n": [{"$from": "a", "at": "/items/0/id"}, 2], "all": {"$from": "a"}}`: `{"all":{"items":[{"id":7},"x"]},"n":[7,2]}`,
		`{"$from": "b"}`:                   "failed coord.dependency_failed none safe input_missing",
		`{"$from": "a", "at": "/items/2"}`: "failed coord.dependency_failed none safe input_missing",
		`{"$from": "a", "at": "items"}`:    "failed coord.dependency_failed none safe input_missing",
		`{"$from": "a", "more": 1}`:        `{"$from":"a","more":1}`,
		strings.Repeat("[", inputDepthMax) + strings.Repeat("]", inputDepthMax):     strings.Repeat("[", inputDepthMax) + strings.Repeat("]", inputDepthMax),
		strings.Repeat("[", inputDepthMax+2) + strings.Repeat("]", inputDepthMax+2): "failed coord.dependency_failed none safe input_missing",
	} {
		step, before := toolStep(input), e.count()
		a, err := l.Attempt(t.Context(), scenario.Request{Case: &scenario.Case{ID: "c"}, Step: &step, Outputs: outputs})
		if err != nil {
			t.Fatal(err)
		}
		got := told(a)
		if e.count() > before {
			got = e.bodies[before]
		}
		if got != want {
			t.Errorf("%.60s: %s, want %s", input, got, want)
		}
	}
}

// A probe finds out whether an effect took place. One that cannot be reached
// is asked again, and then has not found out.
func TestLiveProbe(t *testing.T) {
	for _, c := range []struct {
		answers []string
		want    string
		count   int
	}{
		{[]string{`{"effects": "none"}`}, "none probed", 1},
		{[]string{`{"effects": "complete", "output": {"id": 7}}`}, "complete probed", 1},
		{[]string{`{"effects": "unknown"}`}, "unknown probe_undecided", 1},
		{[]string{`7`}, "unknown probe_undecided", 1},
		{[]string{"503 x", `{"effects": "none"}`}, "none probed", 2},
		{[]string{"503 x"}, "unknown probe_failed", probesMax},
		{[]string{"403 x"}, "unknown probe_failed", 1},
	} {
		e := serve(t, answers(c.answers...))
		l := newLive(t, Config{Tools: map[string]Tool{"tool": {Call: Call{URL: e.URL}, Probe: &Call{URL: e.URL}}}})
		a := try(t, l, toolStep("1"), scenario.Variation{Strategy: "reconcile"})
		if got := string(a.Effects) + " " + a.Reason; a.Outcome != scenario.OK || got != c.want || e.count() != c.count {
			t.Errorf("%q: %s after %d requests, want %s after %d", c.answers, got, e.count(), c.want, c.count)
		}
		if (a.OutputDigest != "") != (len(a.Output) > 0) {
			t.Errorf("%q: %+v", c.answers, a)
		}
	}
}

// A configuration that cannot be used is refused.
func TestLiveMisconfigured(t *testing.T) {
	for doc, want := range map[string]string{
		"models: {m: {base_url: nowhere}}":                                      "live.yaml: line 1: field /models/m/base_url: \"nowhere\" is not an address",
		"models: {m: {base_url: \"http://a:b@c\"}}":                             "/models/m/base_url: holds a password",
		"default_model: m":                                                      "/default_model: \"m\" is not one of the models",
		"tools: {t: {}}":                                                        "/tools/t: needs either url or command",
		"tools: {t: {command: [no-such-program-here]}}":                         "/tools/t/command: \"no-such-program-here\" is not a program",
		"tools: {t: {command: [./no-such-program], dir: .}}":                    "/tools/t/command: \"./no-such-program\" is not a program",
		"tools: {t: {command: [sh], dir: nowhere}}":                             "/tools/t/dir: \"nowhere\" is not a directory",
		"tools: {t: {url: \"http://a\", method: \"A B\"}}":                      "/tools/t/method: \"A B\" is not a method",
		"tools: {t: {url: \"http://a\", instead: {alternate_tool: u}}}":         "/tools/t/instead/alternate_tool: names \"u\"",
		"tools: {t: {url: \"http://a\", before: {retry: {url: \"http://a\"}}}}": "/tools/t/before/retry: is \"retry\"",
		"tools: {t: {url: \"http://a\", concurrency: 10001}}":                   "/tools/t/concurrency: is 10001",
		"tools: {t: {url: \"http://a\", timeout_ms: -1}}":                       "/tools/t/timeout_ms: is -1",
		"tools:\n  t:\n    urll: http://a":                                      "line 3: field /tools/t/urll: is not a member of a live configuration",
		"tools: {t: {url: \"http://a\"}}\ntools: {}":                            "line 2: is not a live configuration in YAML: ",
		"# " + strings.Repeat("x", configBytesMax):                              "has more than 1048576 bytes",
	} {
		_, err := DecodeConfig("live.yaml", []byte(doc))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", doc, err, want)
		}
		if err != nil {
			_ = inputError(t, err)
		}
	}
	if _, err := DecodeConfig("live.yaml", []byte("tools: {t: {url: \"http://a\"}}\n#"+strings.Repeat("x", configBytesMax-33))); err != nil {
		t.Errorf("a configuration of the largest size: %v", err)
	}
}

// No more calls are made at once than a tool allows.
func TestLiveConcurrency(t *testing.T) {
	arrived, release := make(chan struct{}, 2), make(chan struct{})
	e := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		_, _ = io.WriteString(w, "{}")
	})
	l := newLive(t, Config{Tools: map[string]Tool{"tool": {Call: Call{URL: e.URL}, Concurrency: 1}}})
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() { try(t, l, toolStep("1"), scenario.Variation{}) })
	}
	<-arrived
	if len(l.tools["tool"].places) != 1 || e.count() != 1 {
		t.Errorf("%d requests at once", e.count())
	}
	close(release)
	calls.Wait()
	if e.count() != 2 {
		t.Errorf("%d requests", e.count())
	}
}

func FuzzDecodeLive(f *testing.F) {
	f.Add("models: {m: {base_url: \"http://a\", before: {reflect: {command: [sh]}}}}\ntools: {t: {url: \"http://a\", probe: {url: \"http://b\"}}}")
	f.Add("tools: &a {t: *a}")
	f.Add("- 1")
	f.Fuzz(func(t *testing.T, doc string) {
		c, err := DecodeConfig("live.yaml", []byte(doc))
		if err != nil {
			_ = inputError(t, err)
			return
		}
		if _, err := New(c, nil); err != nil {
			t.Fatalf("%q is read and then refused: %v", doc, err)
		}
	})
}

// An input stays as it is where it names no output.
func FuzzResolveInput(f *testing.F) {
	f.Add(`{"a": [1, {"b": "c"}]}`)
	f.Add(`{"$from": "a", "at": "/0"}`)
	f.Fuzz(func(t *testing.T, input string) {
		if !jsontext.Value(input).IsValid() {
			return // no input of a step
		}
		outputs := map[string]jsontext.Value{"a": jsontext.Value(`[7]`)}
		got, wrong := resolve(jsontext.Value(input), outputs)
		if wrong != nil || strings.Contains(input, "from") || strings.Contains(input, `\u`) {
			return
		}
		if !equalJSON(got, jsontext.Value(input)) {
			t.Fatalf("%s became %s", input, got)
		}
	})
}

// The configuration in the documents is one.
func TestLiveConfigurationInTheDocuments(t *testing.T) {
	page, err := os.ReadFile("../../../docs/scenario.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("no configuration in docs/scenario.md")
	}
	c, err := DecodeConfig("scenario.md", []byte(strings.NewReplacer("./repair-arguments", "sh", "./phone", "sh").Replace(text)))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Models) != 2 || len(c.Tools) != 2 || c.Tools["book"].Probe == nil || !c.Tools["book_by_phone"].Envelope {
		t.Errorf("configuration %+v", c)
	}
}

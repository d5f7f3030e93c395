package ask_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/ask"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/schematest"
)

// vector is a vector of testdata/vectors/decide.
type vector struct {
	Policy  jsontext.Value    `json:"policy"`
	History *recovery.History `json:"history"`
	World   struct {
		Result recovery.Result `json:"result"`
		Probe  entry.Effects   `json:"probe"`
	} `json:"world"`
	Want jsontext.Value `json:"want"`
}

// step is one decision of a vector.
type step struct {
	recovery.Action
	Rule recovery.Rule `json:"rule"`
}

// TestVectors asks the questions of every vector, one after the other, each with the rungs that the
// answers before gave. The decisions are those of the vector.
func TestVectors(t *testing.T) {
	files, err := filepath.Glob("../../../testdata/vectors/decide/*.json")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d vectors: %v", len(files), err)
	}
	asked, schema := 0, schematest.Compile(t, ask.Schema("question"))
	answers := schematest.Compile(t, ask.Schema("decision"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		var v vector
		must(t, json.Unmarshal(text, &v))
		if v.History == nil {
			continue // the default policy
		}
		p := recovery.Default()
		if v.Policy.Kind() == '{' {
			p, err = recovery.Load(file, fmt.Appendf(nil, `{"recovery":%s}`, v.Policy))
			must(t, err)
		}
		var want []step
		got := []step{}
		must(t, json.Unmarshal(v.Want, &want))
		for reported, now := v.History.Probe, max(v.History.StartedAt, 1); len(got) < len(want); asked++ {
			if after := v.History.Failure.RetryAfterMS; after != nil && *after < 0 { // no service asks for that
				_, err := ask.Decode(encode(t, ask.Question{History: *v.History}))
				if wrong, ok := errors.AsType[*scenario.Error](err); !ok || wrong.Field != "/history/failure/retry_after_ms" {
					t.Errorf("%s: %v", file, err)
				}
				break
			}
			body := encode(t, ask.Question{History: *v.History, ElapsedMS: now - v.History.StartedAt, Explain: true})
			takes(t, schema, body)
			q, err := ask.Decode(body)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			d := q.Decide(p)
			answer := encode(t, d)
			takes(t, answers, answer)
			got = append(got, step{d.Action, d.Rule})
			if last := d.Reasoning[len(d.Reasoning)-1]; last.Stage != "result" || last.Finding != d.Action.String() {
				t.Errorf("%s: the reasoning ends with %+v, the action is %s", file, last, d.Action)
			}
			v.advance(t, d, &now, reported)
		}
		if diff := cmp.Diff(want[:len(got)], got); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
	if asked < 300 {
		t.Errorf("%d questions asked", asked)
	}
}

// advance appends the rung of an answer, with the result that the vector's world gives.
func (v *vector) advance(t *testing.T, d *ask.Decision, now *int64, reported entry.Effects) {
	t.Helper()
	var r recovery.Rung
	must(t, json.Unmarshal(encode(t, d.Rung), &r, json.RejectUnknownMembers(true)))
	r.Result = recovery.ResultOK
	if d.Action.Strategy.Attempts() {
		r.Result = v.World.Result
	}
	v.History.Rungs = append(v.History.Rungs, r)
	switch {
	case d.Action.Strategy == recovery.Reconcile:
		v.History.Probe = v.World.Probe
	case d.Action.Strategy.Attempts():
		v.History.Probe = reported
	}
	*now += d.Action.WaitMS
}

// A raw error stands in the place of class and code.
func TestRawError(t *testing.T) {
	for _, c := range []struct{ question, want, effects string }{
		{`{"history":{"case":"a","effect":"none"},"error":{"http_status":429,"retry_after_ms":7000}}`, "capacity.rate_limited", "none"},
		{`{"history":{"case":"a","effect":"compensable"},"error":{"provider_code":"TimeoutError"}}`, "transient.timeout", "unknown"},
		{`{"history":{"case":"a","effect":"compensable","failure":{"effects":"none"}},"error":{"provider_code":"TimeoutError"}}`, "transient.timeout", "none"},
		{`{"history":{"case":"a"},"error":{"text":"it rained"}}`, "unknown", "unknown"},
		{`{"history":{"case":"a"},"error":{}}`, "unknown", "unknown"},
	} {
		q, err := ask.Decode([]byte(c.question))
		must(t, err)
		d := q.Decide(recovery.Default())
		if d.Failure.String() != c.want || string(q.Classified(recovery.Default()).Failure.Effects) != c.effects {
			t.Errorf("%s: %s with effects %s", c.question, d.Failure, q.Classified(recovery.Default()).Failure.Effects)
		}
		if c.want == "capacity.rate_limited" && d.Action.WaitMS != 7000 {
			t.Errorf("asked to wait 7000 ms, waits %d", d.Action.WaitMS)
		}
	}
}

// What is no question is refused, with the member and a remedy.
func TestRefusals(t *testing.T) {
	good := `{"history":{"case":"a","step":"s","failure":{"class":"tool","code":"error"},"rungs":[{"class":"tool","code":"error","rule":{"id":"r","rung":0},"strategy":"retry","result":"failed"}]}}`
	if _, err := ask.Decode([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, field string }{
		{`"case":"a"`, `"case":""`, "/history/case"},
		{`"case":"a"`, `"case":"a b"`, "/history/case"},
		{`"case":"a"`, `"case":7`, "/history/case"},
		{`"case":"a"`, `"case":"a","nope":1`, "/history/nope"},
		{`"case":"a"`, `"case":"a","case":"b"`, "/history/case"},
		{`"case":"a"`, `"case":"a","effect":"some"`, "/history/effect"},
		{`"case":"a"`, `"case":"a","probe":"partial"`, "/history/probe"},
		{`"case":"a"`, `"case":"a","risk":"huge"`, "/history/risk"},
		{`"case":"a"`, `"case":"a","started_at":-1`, "/history/started_at"},
		{`"case":"a"`, `"case":"a","seed":9007199254740992`, "/history/seed"},
		{`"case":"a"`, `"case":"a","budget":{"tokens":-1}`, "/history/budget/tokens"},
		{`"case":"a"`, `"case":"a","tags":["A B"]`, "/history/tags/0"},
		{`"case":"a"`, `"case":"a","tags":[` + strings.TrimSuffix(strings.Repeat(`"t",`, 33), ",") + `]`, "/history/tags"},
		{`"class":"tool","code":"error"},`, `"class":"tool"},`, "/history/failure/code"},
		{`"class":"tool","code":"error"},`, `},`, "/history/failure/class"},
		{`"class":"tool","code":"error"},`, `"class":"tool","code":"error","effects":"some"},`, "/history/failure/effects"},
		{`"strategy":"retry"`, `"strategy":"pray"`, "/history/rungs/0/strategy"},
		{`"result":"failed"`, `"result":"bad"`, "/history/rungs/0/result"},
		{`"rung":0`, `"rung":-2`, "/history/rungs/0/rule/rung"},
		{`"rung":0`, `"rung":0.5`, "/history/rungs/0/rule/rung"},
		{`}]}}`, `}]},"elapsed_ms":-1}`, "/elapsed_ms"},
		{`}]}}`, `}]},"error":{}}`, "/error"},
		{`"class":"tool","code":"error"},"rungs"`, `},"rungs"`, "/history/failure/class"},
		{`}]}}`, `}]}`, ""},
		{`{"history":`, `[`, ""},
	} {
		_, err := ask.Decode([]byte(strings.Replace(good, c.old, c.new, 1)))
		wrong, ok := errors.AsType[*scenario.Error](err)
		if !ok || wrong.Field != c.field || wrong.Remedy == "" || wrong.Detail == "" {
			t.Errorf("%s → %s: %v", c.old, c.new, err)
		}
		if c.field == "/history/tags" && !strings.Contains(wrong.Remedy, "tags") {
			t.Errorf("too many tags: %s", wrong.Remedy)
		}
	}
	for field, body := range map[string]string{
		"/error/http_status": `{"history":{"case":"a"},"error":{"http_status":99}}`,
		"/error/text":        `{"history":{"case":"a"},"error":{"text":"` + strings.Repeat("x", scenario.TextMax+1) + `"}}`,
	} {
		_, err := ask.Decode([]byte(body))
		if wrong, ok := errors.AsType[*scenario.Error](err); !ok || wrong.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Every member of a question is in its schema, and every member of an answer in the answer's.
func TestSchemas(t *testing.T) {
	var q ask.Question
	schematest.Fill(&q)
	takes(t, schematest.Compile(t, ask.Schema("question")), encode(t, q))
	var d ask.Decision
	schematest.Fill(&d)
	takes(t, schematest.Compile(t, ask.Schema("decision")), encode(t, d))
	if ask.Schema("other") != nil {
		t.Error("a schema of nothing")
	}
}

// FuzzDecode: what is decoded decides, encodes, and is decoded as the same again; nothing panics.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"history":{"case":"a","step":"s","failure":{"class":"tool","code":"error"}},"elapsed_ms":5,"explain":true}`))
	f.Add([]byte(`{"history":{"case":"a","effect":"none","model":"m","tags":["t"]},"error":{"http_status":429,"text":"x"}}`))
	f.Add([]byte(`{"history":{"case":"a","failure":{"class":"crash","code":"lost"},"rungs":[{"class":"crash","code":"lost","rule":{"id":"crash","rung":1},"strategy":"state_reset","scope":"start","result":"failed"}],"max_retries":3}}`))
	f.Add([]byte("{\"history\":null}"))
	p, schema := recovery.Default(), schematest.Compile(f, ask.Schema("question"))
	f.Fuzz(func(t *testing.T, text []byte) {
		q, err := ask.Decode(text)
		if err != nil {
			if wrong, ok := errors.AsType[*scenario.Error](err); !ok || wrong.Remedy == "" {
				t.Fatalf("no remedy: %v", err)
			}
			return
		}
		takes(t, schema, text)
		first := encode(t, q.Decide(p))
		q.History, q.Error = *q.Classified(recovery.Default()), nil // class and code say it, too
		again, err := ask.Decode(encode(t, q))
		if err != nil {
			t.Fatalf("%s is decoded as %s, which is refused: %v", text, encode(t, q), err)
		}
		if second := encode(t, again.Decide(p)); !bytes.Equal(first, second) {
			t.Fatalf("%s\n%s\n%s", text, first, second)
		}
	})
}

func takes(tb testing.TB, schema *jsonschema.Schema, text []byte) {
	tb.Helper()
	if err := schematest.Check(schema, text); err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
}

func encode(tb testing.TB, v any) []byte {
	tb.Helper()
	text, err := json.Marshal(v, json.Deterministic(true))
	must(tb, err)
	return text
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

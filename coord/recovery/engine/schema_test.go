package engine

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/program"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/schematest"
)

// strategyAnswers are what strategies may say, and whether it is an action.
var strategyAnswers = map[string]bool{
	`{"strategy":"retry"}`: true,
	`{"strategy":"retry_altered","variant":"reflect","reason":"told","severity":"error","wait_ms":5,"verify":true,"question":true,"model":"a/b"}`: true,
	`{"strategy":"state_reset","scope":"context"}`:          true,
	`{"strategy":"retry","variant":"","scope":""}`:          true,
	`{"strategy":"wait","wait_ms":9007199254740991}`:        true,
	`{"strategy":"wait","wait_ms":9007199254740992}`:        false,
	`{"strategy":"wait","wait_ms":-1}`:                      false,
	`{"strategy":"wait","wait_ms":1.5}`:                     false,
	`{"strategy":"pray"}`:                                   false,
	`{"strategy":""}`:                                       false,
	`{}`:                                                    false,
	`[]`:                                                    false,
	`null`:                                                  false,
	`"retry"`:                                               false,
	`{"strategy":"retry","variant":"reflect"}`:              false,
	`{"strategy":"retry_altered"}`:                          false,
	`{"strategy":"retry_altered","variant":""}`:             false,
	`{"strategy":"retry_altered","variant":"more"}`:         false,
	`{"strategy":"state_reset"}`:                            false,
	`{"strategy":"state_reset","scope":"all"}`:              false,
	`{"strategy":"retry","scope":"context"}`:                false,
	`{"strategy":"retry","cost":1}`:                         false,
	`{"strategy":"retry","reason":"Because of that"}`:       false,
	`{"strategy":"retry","model":"a b"}`:                    false,
	`{"strategy":"escalate","severity":"fatal"}`:            false,
	`{"strategy":"escalate","question":"why?"}`:             false,
	`{"strategy":"retry","reason":"x"} {"strategy":"wait"}`: false,
}

// The schema of an answer takes what is an action, and nothing else does: what is
// written for authors of strategies is what their answers are held to.
func TestSchemaOfActions(t *testing.T) {
	schema := schemaOf(t, "action")
	for text, want := range strategyAnswers {
		_, err := program.DecodeAnswer([]byte(text))
		if (err == nil) != want || schemaTakes(schema, []byte(text)) != want {
			t.Errorf("%s: decoded with %v, the schema takes it: %v", text, err, !want)
		}
	}
	members := func(name string, path ...string) any {
		var at any
		if err := json.Unmarshal(schemaText(name), &at); err != nil {
			t.Fatal(err)
		}
		for _, member := range path {
			at = at.(map[string]any)[member]
		}
		names := map[string]bool{}
		for member := range at.(map[string]any) {
			names[member] = true
		}
		return names
	}
	if diff := cmp.Diff(members("action", "properties"), members("case", "$defs", "action", "properties")); diff != "" {
		t.Errorf("an answer and its record differ: %s", diff)
	}
}

// Every question that is really asked keeps to its schema, which knows every
// member that a history can have.
func TestSchemaOfQuestions(t *testing.T) {
	schema := schemaOf(t, "question")
	check := func(q recovery.Case) {
		text, err := json.Marshal(q, json.Deterministic(true))
		if err != nil || !schemaTakes(schema, text) {
			t.Errorf("%s, %v", text, err)
		}
	}
	asked := 0
	b := defaultBatch()
	b.External = chosen(func(q recovery.Case) (recovery.Action, error) {
		asked++
		check(q)
		return recovery.Action{Strategy: recovery.Strategies()[asked%6]}, nil
	})
	b.Workers = 1
	recoverAll(t, b, fixture(t))
	if asked < 90 {
		t.Errorf("%d questions", asked)
	}
	var h recovery.History
	schematest.Fill(&h)
	check(recovery.Case{History: &h})
}

// Scenarios, traces and reports fit their schemas.
func TestSchemasFitWhatIsWritten(t *testing.T) {
	cases, traces, report := schemaOf(t, "case"), schemaOf(t, "trace"), schemaOf(t, "report")
	for line := range bytes.Lines(fixture(t)) {
		c, err := scenario.Decode(line)
		if err != nil {
			t.Fatal(err)
		}
		if !schemaTakes(cases, line) || !schemaTakes(cases, roundTrip(t, c)) {
			t.Errorf("case: %s", line)
		}
	}
	tight := defaultBatch()
	policy, err := tight.Policy.With("limits.attempts", 4)
	if err != nil {
		t.Fatal(err)
	}
	tight.Policy, tight.Neighbours = policy, Neighbours(policy)
	for _, b := range []*Batch{defaultBatch(), tight} {
		all := recoverAll(t, b, fixture(t))
		for line := range bytes.Lines(all.lines) {
			if !schemaTakes(traces, line) {
				t.Errorf("trace: %s", line)
			}
		}
		all.report.Rejections = []Rejection{{Line: 3, Field: "/id", Problem: "malformed", Detail: "x"}}
		all.report.Partial = "failed"
		all.report.ConfigDigest, all.report.ScenarioDigest = entry.DigestOf("c"), entry.DigestOf("s")
		text, err := all.report.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := schematest.Check(report, text); err != nil {
			t.Errorf("report: %v\n%s", err, text)
		}
		again, err := DecodeReport("report.json", text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(all.report, again); diff != "" {
			t.Errorf("report after writing (-was +is):\n%s", diff)
		}
	}
}

// schemaText is the schema of a name, that of cases included.
func schemaText(name string) []byte {
	if name == "case" {
		return scenario.CaseSchema()
	}
	return Schema(name)
}

func schemaOf(tb testing.TB, name string) *jsonschema.Schema {
	tb.Helper()
	return schematest.Compile(tb, schemaText(name))
}

func schemaTakes(schema *jsonschema.Schema, text []byte) bool {
	return schematest.Check(schema, text) == nil
}

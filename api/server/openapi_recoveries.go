package server

import (
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// opRecover describes POST /v1/recoveries.
func opRecover(doc huma.API) *huma.Operation {
	recoverySchemas(doc)
	op := operation("recover", recoveriesPath, "Decide what to do about the failures in a case")
	op.Method = http.MethodPost
	op.Description = "The rules of the policy in force decide, attempts are looked up in the case itself. Nothing is executed and nothing is " +
		"written to the log: the same case under the same rules is the same answer."
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{api.MediaJSON: {Schema: ref("Case")}}}
	respond(op, http.StatusOK, "what was decided, step by step", api.MediaJSON, ref("Recovery"))
	respond(op, http.StatusRequestTimeout, "the request came too slowly", api.MediaProblem, problemSchema())
	respond(op, http.StatusUnsupportedMediaType, "another Content-Type", api.MediaProblem, problemSchema())
	return problems(op, entry.Malformed, entry.TooLarge, entry.NotReady)
}

// opRecoverBatch describes POST /v1/recoveries/batch.
func opRecoverBatch(doc huma.API) *huma.Operation {
	recoverySchemas(doc)
	op := operation("recoverBatch", recoveriesPath+"/batch", "Decide about many cases, one a line")
	op.Method = http.MethodPost
	op.Description = "Every line is answered by one line, in order and while the request is still being sent: by a trace, or by the problem " +
		"that it has. The last line sums up; without it the answer is not whole."
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		api.MediaNDJSON: {Schema: lines("one case a line", ref("Case"))},
	}}
	respond(op, http.StatusOK, "a line for each line, then the end", api.MediaNDJSON, lines("traces and problems, then the end", ref("RecoveryLine")))
	respond(op, http.StatusRequestTimeout, "the first line came too slowly", api.MediaProblem, problemSchema())
	respond(op, http.StatusUnsupportedMediaType, "another Content-Type", api.MediaProblem, problemSchema())
	return problems(op, entry.Malformed, entry.NotReady)
}

// recoverySchemas registers what both answer. Cases and traces have the schemas
// of the engine.
func recoverySchemas(doc huma.API) {
	schemas := doc.OpenAPI().Components.Schemas
	for name, text := range map[string][]byte{"Case": scenario.CaseSchema(), "Trace": engine.Schema("trace")} {
		schemas.Map()[name] = engineSchema(name, text)
	}
	for _, t := range []reflect.Type{reflect.TypeFor[api.Recovery](), reflect.TypeFor[api.RecoveryLine]()} {
		schemas.Schema(t, true, "")
		schemas.Map()[t.Name()].Properties["trace"] = ref("Trace")
	}
}

// engineSchema is a schema of the engine with its inner references as they are
// inside of the document.
func engineSchema(name string, schema []byte) *huma.Schema {
	text := strings.ReplaceAll(string(schema), `"#/$defs/`, `"#/components/schemas/`+name+`/$defs/`)
	var members map[string]any
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		panic(err) // a constant, tested
	}
	delete(members, "$schema")
	return &huma.Schema{Extensions: members}
}

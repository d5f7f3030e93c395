package server

import (
	"fmt"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

const mediaOpenAPI = "application/openapi+json"

// openAPI begins the document.
func (s *Server) openAPI() *huma.OpenAPI {
	return &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Agent recovery ledger", Version: s.cfg.Version,
			Description: "An append-only Merkle log of signed entries. Writes carry their authority in the signature; what is read can be " +
				"verified offline against a pinned root. Unknown query parameters are refused. HEAD is answered like GET; of an event stream it has the header alone. JSON of 1 KiB and more is compressed with gzip for who takes it.",
		},
		Servers:    []*huma.Server{{URL: "/", Description: "the ledger that this document was read from"}},
		Components: &huma.Components{Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)},
	}
}

// encodeDocument returns the finished document.
func encodeDocument(doc huma.API) ([]byte, error) {
	schemas := doc.OpenAPI().Components.Schemas
	schemas.Schema(reflect.TypeFor[api.Problem](), true, "")
	// huma describes an error type of its own, which is never sent.
	delete(schemas.Map(), "ErrorModel")
	delete(schemas.Map(), "ErrorDetail")
	for _, schema := range schemas.Map() {
		for _, member := range schema.Properties {
			member.Nullable = false // the encoder writes empty arrays, never null
		}
	}
	addExamples(doc.OpenAPI())
	data, err := json.Marshal(doc.OpenAPI())
	if err != nil {
		return nil, fmt.Errorf("server: encode OpenAPI document: %w", err)
	}
	return withPayloads(data)
}

// operation begins the description of GET path.
func operation(id, path, summary string) *huma.Operation {
	return &huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Responses: map[string]*huma.Response{}}
}

// respond describes an answer with content.
func respond(op *huma.Operation, status int, description, mediaType string, schema *huma.Schema) {
	key := strconv.Itoa(status)
	if op.Responses[key] == nil {
		op.Responses[key] = &huma.Response{Description: description, Content: map[string]*huma.MediaType{}}
	}
	op.Responses[key].Content[mediaType] = &huma.MediaType{Schema: schema}
}

// problems describes the problems that a path answers, and everything else as
// one.
func problems(op *huma.Operation, names ...entry.Problem) *huma.Operation {
	for _, name := range append(names, entry.RateLimited) {
		t, _ := api.Explain(string(name))
		key := strconv.Itoa(t.Status)
		if known := op.Responses[key]; known != nil {
			known.Description += " · " + string(name)
			continue
		}
		respond(op, t.Status, string(name), api.MediaProblem, problemSchema())
		if t.Status == http.StatusTooManyRequests || t.Status == http.StatusServiceUnavailable {
			op.Responses[key].Headers = map[string]*huma.Param{"Retry-After": {Description: "seconds", Schema: &huma.Schema{Type: huma.TypeInteger}}}
		}
	}
	op.Responses["default"] = &huma.Response{
		Description: "any other problem", Content: map[string]*huma.MediaType{api.MediaProblem: {Schema: problemSchema()}},
	}
	return op
}

func problemSchema() *huma.Schema { return ref("Problem") }

func ref(name string) *huma.Schema { return &huma.Schema{Ref: "#/components/schemas/" + name} }

// lines describes a body of many JSON values: the text form stands for an array
// of them.
func lines(description string, oneOf ...*huma.Schema) *huma.Schema {
	return &huma.Schema{Type: huma.TypeArray, Description: description, Items: &huma.Schema{OneOf: oneOf}}
}

func number() *huma.Schema {
	least := 0.0
	return &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: &least}
}

func text() *huma.Schema { return &huma.Schema{Type: huma.TypeString} }

func inPath(name, description string, schema *huma.Schema) *huma.Param {
	return &huma.Param{Name: name, In: "path", Required: true, Description: description, Schema: schema}
}

func inQuery(name, description string, schema *huma.Schema) *huma.Param {
	return &huma.Param{Name: name, In: "query", Description: description, Schema: schema}
}

func opSubmit(doc huma.API) *huma.Operation {
	schemas := doc.OpenAPI().Components.Schemas
	for _, t := range []reflect.Type{reflect.TypeFor[api.BatchHead](), reflect.TypeFor[api.BatchLine](), reflect.TypeFor[verify.Receipt]()} {
		schemas.Schema(t, true, "")
	}
	op := operation("submit", entriesPath, "Register an entry, or a batch of them")
	op.Method = http.MethodPost
	op.Description = "One DSSE envelope: 201 and its receipt. The same again: 200 and the receipt of the same index. NDJSON, an envelope a line: " +
		"an ordered prefix is registered, up to the first line that is refused; the answer is the tree head, a line for each entry " +
		"registered, and the problem that ended the prefix, if any. If nothing was registered the answer is the problem. Sending again is safe."
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		api.MediaJSON:   {Schema: ref("Envelope")},
		mediaDSSE:       {Schema: ref("Envelope")},
		api.MediaNDJSON: {Schema: lines("one envelope a line", ref("Envelope"))},
	}}
	op.Parameters = []*huma.Param{linksParam()}
	respond(op, http.StatusCreated, "registered: the receipt", api.MediaJSON, ref("Receipt"))
	respond(op, http.StatusCreated, "", api.MediaNDJSON, receiptLines())
	op.Responses["201"].Headers = map[string]*huma.Param{
		api.HeaderRegisteredAt: {Description: "registered_at, Unix milliseconds", Schema: number()},
		"Location":             {Description: "of the entry", Schema: text()},
	}
	respond(op, http.StatusOK, "registered before: the receipt; or the answer to a batch", api.MediaJSON, ref("Receipt"))
	respond(op, http.StatusOK, "", api.MediaNDJSON,
		lines("first the head, then results, then at most one problem; with links=true, receipts", ref("BatchHead"), ref("BatchLine"), ref("Problem"), ref("Receipt")))
	respond(op, http.StatusRequestTimeout, "the request came too slowly", api.MediaProblem, problemSchema())
	respond(op, http.StatusUnsupportedMediaType, "another Content-Type", api.MediaProblem, problemSchema())
	return problems(op, entry.Malformed, entry.UnsupportedAlg, entry.BadSignature, entry.UnknownIssuer, entry.UnauthorizedRole,
		entry.NoStanding, entry.WrongAudience, entry.ScopeExceedsPolicy, entry.IDConflict, entry.StateConflict, entry.PolicySuperseded,
		entry.FencedDependency, entry.StaleEpoch, entry.TooLarge, entry.Stale, entry.UnknownSubject, entry.ScopeMismatch, entry.NotReady, entry.InsufficientStorage)
}

func linksParam() *huma.Param {
	return inQuery("links", "true: the receipt with those of the policies and agent entries that its signer counts by, a line each", &huma.Schema{Type: huma.TypeBoolean})
}

func receiptLines() *huma.Schema {
	return lines("with links=true: the receipt, then those of the policies and agent entries that its signer counts by", ref("Receipt"))
}

// filterParams are the filters that an index answers.
func filterParams() []*huma.Param {
	return []*huma.Param{
		inQuery("kind", "only entries of these kinds, with commas between them", text()),
		inQuery("agent", "only entries by this principal, or about it", text()),
		inQuery("workflow", "only entries of this workflow", text()),
		inQuery("incident", "only entries of this incident; a signal is of the one it would open", number()),
		inQuery("task", "only entries of this task, issuer#id", text()),
	}
}

func opList() *huma.Operation {
	op := operation("list", entriesPath, "Find entries")
	op.Description = "Every entry comes with its proof under the page's tree head. That none was left out is not proven: audit the log for that."
	least, most := 1.0, float64(api.MaxPage)
	op.Parameters = append(filterParams(),
		inQuery("since", "registered at this instant or later, Unix milliseconds", number()),
		inQuery("until", "registered before this instant, Unix milliseconds", number()),
		inQuery("from", "the lowest index", number()),
		inQuery("before", "the index behind the highest", number()),
		inQuery("limit", "entries a page", &huma.Schema{Type: huma.TypeInteger, Minimum: &least, Maximum: &most, Default: pageDefault}),
		inQuery("newest", "from the newest backwards", &huma.Schema{Type: huma.TypeBoolean, Default: false}))
	respond(op, http.StatusOK, "a page; follow next to the end", api.MediaJSON, nil)
	return problems(op, entry.Malformed)
}

func opEntry() *huma.Operation {
	op := operation("entry", entriesPath+"/{index}", "Read an entry")
	op.Parameters = []*huma.Param{inPath("index", "position in the log, from 0", number())}
	respond(op, http.StatusOK, "the entry, which never changes", api.MediaJSON, nil)
	return problems(op, entry.Malformed, entry.NotFound)
}

func opReceipt(doc huma.API) *huma.Operation {
	doc.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[verify.Receipt](), true, "")
	op := operation("receipt", entriesPath+"/{index}/receipt", "Prove an entry")
	op.Parameters = []*huma.Param{inPath("index", "position in the log, from 0", number()), linksParam()}
	respond(op, http.StatusOK, "the receipt under the newest tree head", api.MediaJSON, ref("Receipt"))
	respond(op, http.StatusOK, "", api.MediaNDJSON, receiptLines())
	return problems(op, entry.Malformed, entry.NotFound)
}

func opConsistency() *huma.Operation {
	op := operation("consistency", "/v1/consistency/{old}/{new}", "Prove that the log only grew")
	op.Parameters = []*huma.Param{inPath("old", "the smaller size", number()), inPath("new", "the larger size", number())}
	respond(op, http.StatusOK, "the proof", api.MediaJSON, nil)
	return problems(op, entry.Malformed, entry.NotFound)
}

func opLog() *huma.Operation {
	op := operation("log", "/v1/log", "Name the log")
	op.Description = "What a verifier pins must not come from here."
	respond(op, http.StatusOK, "name, keys and size", api.MediaJSON, nil)
	return problems(op, entry.Malformed)
}

func opAgents(doc huma.API) *huma.Operation {
	op := operation("agents", agentsPath, "List principals and their keys")
	least, most := 1.0, float64(api.MaxPage)
	op.Parameters = []*huma.Param{
		inQuery("after", "principals behind this one, in the order of their bytes", text()),
		inQuery("domain", "only principals of this domain", text()),
		inQuery("limit", "principals a page", &huma.Schema{Type: huma.TypeInteger, Minimum: &least, Maximum: &most, Default: pageDefault}),
	}
	answersTagged[api.Agents](doc, op, "as of the last commit; the tag leaves size out")
	return problems(op, entry.Malformed)
}

func opAgent(doc huma.API) *huma.Operation {
	op := operation("agent", agentsPath+"/{id}", "Read a principal and its keys")
	op.Parameters = []*huma.Param{inPath("id", "the principal, percent-encoded", text())}
	answersTagged[api.Agent](doc, op, "as of the last commit")
	return problems(op, entry.Malformed, entry.NotFound)
}

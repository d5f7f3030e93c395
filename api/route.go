package api

import (
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/entry"
)

// Route is a method of a path, with everything that the interface promises about it. The router of
// the server, the OpenAPI document and the client take their paths from here.
type Route struct {
	Name     string // operationId; the server finds the handler by it
	Method   string
	Path     string // {name} where a parameter stands
	Summary  string
	Doc      string
	Params   []Param      // of path and header
	Query    func() Query // makes an empty one; nil: none
	Takes    []Content    // the forms of the request's body; none: there is no body
	Answers  []Response   // beside the problems
	Problems []entry.Problem

	Public bool // pages of any origin may read it: it is public and proves itself
	Plain  bool // never compressed

	Ordered bool // in a cluster, only the node that orders the log answers
}

// TakesQuery reports whether the route looks at its query. One that names no malformed
// request takes any query.
func (r *Route) TakesQuery() bool {
	return slices.Contains(r.Problems, entry.Malformed)
}

// Response is an answer of a route.
type Response struct {
	Status  int
	Doc     string
	Content []Content // its forms; none: it has no body
	Headers []Header
}

// Header is a header of an answer.
type Header struct{ Name, Doc, Schema string }

// Content is a body in one form.
type Content struct {
	MediaType string
	Schema    Schema
	Example   string // JSON; of lines an array
}

// Schema is a JSON Schema. Its references are to components of the OpenAPI document,
// which are named like the types that it uses.
type Schema struct {
	JSON string
	Uses []reflect.Type
}

// of is the schema of a type of this package or of verify.
func of[T any]() Schema {
	t := reflect.TypeFor[T]()
	return Schema{component(t.Name()), []reflect.Type{t}}
}

// component refers to a component that is no Go type here.
func component(name string) string { return `{"$ref":"#/components/schemas/` + name + `"}` }

// lines describes a body of many JSON values as an array of them.
func lines(doc string, items ...Schema) Schema {
	all := Schema{}
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i], all.Uses = item.JSON, append(all.Uses, item.Uses...)
	}
	all.JSON = `{"type":"array","description":` + quote(doc) + `,"items":{"oneOf":[` + strings.Join(texts, ",") + `]}}`
	return all
}

func quote(text string) string {
	quoted, _ := json.Marshal(text) // a text can be encoded
	return string(quoted)
}

// asked makes an empty query.
func asked[T any, P interface {
	*T
	Query
}]() Query {
	return P(new(T))
}

// inPath is a parameter of a path.
func inPath(name, schema string, example any, doc string) Param {
	return Param{Name: name, In: "path", Required: true, Doc: doc, Schema: schema, Example: example}
}

// content is a body without an example.
func content(mediaType string, schema Schema) Content {
	return Content{MediaType: mediaType, Schema: schema}
}

// ok answers with JSON.
func ok(doc string, schema Schema) []Response {
	return []Response{{Status: http.StatusOK, Doc: doc, Content: []Content{content(MediaJSON, schema)}}}
}

// tagged answers with JSON and an entity tag.
func tagged(doc string, schema Schema) []Response {
	answers := ok(doc, schema)
	answers[0].Headers = []Header{{"ETag", "hash of the answer's content", schemaText}}
	return append(answers, Response{Status: http.StatusNotModified, Doc: "the content is still the one that If-None-Match names"})
}

// withBody returns the answers of a route that takes a body: the body came too slowly, or its
// Content-Type is another one.
func withBody(slow string, answers ...Response) []Response {
	problem := []Content{content(MediaProblem, of[Problem]())}
	return append(answers, Response{Status: http.StatusRequestTimeout, Doc: slow, Content: problem},
		Response{Status: http.StatusUnsupportedMediaType, Doc: "another Content-Type", Content: problem})
}

// Routes returns the whole interface. Every route answers [entry.RateLimited], too, and
// 421 to a request that calls a server on loopback by another's name.
func Routes() []Route {
	var all []Route
	for _, some := range [][]Route{entryRoutes(), logRoutes(), completeRoutes(), agentRoutes(), bundleRoutes(), incidentRoutes(), taskRoutes(), recoveryRoutes(), rolloutRoutes(), selfRoutes()} {
		all = append(all, some...)
	}
	misdirected := Response{Status: http.StatusMisdirectedRequest, Doc: "the server listens on loopback, and Host is none of its names",
		Content: []Content{content(MediaProblem, of[Problem]())}}
	for i := range all {
		all[i].Answers = append(all[i].Answers, misdirected)
	}
	return all
}

// The paths of the interface. [URL] puts parameters in.
const (
	PathEntries     = "/v1/entries"
	PathEntry       = PathEntries + "/{index}"
	PathReceipt     = PathEntry + "/receipt"
	PathCOSE        = PathReceipt + "/cose"
	PathConsistency = "/v1/consistency/{old}/{new}"
	PathLog         = "/v1/log"
	PathRound       = "/v1/log/round"
	PathCosign      = "/v1/cosignatures"
	PathEvidence    = "/v1/evidence"
	PathComplete    = "/v1/complete/{type}"
	PathEvents      = "/v1/events"
	PathCheckpoint  = "/checkpoint"
	PathTile        = "/tile/{path}"
	PathEntryTile   = "/tile/entries/{path}"
	PathAgents      = "/v1/agents"
	PathAgent       = PathAgents + "/{id}"
	PathHistory     = PathAgent + "/history"
	PathNews        = PathAgent + "/news"
	PathCommands    = PathAgent + "/commands"
	PathIncidents   = "/v1/incidents"
	PathIncident    = PathIncidents + "/{id}"
	PathPlan        = PathIncident + "/plan"
	PathWhy         = PathIncident + "/why/{exec}"
	PathBundle      = PathIncident + "/bundle"
	PathGraph       = "/v1/workflows/{wid}/graph"
	PathEscalations = "/v1/escalations"
	PathTasks       = "/v1/tasks"
	PathTask        = PathTasks + "/{id}"
	PathLease       = PathTask + "/lease"
	PathLeases      = "/v1/leases"
	PathRecoveries  = "/v1/recoveries"
	PathBatch       = PathRecoveries + "/batch"
	PathDecide      = "/v1/decide"
	PathRollouts    = "/v1/rollouts"
	PathRollout     = PathRollouts + "/{id}"
	PathHealth      = "/healthz"
	PathReady       = "/readyz"
	PathLeader      = "/leaderz"
	PathCluster     = "/v1/cluster"
	PathMetrics     = "/metrics"
	PathDocument    = "/openapi.json"
)

package server_test

import (
	"bytes"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"recoveryledger/api"
	"recoveryledger/api/server"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// document is the OpenAPI document of a node, and what of it was met.
type document struct {
	t        *testing.T
	root     map[string]any
	compiler *jsonschema.Compiler
	met      map[string]bool // documented answers, "GET /v1/log 200 application/json"
}

func readDocument(t *testing.T, n *node) *document {
	t.Helper()
	a := n.get("/openapi.json")
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.body))
	must(t, err)
	d := &document{t: t, compiler: jsonschema.NewCompiler(), met: map[string]bool{}}
	d.root, _ = root.(map[string]any)
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	must(t, d.compiler.AddResource("openapi.json", root))
	return d
}

// at walks down members of objects; nil if one is not there.
func at(value any, names ...string) any {
	for _, name := range names {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return value
}

// object is at, as an object.
func object(value any, names ...string) map[string]any {
	o, _ := at(value, names...).(map[string]any)
	return o
}

// check holds an answer to the document: its status, or default, is described
// for the path, with its media type, and its body fits the schema.
func (d *document) check(path string, a *answer) {
	d.t.Helper()
	method := strings.ToLower(a.Request.Method)
	status := strconv.Itoa(a.StatusCode)
	what := a.Request.Method + " " + path + " " + status
	responses := object(d.root, "paths", path, method, "responses")
	if responses[status] == nil {
		d.t.Errorf("%s is not described: %s", what, a.body)
		return
	}
	content := object(responses, status, "content")
	if content == nil {
		d.met[what] = true
		if len(a.body) > 0 {
			d.t.Errorf("%s has a body: %s", what, a.body)
		}
		return
	}
	mediaType := a.Header.Get("Content-Type")
	if content[mediaType] == nil {
		mediaType, _, _ = mime.ParseMediaType(mediaType)
	}
	if content[mediaType] == nil {
		d.t.Errorf("%s with %s is not described", what, a.Header.Get("Content-Type"))
		return
	}
	d.met[what+" "+mediaType] = true
	for name := range object(responses, status, "headers") {
		if a.Header.Get(name) == "" && mediaType != api.MediaNDJSON {
			d.t.Errorf("%s has no header %s", what, name)
		}
	}
	if mediaType == api.MediaTile || mediaType == api.MediaCOSE {
		return
	}
	pointer := "openapi.json#/" + strings.Join([]string{"paths", escape(path), method, "responses", status, "content", escape(mediaType), "schema"}, "/")
	schema, err := d.compiler.Compile(pointer)
	must(d.t, err)
	if err := schema.Validate(instance(d.t, mediaType, a.body)); err != nil {
		d.t.Errorf("%s does not fit its schema: %v\n%s", what, err, a.body)
	}
}

func escape(text string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", "%", "%25", "{", "%7B", "}", "%7D", ";", "%3B", " ", "%20").Replace(text)
}

// instance returns a body as the value that its schema describes.
func instance(t *testing.T, mediaType string, body []byte) any {
	t.Helper()
	decode := func(text string) any {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		must(t, err)
		return v
	}
	switch {
	case strings.HasPrefix(mediaType, "text/plain"):
		return string(body)
	case mediaType == api.MediaNDJSON:
		list := []any{}
		for line := range strings.Lines(string(body)) {
			list = append(list, decode(line))
		}
		return list
	case mediaType == api.MediaEvents:
		list := []any{}
		for block := range strings.SplitSeq(string(body), "\n\n") {
			event := map[string]any{}
			for line := range strings.Lines(block) {
				name, content, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
				if event[name] = content; name != "event" {
					event[name] = decode(content)
				}
			}
			if event["event"] != nil {
				list = append(list, event)
			}
		}
		return list
	}
	return decode(string(body))
}

// described returns every answer that the document describes but default.
func (d *document) described() (all []string) {
	for path, methods := range object(d.root, "paths") {
		for method, operation := range methods.(map[string]any) {
			for status := range object(operation, "responses") {
				what := strings.ToUpper(method) + " " + path + " " + status
				content := object(operation, "responses", status, "content")
				if content == nil {
					all = append(all, what)
				}
				for mediaType := range content {
					if status != "default" {
						all = append(all, what+" "+mediaType)
					}
				}
			}
		}
	}
	slices.Sort(all)
	return all
}

// visit is a request and the path of the document that it is for.
type visit struct{ path, target string }

func visits() []visit {
	return []visit{
		{"/v1/entries", "/v1/entries?limit=2"}, {"/v1/entries", "/v1/entries?x=1"},
		{"/v1/entries/{index}", "/v1/entries/1"}, {"/v1/entries/{index}", "/v1/entries/x"}, {"/v1/entries/{index}", "/v1/entries/99"},
		{"/v1/entries/{index}/receipt", "/v1/entries/1/receipt"}, {"/v1/entries/{index}/receipt", "/v1/entries/x/receipt"},
		{"/v1/entries/{index}/receipt", "/v1/entries/99/receipt"}, {"/v1/entries/{index}/receipt", "/v1/entries/1/receipt?links=true"},
		{"/v1/entries/{index}/receipt", "/v1/entries/1/receipt?links=maybe"},
		{"/v1/entries/{index}/receipt/cose", "/v1/entries/1/receipt/cose"}, {"/v1/entries/{index}/receipt/cose", "/v1/entries/x/receipt/cose"},
		{"/v1/entries/{index}/receipt/cose", "/v1/entries/99/receipt/cose"},
		{"/v1/consistency/{old}/{new}", "/v1/consistency/1/2"}, {"/v1/consistency/{old}/{new}", "/v1/consistency/2/1"},
		{"/v1/consistency/{old}/{new}", "/v1/consistency/2/99"},
		{"/v1/log", "/v1/log"}, {"/v1/log", "/v1/log?x=1"},
		{"/v1/complete/{type}", "/v1/complete/log"}, {"/v1/complete/{type}", "/v1/complete/log?x=1"},
		{"/v1/evidence", "/v1/evidence"}, {"/v1/evidence", "/v1/evidence?limit=0"},
		{"/v1/agents", "/v1/agents"}, {"/v1/agents", "/v1/agents?x=1"},
		{"/v1/agents/{id}", "/v1/agents/agent-1"}, {"/v1/agents/{id}", "/v1/agents/agent-9"}, {"/v1/agents/{id}", "/v1/agents/agent-1?x=1"},
		{"/v1/agents/{id}/history", "/v1/agents/monitor-1/history"}, {"/v1/agents/{id}/history", "/v1/agents/agent-9/history"},
		{"/v1/agents/{id}/history", "/v1/agents/agent-1/history?x=1"},
		{"/v1/incidents", "/v1/incidents?state=open"}, {"/v1/incidents", "/v1/incidents?state=x"},
		{"/v1/incidents/{id}", "/v1/incidents/4"}, {"/v1/incidents/{id}", "/v1/incidents/x"}, {"/v1/incidents/{id}", "/v1/incidents/99"},
		{"/v1/incidents/{id}/plan", "/v1/incidents/4/plan"}, {"/v1/incidents/{id}/plan", "/v1/incidents/4/plan?preview=x"},
		{"/v1/incidents/{id}/plan", "/v1/incidents/99/plan"},
		{api.PathWhy, "/v1/incidents/4/why/agent-1%23none"}, {api.PathWhy, "/v1/incidents/x/why/agent-1%23none"},
		{api.PathEscalations, api.PathEscalations}, {api.PathEscalations, api.PathEscalations + "?limit=x"},
		{"/v1/incidents/{id}/bundle", "/v1/incidents/4/bundle?agent=agent-1"}, {"/v1/incidents/{id}/bundle", "/v1/incidents/4/bundle"},
		{"/v1/incidents/{id}/bundle", "/v1/incidents/3/bundle?agent=agent-1"},
		{"/v1/agents/{id}/news", "/v1/agents/agent-1/news"}, {"/v1/agents/{id}/news", "/v1/agents/agent-9/news"},
		{"/v1/agents/{id}/news", "/v1/agents/agent-1/news?x=1"},
		{"/v1/agents/{id}/commands", "/v1/agents/agent-1/commands"}, {"/v1/agents/{id}/commands", "/v1/agents/agent-9/commands"},
		{"/v1/agents/{id}/commands", "/v1/agents/agent-1/commands?wait=x"},
		{"/v1/workflows/{wid}/graph", "/v1/workflows/flow-1/graph"}, {"/v1/workflows/{wid}/graph", "/v1/workflows/flow-1/graph?x=1"},
		{"/v1/workflows/{wid}/graph", "/v1/workflows/flow-9/graph"},
		{"/v1/tasks", "/v1/tasks?limit=1"}, {"/v1/tasks", "/v1/tasks?state=x"},
		{"/v1/tasks/{id}", "/v1/tasks/olga%23none"}, {"/v1/tasks/{id}", "/v1/tasks/olga%23none?x=1"},
		{api.PathRollouts, api.PathRollouts}, {api.PathRollouts, api.PathRollouts + "?x=1"},
		{api.PathRollout, api.PathRollouts + "/r1"}, {api.PathRollout, api.PathRollouts + "/none"}, {api.PathRollout, api.PathRollouts + "/r1?x=1"},
		{"/v1/events", "/v1/events?from=x"}, {"/v1/events", "/v1/events?from=99"},
		{"/checkpoint", "/checkpoint"}, {"/checkpoint", "/checkpoint?x=1"},
		{"/tile/{path}", "/tile/0/000.p/2"}, {"/tile/{path}", "/tile/0/000"}, {"/tile/{path}", "/tile/0/000?x=1"},
		{"/tile/entries/{path}", "/tile/entries/000.p/2"}, {"/tile/entries/{path}", "/tile/entries/000"}, {"/tile/entries/{path}", "/tile/entries/000?x=1"},
		{"/healthz", "/healthz"}, {"/healthz", "/healthz?x=1"}, {"/readyz", "/readyz"}, {"/readyz", "/readyz?x=1"},
		{"/leaderz", "/leaderz"}, {"/leaderz", "/leaderz?x=1"}, {"/v1/cluster", "/v1/cluster"}, {"/v1/cluster", "/v1/cluster?x=1"},
		{"/metrics", "/metrics"}, {"/openapi.json", "/openapi.json"},
	}
}

// The document describes every route and no other; every answer that it
// describes is met by a live one, and every live body fits its schema.
func TestOpenAPI(t *testing.T) {
	budget.Unraced(t, "one goroutine compares documents")
	n := start(t, nil)
	subject := n.done(n.agent, "agent-1", "flow-1")
	signal := n.signal(subject.Ref())
	signal.Header, signal.Standing = n.header("monitor-1", "flow-1"), entry.StandingMonitor
	n.register(sign(t, n.monitor, signal))
	d := readDocument(t, n)
	if d.root["openapi"] != "3.1.0" {
		t.Fatalf("openapi %v", d.root["openapi"])
	}
	d.checkRoutes(n)
	olga := newSigner(t)
	n.register(n.enrol("olga", olga, entry.RoleOperator))
	n.rollsOut(olga)
	for _, v := range visits() {
		d.check(v.path, n.get(v.target))
	}
	for path, target := range map[string]string{"/checkpoint": "/checkpoint", "/openapi.json": "/openapi.json", "/v1/agents": "/v1/agents?limit=1",
		"/v1/agents/{id}": "/v1/agents/agent-1", "/v1/agents/{id}/history": "/v1/agents/monitor-1/history", "/v1/incidents/{id}": "/v1/incidents/4",
		"/v1/incidents/{id}/bundle": "/v1/incidents/4/bundle?agent=agent-1", "/v1/agents/{id}/news": "/v1/agents/agent-1/news",
		api.PathRollouts: api.PathRollouts, api.PathRollout: api.PathRollouts + "/r1", "/v1/incidents/{id}/plan": "/v1/incidents/4/plan", "/v1/workflows/{wid}/graph": "/v1/workflows/flow-1/graph"} {
		d.check(path, n.refetch(target))
	}
	why := api.URL(api.PathWhy, nil, 4, subject.Ref())
	d.check(api.PathWhy, n.get(why))
	d.check(api.PathWhy, n.refetch(why))
	n.register(n.abortOf(olga))
	d.check(api.PathRollout, n.get(api.PathRollouts+"/r1"))
	d.complete()
	d.submit(n)
	d.recoveries(n)
	d.tasks(n)
	d.witnesses()
	newMember(t).describe(d)
	d.overload(n)
	d.stream(n)
	d.slow(n)
	d.misdirected(n)
	for _, what := range d.described() {
		if !d.met[what] {
			t.Errorf("%s is described and was never met", what)
		}
	}
}

// checkRoutes compares the document's paths with the router's, and its path
// parameters with the paths.
func (d *document) checkRoutes(n *node) {
	d.t.Helper()
	s, err := server.New(n.cfg)
	must(d.t, err)
	var described []string
	for path, methods := range object(d.root, "paths") {
		for method, operation := range methods.(map[string]any) {
			described = append(described, strings.ToUpper(method)+" "+path)
			parameters, _ := at(operation, "parameters").([]any)
			count := 0
			for _, p := range parameters {
				if at(p, "in") == "path" {
					count++
					if name, _ := at(p, "name").(string); !strings.Contains(path, "{"+name+"}") {
						d.t.Errorf("%s has no parameter %s", path, name)
					}
				}
			}
			if count != strings.Count(path, "{") || at(operation, "operationId") == nil || at(operation, "summary") == nil {
				d.t.Errorf("%s %s is described badly", method, path)
			}
		}
	}
	routes := s.Routes()
	slices.Sort(described)
	slices.Sort(routes)
	if !slices.Equal(described, routes) {
		d.t.Errorf("described are\n%s\nroutes are\n%s", strings.Join(described, "\n"), strings.Join(routes, "\n"))
	}
	for _, name := range slices.Sorted(maps.Keys(object(d.root, "components", "schemas"))) {
		if _, err := d.compiler.Compile("openapi.json#/components/schemas/" + name); err != nil {
			d.t.Errorf("schema %s: %v", name, err)
		}
	}
}

// complete meets what a ledger with an index answers.
func (d *document) complete() {
	d.t.Helper()
	n, index := startIndexed(d.t)
	covered(d.t, n, index)
	const path = "/v1/complete/{type}"
	for _, subject := range []string{"agent?value=agent-1", "agent?value=nobody", "agent?value=agent-1&witnessed=true"} {
		d.check(path, n.get("/v1/complete/"+subject))
	}
	d.check(path, n.refetch("/v1/complete/agent?value=agent-1&size=2"))
}

// submit meets what writing answers.
func (d *document) submit(n *node) {
	d.t.Helper()
	good := n.good()
	d.check("/v1/entries", n.post(api.MediaJSON, good.AppendEnvelope(nil)))
	d.check("/v1/entries", n.post(api.MediaJSON, good.AppendEnvelope(nil)))
	d.check("/v1/entries", n.post(api.MediaNDJSON, append(batchOf(good, n.good()), "{}\n"...)))
	d.check("/v1/entries", n.postTo("/v1/entries?links=true", api.MediaJSON, n.good().AppendEnvelope(nil)))
	d.check("/v1/entries", n.postTo("/v1/entries?links=true", api.MediaNDJSON, batchOf(n.good())))
	d.check("/v1/entries", n.post("text/plain", nil))
	for _, list := range [][]provocation{envelopeProblems(), rightProblems(), stateProblems()} {
		for _, c := range list {
			d.check("/v1/entries", n.post(api.MediaJSON, c.send(n)))
		}
	}
	for _, state := range []struct{ set, reset func() }{
		{func() { n.clock.Store(int64(time.Hour)) }, func() { n.clock.Store(0) }},
		{func() { n.disk.free.Store(0); n.clock.Add(int64(time.Second)) }, func() { n.disk.free.Store(1 << 39); n.clock.Add(int64(time.Second)) }},
	} {
		state.set()
		d.check("/v1/entries", n.post(api.MediaJSON, n.good().AppendEnvelope(nil)))
		d.check("/readyz", n.get("/readyz"))
		state.reset()
	}
}

// overload meets 429 on every path.
func (d *document) overload(n *node) {
	d.t.Helper()
	address, _ := n.serve(func(c *server.Config) { c.Rate = 1e-9 })
	was := n.url
	defer func() { n.url = was }()
	n.url = "http://" + address
	n.get("/healthz")
	for _, v := range visits() {
		d.check(v.path, n.get(v.target))
	}
	d.check("/v1/entries", n.post(api.MediaJSON, nil))
	d.check(leasePath, n.renewRaw("/v1/tasks/a%23b/lease", api.MediaJSON, nil))
	d.check(leasesPath, n.renewRaw(leasesPath, api.MediaJSON, nil))
	d.check(api.PathRound, n.get(api.PathRound))
	d.check(api.PathCosign, n.postTo(api.PathCosign, api.MediaNote, nil))
	d.check("/v1/recoveries", n.recover("", api.MediaJSON, ""))
	d.check("/v1/recoveries/batch", n.recover("/batch", api.MediaNDJSON, ""))
	d.check(api.PathDecide, n.decide(api.MediaJSON, ""))
}

// misdirected calls every route by another's name.
func (d *document) misdirected(n *node) {
	d.t.Helper()
	for _, route := range api.Routes() {
		request := n.request(route.Method, strings.NewReplacer("{", "", "}", "").Replace(route.Path), "", nil)
		request.Host = "evil.example"
		d.check(route.Path, n.do(request))
	}
}

// stream reads the beginning of an event stream.
func (d *document) stream(n *node) {
	d.t.Helper()
	response, err := http.DefaultClient.Do(n.request(http.MethodGet, "/v1/events?from=0", "", nil))
	must(d.t, err)
	defer response.Body.Close()
	var body []byte
	for bytes.Count(body, []byte("event: entry")) < 4 {
		block := make([]byte, 4096)
		read, err := response.Body.Read(block)
		must(d.t, err)
		body = append(body, block[:read]...)
	}
	body = body[:bytes.LastIndex(body, []byte("\n\n"))]
	d.check("/v1/events", &answer{response, body})
}

// slow meets 408.
func (d *document) slow(n *node) {
	d.t.Helper()
	address, _ := n.serve(func(c *server.Config) { c.ReadTimeout = 50 * time.Millisecond })
	for path, mediaType := range map[string]string{leasePath: api.MediaJSON, leasesPath: api.MediaJSON, "/v1/entries": api.MediaJSON,
		api.PathCosign: api.MediaNote, "/v1/recoveries": api.MediaJSON, "/v1/recoveries/batch": api.MediaNDJSON, api.PathDecide: api.MediaJSON} {
		request := n.request(http.MethodPost, path, mediaType, nil)
		response, err := http.ReadResponse(dial(d.t, address, "POST "+strings.Replace(path, "{id}", "a%23b", 1)+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: "+mediaType+"\r\n"+
			"Content-Length: 9\r\n\r\n"), request)
		must(d.t, err)
		body, err := io.ReadAll(response.Body)
		must(d.t, err)
		must(d.t, response.Body.Close())
		d.check(path, &answer{response, body})
	}
}

// The document has the schema of every kind of payload: one that a JSON Schema
// tool can use, and that gives the verdict of the ledger on its examples.
func TestOpenAPIHasThePayloads(t *testing.T) {
	d := readDocument(t, start(t, nil))
	for _, kind := range entry.Kinds() {
		schema, err := d.compiler.Compile("openapi.json#/components/schemas/payload." + string(kind))
		must(t, err)
		example, err := jsonschema.UnmarshalJSON(bytes.NewReader(entry.Example(kind)))
		must(t, err)
		members := object(example)
		maps.Copy(members, map[string]any{"v": 1, "jti": "0190b9d4-7d3e-7cc0-9f11-6c0d8e6a5b21", "iss": "my-agent", "aud": "my.log", "iat": 1790000000})
		if err := schema.Validate(members); err != nil {
			t.Errorf("%s: the example: %v", kind, err)
		}
		members["jti"] = "none"
		if schema.Validate(members) == nil {
			t.Errorf("%s: accepts a jti that is no UUID", kind)
		}
	}
	for name, schema := range object(d.root, "components", "schemas") {
		if _, err := d.compiler.Compile("openapi.json#/components/schemas/" + name); err != nil {
			t.Errorf("%s: %v: %v", name, err, schema)
		}
	}
	kinds, _ := at(d.root, "components", "schemas", "Envelope", "properties", "payload", "contentSchema", "oneOf").([]any)
	if len(kinds) != len(entry.Kinds()) {
		t.Errorf("the envelope names %d kinds of payload", len(kinds))
	}
}

package server_test

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/api"
	"recoveryledger/api/server"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
)

// exampleTime is when the examples are, in Unix seconds.
const exampleTime = 1790000000

// exampleWorld is the log that the examples of the document are about.
func exampleWorld(t *testing.T) (*node, *keys.Signer) {
	t.Helper()
	n := newNodeAt(t, vfs.NewMem(), "db", time.Until(time.Unix(exampleTime, 0)), func(c *server.Config) { c.Rate = -1 })
	n.found()
	signal := n.signal(n.done(n.agent, "agent-1", "flow-1").Ref())
	signal.Header, signal.Standing, signal.ObservedAt = n.header("monitor-1", "flow-1"), entry.StandingMonitor, exampleTime*1000
	n.register(sign(t, n.monitor, signal))
	key, err := keys.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)))
	must(t, err)
	olga := newSigner(t)
	n.register(n.enrol("example-agent", key, entry.RoleAgent), n.enrol("olga", olga, entry.RoleOperator),
		sign(t, olga, &entry.Task{Header: n.header("olga", "flow-1"), Task: "olga#book-room", Op: entry.TaskCreate, From: entry.TaskCreated,
			To: entry.TaskCreated, Reason: "an example"}))
	n.rollsOut(olga)
	return n, key
}

// exampleRequest makes the request that the examples of an operation describe.
// With every parameter; without the optional ones otherwise.
func exampleRequest(n *node, method, path string, op any, every bool) *http.Request {
	n.t.Helper()
	query, header := url.Values{}, http.Header{}
	parameters, _ := at(op, "parameters").([]any)
	for _, p := range parameters {
		name, _ := at(p, "name").(string)
		if at(p, "example") == nil {
			n.t.Errorf("%s %s: %s has no example", method, path, name)
		}
		value := fmt.Sprint(at(p, "example"))
		switch required, _ := at(p, "required").(bool); {
		case at(op, "operationId") == "history" && name == "before": // not together with after
		case at(p, "in") == "path" && name == "path":
			path = strings.Replace(path, "{path}", value, 1) // with its slashes
		case at(p, "in") == "path":
			path = strings.Replace(path, "{"+name+"}", url.PathEscape(value), 1)
		case at(p, "in") == "header" && every:
			header.Set(name, value)
		case every || required:
			query.Set(name, value)
		}
	}
	request := n.request(strings.ToUpper(method), path+"?"+query.Encode(), "", nil)
	if len(query) == 0 {
		request.URL.RawQuery = ""
	}
	for name := range header {
		request.Header.Set(name, header.Get(name))
	}
	return request
}

// exampleBody returns the example of a body as it is sent.
func exampleBody(t *testing.T, mediaType string, example any) (body []byte) {
	t.Helper()
	if mediaType == api.MediaNote {
		return []byte(example.(string)) //nolint:forcetypeassert // another one fails the test
	}
	if mediaType != api.MediaNDJSON {
		body, err := json.Marshal(example)
		must(t, err)
		return body
	}
	for _, line := range example.([]any) {
		text, err := json.Marshal(line)
		must(t, err)
		body = append(append(body, text...), '\n')
	}
	return body
}

// Every parameter and every body has an example, and the requests that they make are answered with
// success by a live server, with all parameters and with the mandatory ones. Renewals of a lease
// that nobody holds, what witnesses ask of a ledger whose policy names none, questions to an index
// that is not kept, and why an execution that is not in the log is a member, are understood.
func TestExamples(t *testing.T) {
	n, _ := exampleWorld(t)
	d := readDocument(t, n)
	if servers, _ := d.root["servers"].([]any); len(servers) != 1 || at(servers[0], "url") != "/" {
		t.Errorf("servers %v", d.root["servers"])
	}
	understood := map[string]string{leasePath: ":stale-epoch", api.PathRound: ":not-found", api.PathCosign: ":unknown-issuer", api.PathComplete: "keeps no index",
		api.PathWhy: ":not-found", api.PathCluster: ":not-found"}
	ran := 0
	run := func(path string, request *http.Request) {
		ran++
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		defer response.Body.Close()
		line, err := bufio.NewReader(response.Body).ReadString('\n') // an event stream has no end
		if response.StatusCode >= 300 && (understood[path] == "" || !strings.Contains(line, understood[path])) || line == "" {
			t.Errorf("%s %s: %s, %v: %s", request.Method, request.URL, response.Status, err, line)
		}
	}
	for path, methods := range object(d.root, "paths") {
		for method, op := range methods.(map[string]any) {
			for _, every := range []bool{true, false} {
				content := object(op, "requestBody", "content")
				if content == nil {
					run(path, exampleRequest(n, method, path, op, every))
				}
				for mediaType := range content {
					body := exampleBody(t, mediaType, at(content, mediaType, "example"))
					request := exampleRequest(n, method, path, op, every && mediaType != api.MediaNDJSON) // links are of one entry
					sent := n.request(http.MethodPost, request.URL.RequestURI(), mediaType, body)
					run(path, sent)
				}
			}
		}
	}
	if ran < 60 {
		t.Errorf("%d requests", ran)
	}
}

// What is signed among the examples is what the key of the examples signs.
func TestExamplesAreSigned(t *testing.T) {
	n, key := exampleWorld(t)
	d := readDocument(t, n)
	body := &entry.Execution{Header: entry.Header{V: 1, JTI: "0b54b0a8-9c5a-4f0e-8d53-3e7c2b1f6a70", Iss: "example-agent", Aud: origin, Iat: exampleTime, Wid: "flow-1"},
		Exec: "search", Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Confirmed}
	renewal, err := key.SignRenewal(&entry.Renewal{Aud: origin, Iss: "example-agent", Leases: []entry.Lease{{Epoch: 1, Task: "olga#book-room"}}, Seq: 1,
		Session: "0b54b0a89c5a4f0e8d533e7c2b1f6a70"})
	must(t, err)
	signed, err := entry.EncodeRenewal(renewal)
	must(t, err)
	for path, want := range map[string][]byte{"/v1/entries": sign(t, key, body).AppendEnvelope(nil), leasesPath: signed} {
		var value any
		must(t, json.Unmarshal(want, &value))
		if got := exampleBody(t, api.MediaJSON, at(d.root, "paths", path, "post", "requestBody", "content", api.MediaJSON, "example")); !bytes.Equal(got, exampleBody(t, api.MediaJSON, value)) {
			t.Errorf("example of %s\n%s\nwant\n%s", path, got, want)
		}
	}
}

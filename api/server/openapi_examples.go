package server

import (
	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/api"
)

// The examples of the document are requests to one small log, which
// TestExamples makes and answers. They are of the ledger ledger.example/test at
// 1790000000, Unix seconds; the key of example-agent is its seed of 32 bytes 7,
// which everybody knows.
const (
	exampleEnvelope = `{"payload":"eyJhdWQiOiJsZWRnZXIuZXhhbXBsZS90ZXN0IiwiZWZmZWN0Ijoibm9uZSIsImV4ZWMiOiJzZWFyY2giLCJpYXQiOjE3OTAwMDAwMDAsImlz` +
		`cyI6ImV4YW1wbGUtYWdlbnQiLCJqdGkiOiIwYjU0YjBhOC05YzVhLTRmMGUtOGQ1My0zZTdjMmIxZjZhNzAiLCJwYXJlbnRzIjpbXSwicHJvZ3Jlc3MiOiJj` +
		`b25maXJtZWQiLCJ2IjoxLCJ3aWQiOiJmbG93LTEifQ==","payloadType":"application/vnd.agent-recovery.execution+json","signatures"` +
		`:[{"keyid":"SHA256:z/fSv0Z0RZS+Lccbc6ZoOWwt/fbj1VFJGSBKQbo4icE","sig":"pZoqmm3pbIRQM7xTxl1jrujW/B8M7bW5RqR036ShkfYSRbhOO` +
		`Kb14LymVp7QSaein4Y+iNX4rkNcTLnFzbr0DA=="}]}`
	exampleRenewal = `{"aud":"ledger.example/test","iss":"example-agent","keyid":"SHA256:z/fSv0Z0RZS+Lccbc6ZoOWwt/fbj1VFJGSBKQbo4icE","leases"` +
		`:[{"epoch":1,"task":"olga#book-room"}],"seq":1,"session":"0b54b0a89c5a4f0e8d533e7c2b1f6a70","sig":"dcBZzIvnOul1NxD+Lusjy` +
		`6x0+qJKyaiQwVgm9K+KYCVfH2Fz9W5HzGzin2khZlU20Pyv5z14eIDo6QW0SdGAAQ=="}`
	exampleCase = `{"v":1,"id":"case-1","agent":"agent-1","steps":[{"id":"search","effect":"none","outcome":"failed",` +
		`"failure":{"raw":{"http_status":529}},"attempts":[{"strategy":"fallback_model","outcome":"ok"}]}]}`
	exampleHealthy = `{"v":1,"id":"case-2","agent":"agent-1","steps":[{"id":"search","effect":"none","outcome":"ok"}]}`
)

// exampleParams are examples of parameters by operation and name; those under no
// operation are of all.
func exampleParams() map[string]map[string]any {
	history := map[string]any{"id": "agent-1", "after": 0}
	agent, incident, task := map[string]any{"id": "agent-1"}, map[string]any{"id": 4}, map[string]any{"id": "olga#book-room"}
	return map[string]map[string]any{
		"": {
			"index": 1, "old": 1, "new": 3, "wid": "flow-1", "kind": "execution,signal", "agent": "agent-1", "workflow": "flow-1", "incident": 4,
			"task": "olga#book-room", "since": 1790000000000, "until": 1900000000000, "from": 0, "before": 1000, "limit": 10, "newest": true,
			"domain": "test", "state": "open", "wait": 0, "whole": true, "links": true, "preview": true, "unfounded": "4", "Last-Event-ID": 3,
		},
		"tile": {"path": "0/000.p/3"}, "bundle": {"path": "000.p/3"},
		"agents": {"after": "a"}, "agent": agent, "history": history, "commands": agent, "news": {"id": "agent-1", "after": 0},
		"incident": incident, "plan": incident, "authorization": {"id": 4, "after": 0},
		"task": task, "lease": task,
	}
}

// exampleBodies are examples of bodies by operation and media type; of lines an
// array.
func exampleBodies() map[string]map[string]string {
	return map[string]map[string]string{
		"submit": {api.MediaJSON: exampleEnvelope, mediaDSSE: exampleEnvelope, api.MediaNDJSON: "[" + exampleEnvelope + "]"},
		"leases": {api.MediaJSON: exampleRenewal}, "lease": {api.MediaJSON: exampleRenewal},
		"recover": {api.MediaJSON: exampleCase}, "recoverBatch": {api.MediaNDJSON: "[" + exampleCase + "," + exampleHealthy + "]"},
	}
}

// addExamples gives every parameter and every body of a document an example.
func addExamples(doc *huma.OpenAPI) {
	params, bodies := exampleParams(), exampleBodies()
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post} {
			if op == nil {
				continue
			}
			for _, p := range op.Parameters {
				if p.Example = params[op.OperationID][p.Name]; p.Example == nil {
					p.Example = params[""][p.Name]
				}
			}
			if op.RequestBody == nil {
				continue
			}
			for mediaType, content := range op.RequestBody.Content {
				content.Example = jsontext.Value(bodies[op.OperationID][mediaType])
			}
		}
	}
}

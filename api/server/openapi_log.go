package server

import (
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// The paths that do not answer one JSON value.

func opEvents(doc huma.API) *huma.Operation {
	schemas := doc.OpenAPI().Components.Schemas
	op := operation("events", eventsPath, "Follow the log")
	op.Description = "Server-sent events. A head event announces the tree head that the following entries stand under, with the proof that the one " +
		"before is a prefix; an entry event has the index as its id. Resume with the header Last-Event-ID, which goes before from. Silence is broken by comments."
	op.Description += " With filters, all of which must match, only some entries come; the ids stay those of the log, and so does resuming."
	op.Parameters = append(filterParams(),
		inQuery("from", "the first index; without it, what is new", number()),
		&huma.Param{Name: "Last-Event-ID", In: "header", Description: "the last index received; goes before from", Schema: number()})
	event := func(name string, data *huma.Schema, required ...string) *huma.Schema {
		return &huma.Schema{Title: name, Type: huma.TypeObject, Required: append(required, "event", "data"), Properties: map[string]*huma.Schema{
			"event": {Type: huma.TypeString, Enum: []any{name}}, "id": number(), "data": data,
		}}
	}
	respond(op, http.StatusOK, "events, without end", api.MediaEvents, lines("the fields of each event; data is one line of JSON",
		event(api.EventHead, schemas.Schema(reflect.TypeFor[api.HeadEvent](), true, "")),
		event(api.EventEntry, schemas.Schema(reflect.TypeFor[api.Item](), true, ""), "id")))
	return problems(op, entry.Malformed, entry.NotFound)
}

func opCheckpoint() *huma.Operation {
	op := operation("checkpoint", "/checkpoint", "Read the published tree head")
	op.Description = "c2sp.org/tlog-checkpoint, signed with Ed25519 and ML-DSA-44; at most a second behind."
	respond(op, http.StatusOK, "a signed note", api.MediaNote, text())
	op.Responses["304"] = &huma.Response{Description: "If-None-Match names the newest"}
	return problems(op, entry.Malformed)
}

func opTile() *huma.Operation {
	op := operation("tile", "/tile/{path}", "Read a hash tile")
	op.Description = "c2sp.org/tlog-tiles: <level>/<index>[.p/<width>], such as 0/x001/x234/067 or 0/000.p/17. Never changes."
	op.Parameters = []*huma.Param{inPath("path", "level, index and width, with their slashes", text())}
	respond(op, http.StatusOK, "hashes of 32 bytes", api.MediaTile, binary())
	return problems(op, entry.Malformed, entry.NotFound)
}

func opBundle() *huma.Operation {
	op := operation("bundle", "/tile/entries/{path}", "Read a bundle of leaves")
	op.Description = "c2sp.org/tlog-tiles: <index>[.p/<width>], such as 000 or x001/067.p/17. Never changes; gzip where accepted."
	op.Parameters = []*huma.Param{inPath("path", "index and width, with their slashes", text())}
	respond(op, http.StatusOK, "leaves, each behind its length in two bytes", api.MediaTile, binary())
	return problems(op, entry.Malformed, entry.NotFound)
}

// binary describes bytes: the media type says all (OpenAPI 3.1, section 4.8.14.2).
func binary() *huma.Schema { return &huma.Schema{} }

func opHealth() *huma.Operation {
	op := operation("health", "/healthz", "Ask whether the process answers")
	respond(op, http.StatusOK, "it does", api.MediaJSON, nil)
	return problems(op, entry.Malformed)
}

func opReady() *huma.Operation {
	op := operation("ready", "/readyz", "Ask whether entries are taken")
	respond(op, http.StatusOK, "they are", api.MediaJSON, nil)
	return problems(op, entry.Malformed, entry.NotReady, entry.InsufficientStorage)
}

func opMetrics() *huma.Operation {
	op := operation("metrics", "/metrics", "Read the metrics")
	respond(op, http.StatusOK, "Prometheus text format", "text/plain", text())
	return problems(op)
}

func opDocument() *huma.Operation {
	op := operation("openapi", "/openapi.json", "Read this document")
	respond(op, http.StatusOK, "OpenAPI 3.1", mediaOpenAPI, &huma.Schema{Type: huma.TypeObject})
	answersTag(op)
	return problems(op)
}

package server

import (
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

func opTasks() *huma.Operation {
	op := operation("tasks", tasksPath, "List tasks")
	op.Description = "The newest first, as of the last commit. A page may end early where few match: follow next to the end."
	op.Parameters = []*huma.Param{
		inQuery("state", "only in this state, in any that is open or closed, or those that wait for an operator", oneOf(taskStates())),
		inQuery("agent", "only those whose newest claim is of this agent", text()),
		inQuery("workflow", "only those of this workflow", text()),
		inQuery("before", "only those whose first entry is below this index", number()),
		pageLimit(api.MaxPage, pageDefault),
	}
	respond(op, http.StatusOK, "a page", api.MediaJSON, nil)
	return problems(op, entry.Malformed)
}

func opTask(doc huma.API) *huma.Operation {
	op := operation("task", tasksPath+"/{id}", "Read a task")
	op.Parameters = []*huma.Param{inPath("id", "the reference issuer#id, percent-encoded", text())}
	answersTagged[api.Task](doc, op, "as of the last commit, with its lease as it is now")
	return problems(op, entry.Malformed, entry.NotFound)
}

func opLease(doc huma.API) *huma.Operation {
	op := operation("lease", tasksPath+"/{id}/lease", "Renew the lease of a task")
	op.Description = "As " + leasesPath + ", for one."
	op.Parameters = []*huma.Param{inPath("id", "the reference issuer#id, percent-encoded", text())}
	renewal(op, 1)
	respond(op, http.StatusOK, "renewed", api.MediaJSON, doc.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.Lease](), true, ""))
	return problems(op, entry.Malformed, entry.BadSignature, entry.UnknownIssuer, entry.UnauthorizedRole, entry.NoStanding, entry.WrongAudience,
		entry.NotFound, entry.StateConflict, entry.StaleEpoch, entry.TooLarge)
}

func opLeases(doc huma.API) *huma.Operation {
	op := operation("leases", leasesPath, "Renew the leases that an agent holds")
	op.Description = "By who holds them. sig is over the DSSE pre-authentication encoding of the type application/vnd.agent-recovery.lease+json and the " +
		"RFC 8785 form of the members without keyid and sig; the body is in RFC 8785 form, too. seq grows with every renewal, and session is that " +
		"of the leases as GET tells it: heard again, a renewal says nothing new. Each lease is judged by itself."
	renewal(op, entry.MaxLeases)
	respond(op, http.StatusOK, "what became of each lease: the signature counts", api.MediaJSON,
		doc.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.Renewed](), true, ""))
	return problems(op, entry.Malformed, entry.BadSignature, entry.UnknownIssuer, entry.UnauthorizedRole, entry.WrongAudience, entry.TooLarge)
}

// renewal describes a request that renews up to so many leases.
func renewal(op *huma.Operation, leasesMax int) {
	op.Method = http.MethodPost
	least := 1
	lease := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false, Required: []string{"epoch", "task"}, Properties: map[string]*huma.Schema{
		"epoch": number(), "task": text(), "over": {Type: huma.TypeObject,
			Description: "the snapshot of a claim that has come to an end, in place of renewing it: the task then failed, or was interrupted (crash.interrupted)"}}}
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{api.MediaJSON: {Schema: &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: false, Required: []string{"aud", "iss", "keyid", "leases", "seq", "session", "sig"},
		Properties: map[string]*huma.Schema{"aud": text(), "iss": text(), "seq": number(), "session": text(),
			"keyid": text(), "sig": {Type: huma.TypeString, ContentEncoding: "base64"},
			"leases": {Type: huma.TypeArray, Items: lease, MinItems: &least, MaxItems: &leasesMax}},
	}}}}
	respond(op, http.StatusUnsupportedMediaType, "another Content-Type", api.MediaProblem, problemSchema())
	respond(op, http.StatusRequestTimeout, "the request came too slowly", api.MediaProblem, problemSchema())
}

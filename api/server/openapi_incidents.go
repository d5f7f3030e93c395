package server

import (
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// What follows from the log: incidents, plans, histories, workflows.

func pageLimit(most, fallback int) *huma.Param {
	least, limit := 1.0, float64(most)
	return inQuery("limit", "elements a page", &huma.Schema{Type: huma.TypeInteger, Minimum: &least, Maximum: &limit, Default: fallback})
}

func oneOf(words []string) *huma.Schema {
	schema := text()
	for _, word := range words {
		schema.Enum = append(schema.Enum, word)
	}
	return schema
}

func opIncidents() *huma.Operation {
	op := operation("incidents", incidentsPath, "List incidents")
	op.Description = "The newest first, as of the last commit. A page may end early where few match: follow next to the end."
	op.Parameters = []*huma.Param{
		inQuery("state", "only in this state, or in any that is open or closed; unacknowledged: dismissed because nobody answered in time, which nobody has taken note of", oneOf(incidentStates())),
		inQuery("agent", "only those that this principal has to do with, by entries of its own or as the agent of members", text()),
		inQuery("domain", "only those that a principal of this domain has to do with", text()),
		inQuery("workflow", "only those whose opening signal is of this workflow", text()),
		inQuery("before", "only those below this id", number()),
		pageLimit(api.MaxPage, pageDefault),
	}
	respond(op, http.StatusOK, "a page", api.MediaJSON, nil)
	return problems(op, entry.Malformed)
}

func opIncident(doc huma.API) *huma.Operation {
	op := operation("incident", incidentsPath+"/{id}", "Read an incident")
	op.Parameters = []*huma.Param{inPath("id", "index of its opening signal", number())}
	answersTagged[api.Incident](doc, op, "as of the last commit")
	return problems(op, entry.Malformed, entry.NotFound)
}

func opPlan(doc huma.API) *huma.Operation {
	op := operation("plan", incidentsPath+"/{id}/plan", "Read a plan, or preview it")
	op.Description = "The plan in force with what became of its members; before there is one, and with preview=true, what a decision would have now. " +
		"A page of a large plan names the scope of all members: follow next to the end."
	op.Parameters = []*huma.Param{
		inPath("id", "index of the incident's opening signal", number()),
		inQuery("preview", "what a decision would have now, even if one is in force", &huma.Schema{Type: huma.TypeBoolean, Default: false}),
		inQuery("unfounded", "of a preview: indexes of signals to leave out, with commas between them", text()),
		inQuery("before", "only members below this index", number()),
		pageLimit(api.MaxPage, api.MaxPage),
	}
	answersTagged[api.Plan](doc, op, "as of the last commit")
	return problems(op, entry.Malformed, entry.NotFound)
}

// bundleQueryParams are what both kinds of bundle are asked with.
func bundleQueryParams() []*huma.Param {
	return []*huma.Param{
		inQuery("from", "size of the tree head that the agent accepted last: policies, keys and the consistency proof begin there", number()),
		inQuery("after", "where the page before ended; take it from its Link", number()),
		inQuery("whole", "all policies and keys, because some are missing (TRU-2, TRU-3)", &huma.Schema{Type: huma.TypeBoolean, Default: false}),
		pageLimit(verify.MaxBundleMembers, bundleDefault),
	}
}

func respondBundle(op *huma.Operation, description string) *huma.Operation {
	list := func(of *huma.Schema) *huma.Schema { return &huma.Schema{Type: huma.TypeArray, Items: of} }
	object := func(optional string, members map[string]*huma.Schema) *huma.Schema {
		required := slices.Sorted(maps.Keys(members))
		return &huma.Schema{Type: huma.TypeObject, Properties: members, AdditionalProperties: false,
			Required: slices.DeleteFunc(required, func(name string) bool { return slices.Contains(strings.Fields(optional), name) })}
	}
	hashes := list(&huma.Schema{Type: huma.TypeString, ContentEncoding: "base64"})
	schema := object("decision", map[string]*huma.Schema{
		"agent": text(), "decision": number(), "head": text(), "from": number(), "consistency": hashes, "inclusion": hashes, "scope": hashes,
		"entries": list(object("", map[string]*huma.Schema{"index": number(), "leaf": {Type: huma.TypeObject}})),
		"members": list(object("after", map[string]*huma.Schema{"place": number(), "member": {Type: huma.TypeObject}, "after": list(number())})),
		"steps": list(object("by checkpoint", map[string]*huma.Schema{"exec": number(), "rule": oneOf([]string{verify.RuleSeed, verify.RuleDependent, verify.RuleLine}),
			"from": number(), "by": number(), "checkpoint": number()})),
	})
	respond(op, http.StatusOK, description, api.MediaJSON, schema)
	op.Responses["200"].Headers = map[string]*huma.Param{"ETag": {Description: "hash of the answer", Schema: text()}}
	op.Responses["304"] = &huma.Response{Description: "If-None-Match names what it still is"}
	return problems(op, entry.Malformed, entry.NotFound)
}

func opAuthorization() *huma.Operation {
	op := operation("authorization", incidentsPath+"/{id}/bundle", "Read what shows an agent that it is to undo something")
	op.Description = "The authorization bundle: decision, basis, approvals, the agent's members with why they are to be undone, outcomes, policies and keys, " +
		"with proofs under one tree head. Nothing of it is to be believed before it was verified offline. " +
		"If no decision tells the agent to undo something, it is news. limit counts the agent's members; those of one line come together if they can."
	op.Parameters = append([]*huma.Param{
		inPath("id", "index of the incident's opening signal", number()),
		{Name: "agent", In: "query", Required: true, Description: "whose members", Schema: text()},
	}, bundleQueryParams()...)
	return respondBundle(op, `the bundle, in the one form that verifiers read; if it is not all, the header Link has the path of the next, rel="next"`)
}

func opNews() *huma.Operation {
	op := operation("news", agentsPath+"/{id}/news", "Read what an agent is to know of")
	op.Description = "Policies, agent entries about itself and about whoever is more than a plain agent, and overrides of its incidents, as a bundle " +
		"without a decision. limit counts these entries; those that they rest on come beside them."
	op.Parameters = append([]*huma.Param{inPath("id", "the agent, percent-encoded", text())}, bundleQueryParams()...)
	return respondBundle(op, `the bundle, in the one form that verifiers read; if it is not all, the header Link has the path of the next, rel="next"`)
}

func opCommands(doc huma.API) *huma.Operation {
	op := operation("commands", agentsPath+"/{id}/commands", "Ask what an agent has to do, and wait for it")
	op.Description = "Answers at once, or, with wait, as soon as something at from or behind it concerns the agent, or the time is over. " +
		"It is a hint: what counts is the bundle."
	op.Parameters = []*huma.Param{
		inPath("id", "the agent, percent-encoded", text()),
		inQuery("from", "size that the answer before had: only what was registered since ends the waiting", number()),
		inQuery("wait", fmt.Sprintf("how long to wait, in milliseconds; at most %d", maxWait.Milliseconds()), number()),
	}
	respond(op, http.StatusOK, "as of the last commit", api.MediaJSON, doc.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.Commands](), true, ""))
	return problems(op, entry.Malformed, entry.NotFound)
}

func opHistory(doc huma.API) *huma.Operation {
	op := operation("history", agentsPath+"/{id}/history", "Read the history of a principal")
	op.Description = "Its signals with what was found of them, its executions that were to be undone, and the outcomes it reported, over the " +
		"incidents that it has to do with, the newest first. Every index is proven by an entry of the answer; the counts are over all pages."
	op.Parameters = []*huma.Param{
		inPath("id", "the principal, percent-encoded", text()),
		inQuery("before", "only incidents below this id", number()),
		inQuery("after", "instead: only incidents in which something changed behind this index, in the order of their newest change; "+
			"go on from cursor to miss no change", number()),
		pageLimit(maxHistory, historyDefault),
	}
	answersTagged[api.History](doc, op, "a page; the tag leaves the tree head and the proofs out")
	return problems(op, entry.Malformed, entry.NotFound)
}

func opGraph(doc huma.API) *huma.Operation {
	op := operation("graph", "/v1/workflows/{wid}/graph", "Read the executions of a workflow and what they depend on")
	op.Parameters = []*huma.Param{
		inPath("wid", "the workflow, percent-encoded", text()),
		inQuery("before", "only executions whose first entry is below this index", number()),
		pageLimit(api.MaxPage, pageDefault),
	}
	answersTagged[api.Graph](doc, op, "the newest first, as of the last commit")
	return problems(op, entry.Malformed, entry.NotFound)
}

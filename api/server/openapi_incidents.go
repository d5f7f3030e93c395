package server

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
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
		inQuery("state", "only in this state, or in any that is open or closed", oneOf(incidentStates())),
		inQuery("agent", "only those that this principal has to do with, by entries of its own or as the agent of members", text()),
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

func opHistory() *huma.Operation {
	op := operation("history", agentsPath+"/{id}/history", "Read the history of a principal")
	op.Description = "Its signals with what was found of them, its executions that were to be undone, and the outcomes it reported, over the " +
		"incidents that it has to do with, the newest first. Every index is proven by an entry of the answer; the counts are over all pages."
	op.Parameters = []*huma.Param{
		inPath("id", "the principal, percent-encoded", text()),
		inQuery("before", "only incidents below this id", number()),
		pageLimit(maxHistory, historyDefault),
	}
	respond(op, http.StatusOK, "a page", api.MediaJSON, nil)
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

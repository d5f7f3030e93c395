package api

import (
	"fmt"
	"net/http"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify/bundle"
)

// What follows from the log: agents, incidents, tasks, decisions about recovery.

// agentRoutes read what the log says of principals.
func agentRoutes() []Route {
	agent := inPath("id", schemaText, "agent-1", "the agent, percent-encoded")
	principal := inPath("id", schemaText, "agent-1", "the principal, percent-encoded")
	return []Route{{
		Name: "agents", Method: http.MethodGet, Path: PathAgents, Summary: "List principals and their keys", Query: asked[AgentsQuery],
		Answers: tagged("as of the last commit; the tag leaves size out", of[Agents]()), Problems: []entry.Problem{entry.Malformed},
	}, {
		Name: "agent", Method: http.MethodGet, Path: PathAgent, Summary: "Read a principal and its keys", Params: []Param{principal},
		Answers: tagged("as of the last commit", of[Agent]()), Problems: missing(),
	}, {
		Name: "history", Method: http.MethodGet, Path: PathHistory, Summary: "Read the history of a principal",
		Doc: "Its signals with what was found of them, its executions that were to be undone, and the outcomes it reported, over the " +
			"incidents that it has to do with, the newest first. Every index is proven by an entry of the answer; the counts are over all pages.",
		Params: []Param{principal}, Query: asked[HistoryQuery],
		Answers: tagged("a page; the tag leaves the tree head and the proofs out", of[History]()), Problems: missing(),
	}, {
		Name: "commands", Method: http.MethodGet, Path: PathCommands, Summary: "Ask what an agent has to do, and wait for it",
		Doc: "Answers at once, or, with wait, as soon as something at from or behind it concerns the agent, or the time is over. " +
			"It is a hint: what counts is the bundle.",
		Params: []Param{agent}, Query: asked[CommandsQuery], Answers: ok("as of the last commit", of[Commands]()), Problems: missing(),
	}}
}

// schemaBundle is of a [bundle.Bundle], whose form is fixed to the byte.
const schemaBundle = `{"type":"object","additionalProperties":false,
"required":["agent","consistency","entries","from","head","inclusion","members","membership","steps"],"properties":{
"agent":` + schemaText + `,"decision":` + schemaNumber + `,"head":` + schemaText + `,"from":` + schemaNumber + `,
"consistency":` + schemaHashes + `,"inclusion":` + schemaHashes + `,"membership":` + schemaHashes + `,
"entries":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["index","leaf"],
"properties":{"index":` + schemaNumber + `,"leaf":{"type":"object"}}}},
"members":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["member","place"],
"properties":{"place":` + schemaNumber + `,"member":{"type":"object"},"after":{"type":"array","items":` + schemaNumber + `}}}},
"steps":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["exec","from","rule"],"properties":{
"exec":` + schemaNumber + `,"rule":{"type":"string","enum":["` + bundle.RuleSeed + `","` + bundle.RuleDependent + `","` + bundle.RuleLine + `"]},
"from":` + schemaNumber + `,"by":` + schemaNumber + `,"checkpoint":` + schemaNumber + `}}}}}`

const schemaHashes = `{"type":"array","items":{"type":"string","contentEncoding":"base64"}}`

// bundleRoutes read what an agent obeys.
func bundleRoutes() []Route {
	answers := tagged(`the bundle, in the one form that verifiers read; if it is not all, the header Link has the path of the next, rel="next"`, Schema{JSON: schemaBundle})
	answers[0].Headers[0].Doc = "hash of the answer"
	return []Route{{
		Name: "authorization", Method: http.MethodGet, Path: PathBundle, Summary: "Read what shows an agent that it is to undo something",
		Doc: "The authorization bundle: decision, its signals, approvals, the agent's members with why they are to be undone, outcomes, policies and keys, " +
			"with proofs under one tree head. Nothing of it is to be believed before it was verified offline. " +
			"If no decision tells the agent to undo something, it is news. limit counts the agent's members; those of one line come together if they can.",
		Params: []Param{inPath("id", schemaNumber, 4, "index of the incident's opening signal")}, Query: asked[BundleQuery],
		Answers: answers, Problems: missing(),
	}, {
		Name: "news", Method: http.MethodGet, Path: PathNews, Summary: "Read what an agent is to know of",
		Doc: "Policies, agent entries about itself and about whoever is more than a plain agent, and overrides of its incidents, as a bundle " +
			"without a decision. limit counts these entries; those that they rest on come beside them.",
		Params: []Param{inPath("id", schemaText, "agent-1", "the agent, percent-encoded")}, Query: asked[NewsQuery],
		Answers: answers, Problems: missing(),
	}}
}

// incidentRoutes read incidents and what they touch.
func incidentRoutes() []Route {
	return []Route{{
		Name: "incidents", Method: http.MethodGet, Path: PathIncidents, Summary: "List incidents", Query: asked[IncidentQuery],
		Doc:     "The newest first, as of the last commit. A page may end early where few match: follow next to the end.",
		Answers: ok("a page", of[Incidents]()), Problems: []entry.Problem{entry.Malformed},
	}, {
		Name: "incident", Method: http.MethodGet, Path: PathIncident, Summary: "Read an incident",
		Params:  []Param{inPath("id", schemaNumber, 4, "index of its opening signal")},
		Answers: tagged("as of the last commit", of[Incident]()), Problems: missing(),
	}, {
		Name: "plan", Method: http.MethodGet, Path: PathPlan, Summary: "Read a plan, or preview it",
		Doc: "The plan in force with what became of its members; before there is one, and with preview=true, what a decision would have now. " +
			"A page of a large plan has the head over all members: follow next to the end.",
		Params: []Param{inPath("id", schemaNumber, 4, "index of the incident's opening signal")}, Query: asked[PlanQuery],
		Answers: tagged("as of the last commit", of[Plan]()), Problems: missing(),
	}, {
		Name: "graph", Method: http.MethodGet, Path: PathGraph, Summary: "Read the executions of a workflow and what they depend on",
		Params: []Param{inPath("wid", schemaText, "flow-1", "the workflow, percent-encoded")}, Query: asked[GraphQuery],
		Answers: tagged("the newest first, as of the last commit", of[Graph]()), Problems: missing(),
	}}
}

// renewal is a request that renews up to so many leases.
func renewal(leasesMax int) []Content {
	return []Content{{MediaJSON, Schema{JSON: fmt.Sprintf(`{"type":"object","additionalProperties":false,
"required":["aud","iss","keyid","leases","seq","session","sig"],"properties":{"aud":%[1]s,"iss":%[1]s,"seq":%[2]s,"session":%[1]s,"keyid":%[1]s,
"sig":{"type":"string","contentEncoding":"base64"},"leases":{"type":"array","minItems":1,"maxItems":%[3]d,"items":{"type":"object",
"additionalProperties":false,"required":["epoch","task"],"properties":{"epoch":%[2]s,"task":%[1]s,"over":{"type":"object","description":
"the snapshot of a claim that has come to an end, in place of renewing it: the task then failed, or was interrupted (crash.interrupted)"}}}}}}`,
		schemaText, schemaNumber, leasesMax)}, exampleRenewal}}
}

// taskRoutes read tasks and renew their leases.
func taskRoutes() []Route {
	id := inPath("id", schemaText, "olga#book-room", "the reference issuer#id, percent-encoded")
	return []Route{{
		Name: "tasks", Method: http.MethodGet, Path: PathTasks, Summary: "List tasks", Query: asked[TaskQuery],
		Doc:     "The newest first, as of the last commit. A page may end early where few match: follow next to the end.",
		Answers: ok("a page", of[Tasks]()), Problems: []entry.Problem{entry.Malformed},
	}, {
		Name: "task", Method: http.MethodGet, Path: PathTask, Summary: "Read a task", Params: []Param{id},
		Answers: tagged("as of the last commit, with its lease as it is now", of[Task]()), Problems: missing(),
	}, {
		Name: "lease", Method: http.MethodPost, Path: PathLease, Summary: "Renew the lease of a task", Doc: "As " + PathLeases + ", for one.",
		Params: []Param{id}, Takes: renewal(1), Answers: withBody("the request came too slowly", ok("renewed", of[Lease]())...),
		Problems: []entry.Problem{entry.Malformed, entry.BadSignature, entry.UnknownIssuer, entry.UnauthorizedRole, entry.NoStanding, entry.WrongAudience,
			entry.NotFound, entry.StateConflict, entry.StaleEpoch, entry.TooLarge},
	}, {
		Name: "leases", Method: http.MethodPost, Path: PathLeases, Summary: "Renew the leases that an agent holds",
		Doc: "By who holds them. sig is over the DSSE pre-authentication encoding of the type application/vnd.agent-recovery.lease+json and the " +
			"RFC 8785 form of the members without keyid and sig; the body is in RFC 8785 form, too. seq grows with every renewal, and session is that " +
			"of the leases as GET tells it: heard again, a renewal says nothing new. Each lease is judged by itself.",
		Takes: renewal(entry.MaxLeases), Answers: withBody("the request came too slowly", ok("what became of each lease: the signature counts", of[Renewed]())...),
		Problems: []entry.Problem{entry.Malformed, entry.BadSignature, entry.UnknownIssuer, entry.UnauthorizedRole, entry.WrongAudience, entry.TooLarge},
	}}
}

// recoveryRoutes decide about failures in cases. The schemas of cases and traces are
// those of the engine.
func recoveryRoutes() []Route {
	failure := Schema{JSON: component("Case")}
	return []Route{{
		Name: "recover", Method: http.MethodPost, Path: PathRecoveries, Summary: "Decide what to do about the failures in a case",
		Doc: "The rules of the policy in force decide, attempts are looked up in the case itself. Nothing is executed and nothing is " +
			"written to the log: the same case under the same rules is the same answer.",
		Takes:    []Content{{MediaJSON, failure, exampleCase}},
		Answers:  withBody("the request came too slowly", ok("what was decided, step by step", of[Recovery]())...),
		Problems: []entry.Problem{entry.Malformed, entry.TooLarge, entry.NotReady},
	}, {
		Name: "recoverBatch", Method: http.MethodPost, Path: PathBatch, Summary: "Decide about many cases, one a line",
		Doc: "Every line is answered by one line, in order and while the request is still being sent: by a trace, or by the problem " +
			"that it has. The last line sums up; without it the answer is not whole.",
		Takes: []Content{{MediaNDJSON, lines("one case a line", failure), "[" + exampleCase + "," + exampleHealthy + "]"}},
		Answers: withBody("the first line came too slowly", Response{Status: http.StatusOK, Doc: "a line for each line, then the end",
			Content: []Content{content(MediaNDJSON, lines("traces and problems, then the end", of[RecoveryLine]()))}}),
		Problems: []entry.Problem{entry.Malformed, entry.NotReady}, Plain: true,
	}}
}

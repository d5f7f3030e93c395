package api

import (
	"fmt"
	"net/http"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify/bundle"
)

// The routes of state that follows from the log: agents, incidents, tasks, decisions about
// recovery.

// agentRoutes read the log's statements about principals.
func agentRoutes() []Route {
	agent := inPath("id", schemaText, "agent-1", "the agent, percent-encoded")
	principal := inPath("id", schemaText, "agent-1", "the principal, percent-encoded")
	return []Route{{
		Name: "agents", Method: http.MethodGet, Path: PathAgents, Summary: "List principals and their keys", Query: asked[AgentsQuery],
		Answers: tagged("the principals as of the last commit; the tag does not depend on size", of[Agents]()), Problems: []entry.Problem{entry.Malformed},
	}, {
		Name: "agent", Method: http.MethodGet, Path: PathAgent, Summary: "Read a principal and its keys", Params: []Param{principal},
		Answers: tagged("the principal as of the last commit", of[Agent]()), Problems: missing(),
	}, {
		Name: "history", Method: http.MethodGet, Path: PathHistory, Summary: "Read the history of a principal",
		Doc: "The signals of the principal with their dispositions, its executions in rollback sets, and the outcomes that it reported, the newest " +
			"incident first. An entry of the answer proves every index. The counts are over all pages.",
		Params: []Param{principal}, Query: asked[HistoryQuery],
		Answers: tagged("a page; the tag does not depend on the tree head and the proofs", of[History]()), Problems: missing(),
	}, {
		Name: "commands", Method: http.MethodGet, Path: PathCommands, Summary: "Ask what an agent has to do, and wait for it",
		Doc: "Without wait, the server answers at once. With wait, the server answers when an entry from index from on concerns the agent, or when " +
			"the time is over. The answer is a hint: only the bundle proves a command.",
		Params: []Param{agent}, Query: asked[CommandsQuery], Answers: ok("the commands as of the last commit", of[Commands]()), Problems: missing(),
	}}
}

// schemaBundle is the schema of a [bundle.Bundle], whose form is fixed to the byte.
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

// bundleRoutes read the bundles that agents verify.
func bundleRoutes() []Route {
	answers := tagged(`the bundle, in the only form that verifiers read; if there are more pages, the header Link has the path of the next one, rel="next"`, Schema{JSON: schemaBundle})
	answers[0].Headers[0].Doc = "hash of the answer"
	return []Route{{
		Name: "authorization", Method: http.MethodGet, Path: PathBundle, Summary: "Read an agent's authorization bundle",
		Doc: "The bundle has the decision, its signals and approvals, the agent's members with the reasons why they are in the plan, outcomes, policies and " +
			"keys, all proven under one tree head. An agent verifies the bundle offline before it acts. If no decision tells the agent to undo anything, the " +
			"bundle is news, without a decision. limit counts the agent's members; members of one line come together where possible.",
		Params: []Param{inPath("id", schemaNumber, 4, "index of the incident's opening signal")}, Query: asked[BundleQuery],
		Answers: answers, Problems: missing(),
	}, {
		Name: "news", Method: http.MethodGet, Path: PathNews, Summary: "Read an agent's news",
		Doc: "News is a bundle without a decision: policies, agent entries about the agent itself and about principals with more than the role agent, " +
			"and overrides of the agent's incidents. limit counts these entries; the entries that verify them come too.",
		Params: []Param{inPath("id", schemaText, "agent-1", "the agent, percent-encoded")}, Query: asked[NewsQuery],
		Answers: answers, Problems: missing(),
	}}
}

// incidentRoutes read incidents, their plans, and the graphs of workflows.
func incidentRoutes() []Route {
	return []Route{{
		Name: "incidents", Method: http.MethodGet, Path: PathIncidents, Summary: "List incidents", Query: asked[IncidentQuery],
		Doc:     "The list has the newest first, as of the last commit. A page may have few elements: follow next until it is absent.",
		Answers: ok("a page", of[Incidents]()), Problems: []entry.Problem{entry.Malformed},
	}, {
		Name: "incident", Method: http.MethodGet, Path: PathIncident, Summary: "Read an incident",
		Params:  []Param{inPath("id", schemaNumber, 4, "index of its opening signal")},
		Answers: tagged("the incident as of the last commit", of[Incident]()), Problems: missing(),
	}, {
		Name: "plan", Method: http.MethodGet, Path: PathPlan, Summary: "Read a plan, or preview it",
		Doc: "The plan in force, with the results of its members. Before a plan is in force, and with preview=true, the plan that a decision would have " +
			"now. Each page has the head over all members: follow next until it is absent.",
		Params: []Param{inPath("id", schemaNumber, 4, "index of the incident's opening signal")}, Query: asked[PlanQuery],
		Answers: tagged("the plan as of the last commit", of[Plan]()), Problems: missing(),
	}, {
		Name: "why", Method: http.MethodGet, Path: PathWhy, Summary: "Read why an execution is a member of a plan",
		Doc: "The chain of executions from one that a signal names to the member, in the plan that a decision would have now.",
		Params: []Param{inPath("id", schemaNumber, 4, "index of the incident's opening signal"), inPath("exec", schemaText, "agent-1#search",
			"the execution as issuer#id, percent-encoded")},
		Answers: tagged("the chain as of the last commit", of[Why]()), Problems: missing(),
	}, {
		Name: "escalations", Method: http.MethodGet, Path: PathEscalations, Summary: "List what waits for people", Query: asked[EscalationQuery],
		Doc: "The list has the tasks that wait for an operator, and the incidents that wait for approvals, or for a person who acknowledges that no approver " +
			"answered, as of the last commit. The newest task or incident comes first. A page may have few elements: follow next until it is absent.",
		Answers: ok("a page", of[Escalations]()), Problems: []entry.Problem{entry.Malformed},
	}, {
		Name: "graph", Method: http.MethodGet, Path: PathGraph, Summary: "Read the executions of a workflow and their dependencies",
		Params: []Param{inPath("wid", schemaText, "flow-1", "the workflow, percent-encoded")}, Query: asked[GraphQuery],
		Answers: tagged("the executions, the newest first, as of the last commit", of[Graph]()), Problems: missing(),
	}}
}

// renewal is a request that renews up to so many leases.
func renewal(leasesMax int) []Content {
	return []Content{{MediaJSON, Schema{JSON: fmt.Sprintf(`{"type":"object","additionalProperties":false,
"required":["aud","iss","keyid","leases","seq","session","sig"],"properties":{"aud":%[1]s,"iss":%[1]s,"seq":%[2]s,"session":%[1]s,"keyid":%[1]s,
"sig":{"type":"string","contentEncoding":"base64"},"leases":{"type":"array","minItems":1,"maxItems":%[3]d,"items":{"type":"object",
"additionalProperties":false,"required":["epoch","task"],"properties":{"epoch":%[2]s,"task":%[1]s,"over":{"type":"object","description":
"the snapshot of a claim that ended, in place of a renewal: the task failed, or was interrupted (crash.interrupted)"}}}}}}`,
		schemaText, schemaNumber, leasesMax)}, exampleRenewal}}
}

// taskRoutes read tasks and renew their leases.
func taskRoutes() []Route {
	id := inPath("id", schemaText, "olga#book-room", "the reference issuer#id, percent-encoded")
	return []Route{{
		Name: "tasks", Ordered: true, Method: http.MethodGet, Path: PathTasks, Summary: "List tasks", Query: asked[TaskQuery],
		Doc:     "The list has the newest first, as of the last commit. A page may have few elements: follow next until it is absent.",
		Answers: ok("a page", of[Tasks]()), Problems: []entry.Problem{entry.Malformed},
	}, {
		Name: "task", Ordered: true, Method: http.MethodGet, Path: PathTask, Summary: "Read a task", Params: []Param{id},
		Answers: tagged("the task as of the last commit, with its present lease", of[Task]()), Problems: missing(),
	}, {
		Name: "lease", Ordered: true, Method: http.MethodPost, Path: PathLease, Summary: "Renew the lease of a task", Doc: "Like " + PathLeases + ", for one lease.",
		Params: []Param{id}, Takes: renewal(1), Answers: withBody("the request arrived too slowly", ok("the renewed lease", of[Lease]())...),
		Problems: []entry.Problem{entry.Malformed, entry.BadSignature, entry.UnknownIssuer, entry.UnauthorizedRole, entry.NoStanding, entry.WrongAudience,
			entry.NotFound, entry.StateConflict, entry.StaleEpoch, entry.TooLarge},
	}, {
		Name: "leases", Ordered: true, Method: http.MethodPost, Path: PathLeases, Summary: "Renew the leases that an agent holds",
		Doc: "The agent that holds the leases signs the renewal. sig is over the DSSE pre-authentication encoding of the type " +
			"application/vnd.agent-recovery.lease+json and the RFC 8785 form of the members without keyid and sig. The body is in RFC 8785 form, too. seq " +
			"grows with every renewal. session is the session of the leases, as GET of the task answers it. So a renewal that is sent again renews nothing. " +
			"The coordinator judges each lease by itself.",
		Takes: renewal(entry.MaxLeases), Answers: withBody("the request arrived too slowly", ok("the signature is good; an answer for each lease", of[Renewed]())...),
		Problems: []entry.Problem{entry.Malformed, entry.BadSignature, entry.UnknownIssuer, entry.UnauthorizedRole, entry.WrongAudience, entry.TooLarge},
	}}
}

// recoveryRoutes decide about failures in cases. The schemas of cases and traces are
// those of the engine.
func recoveryRoutes() []Route {
	failure := Schema{JSON: component("Case")}
	return []Route{{
		Name: "recover", Ordered: true, Method: http.MethodPost, Path: PathRecoveries, Summary: "Decide what to do about the failures in a case",
		Doc: "The rules of the policy in force decide. The recorded attempts of the case answer the decisions. Nothing is executed. While a rollout " +
			"is under way, the rules of the case's arm decide. An engine of the server records the attempts; `recorded` says whether, and else why not. " +
			"The same case under the same rules gives the same answer, and is recorded once.",
		Query:    asked[RecoveryQuery],
		Takes:    []Content{{MediaJSON, failure, exampleCase}},
		Answers:  withBody("the request arrived too slowly", ok("the decisions, step by step", of[Recovery]())...),
		Problems: []entry.Problem{entry.Malformed, entry.TooLarge, entry.NotReady},
	}, {
		Name: "recoverBatch", Ordered: true, Method: http.MethodPost, Path: PathBatch, Summary: "Decide what to do about many cases, one a line",
		Doc: "The server answers every line with one line, in order, while the client still sends: a trace, or the problem of the line. The last line " +
			"is the summary. An answer without the summary is not whole. Attempts are recorded as those of one case.",
		Query: asked[RecoveryQuery],
		Takes: []Content{{MediaNDJSON, lines("one case a line", failure), "[" + exampleCase + "," + exampleHealthy + "]"}},
		Answers: withBody("the first line arrived too slowly", Response{Status: http.StatusOK, Doc: "a line for each line of the request, then the summary",
			Content: []Content{content(MediaNDJSON, lines("traces and problems, then the summary", of[RecoveryLine]()))}}),
		Problems: []entry.Problem{entry.Malformed, entry.NotReady}, Plain: true,
	}, {
		Name: "decide", Method: http.MethodPost, Path: PathDecide, Summary: "Decide what a live loop does about one failure",
		Doc: "The rules of the policy in force answer the failure with which a history ends: one action, its rule and its reason. The question has the " +
			"failure as class and code, or as the raw error. The loop carries the action out, appends the rung of the answer with its result to the " +
			"history, and asks again at the next failure. Nothing is written to the log. The same question under the same rules gets the same answer.",
		Takes:    []Content{{MediaJSON, Schema{JSON: component("Question")}, exampleQuestion}},
		Answers:  withBody("the request arrived too slowly", ok("the decision", of[Decided]())...),
		Problems: []entry.Problem{entry.Malformed, entry.TooLarge, entry.NotReady},
	}}
}

// rolloutRoutes read the rollouts of candidate policies.
func rolloutRoutes() []Route {
	return []Route{{
		Name: "rollouts", Method: http.MethodGet, Path: PathRollouts, Summary: "List the rollouts of candidate policies",
		Doc:     fmt.Sprintf("The rollout under way, with its arms and gates, and those that ended, the newest first, at most %d of them.", RolloutsMax),
		Answers: tagged("the rollouts as of the last commit; the tag does not depend on size", of[Rollouts]()), Problems: []entry.Problem{entry.Malformed},
	}, {
		Name: "rollout", Method: http.MethodGet, Path: PathRollout, Summary: "Read a rollout",
		Doc:     "While the rollout is under way: its terms, how the arms compare in each gate, and what a promotion lacks. Once it is over: how it ended.",
		Params:  []Param{inPath("id", schemaText, "r1", "the rollout, percent-encoded")},
		Answers: tagged("the rollout as of the last commit; the tag does not depend on size", of[OneRollout]()), Problems: missing(),
	}}
}

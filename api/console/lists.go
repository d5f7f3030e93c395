package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"recoveryledger/api"
	"recoveryledger/api/words"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// rows is how many lines a list shows on one page.
const rows = 100

// scanned is how many incidents one page looks at to fill its lines.
const scanned = 10_000

// overviewPage is what the first page shows.
type overviewPage struct {
	Waiting   []waitingRow
	NextAt    int64  // when an open incident goes on by itself, Unix milliseconds; 0: none does
	NextOf    uint64 // that incident
	NextStep  string
	Progress  []incidentRow
	Over      []stateCount
	More      bool   // whether incidents that are older than those looked at may wait, too
	MoreTasks string // link to further tasks that wait; empty: there are none
}

type stateCount struct {
	State string
	Count int
}

// incidentRow is a line of a list of incidents.
type incidentRow struct {
	ID       uint64
	Opened   int64
	State    string
	Open     bool
	Workflow entry.WorkflowID
	About    entry.Ref
	Signals  int
	WaitsFor string
}

func newIncidentRow(v *coord.IncidentView) incidentRow {
	return incidentRow{ID: v.ID, Opened: v.OpenedAt, State: words.IncidentState(&v.Incident), Open: v.State.Open(), Workflow: v.Wid,
		About: v.Signals[0].Subject, Signals: len(v.Signals), WaitsFor: words.IncidentWaitsFor(&v.Incident)}
}

// waitingRow is something that waits for people.
type waitingRow struct {
	words.Escalation
	Link  string
	Until int64  // when something else happens without an answer, Unix milliseconds; 0: never
	Then  string // what happens then
}

// overview is GET /: what waits for people, what goes on, and what is over.
func (k *Console) overview(q *http.Request) (*page, error) {
	body := &overviewPage{}
	p := &page{name: "overview", Title: "Overview", Command: "arl escalation list", Section: "Overview", Body: body, About: []string{"incident/*", "task/*"}}
	var tasks []api.Task
	k.cfg.Source.Read(func(state *coord.State, at Standing) {
		p.At = at
		k.overviewIncidents(body, state, at.Now)
		tasks, body.MoreTasks = k.findTasks(k.known(state, at), &api.TaskQuery{State: api.StateOperator}, 0, url.Values{"state": {api.StateOperator}})
	})
	for i := range tasks {
		k.words(q.Context(), &tasks[i])
		body.Waiting = append(body.Waiting, waitingRow{Escalation: words.EscalatedTask(&tasks[i]), Link: k.link("/tasks", tasks[i].Task)})
	}
	slices.SortStableFunc(body.Waiting, func(a, b waitingRow) int { return cmp.Compare(a.Since, b.Since) })
	return p, nil
}

// overviewIncidents shows which incidents wait for people, which go on, and how many are
// over.
func (k *Console) overviewIncidents(body *overviewPage, state *coord.State, now int64) {
	views := state.Incidents(0, scanned, now)
	body.More = len(views) == scanned
	for i := range views {
		v := &views[i]
		until, then := nextStep(v)
		if until > now && (body.NextAt == 0 || until < body.NextAt) {
			body.NextAt, body.NextOf, body.NextStep = until, v.ID, then
		}
		if e, asks := words.EscalatedIncident(&v.Incident); asks {
			body.Waiting = append(body.Waiting, waitingRow{Escalation: e, Link: k.link("/incidents", v.ID), Until: until, Then: then})
		} else if v.State.Open() && len(body.Progress) < rows {
			body.Progress = append(body.Progress, newIncidentRow(v))
		}
	}
	counts, _ := state.IncidentCounts(now)
	for _, name := range api.IncidentStates() {
		for s, count := range counts {
			if s.String() == name && !s.Open() && count > 0 {
				body.Over = append(body.Over, stateCount{name, count})
			}
		}
	}
}

// nextStep returns when an incident goes on by itself, in Unix milliseconds, and what
// happens then; 0: it does not.
func nextStep(v *coord.IncidentView) (at int64, then string) {
	switch {
	case !v.State.Open():
		return 0, ""
	case v.Proposal != nil:
		return v.Proposal.AnswerAt, "without an answer the proposal is denied"
	case v.Decision != nil:
		return v.Decision.DeadlineAt, "members without an outcome become unknown, and the incident is closed"
	}
	return v.DecideAt, "people may propose the plan in the place of the coordinator"
}

// incidentsPage is a page of the list of incidents.
type incidentsPage struct {
	Filter api.IncidentQuery
	States []string
	Rows   []incidentRow
	Older  string // link; empty: there are none
}

// incidents is GET /incidents.
func (k *Console) incidents(q *http.Request) (*page, error) {
	older, err := before(q)
	if err != nil {
		return nil, err
	}
	body := &incidentsPage{States: append([]string{api.StateOpen, api.StateClosed, api.StateUnacknowledged}, api.IncidentStates()...)}
	given := q.URL.Query()
	body.Filter = api.IncidentQuery{State: given.Get("state"), Agent: entry.Principal(given.Get("agent")), Workflow: entry.WorkflowID(given.Get("workflow"))}
	if body.Filter.State != "" && !slices.Contains(body.States, body.Filter.State) {
		return nil, entry.Refuse(entry.Malformed, "state", "%.140q is not a state of incidents", body.Filter.State).
			WithRemedy("choose one of " + strings.Join(body.States, ", "))
	}
	p := &page{name: "incidents", Title: "Incidents", Command: commandOf(&body.Filter), Section: "Incidents", Body: body, About: []string{"incident/*"}}
	k.cfg.Source.Read(func(state *coord.State, at Standing) {
		p.At = at
		views := state.Incidents(older, scanned, at.Now)
		if body.Filter.Agent != "" {
			views = state.IncidentsOf(body.Filter.Agent, older, scanned, at.Now)
		}
		for i := range views {
			if len(body.Rows) == rows {
				body.Older = k.olderLink("/incidents", given, views[i-1].ID)
				break
			}
			if views[i].Matches(&body.Filter) {
				body.Rows = append(body.Rows, newIncidentRow(&views[i]))
			}
		}
		if body.Older == "" && len(views) == scanned {
			body.Older = k.olderLink("/incidents", given, views[scanned-1].ID)
		}
	})
	return p, nil
}

// olderLink is the link to the lines of a list from below an index on.
func (k *Console) olderLink(path string, given url.Values, before uint64) string {
	given.Set("before", decimal(before))
	return k.link(path) + "?" + given.Encode()
}

// commandOf is the command that lists the same incidents.
func commandOf(f *api.IncidentQuery) string {
	command := []string{"arl incident list"}
	for _, flag := range []struct{ name, value string }{{"--state", f.State}, {"--agent", string(f.Agent)}, {"--workflow", string(f.Workflow)}} {
		if flag.value != "" {
			command = append(command, flag.name, Quoted(flag.value))
		}
	}
	return strings.Join(command, " ")
}

// Quoted returns a word as a shell takes it (POSIX.1-2017, section 2.2.2).
func Quoted(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune("-._#/:@+", r) && !isPlain(r) }) && text != "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func isPlain(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

// workflowPage is a page of the executions of a workflow.
type workflowPage struct {
	Wid   entry.WorkflowID
	Rows  []coord.ExecutionView
	Older string
}

// workflow is GET /workflows/{wid}.
func (k *Console) workflow(q *http.Request) (*page, error) {
	older, err := before(q)
	if err != nil {
		return nil, err
	}
	body, known := &workflowPage{Wid: entry.WorkflowID(q.PathValue("wid"))}, false
	p := &page{name: "workflow", Title: "Workflow " + string(body.Wid), Section: "Incidents", Body: body, About: []string{subject(entry.SubjectWorkflow, body.Wid)},
		Command: "arl entry list --kind execution --workflow " + Quoted(string(body.Wid))}
	k.cfg.Source.Read(func(state *coord.State, at Standing) {
		p.At = at
		body.Rows, known = state.Workflow(body.Wid, older, rows+1, at.Now)
	})
	if !known {
		return nil, entry.Refuse(entry.NotFound, "workflow", "no execution of workflow %.140q in the log", body.Wid).
			WithRemedy("the pages of incidents and entries link their workflows")
	}
	if len(body.Rows) > rows {
		body.Rows = body.Rows[:rows]
		body.Older = k.link("/workflows", body.Wid) + "?before=" + decimal(body.Rows[rows-1].Index)
	}
	return p, nil
}

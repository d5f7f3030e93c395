package console

import (
	"net/http"
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
	Waiting  []words.Escalation
	Progress []incidentRow
	Over     []stateCount
	More     bool // whether incidents that are older than those looked at may wait, too
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

// overview is GET /: what waits for people, what goes on, and what is over.
func (k *Console) overview(_ *http.Request) (*page, error) {
	body := &overviewPage{}
	p := &page{name: "overview", Title: "Overview", Command: "arl escalation list", Section: "Overview", Body: body, About: []string{"incident/*", "task/*"}}
	k.cfg.Source.Read(func(state *coord.State, at Standing) {
		p.At = at
		views := state.Incidents(0, scanned, at.Now)
		body.More = len(views) == scanned
		for i := range views {
			v := &views[i]
			if e, asks := words.EscalatedIncident(&v.Incident); asks {
				body.Waiting = append(body.Waiting, e)
			} else if v.State.Open() && len(body.Progress) < rows {
				body.Progress = append(body.Progress, newIncidentRow(v))
			}
		}
		counts, _ := state.IncidentCounts(at.Now)
		for _, name := range api.IncidentStates() {
			for s, count := range counts {
				if s.String() == name && !s.Open() && count > 0 {
					body.Over = append(body.Over, stateCount{name, count})
				}
			}
		}
	})
	slices.SortStableFunc(body.Waiting, func(a, b words.Escalation) int { return int(a.Since - b.Since) })
	return p, nil
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
				given.Set("before", decimal(views[i-1].ID))
				body.Older = k.link("/incidents") + "?" + given.Encode()
				break
			}
			if views[i].Matches(&body.Filter) {
				body.Rows = append(body.Rows, newIncidentRow(&views[i]))
			}
		}
		if body.Older == "" && len(views) == scanned {
			given.Set("before", decimal(views[scanned-1].ID))
			body.Older = k.link("/incidents") + "?" + given.Encode()
		}
	})
	return p, nil
}

// commandOf is the command that lists the same incidents.
func commandOf(f *api.IncidentQuery) string {
	command := []string{"arl incident list"}
	for _, flag := range []struct{ name, value string }{{"--state", f.State}, {"--agent", string(f.Agent)}, {"--workflow", string(f.Workflow)}} {
		if flag.value != "" {
			command = append(command, flag.name, quoted(flag.value))
		}
	}
	return strings.Join(command, " ")
}

// quoted is a word as a shell takes it (POSIX.1-2017, section 2.2.2).
func quoted(text string) string {
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
		Command: "arl entry list --kind execution --workflow " + quoted(string(body.Wid))}
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

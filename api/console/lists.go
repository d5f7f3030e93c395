package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"recoveryledger/api"
	"recoveryledger/api/view"
	"recoveryledger/api/words"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// rows is how many lines a list shows on one page.
const rows = 100

// overviewPage is what the first page shows.
type overviewPage struct {
	Waiting  []waitingRow
	Older    string // link to what waits, too; empty: there is no more
	Next     *api.NextStep
	NextOf   uint64 // the incident of Next
	Progress []incidentRow
	More     bool // whether further incidents are open
	New      int  // how many of Waiting wait since less than an hour
	recent
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
	Concern  *concern // nil: not counted
}

// waitingRow is something that waits for people.
type waitingRow struct {
	api.Escalation
	Asks string
	Link string
}

// overview is GET /: what waits for people, what goes on, and what is over.
func (k *Console) overview(q *http.Request) (*page, error) {
	older, err := before(q)
	if err != nil {
		return nil, err
	}
	body := &overviewPage{}
	body.look(q.Context(), k)
	p := &page{name: "overview", Title: "Overview", Command: "arl escalation list", Section: "Overview", Body: body, About: []string{"incident/*", "task/*"}}
	var waiting []view.Waiting
	k.cfg.Source.Read(func(state *coord.State, at Standing) {
		p.At = at
		var next *api.EscalationQuery
		if waiting, next = view.WaitingForPeople(state, &k.rules, &api.EscalationQuery{Before: older, Limit: rows}, at.Now); next != nil {
			body.Older = k.link("/") + "?before=" + decimal(next.Before)
		}
		body.addIncidents(state, at.Now)
	})
	for i := range waiting {
		path := "/incidents"
		if t := waiting[i].Task; t != nil {
			k.words(q.Context(), t)
			path = "/tasks"
		}
		e := waiting[i].Escalation()
		if e.Since > p.At.Now-hourMS {
			body.New++
		}
		body.Waiting = append(body.Waiting, waitingRow{e, words.Asks(&e), k.link(path, e.ID)})
	}
	slices.SortStableFunc(body.Waiting, func(a, b waitingRow) int { return cmp.Compare(a.Since, b.Since) })
	return p, nil
}

// addIncidents shows which incidents go on, what the coordinator does next about those, and how
// many are over.
func (b *overviewPage) addIncidents(state *coord.State, now int64) {
	open, more := view.Incidents(state, &api.IncidentQuery{State: api.StateOpen, Limit: rows}, now)
	b.More = more != nil
	list := newIncidentLister(state, now)
	for i := range open {
		v := &open[i]
		if step := view.Next(state, v.ID, now); step != nil && (b.Next == nil || step.At < b.Next.At) {
			b.Next, b.NextOf = step, v.ID
		}
		if coord.WaitsForPeople(v) == nil {
			b.Progress = append(b.Progress, list.row(v))
		}
	}
	b.count(state, now)
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
	body := &incidentsPage{States: api.IncidentChoices()}
	given := q.URL.Query()
	body.Filter = api.IncidentQuery{State: given.Get("state"), Agent: entry.Principal(given.Get("agent")), Workflow: entry.WorkflowID(given.Get("workflow"))}
	if body.Filter.State != "" && !slices.Contains(body.States, body.Filter.State) {
		return nil, entry.Refuse(entry.Malformed, "state", "%.140q is not a state of incidents", body.Filter.State).
			WithRemedy("choose one of " + strings.Join(body.States, ", "))
	}
	p := &page{name: "incidents", Title: "Incidents", Command: commandOf(&body.Filter), Section: "Incidents", Body: body, About: []string{"incident/*"}}
	k.cfg.Source.Read(func(state *coord.State, at Standing) {
		p.At = at
		body.Filter.Before, body.Filter.Limit = older, rows
		found, next := view.Incidents(state, &body.Filter, at.Now)
		list := newIncidentLister(state, at.Now)
		for i := range found {
			body.Rows = append(body.Rows, list.row(&found[i]))
		}
		if next != nil {
			body.Older = k.olderLink("/incidents", given, next.Before)
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
			command = append(command, flag.name, words.Quoted(flag.value))
		}
	}
	return strings.Join(command, " ")
}

package console

import (
	"fmt"
	"net/http"

	"recoveryledger/api"
	"recoveryledger/api/view"
	"recoveryledger/api/words"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// workflowPage is a page of the executions of a workflow, drawn as the plan of an incident is.
type workflowPage struct {
	Wid       entry.WorkflowID
	Picture   *picture
	Rows      []executionRow
	Older     string
	Incidents []incidentRow // the newest ones that a signal of the workflow opened
	More      bool          // whether there are older incidents
}

// executionRow is a line of the table of executions.
type executionRow struct {
	coord.ExecutionView
	Look look
}

func newExecutionRow(x coord.ExecutionView) executionRow { return executionRow{x, executionLook(&x)} }

// The states of an execution in a picture, whichever comes first.
var (
	lookUndone    = look{"⟲", "undone", "done"}
	lookReported  = look{"✕", "reported as failed", "stays"}
	lookFailed    = look{"✕", "failed", "stays"}
	lookFenced    = look{"‖", "fenced", "waits"}
	lookCancelled = look{"–", "cancelled", "done"}
	lookConfirmed = look{"✓", "confirmed", "done"}
	lookStarted   = look{"▶", "started", "begins"}
	lookPlanned   = look{"○", "planned", "waits"}
)

// executionLook is how an execution is shown.
func executionLook(x *coord.ExecutionView) look {
	switch {
	case x.Undone:
		return lookUndone
	case len(x.Reported) > 0:
		return lookReported
	case x.Progress == entry.Failed:
		return lookFailed
	case x.FencedBy != 0:
		return lookFenced
	case x.Progress == entry.Cancelled:
		return lookCancelled
	case x.Progress == entry.Confirmed:
		return lookConfirmed
	case x.Progress == entry.Started:
		return lookStarted
	}
	return lookPlanned
}

// workflow is GET /workflows/{wid}.
func (k *Console) workflow(q *http.Request) (*page, error) {
	older, err := before(q)
	if err != nil {
		return nil, err
	}
	body, known := &workflowPage{Wid: entry.WorkflowID(q.PathValue("wid"))}, false
	p := &page{name: "workflow", Title: "Workflow " + string(body.Wid), Section: "Incidents", Body: body, About: []string{subject(entry.SubjectWorkflow, body.Wid)},
		Command: "arl entry list --kind execution --workflow " + words.Quoted(string(body.Wid))}
	k.cfg.Source.Read(func(state *coord.State, at Standing) {
		p.At = at
		var found []coord.ExecutionView
		if found, known = state.Workflow(body.Wid, older, rows+1, at.Now); !known {
			return
		}
		if len(found) > rows {
			found = found[:rows]
			body.Older = k.link("/workflows", body.Wid) + "?before=" + decimal(found[rows-1].Index)
		}
		body.fill(state, found, at.Now)
		if len(body.Rows) > 0 {
			body.Picture = k.linked(body.draw(state))
		}
	})
	if !known {
		return nil, entry.Refuse(entry.NotFound, "workflow", "no execution of workflow %.140q in the log", body.Wid).
			WithRemedy("the pages of incidents and entries link their workflows")
	}
	return p, nil
}

// fill makes the lines of the tables: executions, and incidents.
func (b *workflowPage) fill(state *coord.State, found []coord.ExecutionView, now int64) {
	incidents, next := view.Incidents(state, &api.IncidentQuery{Workflow: b.Wid, Limit: rows}, now)
	b.More = next != nil
	list := newIncidentLister(state, now)
	for i := range incidents {
		b.Incidents = append(b.Incidents, list.row(&incidents[i]))
	}
	for i := range found {
		b.Rows = append(b.Rows, newExecutionRow(found[i]))
	}
}

// draw makes the picture of the executions that the page lists.
func (b *workflowPage) draw(state *coord.State) *picture {
	places := map[entry.Ref]int{}
	for i := range b.Rows {
		places[b.Rows[i].Exec] = i
	}
	nodes := make([]node, len(b.Rows))
	for i := range b.Rows {
		r, n := &b.Rows[i], &nodes[i]
		agent, _ := r.Exec.Split()
		n.Agent, n.Exec, n.Index, n.Under, n.Look = agent, r.Exec, r.Index, string(r.Effect), r.Look
		if len(r.Reported) > 0 {
			n.Under += fmt.Sprintf(" · ✕ %d", r.Reported[0])
		}
		for _, parent := range r.Parents {
			if place, drawn := places[parent.Exec]; drawn {
				n.Parents = append(n.Parents, api.PlanParent{Place: place, Dep: parent.Dep})
			} else {
				n.Beyond++
			}
		}
		number, _ := state.FindExecution(r.Exec) // the state has it
		for child := range state.Graph().Children(number) {
			if _, drawn := places[state.ExecutionRef(child)]; !drawn {
				n.Beyond++
			}
		}
	}
	p := layOut(nodes)
	p.Of, p.Table = "workflow", "executions"
	p.Hint = "An arrow leads from an execution to what was built on it. ✕ and a number name the newest incident with a signal about the execution or its task."
	return p
}

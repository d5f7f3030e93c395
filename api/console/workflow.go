package console

import (
	"fmt"
	"net/http"
	"slices"

	"recoveryledger/api"
	"recoveryledger/api/view"
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
	Look     look
	Reported []uint64 // incidents with a signal about it that was not dismissed
}

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

// lookOf is how an execution is shown.
func (r *executionRow) lookOf() look {
	switch {
	case r.Undone:
		return lookUndone
	case len(r.Reported) > 0:
		return lookReported
	case r.Progress == entry.Failed:
		return lookFailed
	case r.FencedBy != 0:
		return lookFenced
	case r.Progress == entry.Cancelled:
		return lookCancelled
	case r.Progress == entry.Confirmed:
		return lookConfirmed
	case r.Progress == entry.Started:
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
		Command: "arl entry list --kind execution --workflow " + Quoted(string(body.Wid))}
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

// fill makes the lines of the tables: executions, with the incidents that report them.
func (b *workflowPage) fill(state *coord.State, found []coord.ExecutionView, now int64) {
	incidents, next := view.Incidents(state, &api.IncidentQuery{Workflow: b.Wid, Limit: rows}, now)
	b.More = next != nil
	reported, list := map[entry.Ref][]uint64{}, newIncidentLister(state, now)
	for i := range incidents {
		v := &incidents[i]
		b.Incidents = append(b.Incidents, list.row(v))
		for j := range v.Signals {
			of := v.Signals[j].Subject
			if v.Signals[j].Disposition != entry.Dismissed && !slices.Contains(reported[of], v.ID) {
				reported[of] = append(reported[of], v.ID)
			}
		}
	}
	for i := range found {
		row := executionRow{ExecutionView: found[i], Reported: reported[found[i].Exec]}
		row.Look = row.lookOf()
		b.Rows = append(b.Rows, row)
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
	p.Hint = "An arrow leads from an execution to what was built on it. ✕ and a number name an incident with a signal about the execution."
	return p
}

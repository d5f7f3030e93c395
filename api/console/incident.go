package console

import (
	"net/http"
	"slices"

	"recoveryledger/api"
	"recoveryledger/api/words"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// incidentPage is an incident as it stands, with its plan.
type incidentPage struct {
	*api.Incident
	Stands   string // state, with what a state does not tell
	Waits    string
	Plan     *api.Plan // in force, or what a decision would have now; nil: there is none
	InForce  bool
	Picture  *picture // nil: the plan is too large, and Lanes stands in its place
	Lanes    []lane
	Members  []memberRow
	Older    string // link to further members; empty: there are none
	Chain    []api.PlanMember
	ChainOf  entry.Ref
	Acts     []actLink
	Signed   uint64 // the entry that was just signed here; 0: none
	Undoable int64  // members whose effects cannot be undone, or are not declared
}

// memberRow is a line of the table of members.
type memberRow struct {
	api.PlanMember
	Look look
	Why  string // link to the chain of reasons
}

// incident is GET /incidents/{id}. With why in the query the page shows the chain
// that leads from a signal to that member.
func (k *Console) incident(q *http.Request) (*page, error) {
	id, err := number(q, "id")
	if err != nil {
		return nil, err
	}
	older, err := before(q)
	if err != nil {
		return nil, err
	}
	signed, err := k.signedNow(q)
	if err != nil {
		return nil, err
	}
	body, found := &incidentPage{Signed: signed, ChainOf: entry.Ref(q.URL.Query().Get("why"))}, false
	p := &page{name: "incident", Title: "Incident " + decimal(id), Command: "arl incident show " + decimal(id), Section: "Incidents", Body: body}
	k.cfg.Source.Read(func(state *coord.State, at Standing) {
		p.At = at
		v, ok := state.Incident(id, at.Now)
		if !ok {
			return
		}
		found, body.Incident = true, &v.Incident
		p.About = []string{subject(entry.SubjectIncident, id), subject(entry.SubjectWorkflow, v.Wid)}
		body.Acts = k.acts(k.known(state, at), id)
		body.Stands, body.Waits = words.IncidentState(&v.Incident), words.IncidentWaitsFor(&v.Incident)
		plan, inForce := state.PlanInForce(id, at.Now)
		if !inForce && v.State.Open() {
			plan, _ = state.Preview(id, nil, at.Now)
			p.Command = "arl incident preview " + decimal(id)
		}
		if plan == nil {
			return
		}
		body.Plan, body.InForce = &plan.Plan, inForce
		body.Undoable = plan.Impact.Irrevocable + plan.Impact.Undeclared
		body.draw(state, at.Now, k)
		body.Members, body.Older = k.members(&plan.Plan, older)
		if body.ChainOf != "" {
			body.Chain = state.Why(id, body.ChainOf, at.Now)
		}
	})
	if !found {
		return nil, entry.Refuse(entry.NotFound, "id", "entry %d did not open an incident", id).WithRemedy("the page of incidents lists them")
	}
	return p, nil
}

// draw makes the picture of a plan, or the lanes of one that is too large for a picture.
func (b *incidentPage) draw(state *coord.State, now int64, k *Console) {
	if len(b.Plan.Members) > pictured {
		b.Lanes = lanesOf(b.Plan)
		return
	}
	parents := map[entry.Ref][]entry.Parent{}
	for i := range b.Plan.Members {
		if x, ok := state.Execution(b.Plan.Members[i].Exec, now); ok {
			parents[x.Exec] = x.Parents
		}
	}
	b.Picture = layOut(b.Plan, parents)
	for i := range b.Picture.Boxes {
		b.Picture.Boxes[i].Link = k.link("/log", b.Picture.Boxes[i].member.Index)
	}
}

// members returns the lines of the members from below an index on.
func (k *Console) members(plan *api.Plan, older uint64) (list []memberRow, more string) {
	from := 0
	if older != 0 {
		from, _ = slices.BinarySearchFunc(plan.Members, older, func(m api.PlanMember, before uint64) int {
			if m.Index >= before {
				return -1 // they descend
			}
			return 1
		})
	}
	shown := plan.Members[from:]
	if len(shown) > rows {
		shown = shown[:rows]
		more = k.link("/incidents", plan.Incident) + "?before=" + decimal(shown[rows-1].Index) + "#members"
	}
	for i := range shown {
		m := &shown[i]
		list = append(list, memberRow{*m, lookOf(m, plan.Decision != 0), k.link("/incidents", plan.Incident) + "?why=" + queryEscape(string(m.Exec)) + "#members"})
	}
	return list, more
}

package console

import (
	"net/http"
	"slices"
	"strconv"

	"recoveryledger/api"
	"recoveryledger/api/act"
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
	Opened   entry.Principal // the agent whose part of a large plan the picture shows; empty: it shows the plan
	Next     string          // link to the agent's further members; empty: there are none
	More     string          // link to further lanes; empty: there are none
	Members  []memberRow
	Older    string // link to further members; empty: there are none
	Chain    []api.PlanMember
	ChainOf  entry.Ref
	Timeline []moment
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
	k.reach(q, id)
	signed, err := k.signedNow(q)
	if err != nil {
		return nil, err
	}
	asked, err := partOf(q)
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
		body.Acts = k.acts(k.known(state, at), act.Order{Incident: id})
		body.Stands, body.Waits = words.IncidentState(&v.Incident), words.IncidentWaitsFor(&v.Incident)
		plan, inForce := state.PlanInForce(id, at.Now)
		if !inForce && v.State.Open() {
			plan, _ = state.Preview(id, nil, at.Now)
			p.Command = "arl incident preview " + decimal(id)
		}
		if plan == nil {
			body.Timeline = moments(&v, nil)
			return
		}
		body.Timeline = moments(&v, &plan.Plan)
		body.Plan, body.InForce = &plan.Plan, inForce
		body.Undoable = plan.Impact.Irrevocable + plan.Impact.Undeclared
		body.draw(k, parentsIn(state, at.Now), asked)
		body.Members, body.Older = k.members(&plan.Plan, older)
		if body.ChainOf != "" {
			body.Chain = state.Why(id, body.ChainOf, at.Now)
		}
	})
	if !found {
		return nil, entry.Refuse(entry.NotFound, "id", "entry %d did not open an incident", id).WithRemedy("the page of incidents lists them")
	}
	body.Timeline = k.tell(q.Context(), body.Timeline)
	return p, nil
}

// parentsIn returns what tells what an execution was built on.
func parentsIn(state *coord.State, now int64) func(entry.Ref) []entry.Parent {
	return func(exec entry.Ref) []entry.Parent {
		x, _ := state.Execution(exec, now)
		return x.Parents
	}
}

// draw makes the picture of a plan. A plan that is too large for a picture has lanes, and
// the picture of a part of it where the query asks for one.
func (b *incidentPage) draw(k *Console, parentsOf func(entry.Ref) []entry.Parent, asked part) {
	drawn := &window{plan: b.Plan, parents: map[entry.Ref][]entry.Parent{}}
	if len(b.Plan.Members) > pictured {
		b.lanes(k, asked)
		if asked.agent == "" {
			return
		}
		drawn = windowOf(b.Plan, parentsOf, asked.agent, asked.from)
		if b.Opened = asked.agent; drawn.next != 0 {
			b.Next = k.laneLink(b.Plan.Incident, asked.agent) + "&from=" + decimal(drawn.next) + "#plan"
		}
	} else {
		for i := range b.Plan.Members {
			exec := b.Plan.Members[i].Exec
			drawn.parents[exec] = parentsOf(exec)
		}
	}
	if len(drawn.plan.Members) == 0 {
		return
	}
	b.Picture = layOut(drawn.plan, drawn.parents)
	for i := range b.Picture.Boxes {
		at := &b.Picture.Boxes[i]
		at.Link, at.Beyond = k.link("/log", at.member.Index), drawn.beyond[at.member.Exec]
	}
}

// lanes makes the lines of a plan that is too large for a picture.
func (b *incidentPage) lanes(k *Console, asked part) {
	all := lanesOf(b.Plan)
	b.Lanes = all[min(asked.lanes, len(all)):]
	if len(b.Lanes) > lanesShown {
		b.Lanes = b.Lanes[:lanesShown]
		b.More = k.link("/incidents", b.Plan.Incident) + "?lanes=" + strconv.Itoa(asked.lanes+lanesShown) + "#lanes"
	}
	for i := range b.Lanes {
		b.Lanes[i].Open = k.laneLink(b.Plan.Incident, b.Lanes[i].Agent) + "#plan"
	}
}

func (k *Console) laneLink(incident uint64, agent entry.Principal) string {
	return k.link("/incidents", incident) + "?lane=" + queryEscape(string(agent))
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

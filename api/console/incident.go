package console

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"recoveryledger/api"
	"recoveryledger/api/act"
	"recoveryledger/api/view"
	"recoveryledger/api/words"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// incidentPage is an incident as it stands, with its plan.
type incidentPage struct {
	*api.Incident
	Stands   string // state, with what a state does not tell
	WaitsFor string
	Plan     *api.Plan // in force, or what a decision would have now; nil: there is none
	InForce  bool
	Counters []api.Counter // of the rolling limits, the plan included; empty: the incident is over
	Decides  string        // who may put the plan in force
	Picture  *picture      // nil: the plan is too large, and Lanes stands in its place
	Lanes    []lane
	Opened   entry.Principal // the agent whose part of a large plan the picture shows; empty: it shows the plan
	Further  string          // link to the agent's further members; empty: there are none
	More     string          // link to further lanes; empty: there are none
	Members  []memberRow
	Older    string // link to further members; empty: there are none
	Chain    []api.PlanMember
	ChainOf  entry.Ref
	Without  map[uint64]bool // signals that the plan leaves out, to see what would be
	Stay     []memberRow     // members that stay in the world, or that nobody knows about
	Timeline []moment
	Earlier  bool // whether the timeline leaves out earlier entries
	Acts     []actLink
	Signed   uint64 // the entry that was just signed here; 0: none
	Download bool   // whether receipts are at hand
}

// memberRow is a line of the table of members.
type memberRow struct {
	api.PlanMember
	Look look
	Why  string      // link to the chain of reasons
	Held []entry.Ref // members that hold this one up
}

// incidentQuery is what a query asks of the page of an incident.
type incidentQuery struct {
	older   uint64
	signed  uint64
	part    part
	why     entry.Ref
	without []uint64
}

func (k *Console) readIncidentQuery(q *http.Request) (asked incidentQuery, err error) {
	if asked.older, err = before(q); err != nil {
		return asked, err
	}
	if asked.signed, err = k.signedNow(q); err != nil {
		return asked, err
	}
	given := q.URL.Query()
	asked.why = entry.Ref(given.Get("why"))
	for _, text := range given["without"] {
		index, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return asked, entry.Refuse(entry.Malformed, "without", "%.140q is not an index of the log", text).WithRemedy("the page lists the signals")
		}
		asked.without = append(asked.without, index)
	}
	asked.part, err = partOf(q)
	return asked, err
}

// incident is GET /incidents/{id}. With why in the query the page shows the chain that leads from a
// signal to that member; with without it shows the plan that a decision would have without these
// signals.
func (k *Console) incident(q *http.Request) (*page, error) {
	id, err := number(q, "id")
	if err != nil {
		return nil, err
	}
	k.reach(q, id)
	asked, err := k.readIncidentQuery(q)
	if err != nil {
		return nil, err
	}
	body := &incidentPage{Signed: asked.signed, ChainOf: asked.why, Without: map[uint64]bool{}}
	p := &page{name: "incident", Title: "Incident " + decimal(id), Command: "arl incident show " + decimal(id), Section: "Incidents", Body: body}
	k.cfg.Source.Read(func(state *coord.State, at Standing) {
		p.At = at
		v, ok := view.Incident(state, id, at.Now)
		if !ok {
			err = entry.Refuse(entry.NotFound, "id", "entry %d did not open an incident", id).WithRemedy("the page of incidents lists them")
			return
		}
		body.Incident, body.Download = v, at.Note != ""
		p.About = []string{subject(entry.SubjectIncident, id), subject(entry.SubjectWorkflow, v.Wid)}
		body.Acts = k.acts(k.known(state, at), act.Order{Incident: id}, k.link("/incidents", id))
		body.Stands, body.WaitsFor = words.IncidentState(v), words.IncidentWaitsFor(v)
		body.Timeline, body.Earlier = moments(state, v)
		err = body.addPlan(k, state, v, &asked, at.Now)
	})
	if err != nil {
		return nil, err
	}
	if body.Plan != nil && !body.InForce {
		p.Command = "arl incident preview " + decimal(id)
		if len(asked.without) > 0 {
			p.Command += " --dismiss " + joined(asked.without)
		}
	}
	k.read(q.Context(), body.Timeline)
	return p, nil
}

// addPlan shows the plan in force, or the plan that a decision would have now.
func (b *incidentPage) addPlan(k *Console, state *coord.State, v *api.Incident, asked *incidentQuery, now int64) error {
	inForce, there := view.InForce(state, v.ID, now)
	b.Plan, b.InForce = inForce, there
	if v.State.Open() && !there || len(asked.without) > 0 {
		preview, err := view.Plan(state, v.ID, &api.PlanQuery{Preview: true, Dismissed: asked.without}, now)
		if err != nil {
			return err
		}
		b.Plan, b.InForce, b.Decides = preview, false, words.WhoDecides(v, preview, inForce)
	}
	if b.Plan == nil {
		return nil
	}
	if b.Counters = b.Plan.Counters; b.InForce && v.State.Open() {
		again, err := view.Plan(state, v.ID, &api.PlanQuery{Preview: true}, now) // the plan in force counts as this one does
		if err != nil {
			return err
		}
		b.Counters = again.Counters
	}
	for _, index := range asked.without {
		b.Without[index] = true
	}
	b.draw(k, asked.part)
	b.Members, b.Older = k.members(b.Plan, asked.older)
	if b.ChainOf != "" {
		b.Chain = state.Why(v.ID, b.ChainOf, now)
	}
	for i := range b.Plan.Members {
		if look := lookOf(&b.Plan.Members[i], b.InForce); look.Class == "stays" && len(b.Stay) < rows {
			b.Stay = append(b.Stay, memberRow{PlanMember: b.Plan.Members[i], Look: look})
		}
	}
	return nil
}

// joined are numbers with commas between them.
func joined(numbers []uint64) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = decimal(n)
	}
	return strings.Join(texts, ",")
}

// draw makes the picture of a plan. A plan that is too large for a picture has lanes, and
// the picture of a part of it where the query asks for one.
func (b *incidentPage) draw(k *Console, asked part) {
	drawn := &window{plan: b.Plan}
	if len(b.Plan.Members) > pictured {
		b.lanes(k, asked)
		if asked.agent == "" {
			return
		}
		drawn = windowOf(b.Plan, asked.agent, asked.from)
		if b.Opened = asked.agent; drawn.next != 0 {
			b.Further = k.laneLink(b.Plan.Incident, asked.agent) + "&from=" + decimal(drawn.next) + "#plan"
		}
	}
	if len(drawn.plan.Members) == 0 {
		return
	}
	b.Picture = k.linked(layOutPlan(drawn.plan, drawn.beyond))
}

// linked has each box of a picture lead to the page of its entry.
func (k *Console) linked(p *picture) *picture {
	for i := range p.Boxes {
		p.Boxes[i].Link = k.link("/log", p.Boxes[i].Index)
	}
	return p
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
		row := memberRow{PlanMember: *m, Look: lookOf(m, plan.Decision != 0), Why: k.link("/incidents", plan.Incident) + "?why=" + queryEscape(string(m.Exec)) + "#members"}
		for _, place := range m.After {
			row.Held = append(row.Held, plan.Members[place].Exec)
		}
		list = append(list, row)
	}
	return list, more
}

package console

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"recoveryledger/api"
	"recoveryledger/api/words"
	"recoveryledger/ledger/entry"
)

// pictured is how many members a picture shows. A larger plan is shown as one line
// for each agent: arrows between more boxes cannot be told apart.
const pictured = 120

// Measures of the picture, in CSS pixels.
const (
	gutter    = 130 // names of agents
	boxWidth  = 148
	boxHeight = 34
	step      = 192 // from a column to the next
	rise      = 44  // from a box to the one below
)

func queryEscape(text string) string { return url.QueryEscape(text) }

// look is how the state of a member is shown: by a sign, a word and a class of the
// style sheet, so that no color alone says it.
type look struct{ Sign, Word, Class string }

// looks are the states that a picture names in its legend, in this order.
var looks = []look{
	{"✓", "restored", "done"}, {"⟲", "compensated", "done"}, {"–", "not executed", "done"}, {"▶", words.MayBegin, "begins"},
	{"…", words.Waits, "waits"}, {"!", "cannot be undone", "stays"}, {"?", "unknown", "stays"}, {"✕", "failed", "stays"}, {"○", "proposed", "waits"},
}

// lookOf is how a member is shown, in a plan in force or in a preview.
func lookOf(m *api.PlanMember, inForce bool) look {
	switch {
	case m.Result == entry.Restored:
		return looks[0]
	case m.Result == entry.Compensated:
		return looks[1]
	case m.Result == entry.NotExecuted:
		return looks[2]
	case m.Result == entry.ResultIrrevocable, m.Result == "" && m.Method == entry.MethodResidual:
		return looks[5]
	case m.Result == entry.ResultUnknown:
		return looks[6]
	case m.Result != "":
		return look{looks[7].Sign, string(m.Result), looks[7].Class}
	case !inForce:
		return looks[8]
	case words.MemberState(m) == words.MayBegin:
		return looks[3]
	}
	return looks[4]
}

// node is an execution to be drawn.
type node struct {
	Agent   entry.Principal
	Exec    entry.Ref
	Index   uint64
	Under   string // what stands under its name
	Look    look
	Parents []api.PlanParent // by their places among all nodes
	Beyond  int              // dependencies with executions that the picture does not show
}

// nodesOf returns the members of a plan as they are drawn. beyond counts the dependencies that are
// not drawn; nil: all of them are.
func nodesOf(plan *api.Plan, beyond []int) []node {
	list := make([]node, len(plan.Members))
	for i := range plan.Members {
		m := &plan.Members[i]
		list[i] = node{Agent: m.Agent, Exec: m.Exec, Index: m.Index, Under: string(m.Method), Look: lookOf(m, plan.Decision != 0), Parents: m.Parents}
		if beyond != nil {
			list[i].Beyond = beyond[i]
		}
	}
	return list
}

// picture is executions drawn: a row for each agent, a column for each depth.
type picture struct {
	Of, Hint, Table string // what is drawn, how to read it, and the table that says the same

	Width, Height int
	Rows          []pictureRow
	Boxes         []box
	Edges         []edge
	Legend        []look
}

type pictureRow struct {
	Agent   entry.Principal
	Members int
	Y       int
	Height  int
}

type box struct {
	*node
	X, Y int
	Name string // of the execution, without its agent, shortened
	Link string
}

// edge is an arrow from what was built on to what was built on it.
type edge struct {
	Path     string
	Soft     bool
	From, To int // places among the boxes
}

// planHint says how to read the picture of a plan.
const planHint = "An arrow leads from an execution to what was built on it. Undoing goes from right to left."

// layOutPlan draws a plan of at most [pictured] members.
func layOutPlan(plan *api.Plan, beyond []int) *picture {
	p := layOut(nodesOf(plan, beyond))
	p.Of, p.Hint, p.Table = "plan", planHint, "members"
	return p
}

// layOut draws executions, the newest first. Rows are agents in the order of their first execution;
// a column is one more than the greatest column of the executions that an execution depends on. A
// parent's index is smaller, so that one pass in the order of the log suffices. Where a box stands
// follows from the log alone: what becomes of an execution never moves it.
func layOut(nodes []node) *picture {
	type cell struct {
		row, column int
	}
	p, rowOf, filled := &picture{}, map[entry.Principal]int{}, map[cell]int{}
	last := len(nodes) - 1
	places, deep := make([]cell, last+1), make([]int, last+1)
	for i := range places { // nodes descend, and boxes ascend
		n := &nodes[last-i]
		row, known := rowOf[n.Agent]
		if !known {
			row = len(p.Rows)
			rowOf[n.Agent] = row
			p.Rows = append(p.Rows, pictureRow{Agent: n.Agent})
		}
		depth := 0
		for _, parent := range n.Parents {
			depth = max(depth, places[last-parent.Place].column+1)
		}
		places[i] = cell{row, depth}
		deep[i] = filled[places[i]]
		filled[places[i]]++
		p.Rows[row].Members++
		p.Rows[row].Height = max(p.Rows[row].Height, filled[places[i]]*rise)
		p.Width = max(p.Width, gutter+depth*step+boxWidth+12)
	}
	for i := range p.Rows {
		p.Rows[i].Y = p.Height
		p.Height += p.Rows[i].Height
	}
	p.Boxes = make([]box, last+1)
	for i := range p.Boxes {
		n := &nodes[last-i]
		_, name, _ := strings.Cut(string(n.Exec), "#")
		p.Boxes[i] = box{node: n, X: gutter + places[i].column*step, Y: p.Rows[places[i].row].Y + deep[i]*rise + (rise-boxHeight)/2, Name: shortened(name, 16)}
		if !slices.Contains(p.Legend, n.Look) {
			p.Legend = append(p.Legend, n.Look)
		}
		for _, parent := range n.Parents {
			from := last - parent.Place
			p.Edges = append(p.Edges, edge{curve(&p.Boxes[from], &p.Boxes[i]), parent.Dep == entry.Soft, from, i})
		}
	}
	return p
}

// curve is the path of an arrow (SVG 2, section 9.3).
func curve(from, to *box) string {
	x, y, u, v := from.X+boxWidth, from.Y+boxHeight/2, to.X-2, to.Y+boxHeight/2
	bend := max((u-x)/2, 16)
	return fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x, y, x+bend, y, u-bend, v, u, v)
}

// shortened is a text of at most so many letters.
func shortened(text string, letters int) string {
	runes := []rune(words.Legible(text))
	if len(runes) <= letters {
		return string(runes)
	}
	return string(runes[:letters-1]) + "…"
}

// lane is what an agent has in a plan.
type lane struct {
	Agent              entry.Principal
	Members            int
	Done, Stays, Waits int
	Residual           int    // members that cannot be undone, with an outcome or without
	To                 names  // other agents with members that depend on members of this agent
	Open               string // link to the picture of its members
}

// lanesOf counts the members of each agent, in the order of the agents' first members. It finds
// which agents an agent handed results to.
func lanesOf(plan *api.Plan) (list []lane) {
	at := map[entry.Principal]int{}
	for i := len(plan.Members) - 1; i >= 0; i-- { // they descend
		m := &plan.Members[i]
		n, known := at[m.Agent]
		if !known {
			n = len(list)
			at[m.Agent] = n
			list = append(list, lane{Agent: m.Agent})
		}
		list[n].Members++
		if m.Residual() {
			list[n].Residual++
		}
		for _, parent := range m.Parents { // its agent has a lane: a parent is older
			if from := plan.Members[parent.Place].Agent; from != m.Agent {
				list[at[from]].To.add(m.Agent)
			}
		}
		switch lookOf(m, plan.Decision != 0).Class {
		case "done":
			list[n].Done++
		case "stays":
			list[n].Stays++
		default:
			list[n].Waits++
		}
	}
	return list
}

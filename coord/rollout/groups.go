package rollout

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/api"
	"recoveryledger/coord/codec"
	"recoveryledger/coord/recovery/judge"
	"recoveryledger/ledger/entry"
)

// groupsMax bounds the groups of a rollout. Classes beyond it are compared with all others alone.
const groupsMax = 64

// Group is a class of failures or a slice. In each, the arms are compared by themselves, because a
// candidate that is better over all cases may be worse in a class that matters more.
//
// The comparisons over all cases have one half of the error budget of a rollout, and the groups the
// other half: the k-th group has 1/(k·(k+1)) of it. All shares add up to 1, however many groups
// there are (Bonferroni over a countable list). The slices of the thresholds come first. Classes
// follow in the order in which the log has them: a group has its share before its first pair.
//
// Recoveries and costs have one half each of the share of a group. One unsafe recovery of the
// canary has the gate fall, in whichever group it is.
type Group struct {
	Name            string // class, or tag of a slice
	Slice           bool
	Canary, Control api.RolloutGroupArm
	Watch           judge.Watch // of recoveries
	Cost            judge.Watch

	pairing pairs[result]
}

// String names the group.
func (g *Group) String() string {
	if g.Slice {
		return "slice " + g.Name
	}
	return "class " + g.Name
}

// newGroup returns the k-th group, from 1.
func newGroup(k int, name string, slice bool, floor int64) Group {
	w := judge.NewWatch(floor)
	w.Tests = 4 * int64(k) * int64(k+1)
	return Group{Name: name, Slice: slice, Watch: *w, Cost: *w}
}

// grouped reports whether the arms are compared in groups.
func grouped(t *entry.RolloutTerms) bool {
	return slices.Contains(t.Gates, entry.GateRecovered) || slices.Contains(t.Gates, entry.GateCost)
}

// sliceGroups returns the groups of the slices.
func sliceGroups(t *entry.RolloutTerms) (all []Group) {
	if !grouped(t) {
		return nil
	}
	for _, tag := range limitsOf(t.Candidate).Slices {
		if len(all) < groupsMax {
			all = append(all, newGroup(len(all)+1, tag, true, t.CasesMin))
		}
	}
	return all
}

// byGroup counts and compares a case of a class in its groups.
func (r *Rollout) byGroup(c *entry.AttemptCase, class string, one *result, unsafe, canary bool) {
	e := &r.Evidence
	if !grouped(&r.Terms) {
		return
	}
	tags := tagsOf(c, len(e.Groups) > 0 && e.Groups[0].Slice)
	known := func(g Group) bool { return !g.Slice && g.Name == class }
	if class != "" && !slices.ContainsFunc(e.Groups, known) && len(e.Groups) < groupsMax {
		e.Groups = append(e.Groups, newGroup(len(e.Groups)+1, class, false, r.Terms.CasesMin))
	}
	for i := range e.Groups {
		g := &e.Groups[i]
		if g.Slice && slices.Contains(tags, g.Name) || known(*g) {
			g.take(r, one, unsafe, canary)
		}
	}
}

// take counts a case of the group, and compares it with the oldest one of the other arm.
func (g *Group) take(r *Rollout, one *result, unsafe, canary bool) {
	arm := &g.Control
	if canary {
		arm = &g.Canary
	}
	arm.Cases++
	if one.recovered {
		arm.Recovered++
	}
	if unsafe {
		if arm.Unsafe++; canary {
			r.fall(entry.GateUnsafe, g.String())
		}
	}
	its, other, ok := g.pairing.pair(*one, canary)
	if !ok {
		return
	}
	if g.Watch.Pair(its.recovered, other.recovered) == judge.Reference {
		r.fall(entry.GateRecovered, g.String())
	}
	tolerance := r.Terms.TolerancePPM
	if g.Cost.Pair(less(its.cost, other.cost, tolerance), less(other.cost, its.cost, tolerance)) == judge.Reference {
		r.fall(entry.GateCost, g.String())
	}
}

// tagsOf returns the tags in the facts of a case, if any slice asks for them.
func tagsOf(c *entry.AttemptCase, asked bool) []string {
	var of struct {
		Tags []string `json:"tags"`
	}
	if !asked || c.Facts == nil || json.Unmarshal(c.Facts, &of) != nil {
		return nil
	}
	return of.Tags
}

// limits are the thresholds that the gates of a rollout need. Both arms share them (ROL-3).
type limits struct {
	Never  []string `json:"never_auto_recover"`
	Slices []string `json:"slices"`
}

// limitsOf returns the limits of rules; none if the rules have another form.
func limitsOf(rules jsontext.Value) limits {
	var of struct {
		Thresholds limits `json:"thresholds"`
	}
	if json.Unmarshal(rules, &of) != nil {
		return limits{}
	}
	return of.Thresholds
}

// snapshot passes the group.
func (g *Group) snapshot(c *codec.Codec) {
	text(c, &g.Name)
	c.Flag(&g.Slice)
	for _, a := range []*api.RolloutGroupArm{&g.Canary, &g.Control} {
		c.Instant(&a.Cases)
		c.Instant(&a.Recovered)
		c.Instant(&a.Unsafe)
	}
	for _, w := range []*judge.Watch{&g.Watch, &g.Cost} {
		c.Instant(&w.Floor)
		c.Instant(&w.Pairs)
		codec.Number(c, &w.Tests, 4*groupsMax*(groupsMax+1)+1)
		codec.Number(c, &w.Wins, judge.PairsMax+1)
		codec.Number(c, &w.Losses, judge.PairsMax+1)
		word(c, &w.Answer, judge.Neither, judge.Candidate, judge.Reference)
	}
	g.pairing.snapshot(c, func(r *result) { r.snapshot(c) })
}

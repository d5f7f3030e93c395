// Package report writes about an incident for people who were not there: what happened, when, who
// decided on what basis, what was undone and what was not, what it cost, and how to verify each
// sentence. The page follows from the log alone. Each sentence names the entries that say so, and
// the commands that show them.
//
// A page has one content and three forms: JSON is the content itself, [Report.Markdown] and
// [Report.HTML] render it. The same entries make the same page.
package report

import (
	"slices"

	"recoveryledger/api"
	"recoveryledger/api/view"
	"recoveryledger/api/words"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Report is the page about an incident.
type Report struct {
	Incident uint64              `json:"incident"`
	Origin   string              `json:"origin"`
	Wid      entry.WorkflowID    `json:"wid"`
	State    entry.IncidentState `json:"state"`  // one of the states of an incident
	Stands   string              `json:"stands"` // the state, with what a state does not tell
	Head     merkle.Head         `json:"head"`   // of the log that the page follows from
	Sections []Section           `json:"sections"`
	Verify   []Step              `json:"verify"`
}

// Section answers one question about the incident.
type Section struct {
	ID         string      `json:"id"` // happened, when, decided, undone, left, cost or open
	Title      string      `json:"title"`
	Statements []Statement `json:"statements"`
}

// Statement is a sentence of the page, and what it rests on.
type Statement struct {
	Says     string   `json:"says"`
	At       int64    `json:"at,omitzero"` // time at which the ledger registered the entry, Unix milliseconds; 0: of no one time
	Entries  []uint64 `json:"entries"`     // indexes of the entries that say so, ascending; never empty
	Commands []string `json:"commands"`    // show the same, together; never empty
}

// Step is a way to verify the page.
type Step struct {
	Says    string `json:"says"`
	Command string `json:"command"`
}

// Facts are the part of a log's state that a page needs. They stay as they are while the state
// changes.
type Facts struct {
	origin   string
	incident api.Incident
	stands   string
	plan     *api.Plan // in force; nil: there is none
	finals   map[entry.Ref]uint64
	links    []entry.Registered // policies and agent entries
	about    []uint64           // entries about the incident
	head     merkle.Head
	flags    string // of the commands, which name the log, each behind a space
}

// Gather takes what a page needs from a state with the given tree head, at now in Unix
// milliseconds. ok is false if there is no such incident.
func Gather(s *coord.State, id uint64, head merkle.Head, origin string, now int64) (f *Facts, ok bool) {
	v, ok := view.Incident(s, id, now)
	if !ok {
		return nil, false
	}
	f = &Facts{origin: origin, incident: *v, stands: words.IncidentState(v), finals: map[entry.Ref]uint64{},
		links: s.Chain().Links(), about: s.IncidentEntries(id), head: head}
	f.plan, _ = view.InForce(s, id, now)
	for _, m := range f.members() {
		if x, ok := s.Execution(m.Exec, now); ok && x.Final != 0 {
			f.finals[m.Exec] = x.Final
		}
	}
	return f, true
}

func (f *Facts) members() []api.PlanMember {
	if f.plan == nil {
		return nil
	}
	return f.plan.Members
}

// Indexes returns the indexes, ascending, of the entries that [Facts.Report] reads.
func (f *Facts) Indexes() []uint64 {
	indexes := slices.Clone(f.about)
	for _, m := range f.members() {
		indexes = append(indexes, m.Index)
		if final, ok := f.finals[m.Exec]; ok {
			indexes = append(indexes, final)
		}
		if m.ResultAt != 0 {
			indexes = append(indexes, m.ResultAt)
		}
	}
	for i := range f.incident.Signals {
		if s := &f.incident.Signals[i]; s.Disposition != "" {
			indexes = append(indexes, s.Index, s.Disposed)
		}
	}
	slices.Sort(indexes)
	return slices.Compact(indexes)
}

// Report makes the page from the entries at [Facts.Indexes]. A sentence about an entry that is not
// among them is left out. The commands of the page that read the log get the flags; none: they read
// the log of the reader's profile.
func (f *Facts) Report(entries []entry.Registered, flags ...string) *Report {
	of := *f
	for _, flag := range flags {
		of.flags += " " + words.Quoted(flag)
	}
	a := &author{Facts: &of, at: make(map[uint64]*entry.Registered, len(entries)+len(f.links))}
	for _, list := range [][]entry.Registered{f.links, entries} {
		for i := range list {
			a.at[list[i].Index] = &list[i]
		}
	}
	r := &Report{Incident: f.incident.ID, Origin: f.origin, Wid: f.incident.Wid, State: f.incident.State, Stands: f.stands, Head: f.head}
	for _, part := range []struct {
		id, title string
		write     func(*author)
	}{
		{"happened", "What happened", (*author).happened},
		{"when", "When", (*author).when},
		{"decided", "Who decided, and on what basis", (*author).decided},
		{"undone", "What was undone", (*author).undone},
		{"left", "What was not undone", (*author).left},
		{"cost", "What it cost", (*author).cost},
		{"open", "What is still open", (*author).open},
	} {
		a.said = []Statement{}
		part.write(a)
		r.Sections = append(r.Sections, Section{part.id, part.title, a.said})
	}
	r.Verify = of.steps()
	return r
}

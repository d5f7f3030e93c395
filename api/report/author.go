package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"recoveryledger/api"
	"recoveryledger/api/words"
	"recoveryledger/ledger/entry"
)

// author writes the sentences of a page.
type author struct {
	*Facts
	at   map[uint64]*entry.Registered // the log, as far as the page needs it
	said []Statement                  // of the section
}

// say adds a sentence that entries say. It leaves out a sentence about an entry that the page does
// not have.
func (a *author) say(indexes []uint64, text string) { a.derive(indexes, text) }

// derive adds a sentence that follows from entries by the rules, and the commands that derive it.
// Without a command, the entries themselves say the sentence.
func (a *author) derive(indexes []uint64, text string, commands ...string) {
	if slices.ContainsFunc(indexes, func(index uint64) bool { return a.at[index] == nil }) {
		return
	}
	indexes = slices.Clone(indexes)
	slices.Sort(indexes)
	s := Statement{Says: text, Entries: slices.Compact(indexes), Commands: commands}
	if len(commands) == 0 {
		for _, index := range s.Entries {
			s.Commands = append(s.Commands, a.get(index))
		}
	}
	if len(s.Entries) == 1 {
		s.At = a.at[s.Entries[0]].RegisteredAt
	}
	a.said = append(a.said, s)
}

// get, show and whole are the commands that show an entry, the incident in a table, and everything
// that is derived of it.
func (f *Facts) get(index uint64) string { return "arl entry get " + decimal(index) + f.flags }
func (f *Facts) show() string            { return "arl incident show " + decimal(f.incident.ID) + f.flags }
func (f *Facts) whole() string           { return f.show() + " --output json" }

// sayf adds a sentence that one entry says.
func (a *author) sayf(index uint64, format string, args ...any) {
	a.say([]uint64{index}, fmt.Sprintf(format, args...))
}

// bodies calls use for the entries about the incident whose content is a T, in the order of the
// log.
func bodies[T entry.Body](a *author, use func(e *entry.Registered, body T)) {
	for _, index := range a.about {
		if e := a.at[index]; e != nil {
			if body, ok := e.Body.(T); ok {
				use(e, body)
			}
		}
	}
}

// happened writes what was reported, how far it reached, and what was found of the reports.
func (a *author) happened() {
	bodies(a, func(e *entry.Registered, s *entry.Signal) {
		text := fmt.Sprintf("%s, as %s, reported the failure %s.%s of %s. Its effects are %s, and a repetition is %s.", s.Iss, s.Standing, s.Class, s.Code,
			s.Subject, s.Effects, s.ReplaySafety)
		if s.Since != "" {
			text += fmt.Sprintf(" Everything since %s is in doubt.", s.Since)
		}
		if s.Detail != "" {
			text += fmt.Sprintf(" The report says: %q.", s.Detail)
		}
		a.sayf(e.Index, "%s", text+evidence(s.Evidence))
	})
	for _, m := range slices.Backward(a.members()) {
		a.member(&m)
	}
	for i := range a.incident.Signals {
		if s := &a.incident.Signals[i]; s.Disposition != "" {
			a.derive([]uint64{s.Index, s.Disposed}, fmt.Sprintf("The report in entry %d was found %s.", s.Index, words.Disposition(s)), a.show())
		}
	}
	if end := a.incident.Recorded; end != 0 {
		a.sayf(end, "The incident ended as %s.", a.stands)
	}
}

// member writes how the failure reached an execution. Its first entry declares the effect, and its
// last one says what became of it. Of an execution that is under way the state alone tells that.
func (a *author) member(m *api.PlanMember) {
	text := fmt.Sprintf("%s. Agent %s declared its effect as %s, and it is %s.", reached(m), m.Agent, m.Effect, m.Progress)
	indexes := a.entriesOf(m)
	if e := a.at[indexes[len(indexes)-1]]; e != nil {
		if x, ok := e.Body.(*entry.Execution); ok && x.Progress != m.Progress {
			a.derive(indexes, text, a.whole())
			return
		}
	}
	a.say(indexes, text)
}

// entriesOf returns the indexes of the first and of the last entry of a member, as far as it ended.
func (f *Facts) entriesOf(m *api.PlanMember) []uint64 {
	if final := f.finals[m.Exec]; final > m.Index {
		return []uint64{m.Index, final}
	}
	return []uint64{m.Index}
}

// reached says why an execution is in the rollback set.
func reached(m *api.PlanMember) string {
	switch m.Rule {
	case "seed":
		return fmt.Sprintf("%s is what the reports name", m.Exec)
	case "line":
		return fmt.Sprintf("%s stands in one line of work with %s, and goes back with it", m.Exec, m.From)
	}
	return fmt.Sprintf("%s was built on %s, so the failure reached it", m.Exec, m.From)
}

func evidence(list []entry.Evidence) string {
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintf(&b, " Evidence: %s", e.Digest)
		if e.URI != "" {
			fmt.Fprintf(&b, ", which lies at %q", e.URI)
		}
		b.WriteByte('.')
	}
	return b.String()
}

// when writes every entry about the incident in the order of the log, and how long people and
// agents waited.
func (a *author) when() {
	first := map[string]*entry.Registered{}
	for _, index := range a.about {
		e := a.at[index]
		if e == nil {
			continue
		}
		a.sayf(index, "%s wrote: %s.", e.Header.Iss, words.Summary(e.Body))
		name := string(e.Kind)
		if d, ok := e.Body.(*entry.Decision); ok {
			name = string(d.Act)
		}
		if first[name] == nil {
			first[name] = e
		}
	}
	opened := a.at[a.incident.ID]
	for _, step := range []struct{ name, says string }{
		{string(entry.ActContain), "containment"}, {string(entry.ActEscalate), "the question to the approvers"},
		{string(entry.ActAuthorize), "the order to undo"}, {string(entry.KindRecord), "the record"},
	} {
		if e := first[step.name]; e != nil && opened != nil {
			took := time.Duration(e.RegisteredAt-opened.RegisteredAt) * time.Millisecond
			a.say([]uint64{opened.Index, e.Index}, fmt.Sprintf("From the first report to %s: %s.", step.says, took))
		}
	}
}

// open writes what the incident waits for, and which executions stay fenced.
func (a *author) open() {
	i := &a.incident
	basis := []uint64{i.ID}
	if i.Proposal != nil {
		basis = append(basis, i.Proposal.Ref.Index)
	}
	if i.Decision != nil {
		basis = append(basis, i.Decision.Ref.Index)
	}
	if w := i.Waits; w != nil {
		text := "The incident waits for " + i.WaitsFor + "."
		if w.Until != 0 {
			text += fmt.Sprintf(" At %s: %s.", words.Instant(w.Until), w.Then)
		}
		a.derive(basis, text, a.show())
	}
	if i.NotFenced != "" {
		a.derive(basis, "Nothing keeps others from building on the executions in doubt: "+i.NotFenced+".", a.show())
	}
	if i.StillFenced > 0 {
		a.derive(basis, fmt.Sprintf("Executions that stay fenced: %d. An approver may release them.", i.StillFenced), a.show())
	}
	for _, m := range a.members() {
		if m.Result == "" {
			a.derive([]uint64{m.Index, a.plan.Decision}, fmt.Sprintf("Execution %s of %s has no outcome yet. It is to be undone by the method %s until %s.", m.Exec, m.Agent, m.Method,
				words.Instant(m.DueAt)), a.show())
		}
	}
}

// steps returns the ways to verify the page.
func (f *Facts) steps() []Step {
	id := decimal(f.incident.ID)
	return []Step{
		{"Check every entry of the log against the rules of registration, and all of them against the signed tree head under the pinned root.", "arl log audit" + f.flags},
		{"Derive the incident from the log again, on your machine.", f.show()},
		{"Write this page again, on your machine.", "arl incident report " + id + f.flags},
		{"Prove one sentence offline: fetch the receipt of its entry, here of the first report.", f.get(f.incident.ID) + " --receipt --out receipt.json"},
		{"Check that receipt, without a server.", "arl verify receipt.json"},
		{"From a running ledger with an index: fetch the entries about the incident, with the proof that there are no others.",
			"arl incident show " + id + " --prove --out incident.json"},
		{"Check that proof, without a server.", "arl verify incident.json"},
	}
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

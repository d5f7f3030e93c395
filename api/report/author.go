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

// say adds a sentence that rests on entries. It leaves out a sentence about an entry that the page
// does not have.
func (a *author) say(indexes []uint64, text string) {
	if slices.ContainsFunc(indexes, func(index uint64) bool { return a.at[index] == nil }) {
		return
	}
	indexes = slices.Clone(indexes)
	slices.Sort(indexes)
	s := Statement{Says: text, Entries: slices.Compact(indexes), Command: "arl incident show " + decimal(a.incident.ID)}
	if len(s.Entries) == 1 {
		s.Command = "arl entry get " + decimal(s.Entries[0])
		s.At = a.at[s.Entries[0]].RegisteredAt
	}
	a.said = append(a.said, s)
}

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
		a.sayf(m.Index, "%s. Agent %s declared its effect as %s, and it is %s.", reached(&m), m.Agent, m.Effect, m.Progress)
	}
	for i := range a.incident.Signals {
		if s := &a.incident.Signals[i]; s.Disposition != "" {
			a.say([]uint64{s.Index, s.Disposed}, fmt.Sprintf("The report in entry %d was found %s.", s.Index, words.Disposition(s)))
		}
	}
	if end := a.incident.Recorded; end != 0 {
		a.sayf(end, "The incident ended as %s.", a.stands)
	}
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
		a.say(basis, text)
	}
	if i.NotFenced != "" {
		a.say(basis, "Nothing keeps others from building on the executions in doubt: "+i.NotFenced+".")
	}
	if i.StillFenced > 0 {
		a.say(basis, fmt.Sprintf("Executions that stay fenced: %d. An approver may release them.", i.StillFenced))
	}
	for _, m := range a.members() {
		if m.Result == "" {
			a.say([]uint64{m.Index, a.plan.Decision}, fmt.Sprintf("Execution %s of %s has no outcome yet. It is to be undone by the method %s until %s.", m.Exec, m.Agent, m.Method,
				words.Instant(m.DueAt)))
		}
	}
}

// steps returns the ways to verify the page.
func (f *Facts) steps() []Step {
	id := decimal(f.incident.ID)
	return []Step{
		{"Check every entry of the log against the rules of registration, and all of them against the signed tree head under the pinned root.", "arl log audit"},
		{"Derive the incident from the log again, on your machine.", "arl incident show " + id},
		{"Write this page again, on your machine.", "arl incident report " + id},
		{"Prove one sentence offline: fetch the receipt of its entry, here of the first report.", "arl entry get " + id + " --receipt --out receipt.json"},
		{"Check that receipt, without a server.", "arl verify receipt.json"},
		{"From a ledger with an index: fetch the entries about the incident, with the proof that there are no others.", "arl incident show " + id + " --prove --out incident.json"},
		{"Check that proof, without a server.", "arl verify incident.json"},
	}
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

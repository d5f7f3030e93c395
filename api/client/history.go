package client

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// judgedMax is the number of the newest verdicts on signals that count
// (protocol.md, section 8).
const judgedMax = 256

// History returns the history of a principal, over all pages. Every line must agree with the
// proven entries that it names, and the counts must follow from the entries. Else the answer is
// [ErrMalformed]. The limit of signals follows from the counts and the policy. Four things are
// not proven, and need a fold of the log: that no entry was left out, the link of a signal to an
// open incident without a verdict, whether silence dismissed it, and the method of a membership.
func (c *Client) History(ctx context.Context, principal entry.Principal) (*api.History, error) {
	for attempt := 1; ; attempt++ {
		h, err := c.pastOf(ctx, principal)
		if err == nil {
			err = h.check()
		}
		if err == nil {
			err = c.limitSignals(ctx, h.History)
		}
		if err == nil {
			return h.History, nil
		}
		if h == nil || !h.grew || attempt >= c.cfg.Attempts { // else its pages are of several states
			return nil, fmt.Errorf("client: history of %s: %w", principal, err)
		}
	}
}

// HistoryAfter returns the part of a principal's history that changed after an index: whole
// incidents in the order of their newest change. Its Cursor is the after of the next call, now
// or later; 0 begins. Every line must agree with the proven entries that it names, as in
// [Client.History]. The counts are over all incidents, and here only the server's word.
func (c *Client) HistoryAfter(ctx context.Context, principal entry.Principal, after uint64) (*api.History, error) {
	h := &history{entries: map[uint64]*verify.Entry{}, part: true}
	path := api.URL(api.PathHistory, &api.HistoryQuery{After: &after}, principal)
	var err error
	if h.History, err = get[api.History](ctx, c, path, maxAnswer); err == nil {
		switch {
		case h.Principal != principal:
			err = malformed("the history of %.140q", h.Principal)
		case h.Cursor < after:
			err = malformed("cursor %d after %d", h.Cursor, after)
		default:
			err = c.proveHistory(ctx, h.History, h.entries)
		}
	}
	if err == nil {
		err = h.check()
	}
	if err != nil {
		return nil, fmt.Errorf("client: history of %s after %d: %w", principal, after, err)
	}
	return h.History, nil
}

// pastOf reads the pages of a history and proves their entries.
func (c *Client) pastOf(ctx context.Context, principal entry.Principal) (*history, error) {
	start := api.URL(api.PathHistory, nil, principal)
	h := &history{History: &api.History{}, entries: map[uint64]*verify.Entry{}}
	for path := start; path != ""; {
		page, err := get[api.History](ctx, c, path, maxAnswer)
		if err == nil {
			err = further(path, page.Next, start+"?")
		}
		if err == nil && page.Principal != principal {
			err = malformed("the history of %.140q", page.Principal)
		}
		if err == nil {
			err = c.proveHistory(ctx, page, h.entries)
		}
		if err != nil {
			return nil, err
		}
		h.grew = h.grew || path != start && page.Head != h.Head
		page.Signals, page.Memberships = append(h.Signals, page.Signals...), append(h.Memberships, page.Memberships...)
		page.Attempts = append(h.Attempts, page.Attempts...)
		page.Outcomes, page.Entries = append(h.Outcomes, page.Outcomes...), append(h.Entries, page.Entries...)
		h.History, path = page, page.Next
	}
	return h, nil
}

// proveHistory proves the entries of a page.
func (c *Client) proveHistory(ctx context.Context, page *api.History, entries map[uint64]*verify.Entry) error {
	receipts := make([]verify.Receipt, len(page.Entries))
	for i := range page.Entries {
		var err error
		if receipts[i], err = page.Entries[i].Receipt(page.Head); err != nil {
			return malformed("entry %d: %v", page.Entries[i].Index, err)
		}
	}
	if len(receipts) == 0 {
		_, err := c.believe(ctx, page.Head, nil)
		return err
	}
	found, err := c.entries(ctx, receipts)
	for i := range found {
		entries[found[i].Index] = &found[i].Entry
	}
	return err
}

// limitSignals computes the limit of signals, so that the client does not need the server's word.
func (c *Client) limitSignals(ctx context.Context, h *api.History) error {
	c.chain.mu.Lock()
	defer c.chain.mu.Unlock()
	err := c.follow(ctx)
	if policy, _ := c.chain.Policy(); err == nil && policy != nil {
		h.SignalLimit = policy.Quotas.Signals(h.Independent, h.Dismissed)
	}
	return err
}

// history is a server's statement about a principal, and the entries that must agree with it.
type history struct {
	*api.History
	entries map[uint64]*verify.Entry
	grew    bool // the log grew while the pages were read
	part    bool // some incidents only: the counts do not follow from them
}

// check checks every line against its entries, and the counts against all entries.
func (h *history) check() error {
	own := map[uint64]bool{}
	for i := range h.Signals {
		s := &h.Signals[i]
		if own[s.Index] || !h.isSignal(s) {
			return malformed("entry %d is not that signal, or it is there twice", s.Index)
		}
		own[s.Index] = true
	}
	last, verdicts := h.verdicts(own)
	for i := range h.Signals {
		s := &h.Signals[i]
		said := last[s.Index]
		if said.index != s.Disposed || !said.fits(s) || said.index != 0 && s.Incident > said.incident {
			return malformed("entry %d does not say that signal %d is %.20q by %.140q in incident %d", s.Disposed, s.Index, s.Disposition, s.Domains, s.Incident)
		}
	}
	if !h.part {
		if err := h.checkCounts(verdicts[max(0, len(verdicts)-judgedMax):]); err != nil {
			return err
		}
	}
	if err := h.attempts(); err != nil {
		return err
	}
	if err := h.memberships(); err != nil {
		return err
	}
	return h.outcomes()
}

// checkCounts checks the counts against the newest verdicts.
func (h *history) checkCounts(verdicts []entry.Disposition) error {
	want := api.History{Judged: len(verdicts)}
	for i := range verdicts {
		switch one := &verdicts[i]; one.Disposition {
		case entry.Corroborated:
			if want.Corroborated++; one.Independent {
				want.Independent++
			}
		case entry.SelfReported:
			want.SelfReported++
		case entry.Dismissed:
			want.Dismissed++
		}
	}
	for _, c := range []struct {
		name       string
		said, want int64
	}{
		{"judged", int64(h.Judged), int64(want.Judged)}, {"corroborated", h.Corroborated, want.Corroborated}, {"independent", h.Independent, want.Independent},
		{"self_reported", h.SelfReported, want.SelfReported}, {"dismissed", h.Dismissed, want.Dismissed},
	} {
		if c.said != c.want {
			return malformed("%s %d, the entries give %d", c.name, c.said, c.want)
		}
	}
	return nil
}

// isSignal reports whether a line agrees with its entry. The signal, or an older signal, opened
// the incident of the line.
func (h *history) isSignal(s *api.IncidentSignal) bool {
	body, ok := bodyOf[*entry.Signal](h, s.Index)
	return ok && body.Iss == h.Principal && s.Issuer == h.Principal && body.Subject == s.Subject && body.Standing == s.Standing &&
		s.Evidence == (len(body.Evidence) > 0) && s.At == h.entries[s.Index].RegisteredAt && s.Incident <= s.Index
}

// found is the verdict of the entry at an index on a signal.
type found struct {
	entry.Disposition
	index    uint64
	incident uint64
}

// fits reports whether a line gives the verdict that was found on its signal.
func (f *found) fits(s *api.IncidentSignal) bool {
	return f.Disposition.Disposition == s.Disposition && slices.Equal(f.Domains, s.Domains) && f.Independent == s.Independent
}

// verdicts returns the verdicts on some signals, in the order of the log, and the last verdict
// on each signal. A signal of an incident that was merged into an older one has two verdicts.
func (h *history) verdicts(own map[uint64]bool) (last map[uint64]found, verdicts []entry.Disposition) {
	last = map[uint64]found{}
	for _, index := range slices.Sorted(maps.Keys(h.entries)) {
		var list []entry.Disposition
		var incident uint64
		if record, ok := bodyOf[*entry.Record](h, index); ok {
			list, incident = record.Dispositions, record.Incident
		} else if deny, ok := bodyOf[*entry.Decision](h, index); ok && deny.Act == entry.ActDeny {
			list, incident = deny.Dispositions, deny.Incident
		}
		for _, one := range list {
			if own[one.Index] {
				last[one.Index] = found{one, index, incident}
				verdicts = append(verdicts, one)
			}
		}
	}
	return last, verdicts
}

// attempts checks attempts against their entries: of an entry, all cases or none.
func (h *history) attempts() error {
	seen := map[uint64]bool{}
	for rest := h.Attempts; len(rest) > 0; {
		index := rest[0].Index
		a, ok := bodyOf[*entry.Attempt](h, index)
		if !ok || seen[index] || a.Of() != h.Principal || a.Arm == entry.ArmShadow {
			return malformed("entry %d is no attempt in the work of %s, or it is there twice", index, h.Principal)
		}
		want := api.AttemptsIn(a, index)
		if len(rest) < len(want) || !slices.Equal(rest[:len(want)], want) {
			return malformed("entry %d does not say that of case %.140q", index, rest[0].Case)
		}
		seen[index], rest = true, rest[len(want):]
	}
	return nil
}

// memberships checks the results of members against the entries that give them.
func (h *history) memberships() error {
	type place struct {
		incident uint64
		exec     entry.Ref
	}
	seen := map[place]bool{}
	for i := range h.Memberships {
		m := &h.Memberships[i]
		at := place{m.Incident, m.Exec}
		d, ok := bodyOf[*entry.Decision](h, m.Decision)
		if !ok || seen[at] || d.Incident != m.Incident || d.Act != entry.ActAuthorize && d.Act != entry.ActAmend ||
			!strings.HasPrefix(string(m.Exec), string(h.Principal)+"#") {
			return malformed("entry %d makes %s no member of a plan of incident %d, or it is there twice", m.Decision, m.Exec, m.Incident)
		}
		if seen[at] = true; !h.cameTo(m) {
			return malformed("entry %d does not say that %s is %.20q", m.ResultAt, m.Exec, m.Result)
		}
	}
	return nil
}

// cameTo reports whether a member's result agrees with its entry. The entry is an outcome, an
// override, or the decision itself if there is nothing to undo.
func (h *history) cameTo(m *api.Membership) bool {
	if m.Result == "" || m.ResultAt == 0 {
		return m.Result == "" && m.ResultAt == 0 && !m.Own
	}
	if o, ok := bodyOf[*entry.Outcome](h, m.ResultAt); ok {
		return o.Incident == m.Incident && o.Exec == m.Exec && o.Result == m.Result && m.Own == (o.Iss == h.Principal)
	}
	d, ok := bodyOf[*entry.Decision](h, m.ResultAt)
	if !ok || d.Incident != m.Incident || m.Own {
		return false
	}
	switch d.Act {
	case entry.ActAuthorize, entry.ActAmend:
		return m.Result == entry.NotExecuted && m.Method == entry.MethodNone
	case entry.ActOverride:
		return m.Result == entry.Withheld
	}
	return false
}

// outcomes checks outcomes against their entries. An outcome after the recovery record is a
// correction.
func (h *history) outcomes() error {
	recorded := map[uint64]uint64{}
	for index := range h.entries {
		if record, ok := bodyOf[*entry.Record](h, index); ok {
			recorded[record.Incident] = index
		}
	}
	corrections, seen := int64(0), map[uint64]bool{}
	for i := range h.Outcomes {
		o := &h.Outcomes[i]
		body, ok := bodyOf[*entry.Outcome](h, o.Index)
		at, closed := recorded[o.Incident]
		if !ok || seen[o.Index] || body.Iss != h.Principal || body.Exec != o.Exec || body.Result != o.Result || body.Incident != o.Incident ||
			o.Correction != (closed && at < o.Index) {
			return malformed("entry %d is not that outcome, or it is there twice", o.Index)
		}
		if seen[o.Index] = true; o.Correction {
			corrections++
		}
	}
	if corrections != h.Corrections && !h.part {
		return malformed("%d corrections, the entries give %d", h.Corrections, corrections)
	}
	return nil
}

// bodyOf returns the content of a proven entry.
func bodyOf[T entry.Body](h *history, index uint64) (body T, ok bool) {
	if e := h.entries[index]; e != nil {
		body, ok = e.Body.(T)
	}
	return body, ok
}

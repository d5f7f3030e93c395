package histories

import (
	"fmt"
	"strings"

	"recoveryledger/api"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/entry"
)

// judgedText tells what others bear out from what the principal alone reports.
func judgedText(h *api.History) string {
	return fmt.Sprintf("%d: %d corroborated (%d independent), %d self-reported, %d dismissed", h.Judged, h.Corroborated, h.Independent, h.SelfReported, h.Dismissed)
}

// Found is what was found of a signal, and which domains corroborate it.
func Found(s *api.IncidentSignal) string {
	switch {
	case s.Silence:
		return s.Disposition + ": nobody answered in time"
	case s.Disposition != entry.Corroborated:
		return s.Disposition
	case s.Independent:
		return s.Disposition + " by " + strings.Join(s.Domains, ", ")
	}
	return s.Disposition + " by its own domain " + strings.Join(s.Domains, ", ")
}

// Print shows a history that was counted from a fold.
func Print(a *terminal.Terminal, f *access.Fold, h *api.History) error {
	fields := []terminal.Field{{"principal", string(h.Principal)},
		{"signals judged", judgedText(h)},
		{"signals an hour", fmt.Sprintf("%d, by the policy for %d independent and %d dismissed", h.SignalLimit, h.Independent, h.Dismissed)},
		{"corrections", fmt.Sprintf("%d after the record", h.Corrections)},
		{"checked", fmt.Sprintf("counted from %s under the signed root %s", terminal.Counted(f.Size, "entry"), f.Head.Root)},
	}
	if h.Cursor != 0 {
		fields = append(fields, terminal.Field{"cursor", decimal(h.Cursor) + ": pass it as --after to see what changes next"})
	}
	if err := a.PrintObject(nil, fields...); err != nil {
		return err
	}
	l := a.NewList("INCIDENT", "ENTRY", "WHAT", "ABOUT", "CAME TO", "SAID BY")
	said := func(index uint64) string {
		if index == 0 {
			return ""
		}
		return "entry " + decimal(index)
	}
	for _, s := range h.Signals {
		if err := l.Add(s, decimal(s.Incident), decimal(s.Index), "signal as "+string(s.Standing), string(s.Subject), Found(&s), said(s.Disposed)); err != nil {
			return err
		}
	}
	for _, m := range h.Memberships {
		if err := l.Add(m, decimal(m.Incident), decimal(m.Decision), "to "+string(m.Method), string(m.Exec), string(m.Result), said(m.ResultAt)); err != nil {
			return err
		}
	}
	for _, o := range h.Outcomes {
		what := "outcome"
		if o.Correction {
			what = "correction"
		}
		if err := l.Add(o, decimal(o.Incident), decimal(o.Index), what, string(o.Exec), string(o.Result), said(o.Index)); err != nil {
			return err
		}
	}
	if len(h.Signals)+len(h.Memberships)+len(h.Outcomes) == 0 {
		return nil
	}
	if err := a.PrintText("\n"); err != nil {
		return err
	}
	return l.Close()
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/api"
	"recoveryledger/api/server"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

func (a *app) agentHistoryCommand(t *target) *cobra.Command {
	var o logOptions
	cmd := &cobra.Command{
		Use:   "history PRINCIPAL",
		Short: "Show what the log says of a principal",
		Long: "Show what the log says of a principal: its signals with what was found of them, its executions that were to be\n" +
			"undone, and the outcomes that it reported. All is counted here, from the entries of the log, which are held to the\n" +
			"signed tree head and to the rules of registration; each line names the entry that says it (arl entry get), and\n" +
			"--output json has these entries with their proofs.",
		Example: "  arl agent history planner",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.target = *t
			return a.withLog(cmd.Context(), &o, func(l *openLog) error { return a.agentHistory(cmd.Context(), l, entry.Principal(args[0])) })
		},
	}
	o.registerInPlace(cmd.Flags())
	return cmd
}

func (a *app) agentHistory(ctx context.Context, l *openLog, principal entry.Principal) error {
	tree, err := newTree()
	if err != nil {
		return err
	}
	w := &witness{tree: tree, kept: map[uint64]*coord.AuditEntry{}}
	f, err := a.fold(ctx, l, "read the log", w.see)
	if err := cmp.Or(err, w.err); err != nil {
		return err
	}
	view, _, ok := f.State.History(principal, 0, int(f.Size))
	if _, enrolled := f.State.Chain().Agent(principal); !ok && !enrolled {
		return withExit(exitNotFound, fmt.Errorf("%s was never enrolled", principal))
	}
	view.Principal = principal
	h := server.NewHistory(&view)
	if err := w.complete(h, f); err != nil {
		return err
	}
	if a.settings.output == outputJSON {
		return a.printJSON(h)
	}
	return a.printHistory(f, h)
}

// complete adds the outcomes that the principal reported, and the entries that
// prove the history.
func (w *witness) complete(h *api.History, f *folded) (err error) {
	for _, index := range slices.Sorted(maps.Keys(w.kept)) {
		if o, ok := w.kept[index].Body.(*entry.Outcome); ok && o.Iss == h.Principal {
			incident, _ := f.State.Incident(o.Incident, f.now) // it was admitted
			h.Outcomes = append(h.Outcomes, api.HistoryOutcome{Index: index, Incident: o.Incident, Exec: o.Exec, Result: o.Result,
				Correction: incident.Recorded != 0 && index > incident.Recorded})
		}
	}
	named := h.Named()
	for _, incident := range f.State.IncidentsOf(h.Principal, 0, int(f.Size), f.now) {
		if incident.Recorded != 0 {
			named = append(named, incident.Recorded)
		}
	}
	slices.Sort(named)
	h.Head = f.head.Note
	h.Entries, err = w.items(slices.Compact(named), f.head.Head)
	return err
}

// judgedText tells what others bear out from what the principal alone reports.
func judgedText(h *api.History) string {
	return fmt.Sprintf("%d: %d corroborated (%d independent), %d self-reported, %d unfounded", h.Judged, h.Corroborated, h.Independent, h.SelfReported, h.Unfounded)
}

// foundOf is what was found of a signal, and which domains corroborate it.
func foundOf(s *api.IncidentSignal) string {
	switch {
	case s.Disposition != entry.Corroborated:
		return s.Disposition
	case s.Independent:
		return s.Disposition + " by " + strings.Join(s.Domains, ", ")
	}
	return s.Disposition + " by its own domain " + strings.Join(s.Domains, ", ")
}

func (a *app) printHistory(f *folded, h *api.History) error {
	err := a.printObject(nil, field{"principal", string(h.Principal)},
		field{"signals judged", judgedText(h)},
		field{"signals an hour", fmt.Sprintf("%d, as the policy leaves it with %d independent and %d unfounded", h.SignalLimit, h.Independent, h.Unfounded)},
		field{"corrections", fmt.Sprintf("%d after the record", h.Corrections)},
		field{"checked", fmt.Sprintf("counted from the %d entries under the signed root %s", f.Size, f.head.Root)})
	if err != nil {
		return err
	}
	l := a.newList("INCIDENT", "ENTRY", "WHAT", "ABOUT", "CAME TO", "SAID BY")
	said := func(index uint64) string {
		if index == 0 {
			return ""
		}
		return "entry " + decimal(index)
	}
	for _, s := range h.Signals {
		if err := l.add(s, decimal(s.Incident), decimal(s.Index), "signal as "+string(s.Standing), string(s.Subject), foundOf(&s), said(s.Disposed)); err != nil {
			return err
		}
	}
	for _, m := range h.Memberships {
		if err := l.add(m, decimal(m.Incident), decimal(m.Decision), "to "+string(m.Method), string(m.Exec), string(m.Result), said(m.ResultAt)); err != nil {
			return err
		}
	}
	for _, o := range h.Outcomes {
		what := "outcome"
		if o.Correction {
			what = "correction"
		}
		if err := l.add(o, decimal(o.Incident), decimal(o.Index), what, string(o.Exec), string(o.Result), said(o.Index)); err != nil {
			return err
		}
	}
	if len(h.Signals)+len(h.Memberships)+len(h.Outcomes) == 0 {
		return nil
	}
	if err := a.printText("\n"); err != nil {
		return err
	}
	return l.close()
}

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"recoveryledger/api"
	"recoveryledger/api/server"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

func (a *app) agentHistoryCommand(t *target) *cobra.Command {
	return &cobra.Command{
		Use:   "history PRINCIPAL",
		Short: "Show what the log says of a principal",
		Long: "Show what the log says of a principal: its signals with what was found of them, its executions that were to be\n" +
			"undone, and the outcomes that it reported. All is counted here, from the entries of the log, which are held to the\n" +
			"signed tree head and to the rules of registration; each line names the entry that says it (arl entry get).",
		Example: "  arl agent history planner",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withConnection(cmd.Context(), t, func(c *connection) error {
				return a.agentHistory(cmd.Context(), c.openLog(), entry.Principal(args[0]))
			})
		},
	}
}

func (a *app) agentHistory(ctx context.Context, l *openLog, principal entry.Principal) error {
	var outcomes []api.HistoryOutcome
	f, err := a.fold(ctx, l, "read the log", func(e coord.AuditEntry) {
		if o, ok := e.Body.(*entry.Outcome); ok && o.Iss == principal {
			outcomes = append(outcomes, api.HistoryOutcome{Index: e.Index, Incident: o.Incident, Exec: o.Exec, Result: o.Result})
		}
	})
	if err != nil {
		return err
	}
	view, _, ok := f.State.History(principal, 0, int(f.Size))
	if _, enrolled := f.State.Chain().Agent(principal); !ok && !enrolled {
		return withExit(exitNotFound, fmt.Errorf("%s was never enrolled", principal))
	}
	view.Principal = principal
	h := server.NewHistory(&view)
	h.Head = f.head.Note
	for _, o := range outcomes {
		incident, _ := f.State.Incident(o.Incident, f.now) // it was admitted
		o.Correction = incident.Recorded != 0 && o.Index > incident.Recorded
		h.Outcomes = append(h.Outcomes, o)
	}
	if a.settings.output == outputJSON {
		return a.printJSON(h)
	}
	return a.printHistory(f, h)
}

func (a *app) printHistory(f *folded, h *api.History) error {
	err := a.printObject(nil, field{"principal", string(h.Principal)},
		field{"signals judged", fmt.Sprintf("%d: %d confirmed, %d unfounded", h.Judged, h.Confirmed, h.Unfounded)},
		field{"signals an hour", fmt.Sprintf("%d, as the policy and these leave it", h.SignalLimit)},
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
		if err := l.add(s, decimal(s.Incident), decimal(s.Index), "signal as "+string(s.Standing), string(s.Subject), s.Disposition, said(s.Disposed)); err != nil {
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

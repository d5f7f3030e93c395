package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/api"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

func (a *app) agentHistoryCommand(t *access.Target) *cobra.Command {
	var o access.Where
	var after optional
	cmd := &cobra.Command{
		Use:   "history PRINCIPAL",
		Short: "Show the record of a principal",
		Long: "Show the record of a principal: its signals and their dispositions, its executions in rollback sets, and the\n" +
			"outcomes that it reported. The command counts everything from the entries of the log, which it verifies against\n" +
			"the signed tree head and the rules of registration. Each line names its entry (arl entry get), and --output json\n" +
			"has these entries with their proofs. With --after, the command shows only the incidents that changed after that\n" +
			"index. Pass the cursor of the output as the next --after.",
		Example: "  arl agent history planner",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Target = *t
			return a.machine().WithLog(cmd.Context(), &o, func(l *access.Log) error { return a.agentHistory(cmd.Context(), l, entry.Principal(args[0]), after) })
		},
	}
	o.RegisterInPlace(cmd.Flags())
	o.RegisterKept(cmd.Flags())
	cmd.Flags().Var(&after, "after", "only incidents that changed after this index; 0: all, oldest change first")
	return cmd
}

func (a *app) agentHistory(ctx context.Context, l *access.Log, principal entry.Principal, after optional) error {
	f, err := a.machine().Fold(ctx, l, "read the log")
	if err != nil {
		return err
	}
	var changes coord.Changes
	var ok bool
	if after.value == nil {
		changes.History, _, ok = f.State.History(principal, 0, int(f.Size))
	} else {
		changes, ok = f.State.HistoryAfter(principal, uint64(*after.value), int(f.Size))
	}
	if _, enrolled := f.State.Chain().Agent(principal); !ok && !enrolled {
		return exit.With(exit.NotFound, fmt.Errorf("%s was never enrolled", principal))
	}
	changes.Principal = principal
	h := &changes.History
	for _, o := range f.Follower.OutcomesBy(principal) {
		if after.value != nil && !slices.Contains(changes.Incidents, o.Incident) {
			continue
		}
		incident, _ := f.State.Incident(o.Incident, f.Now) // it was admitted
		h.Outcomes = append(h.Outcomes, api.HistoryOutcome{Index: o.Index, Incident: o.Incident, Exec: o.Exec, Result: o.Result,
			Correction: incident.Corrects(o.Index)})
	}
	if !a.JSON() {
		return a.printHistory(f, h)
	}
	h.Head = f.Head.Note
	if h.Entries, err = f.Items(ctx, l, f.Proof(h)); err != nil {
		return err
	}
	return a.PrintJSON(h)
}

// judgedText tells what others bear out from what the principal alone reports.
func judgedText(h *api.History) string {
	return fmt.Sprintf("%d: %d corroborated (%d independent), %d self-reported, %d dismissed", h.Judged, h.Corroborated, h.Independent, h.SelfReported, h.Dismissed)
}

// foundOf is what was found of a signal, and which domains corroborate it.
func foundOf(s *api.IncidentSignal) string {
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

func (a *app) printHistory(f *access.Fold, h *api.History) error {
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
		if err := l.Add(s, decimal(s.Incident), decimal(s.Index), "signal as "+string(s.Standing), string(s.Subject), foundOf(&s), said(s.Disposed)); err != nil {
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

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/api"
	"recoveryledger/api/server"
	"recoveryledger/coord"
	"recoveryledger/coord/audit"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

func (a *app) agentHistoryCommand(t *target) *cobra.Command {
	var o logOptions
	var after optional
	cmd := &cobra.Command{
		Use:   "history PRINCIPAL",
		Short: "Show what the log says of a principal",
		Long: "Show what the log says of a principal: its signals with what was found of them, its executions that were to be\n" +
			"undone, and the outcomes that it reported. All is counted here, from the entries of the log, which are held to the\n" +
			"signed tree head and to the rules of registration; each line names the entry that says it (arl entry get), and\n" +
			"--output json has these entries with their proofs. With --after, only the incidents in which something changed\n" +
			"behind that index; cursor in the output is what to pass next.",
		Example: "  arl agent history planner",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.target = *t
			return a.withLog(cmd.Context(), &o, func(l *openLog) error { return a.agentHistory(cmd.Context(), l, entry.Principal(args[0]), after) })
		},
	}
	o.registerInPlace(cmd.Flags())
	o.registerKept(cmd.Flags())
	cmd.Flags().Var(&after, "after", "only incidents in which something changed behind this index; 0: all, the oldest change first")
	return cmd
}

func (a *app) agentHistory(ctx context.Context, l *openLog, principal entry.Principal, after optional) error {
	f, err := a.fold(ctx, l, "read the log", nil)
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
		return withExit(exitNotFound, fmt.Errorf("%s was never enrolled", principal))
	}
	changes.Principal = principal
	h := server.NewHistory(&changes.History)
	h.Cursor = changes.Cursor
	for _, o := range f.follower.OutcomesBy(principal) {
		if after.value != nil && !slices.Contains(changes.Incidents, o.Incident) {
			continue
		}
		incident, _ := f.State.Incident(o.Incident, f.now) // it was admitted
		h.Outcomes = append(h.Outcomes, api.HistoryOutcome{Index: o.Index, Incident: o.Incident, Exec: o.Exec, Result: o.Result,
			Correction: incident.Recorded != 0 && o.Index > incident.Recorded})
	}
	if a.settings.output != outputJSON {
		return a.printHistory(f, h)
	}
	h.Head = f.head.Note
	if h.Entries, err = f.items(ctx, l, f.proof(h)); err != nil {
		return err
	}
	return a.printJSON(h)
}

// proof returns the indexes of the entries that prove a history: those that it
// names, and those that closed its incidents.
func (f *folded) proof(h *api.History) []uint64 {
	named := h.Named()
	for _, incident := range f.State.IncidentsOf(h.Principal, 0, int(f.Size), f.now) {
		if incident.Recorded != 0 {
			named = append(named, incident.Recorded)
		}
	}
	slices.Sort(named)
	return slices.Compact(named)
}

// items reads entries of the folded log, in the order of the log, and proves them
// under its head.
func (f *folded) items(ctx context.Context, l *openLog, indexes []uint64) ([]api.Item, error) {
	items := []api.Item{}
	for len(indexes) > 0 {
		first := indexes[0] / merkle.TileWidth * merkle.TileWidth
		found, err := audit.Bundle(ctx, l, first/merkle.TileWidth, f.Size)
		if err != nil {
			return nil, err
		}
		for ; len(indexes) > 0 && indexes[0] < first+merkle.TileWidth; indexes = indexes[1:] {
			item, err := f.item(indexes[0], found[indexes[0]-first])
			if err != nil {
				return nil, err
			}
			items = append(items, *item)
		}
	}
	return items, nil
}

func (f *folded) item(index uint64, leaf []byte) (*api.Item, error) {
	hash, err := f.State.Node(0, index)
	if err != nil {
		return nil, err
	}
	if hash != merkle.HashLeaf(leaf) {
		err := fmt.Errorf("entry %d was served twice, with the leaf hashes %s and %s", index, hash, merkle.HashLeaf(leaf))
		return nil, &inconsistency{"audit", forkEvidence{err.Error(), f.head.Note, ""}, err}
	}
	e, at, err := entry.DecodeLeaf(leaf)
	if err != nil {
		return nil, err
	}
	path, err := merkle.ProveInclusion(index, f.Size, f.State.Node, nil)
	return &api.Item{Proof: path, Entry: api.Entry{Index: index, RegisteredAt: at, LeafHash: hash, Envelope: api.NewEnvelope(e)}}, err
}

// judgedText tells what others bear out from what the principal alone reports.
func judgedText(h *api.History) string {
	return fmt.Sprintf("%d: %d corroborated (%d independent), %d self-reported, %d unfounded", h.Judged, h.Corroborated, h.Independent, h.SelfReported, h.Unfounded)
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

func (a *app) printHistory(f *folded, h *api.History) error {
	fields := []field{{"principal", string(h.Principal)},
		{"signals judged", judgedText(h)},
		{"signals an hour", fmt.Sprintf("%d, as the policy leaves it with %d independent and %d unfounded", h.SignalLimit, h.Independent, h.Unfounded)},
		{"corrections", fmt.Sprintf("%d after the record", h.Corrections)},
		{"checked", fmt.Sprintf("counted from the %d entries under the signed root %s", f.Size, f.head.Root)},
	}
	if h.Cursor != 0 {
		fields = append(fields, field{"cursor", decimal(h.Cursor) + ": pass it as --after to see what changes next"})
	}
	if err := a.printObject(nil, fields...); err != nil {
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

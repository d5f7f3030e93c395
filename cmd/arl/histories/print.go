package histories

import (
	"context"
	"fmt"

	"recoveryledger/api"
	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/coord/audit"
	"recoveryledger/coord/recovery/figure"
	"recoveryledger/ledger/entry"
)

// judgedText returns the counts of judged signals. It separates the signals that others corroborate
// from the signals that the principal alone reports.
func judgedText(h *api.History) string {
	return fmt.Sprintf("%d: %d corroborated (%d independent), %d self-reported, %d dismissed", h.Judged, h.Corroborated, h.Independent, h.SelfReported, h.Dismissed)
}

// attemptsText says what became of the failures in a principal's work; empty if there is no
// attempt.
func attemptsText(n audit.Attempts) string {
	if n.Cases == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %d recovered, %d escalated, %s; newest is entry %d", words.Counted(n.Cases, "case"), n.Recovered, n.Escalated,
		figure.USD(n.CostMicroUSD), n.Newest)
}

// Whole is a history with the attempts of the principal, as arl agent history prints it.
type Whole struct {
	*api.History
	Attempts audit.Attempts `json:"attempt_counts"`
}

// WithAttempts returns the history with what the fold knows of attempts.
func WithAttempts(f *access.Fold, h *api.History) Whole {
	return Whole{h, f.Follower.AttemptsOf(h.Principal)}
}

// commandFields say what a principal has to undo, and when the ledger last sent the bundles. Only a
// running ledger tells the latter.
func commandFields(ctx context.Context, log *access.Log, f *access.Fold, principal entry.Principal) (fields []terminal.Field) {
	commands := f.State.Commands(principal)
	sent := map[uint64]string{}
	if c, served := log.Registry.(*access.Connection); served && len(commands) > 0 {
		if told, err := c.Client.Commands(ctx, principal, api.CommandsQuery{}); err == nil && told.Since != 0 {
			for i := range told.Commands {
				sent[told.Commands[i].Incident] = "; bundle " + words.BundleSent(&told.Commands[i], told.Since) + ", by the ledger's word"
			}
		}
	}
	for _, c := range commands {
		fields = append(fields, terminal.Field{"has to undo", fmt.Sprintf("%s of incident %d, of which %d may begin%s",
			words.Counted(c.Members, "member"), c.Incident, c.Released, sent[c.Incident])})
	}
	return fields
}

// Print shows a history that was counted from a fold of a log.
func Print(ctx context.Context, a *terminal.Terminal, log *access.Log, f *access.Fold, h *api.History) error {
	fields := []terminal.Field{{"principal", string(h.Principal)},
		{"signals judged", judgedText(h)},
		{"signals an hour", fmt.Sprintf("%d, by the policy for %d independent and %d dismissed", h.SignalLimit, h.Independent, h.Dismissed)},
		{"corrections", fmt.Sprintf("%d after the record", h.Corrections)},
		{"attempts", attemptsText(f.Follower.AttemptsOf(h.Principal))},
		{"checked", fmt.Sprintf("counted from %s under the signed root %s", words.Counted(f.Size, "entry"), f.Head.Root)},
	}
	fields = append(fields, commandFields(ctx, log, f, h.Principal)...)
	if h.Cursor != 0 {
		fields = append(fields, terminal.Field{"cursor", decimal(h.Cursor) + ": pass this number as --after to see the next changes"})
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
		if err := l.Add(s, decimal(s.Incident), decimal(s.Index), "signal as "+string(s.Standing), string(s.Subject), words.Disposition(&s), said(s.Disposed)); err != nil {
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

package agent

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"recoveryledger/ledger/entry"
)

// stand names a member of an incident.
type stand struct {
	incident uint64
	exec     entry.Ref
}

// standing returns the known entries that may have given a member its result, the likeliest first.
// An outcome of the agent takes the place of such an entry. Of overrides standing returns the first
// one after the decision that made the execution a member. The outcome may name a later override.
func (a *Agent) standing(o *entry.Outcome) []entry.LogRef {
	if at, ok := a.stands[stand{o.Incident, o.Exec}]; ok {
		return []entry.LogRef{at}
	}
	known := a.overrides[o.Incident]
	later, _ := slices.BinarySearchFunc(known, o.Decision.Index, func(one entry.LogRef, index uint64) int { return compare(one.Index, index) })
	if shown := a.orders[o.Incident]; shown != nil && shown.verdict.Decision == o.Decision {
		if c := shown.command(o.Exec); c != nil && c.Result == "" {
			return known[later:] // those before left it open
		}
	}
	return slices.Concat(known[later:], known[:later])
}

// supersede makes an outcome take the place of an entry that may stand, unless the ledger has
// already refused that entry.
func (a *Agent) supersede(o *entry.Outcome, refused int) {
	o.Supersedes = nil
	if known := a.standing(o); refused < len(known) {
		o.Supersedes = &known[refused]
	}
}

// sign makes the signed envelope of a body under a new header.
func (a *Agent) sign(body entry.Body, now int64) (value, error) {
	h := entry.HeaderOf(body)
	*h = entry.Header{V: 1, JTI: a.cfg.NewID(), Iss: a.cfg.Agent, Aud: a.cfg.Root.Origin, Iat: now / 1000, Wid: h.Wid}
	e, err := entry.New(body)
	if err == nil {
		err = a.cfg.Sign(e)
	}
	if err != nil {
		return nil, a.stop(fmt.Errorf("agent: sign: %w", err))
	}
	return e.AppendEnvelope(nil), nil
}

// outcome adds the outcome of a member to an outbox: the result, and from the report the residual
// and the evidence.
func (a *Agent) outcome(w *work, m *CallMember, r entry.Result, report Report, now int64) error {
	o := &entry.Outcome{Header: entry.Header{Wid: w.Wid}, Incident: w.Incident, Decision: w.Decision, Exec: m.Exec, Result: r, ObservedAt: now,
		Evidence: report.Evidence}
	switch r {
	case entry.Restored:
		o.PostDigest = w.Digest
	case entry.Compensated:
		o.CompExec = entry.NewRef(a.cfg.Agent, w.CompExec)
	case entry.NotExecuted:
	default:
		o.Residual = text(report.Residual)
	}
	a.supersede(o, 0)
	// Without a method there is nothing to undo, and the ledger may know the
	// result already: when the execution has ended.
	return a.outbox(w, o, m.Method == entry.MethodNone, now)
}

// compensation adds progress of the compensation's execution to an outbox.
func (a *Agent) compensation(w *work, progress entry.Progress, optional bool, now int64) error {
	key := sha256.Sum256([]byte(a.key(w.Members[0].Exec, w.Attempt)))
	return a.outbox(w, &entry.Execution{Header: entry.Header{Wid: w.Members[0].Wid}, Exec: w.CompExec, Parents: []entry.Parent{},
		Effect: entry.EffectIrrevocable, Progress: progress, IdempotencyKey: entry.DigestFrom(key[:]),
		Compensates: &entry.Compensates{Incident: w.Incident, Decision: w.Decision, Exec: w.Members[0].Exec}}, optional, now)
}

// final adds the end of an execution that was drained to an outbox.
func (a *Agent) final(w *work, progress entry.Progress, now int64) error {
	x, err := w.first()
	if err != nil {
		return a.stop(err)
	}
	x.Progress, x.Crit = progress, nil
	return a.outbox(w, x, true, now) // refused if the agent has logged it itself
}

func (a *Agent) outbox(w *work, body entry.Body, optional bool, now int64) error {
	envelope, err := a.sign(body, now)
	if err != nil {
		return err
	}
	w.Outbox = append(w.Outbox, item{Envelope: envelope, Optional: optional})
	return nil
}

// text makes a text that may stand in a residual from any text.
func text(s string) string {
	s = strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c == utf8.RuneError {
			return ' '
		}
		return c
	}, s)
	for len(s) > entry.MaxText {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	if s == "" {
		return "the report does not say what is left"
	}
	return s
}

// describe describes an entry of the agent in words.
func describe(e *entry.Entry) string {
	switch body := e.Body.(type) {
	case *entry.Outcome:
		return fmt.Sprintf("outcome %s of %s", body.Result, body.Exec)
	case *entry.Execution:
		return fmt.Sprintf("%s %s", body.Ref(), body.Progress)
	}
	return string(e.Kind)
}

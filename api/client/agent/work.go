package agent

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"recoveryledger/ledger/entry"
)

// phase is how far an undertaking has come.
type phase string

// The phases, in order. The package comment gives the consequence of a crash in each phase.
const (
	noted   phase = "noted"   // nothing was started
	started phase = "started" // the hook may have run
	done    phase = "done"    // the entries to log are in the outbox
	closed  phase = "closed"  // the log has the entries
)

// work is an undertaking: one hook for one member, or for the members of a line
// that go back together; without a hook, an answer.
type work struct {
	Name    string `json:"name"` // of its document
	Hook    Hook   `json:"hook,omitempty"`
	Number  int    `json:"number"` // from 1, in the order in which they were undertaken
	Phase   phase  `json:"phase"`
	Lost    bool   `json:"lost,omitempty"` // it may have been started: an earlier store is gone
	Status  Status `json:"status,omitempty"`
	Attempt int    `json:"attempt"`
	Vain    int    `json:"vain,omitempty"` // attempts that had no effect by their hook's own report

	Incident   uint64           `json:"incident"`
	Wid        entry.WorkflowID `json:"wid"` // of the incident
	Decision   entry.LogRef     `json:"decision"`
	Epoch      int64            `json:"epoch"`
	ExpiresAt  int64            `json:"expires_at"`
	DeadlineAt int64            `json:"deadline_at"`

	Members    []CallMember   `json:"members"`
	Checkpoint entry.Ref      `json:"checkpoint,omitempty"`
	Digest     entry.Digest   `json:"digest,omitempty"`
	Standing   []entry.Ref    `json:"standing,omitempty"`
	CompExec   string         `json:"comp_exec,omitempty"` // local id
	First      value          `json:"first,omitempty"`     // with drain: envelope of the execution's first entry
	Progress   entry.Progress `json:"progress,omitempty"`  // with drain: its final progress

	// Outbox holds the entries to log, in order. Before the hook these are the entries that
	// the log must have first (EXE-2).
	Outbox []item `json:"outbox,omitempty"`

	mem memory
}

// item is an entry to log.
type item struct {
	Envelope value `json:"envelope"`
	// Optional says that the log may do without the entry. A refusal ends the item.
	Optional bool `json:"optional,omitempty"`
}

// memory is the state of an undertaking that need not survive a crash.
type memory struct {
	sent     int   // of the outbox, before the hook
	waitTill int64 // Unix milliseconds
	pauses   int
	probes   int
	fresh    bool // it is being started, and was not before
	vain     int  // times that its hook could not begin
	refusals int
	known    uint64 // index of the newest thing known when it was refused
	named    int    // number of refused entries among those that the outcome may supersede
}

// name returns the name of the document of an undertaking.
func (w *work) name() string {
	hook := string(w.Hook)
	if hook == "" {
		hook = "answer"
	}
	return docWork + strconv.FormatUint(w.Decision.Index, 10) + "-" + strconv.FormatUint(w.Members[0].Index, 10) + "-" + hook
}

// check checks the rules of every saved undertaking.
func (w *work) check(name string) error {
	known := w.Phase == noted || w.Phase == started || w.Phase == done || w.Phase == closed
	if w.Name != name || !known || len(w.Members) == 0 || w.Attempt < 0 || w.Number < 1 {
		return &DamageError{name, "not an undertaking"}
	}
	for _, it := range w.Outbox {
		if _, err := entry.Decode(it.Envelope); err != nil {
			return &DamageError{name, "outbox: " + err.Error()}
		}
	}
	if w.Hook == Drain {
		if _, err := w.first(); err != nil {
			return &DamageError{name, "first: " + err.Error()}
		}
	}
	return nil
}

// first returns the execution that is drained, as it was declared.
func (w *work) first() (*entry.Execution, error) {
	e, err := entry.Decode(w.First)
	if err != nil {
		return nil, err
	}
	x, ok := e.Body.(*entry.Execution)
	if !ok {
		return nil, fmt.Errorf("a %s entry", e.Kind)
	}
	return x, nil
}

// call returns the call for the hook of an undertaking.
func (a *Agent) call(w *work) *Call {
	c := &Call{V: 1, Hook: w.Hook, Agent: a.cfg.Agent, Incident: w.Incident, Decision: w.Decision, Epoch: w.Epoch, ExpiresAt: w.ExpiresAt,
		DeadlineAt: w.DeadlineAt, Members: append([]CallMember{}, w.Members...), Checkpoint: w.Checkpoint, Digest: w.Digest,
		Standing: append([]entry.Ref{}, w.Standing...), Attempt: w.Attempt}
	if w.Hook == Compensate {
		c.Key, c.CompExec = a.key(w.Members[0].Exec, w.Attempt), entry.NewRef(a.cfg.Agent, w.CompExec)
	}
	return c
}

// probe returns the call for Probe about an undertaking.
func (a *Agent) probe(w *work) *Call {
	c := a.call(w)
	c.Hook, c.Of = Probe, w.Hook
	if w.Hook != Compensate {
		return c
	}
	least, most := w.Attempt, w.Attempt
	if w.Lost { // whatever was tried before
		least, most = 0, keysMax-1
	}
	for attempt := least; attempt <= most; attempt++ {
		c.Keys = append(c.Keys, a.key(w.Members[0].Exec, attempt))
	}
	return c
}

// key returns the idempotency key of an attempt to compensate (EXE-4). It does not depend on the
// decision, only on the execution and the attempt.
func (a *Agent) key(exec entry.Ref, attempt int) string {
	mac := hmac.New(sha256.New, a.cfg.Secret)
	fmt.Fprintf(mac, "%s|%s|%d", a.cfg.Root.Origin, exec, attempt)
	return hex.EncodeToString(mac.Sum(nil))
}

// acted reports whether the newest attempt of an undertaking has begun, and is not
// known to have had no effect.
func (w *work) acted() bool {
	return w.Phase == started || w.Phase != noted && w.Status != "" && w.Status != NoEffect
}

// add takes up an undertaking.
func (a *Agent) add(w *work) {
	if w.Hook == Restore {
		a.restores[w.Incident] = append(a.restores[w.Incident], w)
	}
	a.works = append(a.works, w)
	a.number = max(a.number, w.Number)
	for i := range w.Members {
		a.about[w.Members[i].Exec] = append(a.about[w.Members[i].Exec], w)
	}
}

// aside reports whether an entry of the outbox was refused so often that it waits for a change.
func (w *work) aside() bool { return w.Phase != noted && w.mem.refusals >= refusalsMax }

// pause puts the undertaking off, each time for longer, and for at least least milliseconds.
func (w *work) pause(now, least int64) {
	longest := pauseMax
	if w.aside() {
		longest = asideMax
	}
	w.mem.waitTill = now + max(min(least, leastMax), min(pauseMin<<min(w.mem.pauses, 16), longest))
	w.mem.pauses++
}

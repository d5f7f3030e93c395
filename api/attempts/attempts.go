// Package attempts records what a server decides about cases: attempt entries by an engine of the
// server's own. The routes that decide need no signature of their callers, so that a [Recorder]
// bounds what callers without a certificate may have written.
package attempts

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"recoveryledger/api"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/enact"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/question"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/inorder"
)

// workflow is the workflow of the entries.
const workflow entry.WorkflowID = "recoveries"

// Config says who signs, where entries go, and how many cases are recorded.
type Config struct {
	// Submit registers entries. It is that of a ledger.
	Submit func(ctx context.Context, entries ...*entry.Entry) (*ledger.Answer, error)
	// Origin is the name of the ledger.
	Origin string
	// Sign signs with the key of the engine. It is called concurrently. Owner returns whose key it
	// is by now; false: it is enrolled for no principal.
	Sign  func(*entry.Entry) error
	Owner func() (entry.Principal, bool)
	// Rules returns the rules with a digest, for their advice to people; nil: they are not known.
	// Known reports whether the log has a task. nil: nobody is asked about cases that escalate.
	Rules func(entry.Digest) *recovery.Policy
	Known func(entry.Ref) bool
	// Log and Roles, those of the key by now, make entries of what was decided for a caller with a
	// certificate (package enact); nil: people are asked.
	Log   enact.Log
	Roles func() []entry.Role
	// Hourly is the number of cases an hour that are recorded for all callers without a certificate
	// together. 0: none.
	Hourly int64
	// Now is the clock; nil: [time.Now].
	Now func() time.Time
}

// Recorder records cases. Use it concurrently.
type Recorder struct {
	Config

	mu    sync.Mutex
	since time.Time // when the hour began
	taken int64     // in it
}

// New returns a recorder.
func New(c Config) *Recorder {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Recorder{Config: c}
}

// take takes a case from the quota of callers without a certificate.
func (r *Recorder) take() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.Now(); now.Sub(r.since) >= time.Hour {
		r.since, r.taken = now, 0
	}
	if r.taken >= r.Hourly {
		return false
	}
	r.taken++
	return true
}

// Batch is the cases of one request.
type Batch struct {
	recorder *Recorder
	engine   entry.Principal
	known    bool // the caller has a certificate
	open     []entry.Joint
	where    map[joined]int // in open
	cases    int            // in open, without those of shadows
	queue    inorder.Queue[[]*entry.Entry]
	asks     int         // questions and enacted cases so far; one commit at a time counts
	rest     *entry.Task // question about the first case beyond question.Max

	mu   sync.Mutex
	said api.Recorded
}

// joined is what cases of one entry have in common.
type joined struct {
	agent  entry.Principal
	policy entry.Digest
	arm    entry.Arm
}

// Begin returns the batch of a request. known says that the caller has proven who it is. A nil
// recorder has no key, and records nothing.
func (r *Recorder) Begin(known, wanted bool) *Batch {
	b := &Batch{recorder: r, known: known}
	switch {
	case !wanted:
		b.said.Reason = api.NotWanted
	case r == nil:
		b.said.Reason = api.NoEngineKey
	default:
		var enrolled bool
		if b.engine, enrolled = r.Owner(); !enrolled {
			b.said.Reason = api.NotEnrolled
		}
	}
	return b
}

// batchMax is how many cases are registered at a time. Their entries follow from the request alone,
// so that the same request makes the same entries.
const batchMax = 256

// Add records a case that policy decided where no arm did. The case is written while further cases
// come, so that the error may be that of an earlier case.
func (b *Batch) Add(ctx context.Context, done *engine.Result, policy entry.Digest) error {
	if b.ended() {
		return nil
	}
	if !b.known && !b.recorder.take() {
		b.end(api.OverQuota, "")
		return nil
	}
	a, err := engine.AttemptOf("", policy, &done.Recovery, done.Encoded)
	if err != nil {
		return err
	}
	b.join(a)
	if beside := engine.ShadowOf(&done.Recovery); beside != nil {
		b.join(beside)
	}
	if b.cases++; b.cases < batchMax {
		return nil
	}
	return b.flush(ctx)
}

func (b *Batch) join(a *entry.Attempt) {
	if a.Agent == "" {
		a.Agent = b.engine
	}
	of := joined{a.Agent, a.Policy, a.Arm}
	if at, ok := b.where[of]; ok && b.open[at].Join(a) {
		return
	}
	if b.where == nil {
		b.where = map[joined]int{}
	}
	b.where[of] = len(b.open)
	b.open = append(b.open, entry.Joint{Attempt: a})
}

// flush has entries made of the cases that wait, and registered. What was decided is recorded also
// if the caller goes away.
func (b *Batch) flush(ctx context.Context) error {
	open, cases := b.open, uint64(b.cases)
	if len(open) == 0 {
		return nil
	}
	b.open, b.where, b.cases = nil, nil, 0
	ctx = context.WithoutCancel(ctx)
	return b.queue.Put(
		func() ([]*entry.Entry, error) {
			entries := make([]*entry.Entry, len(open))
			for i := range open {
				var err error
				if entries[i], err = b.recorder.seal(open[i].Attempt, b.engine); err != nil {
					return nil, b.unsigned(err)
				}
			}
			return entries, nil
		},
		func(entries []*entry.Entry) error {
			if b.refused() {
				return nil
			}
			made, known, err := b.register(ctx, entries)
			if err != nil {
				return err
			}
			if b.refused() {
				cases = 0
			}
			b.count(api.Recorded{Cases: cases, Entries: made, Known: known})
			return b.ask(ctx, open)
		})
}

// register registers entries, and counts those that are new and those that the log had. A refusal
// of the ledger ends the recording of the request. An id that is taken is the same cases again,
// since ids derive from the content. A task that exists was created by another request meanwhile.
func (b *Batch) register(ctx context.Context, entries []*entry.Entry) (made, known uint64, err error) {
	for len(entries) > 0 {
		answer, err := b.recorder.Submit(ctx, entries...)
		if refusal, refused := errors.AsType[*entry.Refusal](err); refused { // nothing can be taken now
			answer, err = &ledger.Answer{Refused: refusal}, nil
		}
		if err != nil {
			return made, known, err
		}
		for _, at := range answer.Registered {
			if at.Duplicate {
				known++
			} else {
				made++
			}
		}
		entries = entries[len(answer.Registered):]
		switch {
		case answer.Refused == nil:
		case answer.Refused.Problem == entry.IDConflict, entries[0].Kind == entry.KindTask && answer.Refused.Problem == entry.StateConflict:
			known++
			entries = entries[1:]
		default:
			b.end(api.Refused, answer.Refused.Error())
			entries = nil
		}
	}
	return made, known, nil
}

// count adds to what the answer says.
func (b *Batch) count(more api.Recorded) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.said
	s.Cases, s.Entries, s.Known = s.Cases+more.Cases, s.Entries+more.Entries, s.Known+more.Known
	s.Asked, s.Enacted, s.Unasked = s.Asked+more.Asked, s.Enacted+more.Enacted, s.Unasked+more.Unasked
}

// ask asks people about cases that escalated and that are in the log.
func (b *Batch) ask(ctx context.Context, open []entry.Joint) error {
	if b.refused() || b.recorder.Known == nil {
		return nil
	}
	questions, err := b.questions(ctx, open)
	if err != nil || len(questions) == 0 {
		return b.unsigned(err)
	}
	asked, _, err := b.register(ctx, questions)
	b.count(api.Recorded{Asked: asked})
	return err
}

// questions are the entries that ask about cases, without those that the log has, and without the
// cases whose decision is an entry of the log now.
func (b *Batch) questions(ctx context.Context, open []entry.Joint) (list []*entry.Entry, err error) {
	for i := range open {
		a := open[i].Attempt
		for c := range a.Cases() {
			e, err := b.question(ctx, a, c)
			if err != nil {
				return nil, err
			}
			if e != nil {
				list = append(list, e)
			}
		}
	}
	return list, nil
}

// question enacts a case, or returns the entry that asks about it; nil: nobody is to be asked.
func (b *Batch) question(ctx context.Context, a *entry.Attempt, c *entry.AttemptCase) (*entry.Entry, error) {
	r, lacks := b.recorder, ""
	q := question.Of(a, c, r.Rules(a.Policy), "")
	switch {
	case q == nil || r.Known(q.Task):
		return nil, nil
	case b.asks == question.Max:
		if b.count(api.Recorded{Unasked: 1}); b.rest == nil {
			q.Iat = a.Iat
			b.rest = q
		}
		return nil, nil
	}
	switch {
	case r.Log != nil && b.known:
		engine := enact.Engine{Log: r.Log, Origin: r.Origin, Sign: r.Sign, Roles: r.Roles}
		done, why, err := engine.Case(ctx, a, c)
		if err != nil {
			return nil, err
		}
		if lacks = why; done {
			b.asks++
			b.count(api.Recorded{Enacted: 1})
			return nil, nil
		}
	case r.Log != nil && enact.Wants(c): // anybody could have anything undone
		lacks = "the client has no certificate"
	}
	if lacks != "" {
		q = question.Of(a, c, r.Rules(a.Policy), lacks)
	}
	q.Iat = a.Iat
	e, err := r.asking(q)
	if err == nil {
		b.asks++
	}
	return e, err
}

// asking returns the signed entry of a question.
func (r *Recorder) asking(q *entry.Task) (*entry.Entry, error) {
	q.JTI = uuid.NewString()
	e, err := entry.New(q)
	if err == nil {
		err = r.Sign(e)
	}
	return e, err
}

// askRest asks people about the cases beyond question.Max, once.
func (b *Batch) askRest(ctx context.Context) error {
	if b.rest == nil || b.refused() {
		return nil
	}
	question.Rest(b.rest, int64(b.said.Unasked))
	e, err := b.recorder.asking(b.rest)
	if err != nil {
		return b.unsigned(err)
	}
	_, _, err = b.register(ctx, []*entry.Entry{e})
	return err
}

// unsigned ends the recording if the engine's key signs nothing now, which is a refusal, and
// returns any other error.
func (b *Batch) unsigned(err error) error {
	if refusal, refused := errors.AsType[*entry.Refusal](err); refused {
		b.end(api.Refused, refusal.Error())
		return nil
	}
	return err
}

// ended reports whether no more cases are recorded.
func (b *Batch) ended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.said.Reason != ""
}

// refused reports whether the ledger refused an entry, or the key to sign one.
func (b *Batch) refused() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.said.Reason == api.Refused
}

// end notes why no more cases are recorded. A refusal of the ledger takes the place of the quota:
// it says that cases before the quota are missing.
func (b *Batch) end(reason, detail string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.said.Reason, b.said.Detail = reason, detail
}

// seal makes the entry. Its id is made of its content.
func (r *Recorder) seal(a *entry.Attempt, engine entry.Principal) (*entry.Entry, error) {
	const version = 8 // RFC 9562: made as its maker likes
	content, err := json.Marshal(a, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	a.Header = entry.Header{V: 1, JTI: uuid.NewHash(sha256.New(), uuid.Nil, content, version).String(), Iss: engine, Aud: r.Origin, Iat: r.Now().Unix(), Wid: workflow}
	e, err := entry.Adopt(a)
	if err == nil {
		err = r.Sign(e)
	}
	return e, err
}

// End registers the rest, and returns what is recorded. Call End for each batch that takes cases.
func (b *Batch) End(ctx context.Context) (api.Recorded, error) {
	err := errors.Join(b.flush(ctx), b.queue.Wait())
	if err == nil {
		err = b.askRest(context.WithoutCancel(ctx))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.said, err
}

// Package record keeps runs of the engine in a ledger. A [Recorder] makes an entry of
// each case and one of the beginning and the end of the run; it exports the receipts
// of all of them beside the report. [Verify] checks such a directory offline: the
// report follows from traces, each trace is the one in the entry of its case, and the
// entries are in the log. [Obey] has a live run obey the rollout of the ledger that keeps
// the run.
package record

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/google/uuid"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/enact"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/question"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/inorder"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// Ledger is where entries are registered.
type Ledger interface {
	// Register registers entries in order, or none behind the first refusal.
	Register(ctx context.Context, entries []*entry.Entry) error
	// Receipts yields the receipts of the entries under a value of an index, in
	// the order of the log.
	Receipts(ctx context.Context, index entry.Index, value string) iter.Seq2[*verify.Receipt, error]
	// Execution returns an entry of an execution; nil: the log has none.
	Execution(ctx context.Context, ref entry.Ref) (*entry.Execution, error)
	// Consistency proves that the head of one receipt continues that of another.
	Consistency(ctx context.Context, older, newer string) (verify.ConsistencyProof, error)
}

// receipts is what of a [Ledger] lists entries.
type receipts interface {
	Receipts(ctx context.Context, index entry.Index, value string) iter.Seq2[*verify.Receipt, error]
}

// registered yields the entries under a value of an index, in the order of the log. An error is the
// last that it yields.
func registered(ctx context.Context, from receipts, index entry.Index, value string) iter.Seq2[*entry.Registered, error] {
	return func(yield func(*entry.Registered, error) bool) {
		for receipt, err := range from.Receipts(ctx, index, value) {
			var e *entry.Entry
			var at int64
			if err == nil {
				e, at, err = entry.DecodeLeaf(receipt.Leaf)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&entry.Registered{Entry: e, Index: receipt.Index, RegisteredAt: at}, nil) {
				return
			}
		}
	}
}

// Recorder implements [engine.Recorder].
type Recorder struct {
	// Ledger is where the run is recorded.
	Ledger Ledger
	// Root is the pinned root of the ledger.
	Root verify.Root
	// Sign signs entries in the name of Issuer, an engine. It is called concurrently.
	Sign   func(*entry.Entry) error
	Issuer entry.Principal
	// Run is the id of the run.
	Run string
	// Ask is whether cases that escalate are acted upon: what was decided becomes the entry that it
	// stands for (package enact), or people are asked (package question). Rules are the policies
	// that decide, for their advice to people. Roles are those of the engine's key.
	Ask   bool
	Rules []*recovery.Policy
	Roles []entry.Role
	// Asked counts the questions that are new. Enacted counts the cases whose decision is an entry
	// of the log, Unsaid those of the questions that ask for such an entry. Unasked counts the
	// cases beyond [question.Max], about all of which End asks one question. All are as of the last
	// Flush or End.
	Asked, Enacted, Unsaid, Unasked int64

	known   map[string]entry.Digest // for a resumed run: its entries in the log, by id
	cases   map[string]knownCase    // and its cases there
	shadows map[string]knownCase    // and the cases that a candidate decided beside, without traces
	open    []entry.Joint           // that further cases may join
	opened  map[together]int        // where they stand in open
	waiting int                     // cases in open
	ended   bool                    // the run is closed
	rest    *entry.Task             // question about the first case beyond question.Max
	queue   inorder.Queue[[]*entry.Entry]
}

// Alone registers a run without its attempts. It is for a rehearsal, which makes none: the next
// rehearsal would take them for further cases.
type Alone struct{ *Recorder }

// Attempt implements [engine.Recorder].
func (Alone) Attempt(context.Context, *entry.Attempt) error { return nil }

// knownCase is a case in the log: its trace, and the id of its entry.
type knownCase struct {
	trace entry.Digest
	jti   string
}

// together is what cases of one entry have in common.
type together struct {
	agent  entry.Principal
	policy entry.Digest
	arm    entry.Arm
}

var _ engine.Recorder = (*Recorder)(nil)

// ErrOther reports that the ledger has an entry of the run with another result.
var ErrOther = errors.New("record: the ledger has an entry of the run with another result")

// Resume finds out which entries of the run were registered before.
func (r *Recorder) Resume(ctx context.Context) error {
	r.known, r.cases, r.shadows = map[string]entry.Digest{}, map[string]knownCase{}, map[string]knownCase{}
	for e, err := range registered(ctx, r.Ledger, entry.ByWorkflow, string(r.workflow())) {
		if err != nil {
			return err
		}
		if a, ok := e.Body.(*entry.Attempt); ok {
			cases := r.cases
			if a.Arm == entry.ArmShadow {
				cases = r.shadows
			}
			for c := range a.Cases() {
				cases[c.Case] = knownCase{c.TraceDigest, a.JTI}
			}
			continue
		}
		if about, ok := e.Body.(*entry.Run); ok {
			r.known[e.Header.JTI] = contentOf(about)
		}
	}
	return nil
}

// Ended reports whether the entry that closes the run was registered.
func (r *Recorder) Ended() bool { return r.ended }

// workflow is the workflow that the entries of the run share.
func (r *Recorder) workflow() entry.WorkflowID { return entry.WorkflowID("run/" + r.Run) }

// contentOf returns the content that must be equal when an entry is made again.
func contentOf(b *entry.Run) entry.Digest {
	return b.ConfigDigest + b.ScenarioDigest + b.RunRoot + b.ReportDigest
}

// Begin implements [engine.Recorder].
func (r *Recorder) Begin(ctx context.Context, open *entry.Run) error {
	open.Header = r.header(r.idOf("open"))
	return r.whole(ctx, open)
}

// Attempt implements [engine.Recorder]. Cases of one agent share an entry, up to the size of one.
// The entries are made and registered while further cases come, so that the error may be that of an
// earlier case.
func (r *Recorder) Attempt(ctx context.Context, a *entry.Attempt) error {
	cases := r.cases
	if a.Arm == entry.ArmShadow {
		cases, a.Agent = r.shadows, cmp.Or(a.Agent, r.Issuer)
	}
	if before, there := cases[a.Case]; there {
		if before.trace != a.TraceDigest {
			return fmt.Errorf("%w: case %s of %s: the run cannot continue", ErrOther, a.Case, r.workflow())
		}
		a.Header = r.header(before.jti)
		return r.askAgain(ctx, a)
	}
	if r.opened == nil {
		r.opened = map[together]int{}
	}
	r.waiting++
	of := together{a.Agent, a.Policy, a.Arm}
	if at, ok := r.opened[of]; !ok || !r.open[at].Join(a) {
		r.opened[of] = len(r.open)
		r.open = append(r.open, entry.Joint{Attempt: a})
	}
	if r.waiting < casesMax && len(r.open) < batchMax {
		return nil
	}
	return r.settle(ctx)
}

// Bounds of what is registered at a time, in cases and in entries. A commit costs as much as some
// ten cases, so that more cases would save little.
const (
	casesMax = 1024
	batchMax = 512
)

// settle has entries made of the cases that came together, and registered. The end of ctx does not
// end it: what was decided is in the log, or the run says that it failed.
func (r *Recorder) settle(ctx context.Context) error {
	if len(r.open) == 0 {
		return nil
	}
	open := r.open
	r.open, r.opened, r.waiting = nil, nil, 0
	ctx = context.WithoutCancel(ctx)
	return r.queue.Put(
		func() ([]*entry.Entry, error) { return r.sealed(open) },
		func(entries []*entry.Entry) error {
			if err := r.Ledger.Register(ctx, entries); err != nil {
				return err
			}
			return r.ask(ctx, open)
		})
}

// askAgain asks people about a case that the log has: the run may have ended between the entry of
// the case and the question.
func (r *Recorder) askAgain(ctx context.Context, a *entry.Attempt) error {
	if !r.Ask || a.Status != entry.StatusEscalated {
		return nil
	}
	return r.queue.Put(func() ([]*entry.Entry, error) { return nil, nil },
		func([]*entry.Entry) error { return r.ask(ctx, []entry.Joint{{Attempt: a}}) })
}

// ask asks people about cases whose entries are in the log. A question that the log has is not
// asked again. One commit at a time calls ask.
func (r *Recorder) ask(ctx context.Context, open []entry.Joint) error {
	var questions []*entry.Entry
	for i := range open {
		a := open[i].Attempt
		for c := range a.Cases() {
			e, err := r.question(ctx, a, c)
			if err != nil {
				return err
			}
			if e != nil {
				questions = append(questions, e)
			}
		}
	}
	if len(questions) == 0 {
		return nil
	}
	return r.Ledger.Register(ctx, questions)
}

// question enacts a case, or returns the entry that asks people about it; nil: nobody is to be
// asked.
func (r *Recorder) question(ctx context.Context, a *entry.Attempt, c *entry.AttemptCase) (*entry.Entry, error) {
	q := question.Of(a, c, r.rules(a.Policy), "")
	switch {
	case !r.Ask || q == nil:
		return nil, nil
	case r.Asked+r.Enacted == question.Max:
		if r.Unasked++; r.rest == nil {
			r.rest = q
		}
		return nil, nil
	}
	for _, err := range r.Ledger.Receipts(ctx, entry.ByTask, string(q.Task)) {
		return nil, err // the first receipt says that the question was asked
	}
	engine := enact.Engine{Log: lookup{r.Ledger}, Origin: r.Root.Origin, Sign: r.Sign, Roles: func() []entry.Role { return r.Roles }}
	done, lacks, err := engine.Case(ctx, a, c)
	switch {
	case err != nil:
		return nil, err
	case done:
		r.Enacted++
		return nil, nil
	case lacks != "":
		r.Unsaid++
		q = question.Of(a, c, r.rules(a.Policy), lacks)
	}
	e, err := r.asking(q)
	if err == nil {
		r.Asked++
	}
	return e, err
}

// asking returns the signed entry of a question.
func (r *Recorder) asking(q *entry.Task) (*entry.Entry, error) {
	wid := q.Wid
	q.Header = keys.NewHeader(r.Issuer, r.Root.Origin)
	q.Wid = wid
	e, err := entry.New(q)
	if err == nil {
		err = r.Sign(e)
	}
	return e, err
}

// askRest asks people about the cases beyond question.Max, once.
func (r *Recorder) askRest(ctx context.Context) error {
	q := r.rest
	if r.rest = nil; q == nil {
		return nil
	}
	for _, err := range r.Ledger.Receipts(ctx, entry.ByTask, string(q.Task)) {
		return err // the first receipt says that the question was asked
	}
	question.Rest(q, r.Unasked)
	e, err := r.asking(q)
	if err != nil {
		return err
	}
	return r.Ledger.Register(ctx, []*entry.Entry{e})
}

// lookup is a ledger as package enact sees it.
type lookup struct{ Ledger }

// Task implements [enact.Log].
func (l lookup) Task(ctx context.Context, ref entry.Ref) (newest *entry.Task, err error) {
	for e, err := range registered(ctx, l, entry.ByTask, string(ref)) {
		if err != nil {
			return nil, err
		}
		if t, ok := e.Body.(*entry.Task); ok && t.Task == ref {
			newest = t
		}
	}
	return newest, nil
}

// rules returns the policy with a digest; nil: it is not known.
func (r *Recorder) rules(digest entry.Digest) *recovery.Policy {
	for _, p := range r.Rules {
		if p != nil && p.Hash() == digest {
			return p
		}
	}
	return nil
}

// sealed makes the entries of cases.
func (r *Recorder) sealed(open []entry.Joint) (entries []*entry.Entry, err error) {
	for _, a := range open {
		a.Header = r.header(entry.AttemptJTI(a.Run, a.Case))
		if a.Arm == entry.ArmShadow {
			a.JTI = r.idOf("shadow|" + a.Case)
		}
		e, err := entry.Adopt(a.Attempt)
		if err == nil {
			err = r.Sign(e)
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Flush implements [engine.Recorder].
func (r *Recorder) Flush(ctx context.Context) error {
	return errors.Join(r.settle(ctx), r.queue.Wait())
}

// End implements [engine.Recorder].
func (r *Recorder) End(ctx context.Context, closed *entry.Run) error {
	closed.Header = r.header(r.idOf("close"))
	err := errors.Join(r.Flush(ctx), r.askRest(ctx), r.whole(ctx, closed))
	r.ended = err == nil
	return err
}

func (r *Recorder) header(jti string) entry.Header {
	return entry.Header{V: 1, JTI: jti, Iss: r.Issuer, Aud: r.Root.Origin, Iat: time.Now().Unix(), Wid: r.workflow()}
}

// idOf derives the jti of an act on the run from the run, so that the same again
// is the same entry.
func (r *Recorder) idOf(act string) string {
	const version = 8 // RFC 9562: made as its maker likes
	return uuid.NewHash(sha256.New(), uuid.Nil, []byte(string(r.workflow())+"|"+act), version).String()
}

// whole registers an entry about the run as a whole, unless the log has it.
func (r *Recorder) whole(ctx context.Context, body *entry.Run) error {
	e, err := entry.New(body)
	if err != nil {
		return err
	}
	if content, there := r.known[e.Header.JTI]; there {
		if content != contentOf(body) {
			return fmt.Errorf("%w: %s of %s: the run cannot continue", ErrOther, e.Kind, r.workflow())
		}
		return nil
	}
	if err := r.Sign(e); err != nil {
		return err
	}
	return r.Ledger.Register(ctx, []*entry.Entry{e})
}

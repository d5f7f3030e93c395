package coord

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"

	"github.com/google/uuid"

	"recoveryledger/coord/compact"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// Follower is an [Audit] that goes on as the log grows, also in another process:
// [Follower.Snapshot] writes all that the next entries are held to. It is not
// safe for concurrent use.
type Follower struct {
	state *State
	last  int64 // registered_at of the last entry
	// identities has (iss, jti) of every entry, numbered by index, and payloads
	// the first half of the SHA-256 of its PAE.
	identities *compact.Names
	payloads   compact.List[[sha256.Size / 2]byte]
	counts     map[entry.Kind]uint64
	outcomes   []outcomeAt
}

// outcomeAt is an outcome as it was reported. The state knows only the newest one
// of each member.
type outcomeAt struct {
	index    uint64
	incident uint64
	issuer   uint32 // principal
	exec     uint32
	result   uint8 // place in results
}

// NewFollower returns the follower of the empty log of that origin.
func NewFollower(origin string) *Follower {
	return &Follower{state: NewState(origin), identities: compact.NewNames(0), counts: map[entry.Kind]uint64{}}
}

// Follow takes up the entries from [State.Size] on, as [Audit] does. The report
// is about the whole log, from its first entry on. After a finding or an error
// the follower has taken up the entries before it, and no others.
func (f *Follower) Follow(ctx context.Context, entries iter.Seq2[entry.Registered, error], progress func(size uint64)) (AuditReport, error) {
	batch := make([]entry.Registered, 0, auditBatch)
	take := func(stopped error) error {
		err := cmp.Or(f.take(batch), stopped, ctx.Err())
		batch = batch[:0]
		if progress != nil {
			progress(f.state.size)
		}
		return err
	}
	for e, err := range entries {
		if err == nil {
			if batch = append(batch, e); len(batch) < auditBatch {
				continue
			}
		}
		if err := take(err); err != nil {
			return f.report(err)
		}
	}
	return f.report(take(nil))
}

// State returns the state that follows from the entries that were taken up. It
// changes with the follower.
func (f *Follower) State() *State { return f.state }

// RegisteredAt returns when the last entry was registered, in Unix milliseconds;
// 0 if there is none.
func (f *Follower) RegisteredAt() int64 { return f.last }

// ReportedOutcome is an outcome as a principal reported it.
type ReportedOutcome struct {
	Index    uint64 // of the entry
	Incident uint64
	Exec     entry.Ref
	Result   entry.Result
}

// OutcomesBy returns the outcomes that a principal reported, the oldest first:
// also those that it corrected later.
func (f *Follower) OutcomesBy(p entry.Principal) (list []ReportedOutcome) {
	number, known := f.state.principals.Find([]byte(p))
	for i := range f.outcomes {
		if o := &f.outcomes[i]; known && o.issuer == number {
			list = append(list, ReportedOutcome{o.index, o.incident, f.state.refOf(o.exec), results[o.result]})
		}
	}
	return list
}

// report ends the audit, by what stopped it if anything did.
func (f *Follower) report(stopped error) (AuditReport, error) {
	report := AuditReport{Size: f.state.size, State: f.state}
	for _, kind := range entry.Kinds() {
		report.Kinds = append(report.Kinds, KindCount{kind, f.counts[kind]})
	}
	if refusal, ok := errors.AsType[*entry.Refusal](stopped); ok {
		report.Finding = &AuditFinding{f.state.size, refusal}
		return report, nil
	}
	if stopped != nil {
		return report, fmt.Errorf("coord: audit after %d entries: %w", f.state.size, stopped)
	}
	return report, nil
}

// take takes up entries, up to the first that should not be there.
func (f *Follower) take(entries []entry.Registered) error {
	f.checkSignatures(entries)
	for i := range entries {
		e := &entries[i]
		if err := f.admit(e); err != nil {
			return err
		}
		f.state.Apply(e.Entry, e.Index, e.RegisteredAt)
		_, _ = f.identities.Add(f.identity(e.Entry))
		f.payloads.Add(digestOfPAE(e.Entry))
		f.counts[e.Kind]++
		f.last = e.RegisteredAt
		if o, ok := e.Body.(*entry.Outcome); ok {
			f.remember(o, e.Index)
		}
	}
	return nil
}

func (f *Follower) remember(o *entry.Outcome, index uint64) {
	issuer, _ := f.state.principals.Find([]byte(o.Iss)) // it was applied
	f.outcomes = append(f.outcomes, outcomeAt{index: index, incident: o.Incident, issuer: issuer,
		exec: f.state.mustResolve(f.state.executions.names, o.Exec), result: uint8(slices.Index(results, o.Result))})
}

// checkSignatures does, on all processors, what needs no order: it hashes the
// leaves, and checks the signatures by keys that are enrolled so far; the rest
// is left to Admit.
func (f *Follower) checkSignatures(entries []entry.Registered) {
	var wait sync.WaitGroup
	defer wait.Wait()
	workers := runtime.GOMAXPROCS(0)
	for worker := range workers {
		wait.Go(func() {
			for i := worker; i < len(entries); i += workers {
				e := &entries[i]
				e.LeafHash() // so that Apply need not
				key, ok := f.state.chain.Key(e.KeyID)
				if ok && !e.SignatureChecked && verify.Signature(key, e.PAE(), e.Sig) == nil {
					e.SignatureChecked = true
				}
			}
		})
	}
}

func (f *Follower) admit(e *entry.Registered) error {
	if e.RegisteredAt < f.last {
		return conflict("registered_at", "%d, but the entry before was registered at %d", e.RegisteredAt, f.last)
	}
	if key := f.identity(e.Entry); key != nil { // REG-2
		if first, there := f.identities.Find(key); there {
			return f.again(e, first)
		}
	}
	return f.state.Admit(e.Entry, e.Index, e.RegisteredAt)
}

// identity returns the key of (iss, jti) in identities; nil if the issuer has
// no entry yet.
func (f *Follower) identity(e *entry.Entry) []byte {
	issuer, ok := f.state.principals.Find([]byte(e.Header.Iss))
	if !ok {
		return nil
	}
	id := uuid.MustParse(e.Header.JTI) // REG-1 has checked it
	return localKey(nil, issuer, string(id[:]))
}

// again refuses an entry under an identity that was used before.
func (f *Follower) again(e *entry.Registered, first uint32) error {
	what := "the same payload"
	if *f.payloads.At(first) != digestOfPAE(e.Entry) {
		what = "another payload"
		key, known := f.state.chain.Key(e.KeyID)
		if known && (e.SignatureChecked || verify.Signature(key, e.PAE(), e.Sig) == nil) {
			what += ": its issuer equivocated"
		}
	}
	return entry.Refuse(entry.IDConflict, "jti", "%s of %s is entry %d already, with %s", e.Header.JTI, e.Header.Iss, first, what)
}

func digestOfPAE(e *entry.Entry) (half [sha256.Size / 2]byte) {
	sum := sha256.Sum256(e.PAE())
	copy(half[:], sum[:])
	return half
}

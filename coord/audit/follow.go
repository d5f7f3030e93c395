package audit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/google/uuid"

	"recoveryledger/coord"
	"recoveryledger/coord/compact"
	"recoveryledger/ledger/complete"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// Report is the result of an audit.
type Report struct {
	Size    uint64       // number of entries, from the first on, that keep the rules
	State   *coord.State // state that follows from these entries; the caller owns it now
	Kinds   []KindCount  // number of these entries of each kind, in the order of [entry.Kinds]
	Finding *Finding     // the next entry, if it should not be in the log
}

// KindCount is the number of entries of a kind.
type KindCount struct {
	Kind  entry.Kind
	Count uint64
}

// Finding is the first entry that should not be in the log, and the reason. The entries
// after it were not examined: no state follows from a log that breaks its rules.
type Finding struct {
	Index   uint64
	Refusal *entry.Refusal
}

// Follower applies the rules of registration again to the entries of a log, from the
// first entry on, checks that registered_at never decreases, and computes the root of
// every index entry (IDX-3). It continues as the log grows, also in another process:
// [Follower.Snapshot] writes everything that the next entries are checked against. [Run]
// checks that the leaves are the leaves under a signed tree head. A follower is not safe for
// concurrent use.
type Follower struct {
	origin string
	state  *coord.State
	last   int64 // registered_at of the last entry
	// identities has (iss, jti) of every entry, numbered by index. payloads has the first half of
	// the SHA-256 of its PAE.
	identities *compact.Names
	payloads   compact.List[[sha256.Size / 2]byte]
	counts     map[entry.Kind]uint64
	outcomes   []outcomeAt
	attempts   map[entry.Principal]*Attempts
	index      roots
}

// outcomeAt is an outcome as it was reported. The state knows only the newest one
// of each member.
type outcomeAt struct {
	index    uint64
	incident uint64
	issuer   uint32 // principal
	exec     uint32
	result   uint8 // place in entry.Results
}

// batchSize is the number of entries whose signatures are checked at once.
const batchSize = 1 << 10

// NewFollower returns the follower of the empty log of that origin.
func NewFollower(origin string) *Follower {
	return &Follower{origin: origin, state: coord.NewState(origin), identities: compact.NewNames(0), counts: map[entry.Kind]uint64{}, attempts: map[entry.Principal]*Attempts{},
		index: roots{tree: complete.NewTree()}}
}

// Follow takes up the entries from [coord.State.Size] on. The standard library checks the
// signatures, except where SignatureChecked is set. An error from entries that is a
// [*entry.Refusal] is a finding too (REG-1). Any other error ends the audit. An index entry with
// another root ends the audit too, with a [*complete.RootError]. progress may be nil; it is called
// with the number of entries that were found to be right. The report is about the whole log, from
// its first entry on. After a finding or an error the follower has taken up exactly the entries
// before it.
func (f *Follower) Follow(ctx context.Context, entries iter.Seq2[entry.Registered, error], progress func(size uint64)) (Report, error) {
	batch := make([]entry.Registered, 0, batchSize)
	take := func(stopped error) error {
		err := cmp.Or(f.take(ctx, batch), stopped, ctx.Err())
		batch = batch[:0]
		if progress != nil {
			progress(f.state.Size())
		}
		return err
	}
	for e, err := range entries {
		if err == nil {
			if batch = append(batch, e); len(batch) < batchSize {
				continue
			}
		}
		if err := take(err); err != nil {
			return f.report(err)
		}
	}
	return f.report(take(nil))
}

// State returns the state that follows from the entries that the follower has taken up. It changes
// with the follower.
func (f *Follower) State() *coord.State { return f.state }

// RegisteredAt returns the instant at which the last entry was registered, in Unix milliseconds;
// 0: there is no entry.
func (f *Follower) RegisteredAt() int64 { return f.last }

// ReportedOutcome is an outcome as a principal reported it.
type ReportedOutcome struct {
	Index    uint64 // of the entry
	Incident uint64
	Exec     entry.Ref
	Result   entry.Result
}

// OutcomesBy returns the outcomes that a principal reported, the oldest first,
// including outcomes that it corrected later.
func (f *Follower) OutcomesBy(p entry.Principal) (list []ReportedOutcome) {
	number, known := f.state.FindPrincipal(p)
	for i := range f.outcomes {
		if o := &f.outcomes[i]; known && o.issuer == number {
			list = append(list, ReportedOutcome{o.index, o.incident, f.state.ExecutionRef(o.exec), entry.Results()[o.result]})
		}
	}
	return list
}

// report ends the audit. stopped is the error that stopped it, or nil.
func (f *Follower) report(stopped error) (Report, error) {
	report := Report{Size: f.state.Size(), State: f.state}
	for _, kind := range entry.Kinds() {
		report.Kinds = append(report.Kinds, KindCount{kind, f.counts[kind]})
	}
	if refusal, ok := errors.AsType[*entry.Refusal](stopped); ok {
		report.Finding = &Finding{f.state.Size(), refusal}
		return report, nil
	}
	if stopped != nil {
		return report, fmt.Errorf("audit: at size %d: %w", f.state.Size(), stopped)
	}
	return report, nil
}

// take takes up entries, up to the first entry that should not be in the log.
func (f *Follower) take(ctx context.Context, entries []entry.Registered) error {
	f.checkSignatures(entries)
	for i := range entries {
		e := &entries[i]
		if err := f.admit(e); err != nil {
			return err
		}
		if x, ok := e.Body.(*entry.LogIndex); ok {
			if err := f.index.check(ctx, e.Index, x); err != nil {
				return err
			}
		}
		f.index.saw(e.Entry, e.Index)
		f.state.Apply(e.Entry, e.Index, e.RegisteredAt)
		_, _ = f.identities.Add(f.identity(e.Entry))
		f.payloads.Add(digestOfPAE(e.Entry))
		f.counts[e.Kind]++
		f.last = e.RegisteredAt
		if o, ok := e.Body.(*entry.Outcome); ok {
			f.remember(o, e.Index)
		}
		if a, ok := e.Body.(*entry.Attempt); ok {
			f.attempted(a, e.Index)
		}
	}
	return nil
}

func (f *Follower) remember(o *entry.Outcome, index uint64) {
	issuer, _ := f.state.FindPrincipal(o.Iss) // it was applied
	exec, _ := f.state.FindExecution(o.Exec)
	f.outcomes = append(f.outcomes, outcomeAt{index: index, incident: o.Incident, issuer: issuer,
		exec: exec, result: uint8(slices.Index(entry.Results(), o.Result))})
}

// checkSignatures does the work that needs no order, on all processors. It hashes the leaves and
// checks the signatures by keys that are enrolled so far. [coord.State.Admit] checks the other
// signatures.
func (f *Follower) checkSignatures(entries []entry.Registered) {
	verify.InParallel(len(entries), func(i int) {
		e := &entries[i]
		e.LeafHash() // so that Apply need not
		key, ok := f.state.Chain().Key(e.KeyID)
		if ok && !e.SignatureChecked && verify.Signature(key, e.PAE(), e.Sig) == nil {
			e.SignatureChecked = true
		}
	})
}

func (f *Follower) admit(e *entry.Registered) error {
	if e.RegisteredAt < f.last {
		return entry.Refuse(entry.StateConflict, "registered_at", "%d, but the entry before was registered at %d", e.RegisteredAt, f.last)
	}
	if key := f.identity(e.Entry); key != nil { // REG-2
		if first, there := f.identities.Find(key); there {
			return f.refuseReused(e, first)
		}
	}
	return f.state.Admit(e.Entry, e.Index, e.RegisteredAt)
}

// identity returns the key of (iss, jti) in identities; nil if the issuer has
// no entry yet.
func (f *Follower) identity(e *entry.Entry) []byte {
	issuer, ok := f.state.FindPrincipal(e.Header.Iss)
	if !ok {
		return nil
	}
	id := uuid.MustParse(e.Header.JTI) // REG-1 has checked it
	return append(binary.BigEndian.AppendUint32(nil, issuer), id[:]...)
}

// refuseReused refuses an entry whose (iss, jti) an earlier entry has.
func (f *Follower) refuseReused(e *entry.Registered, first uint32) error {
	what := "the same payload"
	if *f.payloads.At(first) != digestOfPAE(e.Entry) {
		what = "another payload"
		if f.state.Chain().SignedByIssuer(e.Entry) {
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

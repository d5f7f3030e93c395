package coord

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync"

	"github.com/google/uuid"

	"recoveryledger/coord/compact"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// AuditEntry is an entry where it stands in the log.
type AuditEntry struct {
	*entry.Entry
	Index uint64
	At    int64 // registered_at, Unix milliseconds
}

// AuditReport is what an audit found.
type AuditReport struct {
	Size    uint64        // entries from the first on that rightly stand where they do
	State   *State        // that follows from these; it is the caller's now
	Kinds   []KindCount   // how many of each kind among them, in the order of [entry.Kinds]
	Finding *AuditFinding // the entry behind them, if it should not be there
}

// KindCount is the number of entries of a kind.
type KindCount struct {
	Kind  entry.Kind
	Count uint64
}

// AuditFinding is the first entry that should not be in the log, and why. What
// stands behind it was not looked at: no state follows from a log that breaks
// its rules.
type AuditFinding struct {
	Index   uint64
	Refusal *entry.Refusal
}

// Audit runs the rules of registration again over a log's entries, from the
// first on, and with them that registered_at never falls. Signatures are
// checked with the standard library, except where SignatureChecked is set. An
// error from entries that is a [*entry.Refusal] is a finding too (REG-1); any
// other ends the audit. progress, which may be nil, is told how many entries
// were found to be right.
//
// That the leaves are those under a signed tree head is not checked here.
func Audit(ctx context.Context, origin string, entries iter.Seq2[AuditEntry, error], progress func(size uint64)) (AuditReport, error) {
	a := audit{state: NewState(origin), identities: compact.NewNames(0), counts: map[entry.Kind]uint64{}}
	batch := make([]AuditEntry, 0, auditBatch)
	take := func(stopped error) error {
		err := cmp.Or(a.take(batch), stopped, ctx.Err())
		batch = batch[:0]
		if progress != nil {
			progress(a.state.size)
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
			return a.report(err)
		}
	}
	return a.report(take(nil))
}

// audit is an audit on its way.
type audit struct {
	state *State
	last  int64 // registered_at of the last entry
	// identities has (iss, jti) of every entry, numbered by index, and payloads
	// the first half of the SHA-256 of its PAE.
	identities *compact.Names
	payloads   compact.List[[sha256.Size / 2]byte]
	counts     map[entry.Kind]uint64
}

// report ends the audit, by what stopped it if anything did.
func (a *audit) report(stopped error) (AuditReport, error) {
	report := AuditReport{Size: a.state.size, State: a.state}
	for _, kind := range entry.Kinds() {
		report.Kinds = append(report.Kinds, KindCount{kind, a.counts[kind]})
	}
	if refusal, ok := errors.AsType[*entry.Refusal](stopped); ok {
		report.Finding = &AuditFinding{a.state.size, refusal}
		return report, nil
	}
	if stopped != nil {
		return report, fmt.Errorf("coord: audit after %d entries: %w", a.state.size, stopped)
	}
	return report, nil
}

// take takes up entries, up to the first that should not be there.
func (a *audit) take(entries []AuditEntry) error {
	a.checkSignatures(entries)
	for i := range entries {
		e := &entries[i]
		if err := a.admit(e); err != nil {
			return err
		}
		a.state.Apply(e.Entry, e.Index, e.At)
		_, _ = a.identities.Add(a.identity(e.Entry))
		a.payloads.Add(digestOfPAE(e.Entry))
		a.counts[e.Kind]++
		a.last = e.At
	}
	return nil
}

// checkSignatures does, on all processors, what needs no order: it hashes the
// leaves, and checks the signatures by keys that are enrolled so far; the rest
// is left to Admit.
func (a *audit) checkSignatures(entries []AuditEntry) {
	var wait sync.WaitGroup
	defer wait.Wait()
	workers := runtime.GOMAXPROCS(0)
	for worker := range workers {
		wait.Go(func() {
			for i := worker; i < len(entries); i += workers {
				e := entries[i].Entry
				e.LeafHash(entries[i].At) // so that Apply need not
				key, ok := a.state.chain.Key(e.KeyID)
				if ok && !e.SignatureChecked && verify.Signature(key, e.PAE(), e.Sig) == nil {
					e.SignatureChecked = true
				}
			}
		})
	}
}

func (a *audit) admit(e *AuditEntry) error {
	if e.At < a.last {
		return conflict("registered_at", "%d, but the entry before was registered at %d", e.At, a.last)
	}
	if key := a.identity(e.Entry); key != nil { // REG-2
		if first, there := a.identities.Find(key); there {
			return a.again(e, first)
		}
	}
	return a.state.Admit(e.Entry, e.Index, e.At)
}

// identity returns the key of (iss, jti) in identities; nil if the issuer has
// no entry yet.
func (a *audit) identity(e *entry.Entry) []byte {
	issuer, ok := a.state.principals.Find([]byte(e.Header.Iss))
	if !ok {
		return nil
	}
	id := uuid.MustParse(e.Header.JTI) // REG-1 has checked it
	return localKey(nil, issuer, string(id[:]))
}

// again refuses an entry under an identity that was used before.
func (a *audit) again(e *AuditEntry, first uint32) error {
	what := "the same payload"
	if *a.payloads.At(first) != digestOfPAE(e.Entry) {
		what = "another payload"
		key, known := a.state.chain.Key(e.KeyID)
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

package server

import (
	"context"
	"errors"
	"math"
	"time"

	assemble "recoveryledger/coord/bundle"
	"recoveryledger/ledger/complete"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify/bundle"
)

// terms returns the terms of a bundle for an agent that has accepted a tree head of from entries.
func (s *Server) terms(ctx context.Context, from uint64) *assemble.Terms {
	t := &assemble.Terms{Under: s.under(ctx, from)}
	if s.cfg.Index != nil {
		t.Index = s.absences(ctx)
	}
	return t
}

// absences returns the prover of absences for one bundle. The caller holds room for making the
// bundle. All waits together last at most Config.IndexWait. A client that does not demand the
// proof waits only for an index that keeps pace, and not for an index that is being built.
func (s *Server) absences(ctx context.Context) assemble.Index {
	index, deadline := s.cfg.Index, time.Now().Add(s.cfg.IndexWait)
	return func(subjects []entry.Subject, size uint64, demanded bool) (*assemble.Proof, error) {
		for {
			p, err := index.Prove(subjects, complete.Part{Labels: bundle.IndexLabels(), To: math.MaxUint64})
			switch {
			case err == nil && p.Entry.Body.(*entry.LogIndex).Size >= size:
				return &assemble.Proof{Indexed: p.Indexed, Entry: p.Entry, Found: p.Found}, nil
			case err != nil && !errors.Is(err, complete.ErrNotReady) && !errors.Is(err, complete.ErrStopped):
				return nil, err
			case !demanded && (errors.Is(err, complete.ErrStopped) || index.Status().Entry == 0):
				return nil, assemble.ErrNoProof
			}
			if err := s.awaitIndex(ctx, deadline, size); ctx.Err() != nil {
				return nil, ctx.Err()
			} else if err != nil {
				return nil, lackingIndex(err, size, demanded)
			}
		}
	}
}

// awaitIndex waits for an index entry that covers size entries or more. Meanwhile it gives the
// room for making a bundle to other requests.
func (s *Server) awaitIndex(ctx context.Context, deadline time.Time, size uint64) error {
	ctx, over := context.WithDeadline(ctx, deadline)
	defer over()
	ctx, drained := until(ctx, s.draining) // ends when the server is about to end
	defer drained()
	<-s.bundles
	defer func() { s.bundles <- struct{}{} }()
	return s.cfg.Index.Wait(ctx, size)
}

func lackingIndex(err error, size uint64, demanded bool) error {
	switch {
	case !demanded:
		return assemble.ErrNoProof
	case errors.Is(err, complete.ErrStopped):
		return entry.Refuse(entry.NotReady, "absences", "%v", err).WithRemedy("ask the operator of the ledger, who finds the cause in the server's log")
	}
	return entry.Refuse(entry.NotReady, "absences", "no index entry covers %d entries, so the index cannot prove that the bundle is complete", size).
		WithRemedy("ask again in a second: the index follows the log")
}

package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"recoveryledger/api"
	assemble "recoveryledger/coord/bundle"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/witness"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// witnessed returns the newest head that the witnesses have cosigned. named reports whether
// the policy in force names a quorum of witnesses. Note may be empty even if named is true.
func (s *Server) witnessed() (head verify.SignedHead, named bool) {
	if s.cfg.Witnesses == nil {
		return verify.SignedHead{}, false
	}
	head, _, named = s.cfg.Witnesses.Witnessed()
	return head, named
}

// Checkpoint returns the head for GET /checkpoint. It is the newest head that the witnesses
// have cosigned. If there is none, it is the newest head.
func (s *Server) Checkpoint() (string, error) {
	if head, _ := s.witnessed(); head.Note != "" {
		return s.log.Countersign(head)
	}
	head, err := s.log.Published()
	return head.Note, err
}

// upgrade returns the receipt under a head that the witnesses have cosigned. If no such head
// comes in time, it returns the receipt itself: the entry is registered all the same.
func (s *Server) upgrade(ctx context.Context, r *request, receipt *verify.Receipt) (*verify.Receipt, error) {
	q := queryOf[api.ReceiptQuery](r)
	if !q.Witnessed {
		return receipt, nil
	}
	head, err := s.awaitWitnessed(ctx, witness.Want{Size: receipt.Index + 1}, cmp.Or(q.Wait, s.cfg.WitnessWait))
	if err != nil {
		r.header().Set(api.HeaderWitnessed, "false")
		return receipt, ctx.Err()
	}
	proof, err := s.log.Inclusion(receipt.Index, head.Size)
	if err != nil {
		return nil, err
	}
	upgraded := *receipt
	upgraded.Proof, upgraded.Head = proof, head.Note
	if err := merkle.CheckInclusion(receipt.Index, merkle.HashLeaf(receipt.Leaf), head.Head, proof); err != nil {
		return nil, fmt.Errorf("%w: entry %d: %v", ledger.ErrCorrupt, receipt.Index, err)
	}
	r.header().Set(api.HeaderWitnessed, "true")
	return &upgraded, nil
}

// awaitWitnessed waits for a witnessed head.
func (s *Server) awaitWitnessed(ctx context.Context, want witness.Want, wait time.Duration) (verify.SignedHead, error) {
	if s.cfg.Witnesses == nil {
		return verify.SignedHead{}, witness.ErrNoQuorum
	}
	ctx, over := context.WithTimeout(ctx, wait)
	defer over()
	ctx, drained := until(ctx, s.draining) // ends when the server is about to end
	defer drained()
	return s.cfg.Witnesses.Wait(ctx, want)
}

// under has bundles for an agent that has accepted a head of from entries stand under heads
// that the witnesses have cosigned whom the policies name, and waits for such a head as long
// as Config.WitnessWait in all. Its caller holds room for making a bundle, and a wait gives
// that to others. Without witnesses, a head of too many entries gives way to an older one.
//
// The head is taken before the view that the bundle is made of: one that is witnessed
// meanwhile may be of a longer log than the view, however often the bundle is made anew.
func (s *Server) under(ctx context.Context, from uint64) assemble.Under {
	if s.cfg.Witnesses == nil {
		return s.underOwn
	}
	deadline := time.Now().Add(s.cfg.WitnessWait)
	want := witness.Want{Agent: true, From: from}
	taken, good, _ := s.cfg.Witnesses.Given(want)
	return func(at verify.SignedHead, least, most uint64) (head verify.SignedHead, again bool, err error) {
		want.Size, want.Most = max(least, 1), most
		now, ready, named := s.cfg.Witnesses.Given(want)
		if !named {
			return s.underOwn(at, least, most)
		}
		if good && taken.Size > most && ready && now.Size <= min(most, at.Size) {
			taken = now
		}
		if good && taken.Size >= least && taken.Size <= at.Size {
			return taken, false, nil
		}
		<-s.bundles
		taken, err = s.awaitWitnessed(ctx, want, time.Until(deadline))
		s.bundles <- struct{}{}
		switch {
		case ctx.Err() != nil:
			return head, false, ctx.Err()
		case err == nil, errors.Is(err, witness.ErrNoQuorum): // a new policy came meanwhile
			good = err == nil
			return head, true, nil
		}
		return head, false, entry.Refuse(entry.NotReady, "", "no tree head of size %d has the cosignatures that agents need: %s", least, s.cfg.Witnesses.Lacking(want)).
			WithRemedy("ask again later; the ledger takes entries and answers reads meanwhile")
	}
}

// underOwn returns the head for a bundle of a ledger without witnesses.
func (s *Server) underOwn(at verify.SignedHead, least, most uint64) (head verify.SignedHead, again bool, err error) {
	if at.Size > most {
		at, err = s.log.SignedAt(least)
	}
	return at, false, err
}

// witnessing returns the witnesses for GET /v1/log; nil: the policy names none.
func (s *Server) witnessing() *api.Witnessing {
	if s.cfg.Witnesses == nil {
		return nil
	}
	head, since, named := s.cfg.Witnesses.Witnessed()
	if !named {
		return nil
	}
	w := &api.Witnessing{Size: head.Size, Since: since, Witnesses: []api.WitnessState{}, Lacking: s.lacking(1)}
	for _, state := range s.cfg.Witnesses.States() {
		w.Witnesses = append(w.Witnesses, api.WitnessState{Name: state.Name, URL: state.URL, Size: state.Size, At: state.At, Failed: state.Failed,
			TookMS: state.Took.Milliseconds(), Former: state.Former})
	}
	return w
}

// lacking names the witnesses whose cosignatures agents lack on a tree head of that size. It is
// empty if none is lacking.
func (s *Server) lacking(size uint64) string {
	if s.cfg.Witnesses == nil {
		return ""
	}
	return s.cfg.Witnesses.Lacking(witness.Want{Size: size, Agent: true, From: math.MaxUint64})
}

// getRound is GET /v1/log/round.
func (s *Server) getRound(ctx context.Context, r *request) (*api.Round, error) {
	q := queryOf[api.RoundQuery](r)
	none := entry.Refuse(entry.NotFound, "", "there is no tree head to cosign: no policy names witnesses, or the first round has not begun")
	client := clientOf(r.c)
	if s.cfg.Witnesses == nil {
		return nil, none
	}
	if q.Wait > 0 && !s.streams.Take(client, 1) {
		return nil, s.crowded("streams and waiting requests", client)
	} else if q.Wait > 0 {
		defer s.streams.Give(client, 1)
	}
	ctx, drained := until(ctx, s.draining)
	defer drained()
	ctx, over := context.WithTimeout(ctx, min(q.Wait, s.cfg.WriteTimeout/2))
	defer over()
	head, err := s.cfg.Witnesses.Offer(ctx, q.From)
	if err != nil {
		return nil, none
	}
	if q.From > head.Size {
		return nil, entry.Refuse(entry.NotFound, "from", "the tree head to cosign has size %d, less than %d", head.Size, q.From).
			WithRemedy("a log never shrinks: compare it with the tree head cosigned last")
	}
	round := &api.Round{Head: head.Note, Path: []merkle.Hash{}}
	if q.From > 0 && q.From < head.Size {
		round.Path, err = s.log.Consistency(q.From, head.Size)
	}
	return round, err
}

// postCosignatures is POST /v1/cosignatures.
func (s *Server) postCosignatures(r *request) error {
	c := r.c
	if mediaType, _, _ := mime.ParseMediaType(c.Request().Header.Get(echo.HeaderContentType)); mediaType != "text/plain" {
		return unsupportedNote(mediaType)
	}
	body, err := readBody(c.Request(), nil, verify.MaxNote)
	if err != nil {
		return err
	}
	if s.cfg.Witnesses == nil {
		return entry.Refuse(entry.UnknownIssuer, "", "no policy names witnesses")
	}
	counted, err := s.cfg.Witnesses.Push(string(body))
	if counted > 0 {
		return s.answerJSON(c, api.Cosigned{Counted: counted})
	}
	if malformed, ok := errors.AsType[*verify.FormatError](err); ok {
		return entry.Refuse(entry.Malformed, "", "%v", malformed)
	}
	if conflict, ok := errors.AsType[*witness.ConflictError](err); ok {
		return entry.Refuse(entry.StateConflict, "", "%v", conflict).WithRemedy("keep both tree heads: they are evidence against this ledger, or show that it lost entries")
	}
	switch {
	case errors.Is(err, witness.ErrCosignature):
		return entry.Refuse(entry.BadSignature, "", "%v", err).WithRemedy("cosign the newest: GET " + api.PathRound)
	case errors.Is(err, witness.ErrNotAsked):
		return entry.Refuse(entry.UnknownIssuer, "", "%v", err).WithRemedy("name the witness in the policy: arl policy apply")
	case errors.Is(err, witness.ErrAhead):
		return entry.Refuse(entry.Stale, "", "%v", err).WithRemedy("set the clock of the witness")
	case errors.Is(err, witness.ErrNoRound):
		return entry.Refuse(entry.Stale, "", "%v", err).WithRemedy("cosign the newest: GET " + api.PathRound)
	}
	return err
}

func unsupportedNote(mediaType string) error {
	return &failure{Problem: api.NewStatus(http.StatusUnsupportedMediaType, "Content-Type "+strconv.QuoteToASCII(mediaType)+" is not taken here",
		"send a signed note as "+api.MediaNote)}
}

// tryTime is the time that the witnesses of a new policy have to answer.
const tryTime = 5 * time.Second

// tryWitnesses asks the witnesses of a new policy once, before the ledger orders the policy. If
// their quorum did not answer, agents would obey nothing under that policy.
func (s *Server) tryWitnesses(ctx context.Context, e *entry.Entry) error {
	policy, ok := e.Body.(*entry.Policy)
	if !ok || s.cfg.Witnesses == nil || !s.coord.ChangesWitnesses(e, s.log.Now()) {
		return nil // if the ledger refuses the policy, it says why
	}
	ctx, over := context.WithTimeout(ctx, tryTime)
	defer over()
	if err := s.cfg.Witnesses.Try(ctx, policy.Witnesses); err != nil {
		return entry.Refuse(entry.StateConflict, "witnesses", "%.800v", err).
			WithRemedy("give the origin and the verifier key of this ledger to the operators of the witnesses (arl log head prints them), and apply the policy when they answer")
	}
	return nil
}

package agent

import (
	"context"
	"errors"
	"time"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// Server is a ledger over HTTP, as an agent reaches it: a [Ledger], [Log] and
// [Waiter].
type Server struct {
	Client *client.Client
	Agent  entry.Principal

	size  uint64        // that the server has answered as of
	heard *api.Commands // by the last wait, not looked at yet
}

// followPage is the number of entries of a page of the log. All other work waits for a page, so
// pages are small.
const followPage = 64

// Wait implements [Waiter] by long poll.
func (s *Server) Wait(ctx context.Context, limit time.Duration) error {
	commands, err := s.Client.Commands(ctx, s.Agent, api.CommandsQuery{From: s.size, Wait: max(limit, time.Millisecond)})
	if err != nil {
		return err
	}
	s.size, s.heard = commands.Size, commands
	return nil
}

// Commands implements [Ledger].
func (s *Server) Commands(ctx context.Context) (*Hints, error) {
	commands := s.heard
	if s.heard = nil; commands == nil {
		var err error
		if commands, err = s.Client.Commands(ctx, s.Agent, api.CommandsQuery{}); err != nil {
			return nil, refusalOf(err)
		}
		s.size = commands.Size
	}
	h := &Hints{Size: commands.Size, News: commands.News}
	for _, c := range commands.Commands {
		h.Commands = append(h.Commands, Hint{Incident: c.Incident, Decision: c.Decision, Changed: c.Changed})
	}
	return h, nil
}

// Bundle implements [Ledger].
func (s *Server) Bundle(ctx context.Context, q Query) (*bundle.Bundle, uint64, error) {
	get := s.Client.Bundle
	if q.Anew {
		get = s.Client.BundleAnew
	}
	page, err := get(ctx, api.BundleQuery{Incident: q.Incident, Agent: s.Agent, From: q.From, After: q.After, Whole: q.Whole, Absences: q.Absences})
	if err != nil {
		return nil, 0, refusalOf(err)
	}
	return page.Bundle, page.Next, nil
}

// Submit implements [Ledger].
func (s *Server) Submit(ctx context.Context, e *entry.Entry) (entry.LogRef, error) {
	registered, err := s.Client.Submit(ctx, e)
	if err != nil {
		return entry.LogRef{}, refusalOf(err)
	}
	return entry.LogRef{Index: registered.Index, LeafHash: merkle.HashLeaf(registered.Leaf)}, nil
}

// Follow implements [Log].
func (s *Server) Follow(ctx context.Context, from uint64, accepted string) (*Page, error) {
	p := &Page{}
	for e, err := range s.Client.Entries(ctx, api.ListQuery{From: from, Limit: followPage}) {
		if err != nil {
			return nil, refusalOf(err)
		}
		if p.Entries = append(p.Entries, e.Entry); len(p.Entries) == followPage {
			break
		}
	}
	newest := s.Client.Accepted()
	before, err := s.Client.Root().Head([]byte(accepted))
	if err != nil || accepted == newest.Note || before == newest.Head {
		return p, err
	}
	older, newer := accepted, newest.Note
	if before.Size > newest.Size {
		older, newer = newer, older
	}
	p.Proof, err = s.Client.Consistency(ctx, older, newer)
	return p, refusalOf(err)
}

// Plan implements [Log].
func (s *Server) Plan(ctx context.Context, incident uint64) ([]entry.Member, error) {
	plan, err := s.Client.Plan(ctx, incident)
	if err != nil {
		return nil, refusalOf(err)
	}
	return plan.Set(), nil
}

// refusalOf turns a problem into the refusal that it reports. It returns any other error as it
// is.
func refusalOf(err error) error {
	problem, ok := errors.AsType[*api.Problem](err)
	if !ok || problem.Name() == "" {
		return err
	}
	refusal := entry.Refuse(problem.Name(), problem.Field, "%s", problem.Detail).WithRemedy(problem.Remedy)
	refusal.RetryAfterMS, refusal.Incident, refusal.WaitsFor = problem.RetryAfterMS, problem.Incident, problem.WaitsFor
	return refusal
}

// Mirror is a second server of the ledger, or another party that has seen the ledger's head. It
// is a [Source].
type Mirror struct {
	Client *client.Client                            // of the ledger's server, which gives the proof
	Head   func(ctx context.Context) (string, error) // the other's, a signed note
}

// Confirm implements [Source].
func (m *Mirror) Confirm(ctx context.Context, head string) (verify.ConsistencyProof, error) {
	other, err := m.Head(ctx)
	if err != nil {
		return verify.ConsistencyProof{}, err
	}
	ours, err := m.Client.Root().Head([]byte(head))
	if err != nil {
		return verify.ConsistencyProof{}, err
	}
	theirs, err := m.Client.Root().Head([]byte(other))
	if err != nil {
		return verify.ConsistencyProof{}, err
	}
	if theirs.Size < ours.Size {
		return m.Client.Consistency(ctx, other, head)
	}
	return m.Client.Consistency(ctx, head, other)
}

package mcp

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/entry"
)

// send sends the entries of calls that have ended, in order, until ctx ends. What is left then is
// sent by the next process.
func (p *Proxy) send(ctx context.Context) error {
	pause := sendFirst
	for {
		k := p.first()
		if k == nil {
			pause = sendFirst
			select {
			case <-p.sent:
				continue
			case <-ctx.Done():
				return nil
			}
		}
		err := p.sendOne(ctx, k)
		switch {
		case p.broken() != nil:
			return p.broken()
		case err == nil:
			pause = sendFirst
			continue
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the next process sends it
		}
		p.cfg.Tell("%s: its end is not in the log yet: %v", k.Exec, err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
		pause = min(2*pause, sendMost)
	}
}

// Flush sends what the log lacks. The error says what is left for the next process.
func (p *Proxy) Flush(ctx context.Context) error {
	for k := p.first(); k != nil; k = p.first() {
		if err := p.sendOne(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

func (p *Proxy) first() *call {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.unsent) == 0 {
		return nil
	}
	return p.unsent[0]
}

// sendOne sends the first entry of a call's outbox. A nil error says that the log has the entry, or
// never will.
func (p *Proxy) sendOne(ctx context.Context, k *call) error {
	p.mu.Lock()
	if len(k.Outbox) == 0 {
		p.drop(k)
		p.mu.Unlock()
		return nil
	}
	envelope := k.Outbox[0]
	p.mu.Unlock()
	e, err := entry.Decode(envelope)
	if err != nil {
		return err // it was checked when it was signed, and by the journal's checksum
	}
	_, err = p.cfg.Ledger.Submit(ctx, e)
	refusal, refused := errors.AsType[*entry.Refusal](err)
	switch {
	case err == nil:
		return p.took(k, nil)
	case !refused || temporary(refusal):
		return err
	case refusal.Problem == entry.Stale: // it was not registered before, since that would have been told first
		return p.resign(k, e)
	}
	p.cfg.Tell("%s: the ledger does not take its end: %v", k.Exec, err)
	return p.took(k, refusal)
}

// temporary reports whether the same entry may be taken later.
func temporary(r *entry.Refusal) bool {
	return r.Problem == entry.RateLimited || r.Problem == entry.NotReady || r.Problem == entry.InsufficientStorage || r.Problem == entry.UnknownIssuer
}

// took passes over the first entry of an outbox. An entry that the ledger refuses for good takes
// those after it along.
func (p *Proxy) took(k *call, refusal *entry.Refusal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(k.Outbox) == 0 {
		return nil
	}
	k.Outbox = k.Outbox[1:]
	if refusal != nil {
		k.Outbox = nil
	}
	if len(k.Outbox) > 0 {
		return nil
	}
	k.Outbox = nil
	p.drop(k)
	return p.journal.write(&record{Exec: k.Exec}) // sending it again does no harm
}

// drop takes a call off the list of the unsent, and forgets a call that nothing is left to know of.
func (p *Proxy) drop(k *call) {
	for i, other := range p.unsent {
		if other == k {
			p.unsent = append(p.unsent[:i:i], p.unsent[i+1:]...)
			break
		}
	}
	if !k.kept(0) {
		delete(p.calls, k.Exec)
	}
}

// resign makes the first entry of an outbox under a new header.
func (p *Proxy) resign(k *call, old *entry.Entry) error {
	e, err := p.sign(old.Body)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	k.Outbox[0] = jsontext.Value(e.AppendEnvelope(nil))
	return p.journal.write(&record{Exec: k.Exec, Outbox: k.Outbox})
}

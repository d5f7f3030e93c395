package conformance

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"recoveryledger/api/conformance/stage"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify/bundle"
)

// doctor changes each bundle with a decision on its way to the agent.
func (p *play) doctor(change func(b *bundle.Bundle)) {
	if p.err != nil {
		return
	}
	p.stage.Script(func(w http.ResponseWriter, r *http.Request, honest http.Handler) bool {
		if !strings.HasSuffix(r.URL.Path, "/bundle") {
			return false
		}
		answer := stage.Honest(honest, r)
		b, err := bundle.Decode(answer.Body)
		if err != nil || b.Decision == 0 {
			answer.Send(w)
			return true
		}
		change(b)
		if answer.Body, err = b.Encode(); err != nil {
			panic(http.ErrAbortHandler) // a case that makes a bundle which has no form is noticed: the agent gets no bundle
		}
		answer.Send(w)
		return true
	})
}

// answers has a script answer each question for the bundle of an incident.
func (p *play) answers(with func(w http.ResponseWriter, r *http.Request, honest http.Handler)) {
	p.stage.Script(func(w http.ResponseWriter, r *http.Request, honest http.Handler) bool {
		if !strings.HasSuffix(r.URL.Path, "/bundle") {
			return false
		}
		with(w, r, honest)
		return true
	})
}

// prove sets the entries of a bundle, and proves them under the newest head.
func (p *play) prove(b *bundle.Bundle, indexes ...uint64) {
	slices.Sort(indexes)
	indexes = slices.Compact(indexes)
	tree, err := p.stage.Tree()
	p.must(err)
	list, err := p.stage.Entries(0)
	p.must(err)
	b.Entries = nil
	for _, index := range indexes {
		b.Entries = append(b.Entries, bundle.Leaf{Index: index, Bytes: list[index].AppendLeaf(nil)})
	}
	size := uint64(len(list))
	b.Head, err = p.stage.Head(stage.Origin, tree.Head(size), nil)
	p.must(err)
	b.Inclusion, err = merkle.ProveInclusions(indexes, size, tree.Node)
	p.must(err)
	b.Consistency = nil
	if b.From != 0 && b.From != size {
		b.Consistency, err = merkle.ProveConsistency(b.From, size, tree.Node)
		p.must(err)
	}
}

// indexes are those of the entries of a bundle.
func indexes(b *bundle.Bundle) (list []uint64) {
	for _, leaf := range b.Entries {
		list = append(list, leaf.Index)
	}
	return list
}

// of returns the indexes of the entries of a bundle that a condition holds for.
func of(b *bundle.Bundle, holds func(e *entry.Entry) bool) (list []uint64) {
	for _, leaf := range b.Entries {
		if e, _, err := entry.DecodeLeaf(leaf.Bytes); err == nil && holds(e) {
			list = append(list, leaf.Index)
		}
	}
	return list
}

// without proves a bundle without some entries.
func (p *play) without(b *bundle.Bundle, holds func(e *entry.Entry) bool) {
	out := of(b, holds)
	p.prove(b, slices.DeleteFunc(indexes(b), func(index uint64) bool { return slices.Contains(out, index) })...)
}

// captured is what the ledger shows the agent at one time, whatever the agent has accepted.
type captured struct {
	commands *stage.Answer
	bundles  map[uint64]*bundle.Bundle // by the size that they begin at
}

// capture keeps what the ledger shows now.
func (p *play) capture() *captured {
	c := &captured{bundles: map[uint64]*bundle.Bundle{}}
	if p.err != nil {
		return c
	}
	c.commands = p.ask("/v1/agents/" + string(stage.Agent) + "/commands")
	for from := range p.stage.Size() + 1 {
		answer := p.ask("/v1/incidents/" + strconv.FormatUint(p.incident, 10) + "/bundle?agent=" + string(stage.Agent) + "&from=" + strconv.FormatUint(from, 10))
		b, err := bundle.Decode(answer.Body)
		p.must(err)
		c.bundles[from] = b
	}
	return c
}

// shows has the ledger show the agent what it showed before, under its newest head, with further
// entries.
func (p *play) shows(c *captured, further ...uint64) {
	if p.err != nil {
		return
	}
	p.stage.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		switch {
		case strings.HasSuffix(r.URL.Path, "/commands"):
			pace(r) // an agent that waits for news would ask without a pause
			c.commands.Send(w)
		case strings.HasSuffix(r.URL.Path, "/bundle"):
			from, _ := strconv.ParseUint(r.URL.Query().Get("from"), 10, 64) // none is 0
			before := c.bundles[from]
			if before == nil {
				before = c.bundles[uint64(len(c.bundles))-1]
			}
			b := *before
			b.From = from
			p.prove(&b, append(indexes(&b), further...)...)
			data, err := b.Encode()
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(data) // an agent that is gone needs none
		default:
			return false
		}
		return true
	})
}

// hints has the ledger name the incident to the agent as it did before, and answer all else by the
// truth.
func (p *play) hints(c *captured) {
	p.stage.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if !strings.HasSuffix(r.URL.Path, "/commands") {
			return false
		}
		pace(r)
		c.commands.Send(w)
		return true
	})
}

// pace keeps an answer back for a moment.
func pace(r *http.Request) {
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

// honest has the ledger tell the truth from now on, and begins the agent again: it must obey now.
func (p *play) honest() {
	p.stage.Script(nil)
	p.again()
	p.does("compensate", charge)
}

// decided changes the decision that authorizes, and signs it as the coordinator.
func (p *play) decided(change func(d *entry.Decision)) stage.Twist {
	return p.signed(stage.Coordinator, change)
}

// signed is decided for a decision that another principal signs as itself.
func (p *play) signed(by entry.Principal, change func(d *entry.Decision)) stage.Twist {
	return func(right *entry.Entry) (*entry.Entry, error) {
		d, is := right.Body.(*entry.Decision)
		if !is || d.Act != entry.ActAuthorize && d.Act != entry.ActAmend {
			return nil, nil //nolint:nilnil // the entry stays as it is
		}
		again, err := entry.Decode(right.AppendEnvelope(nil))
		if err != nil {
			return nil, err
		}
		forged := again.Body.(*entry.Decision) //nolint:forcetypeassert // the same payload
		forged.Iss = by
		if change != nil {
			change(forged)
		}
		e, err := entry.New(forged)
		if err != nil {
			return nil, err
		}
		return e, p.stage.Signer(by).Sign(e)
	}
}

// Package bundle assembles authorization bundles (protocol.md, section 7) from one
// consistent view of a log: the state of the fold at one size, the signed head of
// that size, and proofs under that head. Package verify/bundle defines a bundle, and how
// agents check it.
package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// Log is the part of a log that a bundle is made from. Entries and proofs are read below the size
// of a view that the log gave.
type Log interface {
	// View calls f once with the state of the log, and with the signed head and the
	// chain of exactly that log. f must not keep the state.
	View(f func(s *coord.State, head verify.SignedHead, chain *verify.Chain))
	Entry(index uint64) (*entry.Registered, error)
	Inclusions(indexes []uint64, size uint64) ([]merkle.Hash, error)
	Consistency(older, newer uint64) ([]merkle.Hash, error)
}

// Under returns the head for a bundle that was made at the head at and shows entries below least.
// It returns at, or a head of fewer entries, but not of fewer than least. A head of more than most
// entries is no good where there is another. again reports that it waited for such a head, so the
// bundle is to be made anew.
type Under func(at verify.SignedHead, least, most uint64) (head verify.SignedHead, again bool, err error)

// Terms say how bundles are made, beside the query. Nil fields, and nil Terms, ask for nothing.
type Terms struct {
	Under Under // nil: a bundle stands under the head of the view that it is made of
	Index Index // nil: no bundle proves that it leaves nothing out
}

// Made is a bundle.
type Made struct {
	Bundle *bundle.Bundle
	Data   []byte // its encoding
	Size   uint64 // of the log that it follows from
	Next   uint64 // After of the bundle that follows; 0: none does
}

// Maker makes bundles. Its zero value is ready. It keeps the trees of the plans of its last
// bundles, and may be used concurrently.
type Maker struct{ trees setTrees }

// errManyEntries says that a bundle would have more entries than it may.
var errManyEntries = fmt.Errorf("more than %d entries", bundle.MaxEntries)

// Make makes a bundle that keeps the limits of package verify/bundle, with fewer members if need
// be. Limit of the query must be set. With an index, the bundle proves that it leaves nothing out
// (ABS-1 to ABS-4). The query or the policy in force may demand that proof. The error is a
// [*entry.Refusal], or the error of the log or of the terms.
func (k *Maker) Make(log Log, terms *Terms, q api.BundleQuery) (*Made, error) {
	if terms == nil {
		terms = &Terms{}
	}
	for {
		m := &making{Made: Made{Bundle: &bundle.Bundle{Agent: q.Agent, From: q.From}}, log: log, terms: terms, query: q, read: map[uint64]*entry.Registered{}}
		err := m.make(&k.trees)
		if errors.Is(err, errAgain) {
			continue
		}
		if err == nil {
			m.Data, err = m.Bundle.Encode()
		}
		_, large := errors.AsType[*verify.FormatError](err)
		switch large = large || errors.Is(err, errManyEntries); {
		case large && min(q.Limit, m.held) > 1:
			q.Limit = min(q.Limit, m.held) / 2
		case large:
			return nil, entry.Refuse(entry.TooLarge, "", "%v", err).
				WithRemedy("if it is policies and keys, read GET " + api.PathNews + " first, and ask from the size that it brings")
		case err != nil:
			return nil, err
		default:
			return &m.Made, nil
		}
	}
}

// making is a bundle in the making.
type making struct {
	Made
	log   Log
	terms *Terms
	query api.BundleQuery

	viewed   uint64 // size of the view
	most     uint64 // entries of a head under which the tail is not too long
	chain    *verify.Chain
	shown    []uint64 // indexes of its entries
	policies []uint64 // indexes of the policies that it shows in any case
	read     map[uint64]*entry.Registered
	held     int // number of the items that it holds and the limit counts
}

// errAgain says that a bundle is to be made of a newer view.
var errAgain = errors.New("the log has grown")

func (m *making) make(k *setTrees) (err error) {
	var at verify.SignedHead
	m.log.View(func(s *coord.State, head verify.SignedHead, chain *verify.Chain) {
		at, m.Size, m.viewed, m.chain = head, head.Size, head.Size, chain
		err = m.fill(s, k)
	})
	if err != nil {
		return err
	}
	if len(m.shown) > bundle.MaxEntries {
		return errManyEntries
	}
	if err := m.link(); err != nil {
		return err
	}
	if err := m.complete(at); err != nil {
		return err
	}
	return m.prove()
}

// stand takes the head that the bundle stands under. A head of fewer entries than the view is as
// good as the head of the view. Every entry of the view that concerns the agent is shown, so it
// stands below that head.
func (m *making) stand(at verify.SignedHead) error {
	least := m.query.From
	if n := len(m.shown); n > 0 {
		least = max(least, m.shown[n-1]+1)
	}
	head, again, err := at, false, error(nil)
	if m.terms.Under != nil {
		head, again, err = m.terms.Under(at, least, m.most)
	}
	if again {
		return cmp.Or(err, errAgain)
	}
	m.Bundle.Head, m.Size = head.Note, head.Size
	return err
}

// linksFrom returns the index from which on policies and keys are new to the agent.
func (m *making) linksFrom() uint64 {
	switch q := &m.query; {
	case q.Incident == 0 && q.After != 0:
		return q.After
	case q.Whole:
		return 0
	}
	return m.query.From
}

func (m *making) show(indexes ...uint64) {
	m.shown = append(m.shown, indexes...)
	slices.Sort(m.shown)
	m.shown = slices.Compact(m.shown)
}

// fill takes the content of the bundle from the state.
func (m *making) fill(s *coord.State, k *setTrees) error {
	q, b := &m.query, m.Bundle
	if q.From > m.Size {
		return entry.Refuse(entry.NotFound, "from", "the log has size %d, not %d", m.Size, q.From).
			WithRemedy("a log never shrinks: compare it with the last accepted tree head")
	}
	if _, enrolled := s.Chain().Agent(q.Agent); !enrolled {
		return entry.Refuse(entry.NotFound, "agent", "%.140q was never enrolled", q.Agent).WithRemedy("GET " + api.PathAgents + " lists the agents")
	}
	if q.Incident == 0 {
		m.show(append(s.News(q.Agent, m.linksFrom()), s.Overrides(q.Agent, m.linksFrom())...)...)
		if len(m.shown) > q.Limit {
			m.shown = m.shown[:q.Limit]
			m.Next = m.shown[q.Limit-1] + 1
		}
		m.held = len(m.shown)
		return nil
	}
	if from := m.linksFrom(); from > 0 {
		m.show(s.News(q.Agent, from)...)
	}
	d, err := s.DecisionInForce(q.Incident)
	if err != nil {
		return err
	}
	parts, err := partsOf(s, d, q)
	if err != nil {
		return err
	}
	b.Decision, b.Members, b.Steps, m.Next = parts.decision, parts.members, parts.steps, parts.next
	m.policies = s.Policies(m.linksFrom())
	if m.show(parts.entries...); b.Decision == 0 {
		m.held = len(parts.entries)
		return nil
	}
	places := make([]uint64, len(b.Members))
	for i := range b.Members {
		if places[i] = b.Members[i].Place; b.Members[i].Member.Agent == q.Agent {
			m.held++
		}
	}
	tree := k.tree(d)
	b.Membership, err = merkle.ProveInclusions(places, tree.Size(), tree.Node)
	return err
}

// link shows the rights of the signers of the shown entries (TRU-2): all agent entries about these
// signers, about the signers of those agent entries, and so on. It also shows the agent entries
// about principals that a shown entry enrols. Of news it leaves out entries of the next bundle.
func (m *making) link() error {
	links, known := m.chain.Links(), map[entry.Principal]bool{}
	var todo []entry.Principal
	for _, index := range m.shown {
		e, err := m.entry(index)
		if err != nil {
			return err
		}
		todo = append(todo, e.Header.Iss)
		if a, ok := e.Body.(*entry.Agent); ok {
			todo = append(todo, a.Principal)
		}
	}
	for len(todo) > 0 {
		principal := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if known[principal] {
			continue
		}
		known[principal] = true
		info, _ := m.chain.Agent(principal)
		for _, index := range info.Entries() {
			m.shown = append(m.shown, index)
			i, _ := slices.BinarySearchFunc(links, index, func(l entry.Registered, index uint64) int { return cmp.Compare(l.Index, index) })
			todo = append(todo, links[i].Header.Iss)
		}
	}
	m.show(m.policies...)
	if m.query.Incident == 0 && m.Next != 0 {
		m.shown = slices.DeleteFunc(m.shown, func(index uint64) bool { return index >= m.Next })
	}
	return nil
}

func (m *making) entry(index uint64) (*entry.Registered, error) {
	if e, ok := m.read[index]; ok {
		return e, nil
	}
	e, err := m.log.Entry(index)
	if err == nil {
		m.read[index] = e
	}
	return e, err
}

// prove adds the leaves and the proofs.
func (m *making) prove() (err error) {
	b := m.Bundle
	if len(m.shown) > bundle.MaxEntries {
		return errManyEntries
	}
	for _, index := range m.shown {
		e, err := m.entry(index)
		if err != nil {
			return err
		}
		b.Entries = append(b.Entries, bundle.Leaf{Index: index, Bytes: e.AppendLeaf(nil)})
	}
	if b.Inclusion, err = m.log.Inclusions(m.shown, m.Size); err != nil || b.From == 0 || b.From == m.Size {
		return err
	}
	b.Consistency, err = m.log.Consistency(b.From, m.Size)
	return err
}

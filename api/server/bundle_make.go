package server

import (
	"maps"
	"slices"
	"sync"

	"recoveryledger/coord"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// making is a bundle in the making: what it shows follows from the state, its
// leaves and proofs from the ledger.
type making struct {
	*verify.Bundle
	server *Server
	query  *bundleQuery

	shown  []uint64 // indexes of its entries
	logged map[uint64]*entry.Registered
	asOf   uint64 // size of the log that it follows from
	size   uint64 // that its head covers
	held   int    // how many of what limit counts it holds
	next   uint64 // After of what follows; 0: nothing does
}

// read finds out what the bundle shows.
func (m *making) read(limit int) (err error) {
	s := m.server
	s.coord.Read(func(state *coord.State) { err = m.readState(state, limit) })
	if err != nil {
		return err
	}
	if len(m.shown) > verify.MaxBundleEntries {
		return errManyEntries
	}
	about, err := m.principals()
	if err != nil {
		return err
	}
	s.coord.Read(func(state *coord.State) { m.show(state.Links(about, m.policiesFrom())...) })
	last := m.asOf
	if m.query.incident == 0 && m.next != 0 {
		last = m.next // what is behind may rest on what comes with the next
	}
	m.shown = slices.DeleteFunc(m.shown, func(index uint64) bool { return index >= last })
	return nil
}

// linksFrom is from where on policies and keys are new to the agent.
func (m *making) linksFrom() uint64 {
	switch {
	case m.query.incident == 0 && m.query.after != 0:
		return m.query.after
	case m.query.whole:
		return 0
	}
	return m.From
}

// policiesFrom is from where on all policies are shown. Of news they are some.
func (m *making) policiesFrom() uint64 {
	if m.query.incident == 0 {
		return m.asOf
	}
	return m.linksFrom()
}

func (m *making) show(indexes ...uint64) {
	m.shown = append(m.shown, indexes...)
	slices.Sort(m.shown)
	m.shown = slices.Compact(m.shown)
}

// readState takes from the state what the bundle is about.
func (m *making) readState(state *coord.State, limit int) error {
	q := m.query
	m.asOf = state.Size()
	if q.from > m.asOf {
		return entry.Refuse(entry.NotFound, "from", "the log has %d entries, not %d", m.asOf, q.from).
			WithRemedy("a log never shrinks: compare with the tree head accepted last")
	}
	if _, enrolled := state.Chain().Agent(q.agent); !enrolled {
		return entry.Refuse(entry.NotFound, "agent", "%.140q was never enrolled", q.agent).WithRemedy("GET " + agentsPath + " lists the agents")
	}
	if q.incident == 0 {
		m.show(append(state.News(q.agent, m.linksFrom()), state.Overrides(q.agent, m.linksFrom())...)...)
		if len(m.shown) > limit {
			m.shown = m.shown[:limit]
			m.next = m.shown[limit-1] + 1
		}
		m.held = len(m.shown)
		return nil
	}
	if from := m.linksFrom(); from > 0 {
		m.show(state.News(q.agent, from)...)
	}
	parts, err := state.Bundle(coord.BundleRequest{Incident: q.incident, Agent: q.agent, After: int(q.after), Limit: limit})
	if err != nil {
		return err
	}
	m.Decision, m.Members, m.Steps, m.next = parts.Decision, parts.Members, parts.Steps, uint64(parts.Next)
	if m.show(parts.Entries...); m.Decision == 0 {
		m.held = len(parts.Entries)
		return nil
	}
	places := make([]uint64, len(m.Members))
	for i := range m.Members {
		if places[i] = m.Members[i].Place; m.Members[i].Member.Agent == q.agent {
			m.held++
		}
	}
	tree := m.server.scopes.tree(state, q.incident, m.Decision)
	m.Scope, err = merkle.ProveInclusions(places, tree.Size(), tree.Node)
	return err
}

// principals reads the entries that are shown so far, and returns who signed
// them, and whom they enrol.
func (m *making) principals() ([]entry.Principal, error) {
	found := map[entry.Principal]struct{}{}
	for _, index := range m.shown {
		logged, err := m.entry(index)
		if err != nil {
			return nil, err
		}
		found[logged.Header.Iss] = struct{}{}
		if a, ok := logged.Body.(*entry.Agent); ok {
			found[a.Principal] = struct{}{}
		}
	}
	return slices.Collect(maps.Keys(found)), nil
}

func (m *making) entry(index uint64) (*entry.Registered, error) {
	if logged, ok := m.logged[index]; ok {
		return logged, nil
	}
	logged, err := m.server.log.Entry(index)
	if err == nil {
		m.logged[index] = logged
	}
	return logged, err
}

// changed reports whether, after what the bundle follows from and before its
// head, something was registered that it might have to show.
func (m *making) changed() (bool, error) {
	last := entry.Tag{Index: entry.ByKind, Value: string(entry.KindDecision)}
	if m.query.incident != 0 {
		last = entry.Tag{Index: entry.ByIncident, Value: entry.IncidentValue(m.query.incident)}
	}
	if m.asOf >= m.size {
		return false, nil
	}
	for _, tag := range []entry.Tag{{Index: entry.ByKind, Value: string(entry.KindPolicy)}, {Index: entry.ByKind, Value: string(entry.KindAgent)}, last} {
		found, err := m.server.log.Find(ledger.Query{Index: tag.Index, Value: tag.Value, From: m.asOf, To: m.size, Limit: 1})
		if err != nil || len(found) > 0 {
			return true, err
		}
	}
	return false, nil
}

// prove adds the leaves and the proofs.
func (m *making) prove() (err error) {
	for _, index := range m.shown {
		logged, err := m.entry(index)
		if err != nil {
			return err
		}
		m.Entries = append(m.Entries, verify.Logged{Index: index, Leaf: logged.AppendLeaf(nil)})
	}
	if m.Inclusion, err = m.server.log.Inclusions(m.shown, m.size); err != nil || m.From == 0 || m.From == m.size {
		return err
	}
	m.Consistency, err = m.server.log.Consistency(m.From, m.size)
	return err
}

// scopes keeps the trees of the plans that bundles were made of last.
type scopes struct {
	mu    sync.Mutex
	trees []keptScope // the one used last is last
}

type keptScope struct {
	decision uint64
	tree     *merkle.Tree
}

// tree returns the tree of the plan in force of an incident.
func (k *scopes) tree(state *coord.State, incident, decision uint64) *merkle.Tree {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.IndexFunc(k.trees, func(kept keptScope) bool { return kept.decision == decision })
	kept := keptScope{decision: decision}
	if i >= 0 {
		kept = k.trees[i]
		k.trees = slices.Delete(k.trees, i, i+1)
	} else {
		kept.tree = state.ScopeTree(incident)
	}
	k.trees = append(k.trees, kept)
	total := uint64(0)
	for i, kept := range slices.Backward(k.trees) {
		if total += kept.tree.Size(); total > maxScopes && i < len(k.trees)-1 || len(k.trees)-i > maxScopeTrees {
			k.trees = slices.Clone(k.trees[i+1:])
			break
		}
	}
	return kept.tree
}

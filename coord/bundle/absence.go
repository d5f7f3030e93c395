package bundle

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

const (
	// tailMax and tailBytes bound the entries that a bundle shows because the index does not cover
	// them.
	tailMax   = 512
	tailBytes = 1 << 20
)

// Index returns the proof about subjects from an index entry that covers size entries or more,
// with the lists of [bundle.IndexLabels]. It may wait for such an entry. The error is [ErrNoProof]
// if the bundle does not demand the proof and is to have none, else a [*entry.Refusal].
type Index func(subjects []entry.Subject, size uint64, demanded bool) (*Proof, error)

// Proof is the statement of the index about subjects.
type Proof struct {
	verify.Indexed
	Entry *entry.Registered // the index entry
	Found []uint64          // indexes of the entries in the lists
}

// ErrNoProof says that no proof of the index is at hand.
var ErrNoProof = errors.New("no proof of the index is at hand")

// demanded reports whether the bundle is to prove that it leaves nothing out.
func (m *making) demanded() bool {
	policy, _ := m.chain.Policy()
	return m.query.Absences || policy.IndexRequired()
}

// complete proves that the bundle leaves nothing out (ABS-1 to ABS-4), and takes the head that the
// bundle stands under. A bundle without a decision has no proof.
func (m *making) complete(at verify.SignedHead) error {
	m.most = math.MaxUint64
	switch {
	case m.Bundle.Decision == 0:
		return m.stand(at)
	case m.terms.Index == nil && m.demanded():
		return entry.Refuse(entry.NotFound, "absences", "the ledger keeps no index, so that no bundle proves that it leaves nothing out").
			WithRemedy("start the ledger with arl serve --index")
	case m.terms.Index == nil:
		return m.stand(at)
	}
	without := slices.Clone(m.shown)
	err := m.proveWhole(at)
	if errors.Is(err, ErrNoProof) {
		m.Bundle.Index, m.Bundle.Indexed, m.shown, m.most = 0, verify.Indexed{}, without, math.MaxUint64
		return m.stand(at)
	}
	return err
}

// proveWhole takes an index entry, all entries that the rules demand by its lists, a head, and the
// entries between the two. If these are too many, it takes a newer index entry.
func (m *making) proveWhole(at verify.SignedHead) error {
	without := slices.Clone(m.shown)
	for covers := m.Bundle.Decision + 1; ; {
		m.shown = slices.Clone(without)
		size, err := m.proveLists(covers)
		if err != nil {
			return err
		}
		for m.most = size + tailMax; ; {
			if err := m.stand(at); err != nil {
				return err
			}
			fits, err := m.tail(size)
			if err != nil {
				return err
			}
			if !fits {
				covers = size + 1
				break
			}
			if err := m.link(); err != nil {
				return err
			}
			if m.shown[len(m.shown)-1] < m.Size {
				m.pastVotes()
				return nil
			}
		}
	}
}

// proveLists shows an index entry that covers at least covers entries, and the decisions about the
// incident that its lists name. It returns the number of entries that the index covers.
func (m *making) proveLists(covers uint64) (size uint64, err error) {
	demanded, before := m.demanded(), slices.Clone(m.shown)
	for subjects := m.subjects(); ; {
		p, err := m.terms.Index(subjects, covers, demanded)
		if err != nil {
			return 0, err
		}
		if p.Entry.Index >= m.viewed {
			return 0, errAgain
		}
		m.shown = slices.Clone(before)
		m.show(p.Entry.Index)
		for _, index := range p.Found {
			if err := m.takeUp(index, demanded); err != nil {
				return 0, err
			}
		}
		if err := m.link(); err != nil {
			return 0, err
		}
		m.Bundle.Index, m.Bundle.Indexed = p.Entry.Index, p.Indexed
		asked := m.subjects()
		if slices.Equal(asked, subjects) {
			return p.Entry.Body.(*entry.LogIndex).Size, nil
		}
		subjects = asked
	}
}

// takeUp shows a decision or a record that the lists name. Policies and keys are shown already, or
// the agent has accepted them. An agent obeys nothing while it knows of a proposed amend. So a
// bundle that need not prove anything has no proof.
func (m *making) takeUp(index uint64, demanded bool) error {
	e, err := m.entry(index)
	if err != nil {
		return err
	}
	if d, ok := e.Body.(*entry.Decision); ok && index > m.Bundle.Decision && d.Act == entry.ActEscalate && !demanded {
		return ErrNoProof
	}
	if e.Kind == entry.KindDecision || e.Kind == entry.KindRecord {
		m.show(index)
	}
	return nil
}

// pastVotes has each open member of the agent name the decision if an override stands behind what
// opened the member. Such an override is a vote that stopped nothing, so that the decision keeps
// the member open (INC-6).
func (m *making) pastVotes() {
	var last uint64
	ended := map[entry.Ref]bool{} // by an outcome
	for _, index := range m.shown {
		e := m.read[index]
		if e == nil {
			continue // a policy or a key
		}
		switch body := e.Body.(type) {
		case *entry.Decision:
			if body.Act == entry.ActOverride && body.Incident == m.query.Incident && index < m.Bundle.Decision {
				last = index
			}
		case *entry.Outcome:
			ended[body.Exec] = true
		}
	}
	for i := range m.Bundle.Members {
		p := &m.Bundle.Members[i]
		if by := m.read[p.By]; by != nil {
			if d, ok := by.Body.(*entry.Decision); ok && d.Act == entry.ActOverride {
				continue // which withheld the member
			}
		}
		if p.By < last && p.Member.Agent == m.query.Agent && p.Member.Method != entry.MethodNone && !ended[p.Member.Exec] {
			p.By = m.Bundle.Decision
		}
	}
}

// subjects returns the subjects that the verdict on the bundle rests on: the incident, the log, the
// signers of the decisions, approvals and signals up to the decision, and the index's signer.
func (m *making) subjects() []entry.Subject {
	all := []entry.Subject{{Type: entry.SubjectIncident, Value: entry.IncidentValue(m.query.Incident)}, {Type: entry.SubjectLog}}
	for _, index := range m.shown {
		e := m.read[index]
		if e == nil {
			continue // a policy or a key
		}
		switch e.Kind {
		case entry.KindDecision, entry.KindApproval, entry.KindSignal, entry.KindIndex:
			agent := entry.Subject{Type: entry.SubjectAgent, Value: string(e.Header.Iss)}
			if (index <= m.Bundle.Decision || index == m.Bundle.Index) && !slices.Contains(all, agent) {
				all = append(all, agent)
			}
		}
	}
	slices.SortFunc(all, func(x, y entry.Subject) int {
		return cmp.Or(cmp.Compare(x.Type, y.Type), cmp.Compare(x.Value, y.Value))
	})
	return all
}

// tail shows the entries that the index does not cover, below the head, and reports
// whether they are few enough.
func (m *making) tail(size uint64) (fits bool, err error) {
	if m.Size > size+tailMax {
		return false, nil
	}
	bytes := 0
	for index := size; index < m.Size; index++ {
		e, err := m.entry(index)
		if err != nil {
			return false, err
		}
		if bytes += len(e.AppendLeaf(nil)); bytes > tailBytes {
			return false, nil
		}
		m.show(index)
	}
	return true, nil
}

package agent

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// identity names the owner of a store, and what the store cannot know.
type identity struct {
	Origin  string          `json:"origin"`
	Genesis merkle.Hash     `json:"genesis"`
	Agent   entry.Principal `json:"agent"`
	MadeAt  int64           `json:"made_at"` // Unix milliseconds
	// Lost says that there was an earlier store. Work that was open then counts as started.
	// Work was open then if its incident is below Horizon, the size of the first confirmed
	// head, or was opened before MadeAt.
	Lost    bool   `json:"lost"`
	Horizon uint64 `json:"horizon"`
	// Before is the newest known number of an undertaking of an earlier store. After it no
	// number may be missing.
	Before int `json:"before,omitempty"`
}

// Agent is the state machine. It is not safe for concurrent use.
type Agent struct {
	cfg      *Config
	identity identity
	accepted bundle.Accepted
	stored   string                // the accepted state in the store
	size     uint64                // of the accepted head
	works    []*work               // not closed, by decision, then as they came
	about    map[entry.Ref][]*work // all, by member
	restores map[uint64][]*work    // all, by incident
	number   int                   // of the newest
	stopped  error                 // if not nil, the agent does nothing more

	orders   map[uint64]*order // by incident
	asks     map[uint64]*ask   // by incident; 0: news
	lookAt   int64             // Unix milliseconds
	looked   bool              // the step before
	hinted   map[uint64]uint64 // decisions that the server lists, by incident
	hintedAt uint64            // size of the log at the time of that list
	mistrust int               // bundles in a row whose consistency proof failed
	looking  wait              // before the ledger is asked for commands again
	second   wait              // before the second source is asked again

	stands    map[stand]entry.LogRef    // entries that gave members their results, as far as is known
	overrides map[uint64][]entry.LogRef // those in the log, by incident, ascending

	follow follower
}

// Init makes the store of an agent that never ran before. Without Init an empty store counts as
// lost. Init does not change a store that has a document.
func Init(s Store, root verify.Root, agent entry.Principal, now int64) error {
	names, err := s.Names()
	if err != nil {
		return fmt.Errorf("agent: init: %w", err)
	}
	if len(names) > 0 {
		return fmt.Errorf("agent: init: the store has documents already, such as %s", names[0])
	}
	data, err := encode(docAgent, &identity{Origin: root.Origin, Genesis: root.Genesis, Agent: agent, MadeAt: now})
	if err == nil {
		err = s.Save(docAgent, data)
	}
	if err != nil {
		return fmt.Errorf("agent: init: %w", err)
	}
	return nil
}

// NoteFork keeps two contradicting heads in a store, as an agent does that sees them. While the
// document fork is in the store, [Open] returns a [*ForkError]. A caller that sees the fork before
// there is an agent uses NoteFork. A store of another ledger, or with the document, does not
// change. An error that lacks one of the two heads is refused.
func NoteFork(s Store, root verify.Root, fork *verify.ForkError) error {
	evidence := fork.Evidence()
	if evidence == nil {
		return fmt.Errorf("agent: note fork: the error has fewer than two tree heads (%w): pass the error with both", fork)
	}
	names, err := s.Names()
	if err != nil {
		return fmt.Errorf("agent: note fork: %w", err)
	}
	if slices.Contains(names, docFork) {
		return nil
	}
	if slices.Contains(names, docAgent) {
		data, err := s.Load(docAgent)
		if err != nil {
			return fmt.Errorf("agent: note fork: %w", err)
		}
		var id identity // a damaged identity may be of this ledger
		if decode(docAgent, data, &id) == nil && (id.Origin != root.Origin || id.Genesis != root.Genesis) {
			return nil
		}
	}
	data, err := encode(docFork, &ForkError{*evidence})
	if err == nil {
		err = s.Save(docFork, data)
	}
	if err != nil {
		return fmt.Errorf("agent: note fork: %w", err)
	}
	return nil
}

// Open reads the store. A store that is empty, or has damaged documents, counts
// as lost, which [Config.Tell] is told. The error is a [*ForkError] if the store
// holds one, or that of the store.
func Open(c *Config, now int64) (*Agent, error) {
	cfg := *c
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	a := &Agent{cfg: &cfg, orders: map[uint64]*order{}, asks: map[uint64]*ask{}, hinted: map[uint64]uint64{}, about: map[entry.Ref][]*work{}, restores: map[uint64][]*work{}, lookAt: now,
		stands: map[stand]entry.LogRef{}, overrides: map[uint64][]entry.LogRef{}}
	a.follow.unseen = map[uint64]*unseen{}
	if err := a.load(now); err != nil {
		return nil, err
	}
	return a, nil
}

func (c *Config) complete() error {
	switch {
	case c.Agent == "" || c.Sign == nil || c.NewID == nil || c.Ledger == nil || c.Store == nil:
		return errors.New("agent: open: Agent, Sign, NewID, Ledger and Store are required")
	case len(c.Secret) < secretMin:
		return fmt.Errorf("agent: open: a secret of %d bytes, want %d or more", len(c.Secret), secretMin)
	case c.LookMS < 0 || c.Attempts < 0:
		return errors.New("agent: open: LookMS and Attempts are not negative")
	}
	if c.LookMS == 0 {
		c.LookMS = lookDefault
	}
	if c.Attempts == 0 {
		c.Attempts = attemptsDefault
	}
	if c.Tell == nil {
		c.Tell = func(Event) {}
	}
	return nil
}

// load reads every document.
func (a *Agent) load(now int64) error {
	names, err := a.cfg.Store.Names()
	if err != nil {
		return fmt.Errorf("agent: open: %w", err)
	}
	if len(names) > MaxDocuments {
		return fmt.Errorf("agent: open: %d documents, the limit is %d", len(names), MaxDocuments)
	}
	slices.Sort(names)
	found := map[string][]byte{}
	for _, name := range names {
		if found[name], err = a.cfg.Store.Load(name); err != nil {
			return fmt.Errorf("agent: open: %w", err)
		}
	}
	if data, ok := found[docFork]; ok {
		return readFork(data)
	}
	return a.take(found, now)
}

// readFork returns the error of the document fork, which stops the agent. A damaged document
// stops the agent too.
func readFork(data []byte) error {
	fork := new(ForkError)
	if err := decode(docFork, data, fork); err != nil {
		return errors.Join(err, &ForkError{verify.Evidence{Detail: "the evidence of it is damaged"}})
	}
	return fork
}

// fresh returns the identity of a store that counts as lost.
func (a *Agent) fresh(now int64) identity {
	return identity{Origin: a.cfg.Root.Origin, Genesis: a.cfg.Root.Genesis, Agent: a.cfg.Agent, MadeAt: now, Lost: true, Horizon: math.MaxInt64, Before: a.number}
}

// take takes up the documents of the store, and makes a store that lost some
// whole again: first it says so, then it replaces them.
func (a *Agent) take(found map[string][]byte, now int64) error {
	var damage []error
	note := func(err error) {
		if err != nil {
			damage = append(damage, err)
		}
	}
	fresh := a.fresh(now)
	if data, ok := found[docAgent]; !ok {
		note(&DamageError{docAgent, "not there"})
	} else {
		note(decode(docAgent, data, &a.identity))
	}
	if len(damage) == 0 && (a.identity.Origin != fresh.Origin || a.identity.Genesis != fresh.Genesis || a.identity.Agent != fresh.Agent) {
		return fmt.Errorf("agent: open: the store belongs to %s at %s, another agent or ledger (each agent needs its own store)", a.identity.Agent, a.identity.Origin)
	}
	a.accepted = bundle.Accepted{Root: a.cfg.Root, Agent: a.cfg.Agent}
	if data, ok := found[docAccepted]; ok {
		note(a.takeAccepted(data))
	}
	if data, ok := found[docFollowed]; ok && decode(docFollowed, data, &a.follow.next) != nil {
		a.follow.next = 0 // the store does not say which undertakings were started
	}
	var broken []string
	var loaded []*work
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !strings.HasPrefix(name, docWork) {
			continue
		}
		w, err := takeWork(name, found[name])
		if err != nil {
			broken = append(broken, name)
			note(err)
			continue
		}
		if w != nil {
			loaded = append(loaded, w)
		}
	}
	note(a.checkNumbers(loaded))
	slices.SortStableFunc(loaded, func(x, y *work) int { return compare(x.Decision.Index, y.Decision.Index) })
	for _, w := range loaded {
		a.add(w)
	}
	if a.stored == "" && len(a.works)+len(broken) > 0 && found[docAccepted] == nil {
		note(&DamageError{docAccepted, "missing, although undertakings depend on it"})
	}
	if len(damage) == 0 {
		return nil
	}
	for _, err := range damage {
		a.cfg.Tell(Event{Kind: EventLost, Err: err})
	}
	fresh.Before = a.number
	return a.repairStore(fresh, broken)
}

// checkNumbers checks that no undertaking is missing between two others. An agent that lost a
// document does not know the undertakings that it had started.
func (a *Agent) checkNumbers(loaded []*work) error {
	numbers := map[int]bool{}
	for _, w := range loaded {
		numbers[w.Number] = true
		a.number = max(a.number, w.Number)
	}
	a.number = max(a.number, a.identity.Before)
	for n := a.identity.Before + 1; n < a.number; n++ {
		if !numbers[n] {
			return &DamageError{docWork, fmt.Sprintf("undertaking %d is missing, although later undertakings exist", n)}
		}
	}
	return nil
}

// DecodeAccepted reads the document of a store that has the accepted state of the agent, and
// returns its content too. The error is a [*DamageError].
func DecodeAccepted(document []byte) (accepted bundle.Accepted, content []byte, err error) {
	if content, err = unseal(docAccepted, document); err != nil {
		return bundle.Accepted{}, nil, err
	}
	if accepted, err = bundle.DecodeAccepted(content); err != nil {
		return bundle.Accepted{}, nil, &DamageError{docAccepted, err.Error()}
	}
	return accepted, content, nil
}

func (a *Agent) takeAccepted(data []byte) error {
	accepted, content, err := DecodeAccepted(data)
	if err != nil {
		return err
	}
	if accepted.Agent != a.cfg.Agent || !accepted.Root.SameLedger(a.cfg.Root) {
		return &DamageError{docAccepted, "of another agent or ledger"}
	}
	accepted.Root = a.cfg.Root.Advance(accepted.Root) // the former may have newer keys, and has the Cosigner
	head, err := accepted.Root.Head([]byte(accepted.Head))
	if err != nil {
		return &DamageError{docAccepted, err.Error()}
	}
	a.accepted, a.stored, a.size = accepted, string(content), head.Size
	return nil
}

// takeWork reads an undertaking; nil if it is the stone of a lost one.
func takeWork(name string, data []byte) (*work, error) {
	w := new(work)
	if err := decode(name, data, w); err != nil {
		return nil, err
	}
	if w.Name == "" && w.Phase == "" {
		return nil, nil
	}
	return w, w.check(name)
}

// repairStore makes the store count as lost, and then replaces the damaged documents. After a
// crash in between, the store still counts as lost.
func (a *Agent) repairStore(fresh identity, broken []string) error {
	a.identity = fresh
	if err := a.save(docAgent, &fresh); err != nil {
		return err
	}
	for _, name := range broken {
		if err := a.save(name, new(work)); err != nil {
			return err
		}
	}
	if a.stored == "" {
		a.follow.next = 0
	}
	return nil
}

// save replaces a document. An error stops the agent, since the contents of the store are not
// known then.
func (a *Agent) save(name string, v any) error {
	data, err := encode(name, v)
	if err != nil {
		return a.stop(err)
	}
	return a.put(name, data)
}

func (a *Agent) put(name string, data []byte) error {
	if err := a.cfg.Store.Save(name, data); err != nil {
		return a.stop(fmt.Errorf("agent: save %s: %w", name, err))
	}
	return nil
}

func (a *Agent) stop(err error) error {
	if !errors.Is(err, ErrStopped) {
		err = fmt.Errorf("%w: %w", ErrStopped, err)
	}
	a.stopped = err
	return err
}

// keep stores an accepted state, before anything that rests on it.
func (a *Agent) keep(next bundle.Accepted) error {
	if next.Head == "" {
		return nil // nothing was ever accepted
	}
	content, err := next.Encode()
	if err != nil {
		return a.stop(err)
	}
	if string(content) == a.stored {
		return nil
	}
	if err := a.put(docAccepted, seal(docAccepted, content)); err != nil {
		return err
	}
	a.accepted, a.stored, a.size = next, string(content), next.Size()
	return a.settle()
}

// Confirmed reports whether a witness quorum or a second source has confirmed a head of the
// ledger. Before that the agent starts nothing.
func (a *Agent) Confirmed() bool { return a.accepted.Confirmed }

// settle sets, once a head is confirmed, the members that a lost store counts as open.
func (a *Agent) settle() error {
	if !a.accepted.Confirmed || a.identity.Horizon != math.MaxInt64 {
		return nil
	}
	a.identity.Horizon = a.size
	return a.save(docAgent, &a.identity)
}

// lost reports whether work on an incident may have been started under an earlier store.
func (a *Agent) lost(incident uint64, openedAt int64) bool {
	return a.identity.Lost && (incident < a.identity.Horizon || openedAt < a.identity.MadeAt)
}

// forked stores two heads that nothing reconciles, and stops the agent.
func (a *Agent) forked(evidence *verify.Evidence) error {
	fork := &ForkError{*evidence}
	a.cfg.Tell(Event{Kind: EventFork, Err: fork})
	if err := a.save(docFork, fork); err != nil {
		return err
	}
	return a.stop(fork)
}

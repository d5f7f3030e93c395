package demo

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/api/client/agent"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// player is the process of an agent, or of the monitor.
type player struct {
	name   entry.Principal
	dir    directory
	stage  stage
	client *client.Client
	signer *keys.Signer
	secret []byte
	crash  entry.Ref // in the compensation of which this process ends; empty: none
	out    *lines

	seen seen
}

// seen is what an agent knows from the log.
type seen struct {
	executions map[entry.Ref]*entry.Execution // the newest entry of each
	records    map[entry.WorkflowID]bool
	signals    map[entry.WorkflowID]bool // own
	refused    map[string]bool           // own steps that the ledger did not take
}

// PlayerConfig says whose process this is.
type PlayerConfig struct {
	Dir   string
	Name  string
	Crash string    // execution in whose compensation the process kills itself; empty: none
	In    io.Reader // the process ends with it
	Out   io.Writer // what happens, a JSON object a line
}

// Play is an agent: it works as its part says, and undoes what proven decisions
// tell it to. It ends with ctx or with its input, so that it does not outlive the
// conductor.
func Play(ctx context.Context, cfg *PlayerConfig) error {
	ctx, cancel := Until(ctx, cfg.In)
	defer cancel()
	p, err := newPlayer(cfg)
	if err != nil {
		return err
	}
	var group errgroup.Group
	ending := func(err error) error {
		cancel()
		return err
	}
	group.Go(func() error { return ending(p.work(ctx)) })
	if p.name != monitor {
		group.Go(func() error { return ending(p.obey(ctx)) })
	}
	return group.Wait()
}

func newPlayer(cfg *PlayerConfig) (*player, error) {
	p := &player{name: entry.Principal(cfg.Name), dir: directory(cfg.Dir), crash: entry.Ref(cfg.Crash), out: &lines{to: cfg.Out},
		seen: seen{map[entry.Ref]*entry.Execution{}, map[entry.WorkflowID]bool{}, map[entry.WorkflowID]bool{}, map[string]bool{}}}
	var err error
	if p.stage, err = p.dir.stage(); err != nil {
		return nil, err
	}
	if p.signer, err = keys.Load(p.dir.key(p.name), nil); err != nil {
		return nil, err
	}
	if p.secret, err = p.dir.secret(p.name); err != nil {
		return nil, err
	}
	p.client, err = client.New(p.stage.URL, p.stage.Root, nil)
	return p, err
}

// obey runs the agent's runtime.
func (p *player) obey(ctx context.Context) error {
	store, err := agent.OpenDir(p.dir.state(p.name))
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // the process ends with it
	server := &agent.Server{Client: p.client, Agent: p.name}
	runtime, err := agent.Open(&agent.Config{
		Root: p.stage.Root, Agent: p.name, Secret: p.secret, Sign: p.signer.Sign, NewID: uuid.NewString,
		Ledger: keeper{server, p}, Log: server, Store: store, Hooks: p.hooks(), Tell: p.tell,
		Second: &agent.Mirror{Client: p.client, Head: func(context.Context) (string, error) { return p.stage.Head, nil }},
	}, time.Now().UnixMilli())
	if err != nil {
		return err
	}
	return agent.Run(ctx, runtime, server)
}

// keeper is the ledger as the runtime sees it; it keeps the receipts.
type keeper struct {
	*agent.Server
	player *player
}

// Submit implements [agent.Ledger].
func (k keeper) Submit(ctx context.Context, e *entry.Entry) (entry.LogRef, error) {
	at, err := k.Server.Submit(ctx, e)
	if err != nil {
		return at, err
	}
	receipt, err := k.player.client.Receipt(ctx, at.Index)
	if err != nil {
		return at, err // it is submitted again, and is one entry
	}
	return at, k.player.keep(*receipt)
}

// keep appends a receipt to the agent's.
func (p *player) keep(r verify.Receipt) error {
	line, err := r.Encode()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(p.dir.receipts(p.name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n')) // in one piece: nothing else of this process comes between
	return errors.Join(err, f.Close())
}

// tell passes on what the runtime has to say.
func (p *player) tell(e agent.Event) {
	said := message{Kind: string(e.Kind), Incident: e.Incident, Exec: e.Exec, Text: e.Text}
	if e.Err != nil {
		said.Error = e.Err.Error()
	}
	p.out.say(said)
}

// work does the agent's part as the log shows that its turn has come.
func (p *player) work(ctx context.Context) error {
	log, err := p.client.Log(ctx)
	if err != nil {
		return err
	}
	for e, err := range p.client.Events(ctx, 0) {
		if err != nil {
			return err
		}
		p.note(e)
		if e.Index+1 < log.Size {
			continue // what this agent did in an earlier life is in what follows
		}
		if err := p.turn(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// note takes up an entry.
func (p *player) note(e *client.Entry) {
	switch body := e.Body.(type) {
	case *entry.Execution:
		p.seen.executions[body.Ref()] = body
	case *entry.Record:
		p.seen.records[body.Wid] = true
	case *entry.Signal:
		if body.Iss == p.name {
			p.seen.signals[body.Wid] = true
		}
	}
}

// turn does what can be done now.
func (p *player) turn(ctx context.Context) error {
	steps, looks := part(p.name)
	for i := range steps {
		if s := &steps[i]; p.ready(s) {
			if err := p.do(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", s.id, err)
			}
		}
	}
	for i := range looks {
		l := &looks[i]
		if p.seen.signals[l.wid] || slices.ContainsFunc(l.after, func(r entry.Ref) bool { return !p.confirmed(r) }) {
			continue
		}
		if err := p.look(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) confirmed(r entry.Ref) bool {
	x := p.seen.executions[r]
	return x != nil && x.Progress == entry.Confirmed
}

func (p *player) ready(s *step) bool {
	switch {
	case p.seen.executions[ref(p.name, s.id)] != nil, p.seen.refused[s.id], s.record != "" && !p.seen.records[s.record]:
		return false
	}
	for _, parent := range s.parents {
		if !p.confirmed(parent.Exec) {
			return false
		}
	}
	return !slices.ContainsFunc(s.after, func(r entry.Ref) bool { return p.seen.executions[r] == nil })
}

// do does a step: the log has it before the world has (EXE-2). One that the
// ledger refuses, for a fence, is not done.
func (p *player) do(ctx context.Context, s *step) error {
	in, err := p.inputs(s.parents)
	if err != nil {
		return err
	}
	if s.effect == entry.EffectReversible {
		if err := p.checkpoint(ctx, s.wid); err != nil {
			return err
		}
	}
	x := &entry.Execution{Header: entry.Header{Wid: s.wid}, Exec: s.id, Parents: s.parents, Effect: s.effect}
	if x.Parents == nil {
		x.Parents = []entry.Parent{}
	}
	if s.effect != entry.EffectNone && s.effect != entry.EffectReversible {
		x.IdempotencyKey = entry.DigestOf(p.mac("key " + s.id))
	}
	var out any
	switch {
	case s.planned:
		x.Progress = entry.Planned
		if err := p.submit(ctx, x); err != nil {
			return err
		}
		_, err = s.do(p, in)
		return err
	case s.effect != entry.EffectNone:
		x.Progress = entry.Dispatched
		err := p.submit(ctx, x)
		if problem, ok := errors.AsType[*api.Problem](err); ok && problem.Name() == entry.FencedDependency {
			p.seen.refused[s.id] = true
			p.out.say(message{Kind: "fenced", Exec: ref(p.name, s.id), Text: string(problem.Name())})
			return nil
		}
		if err != nil {
			return err
		}
	}
	if out, err = s.do(p, in); err != nil {
		return err
	}
	x.Progress = entry.Confirmed
	if x.OutHash, err = p.hand(ref(p.name, s.id), out); err != nil {
		return err
	}
	return p.submit(ctx, x)
}

// checkpoint logs where the agent's line can go back to, once in a workflow.
func (p *player) checkpoint(ctx context.Context, wid entry.WorkflowID) error {
	state, err := p.reversible().snapshot(wid)
	if err != nil {
		return err
	}
	c := &entry.Checkpoint{Header: entry.Header{Wid: wid}, Checkpoint: "before-" + string(wid), Digest: p.stateDigest(state)}
	if err := write(p.dir.checkpoint(p.name, c.Checkpoint), state); err != nil {
		return err
	}
	return p.submit(ctx, c)
}

func (p *player) look(ctx context.Context, l *look) error {
	var parents []entry.Parent
	for _, r := range l.after {
		parents = append(parents, entry.Parent{Exec: r})
	}
	in, err := p.inputs(parents)
	if err != nil {
		return err
	}
	s, err := l.see(p, in)
	p.seen.signals[l.wid] = true // or nothing is wrong
	if s == nil || err != nil {
		return err
	}
	s.Wid, s.ObservedAt = l.wid, time.Now().UnixMilli()
	return p.submit(ctx, s)
}

// submit signs and registers an entry, and keeps its receipt.
func (p *player) submit(ctx context.Context, body entry.Body) error {
	h := entry.HeaderOf(body)
	*h = entry.Header{V: 1, JTI: uuid.NewString(), Iss: p.name, Aud: p.stage.Root.Origin, Iat: time.Now().Unix(), Wid: h.Wid}
	e, err := entry.New(body)
	if err == nil {
		err = p.signer.Sign(e)
	}
	if err != nil {
		return err
	}
	registered, err := p.client.Submit(ctx, e)
	if err != nil {
		return err
	}
	if x, ok := e.Body.(*entry.Execution); ok {
		p.seen.executions[x.Ref()] = x
	}
	return p.keep(registered.Receipt)
}

// hand puts what a step makes on the board, and returns its digest.
func (p *player) hand(r entry.Ref, out any) (entry.Digest, error) {
	text, err := json.Marshal(out, json.Deterministic(true))
	if err != nil {
		return "", err
	}
	return entry.DigestOf(text), write(p.dir.board(r), text)
}

// inputs takes from the board what the parents handed on: the bytes whose
// digests are in the log.
func (p *player) inputs(parents []entry.Parent) (inputs, error) {
	in := inputs{}
	for _, parent := range parents {
		x := p.seen.executions[parent.Exec]
		text, err := os.ReadFile(p.dir.board(parent.Exec))
		if err != nil {
			return nil, err
		}
		if entry.DigestOf(text) != x.OutHash {
			return nil, fmt.Errorf("demo: %s handed on something else than it logged", parent.Exec)
		}
		in[parent.Exec] = text
	}
	return in, nil
}

// read decodes inputs: pairs of an execution and where its output goes.
func (in inputs) read(pairs ...any) error {
	for i := 0; i < len(pairs); i += 2 {
		from := pairs[i].(entry.Ref) //nolint:forcetypeassert // by its callers here
		if err := json.Unmarshal(in[from], pairs[i+1]); err != nil {
			return fmt.Errorf("demo: read %s: %w", from, err)
		}
	}
	return nil
}

func (p *player) feed(name string) (string, error) {
	text, err := os.ReadFile(p.dir.path("feeds", name))
	return string(text), err
}

func (p *player) mac(text string) []byte { return mac(p.secret, text) }

func mac(secret []byte, text string) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(text))
	return m.Sum(nil)
}

func (p *player) stateDigest(state []byte) entry.Digest { return stateDigest(p.secret, state) }

// stateDigest is keyed: a state can be guessed.
func stateDigest(secret, state []byte) entry.Digest {
	return entry.KeyedDigestFrom(mac(secret, "state "+string(state)))
}

// message is what a child tells the conductor.
type message struct {
	Kind     string    `json:"kind"`
	Incident uint64    `json:"incident,omitzero"`
	Exec     entry.Ref `json:"exec,omitempty"`
	Text     string    `json:"text,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// lines writes messages, one at a time.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

func (l *lines) say(m message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line, err := json.Marshal(m)
	if err == nil {
		_, err = l.to.Write(append(line, '\n'))
	}
	_ = err // nobody listens: the process ends with its input
}

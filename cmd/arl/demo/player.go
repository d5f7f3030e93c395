package demo

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
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
	crash  entry.Ref // execution whose compensation ends this process; empty: none
	out    lines

	// The agent's knowledge from the log.
	executions map[entry.Ref]*entry.Execution // the newest entry of each
	records    map[entry.WorkflowID]bool
	signaled   map[entry.WorkflowID]bool
	over       map[string]bool // own steps that leave no execution: refused by the ledger, or checks
}

// PlayerConfig names the agent of this process.
type PlayerConfig struct {
	Dir   string
	Name  string
	Crash string    // the process kills itself in the compensation of this execution; empty: none
	In    io.Reader // the process ends at the end of this input
	Out   io.Writer // events, a JSON object a line
}

// Play runs an agent. The agent does the steps of its part, and undoes the members that proven
// decisions name. Play ends with ctx or with its input, so that no agent outlives the conductor.
func Play(ctx context.Context, cfg *PlayerConfig) error {
	ctx, cancel := Until(ctx, cfg.In)
	defer cancel()
	p, err := newPlayer(cfg)
	if err != nil {
		return err
	}
	var group errgroup.Group
	for _, half := range []func(context.Context) error{p.work, p.obey} {
		group.Go(func() error {
			defer cancel() // the other half ends, too
			return half(ctx)
		})
	}
	return group.Wait()
}

func newPlayer(cfg *PlayerConfig) (*player, error) {
	p := &player{name: entry.Principal(cfg.Name), dir: directory(cfg.Dir), crash: entry.Ref(cfg.Crash), out: lines{to: cfg.Out},
		executions: map[entry.Ref]*entry.Execution{}, records: map[entry.WorkflowID]bool{}, signaled: map[entry.WorkflowID]bool{}, over: map[string]bool{}}
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

// obey runs the agent's runtime. The monitor has nothing to undo.
func (p *player) obey(ctx context.Context) error {
	if p.name == monitor {
		<-ctx.Done()
		return nil
	}
	store, err := agent.OpenDir(p.dir.own(p.name, "state"))
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

// keeper is the ledger for the runtime. It also keeps the receipts.
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
		return at, err // the runtime submits the entry again, and the ledger registers it once
	}
	return at, k.player.keep(*receipt)
}

// keep appends a receipt to the agent's file of receipts.
func (p *player) keep(r verify.Receipt) error {
	line, err := r.Encode()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(p.dir.receipts(p.name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n')) // in one piece: no other write comes between
	return errors.Join(err, f.Close())
}

// tell passes on the events of the runtime.
func (p *player) tell(e agent.Event) {
	switch e.Kind {
	case agent.EventAccepted:
		p.out.say(line{Kind: "verified", Incident: e.Incident, Text: fmt.Sprintf("has verified the decision about incident %d (AGT-1 to AGT-3)", e.Incident)})
	case agent.EventEnded:
		if found, probed := strings.CutPrefix(e.Text, string(agent.Probe)+" "); probed {
			p.out.say(line{Kind: "probed", Exec: e.Exec, Text: "finds out whether it took effect before the crash: " + found})
		}
	case agent.EventRefused, agent.EventLost, agent.EventFork, agent.EventHidden:
		p.out.say(line{Kind: "failed", Text: fmt.Sprint(e.Kind, " ", e.Text, " ", e.Err)})
	}
}

// work does the steps of the agent's part when the log shows that their parents are done.
func (p *player) work(ctx context.Context) error {
	log, err := p.client.Log(ctx)
	if err != nil {
		return err
	}
	for e, err := range p.client.Events(ctx, 0) {
		if err != nil {
			return err
		}
		switch body := e.Body.(type) {
		case *entry.Execution:
			p.executions[body.Ref()] = body
		case *entry.Record:
			p.records[body.Wid] = true
		case *entry.Signal:
			p.signaled[body.Wid] = p.signaled[body.Wid] || body.Iss == p.name
		}
		if e.Index+1 < log.Size {
			continue // the next entries may show this agent's work before its restart
		}
		if err := p.turn(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// turn does the steps that can be done now.
func (p *player) turn(ctx context.Context) error {
	for _, s := range part(p.name) {
		if !p.ready(&s) {
			continue
		}
		if err := p.do(ctx, &s); err != nil {
			return fmt.Errorf("%s: %w", s.id, err)
		}
	}
	return nil
}

func (p *player) ready(s *step) bool {
	waits := p.over[s.id] || p.executions[entry.NewRef(p.name, s.id)] != nil || s.sees != nil && p.signaled[s.wid]
	for _, parent := range s.parents {
		x := p.executions[parent.Exec]
		waits = waits || x == nil || x.Progress != entry.Confirmed
	}
	return !waits && (s.after == "" || p.executions[s.after] != nil) && (s.record == "" || p.records[s.record])
}

// do does a step: it registers the entry before the effect happens (EXE-2). If a fence makes the
// ledger refuse the entry, the step is not done.
func (p *player) do(ctx context.Context, s *step) error {
	in, err := p.inputs(s.parents)
	if err != nil {
		return err
	}
	if s.sees != nil {
		return p.look(ctx, s, in)
	}
	if s.effect == entry.EffectReversible {
		if err := p.checkpoint(ctx, s.wid); err != nil {
			return err
		}
	}
	x := &entry.Execution{Header: entry.Header{Wid: s.wid}, Exec: s.id, Parents: append([]entry.Parent{}, s.parents...), Effect: s.effect, Progress: entry.Started}
	if s.effect == entry.EffectCompensable || s.effect == entry.EffectIrrevocable {
		x.IdempotencyKey = entry.DigestOf(mac(p.secret, "key "+s.id))
	}
	if s.planned {
		x.Progress = entry.Planned
	}
	if s.effect != entry.EffectNone {
		err := p.submit(ctx, x)
		if problem, ok := errors.AsType[*api.Problem](err); ok && problem.Name() == entry.FencedDependency {
			p.over[s.id] = true
			p.out.say(line{Kind: "fenced", Exec: entry.NewRef(p.name, s.id), Text: "the ledger refuses to build on a draft that is fenced: " + string(problem.Name())})
			return nil
		}
		if err != nil {
			return err
		}
	}
	g, err := s.makes(p, in)
	if err != nil {
		return err
	}
	text, err := json.Marshal(g, json.Deterministic(true))
	if err == nil {
		err = p.affect(s, g, text)
	}
	if err != nil || s.planned {
		return err
	}
	x.Progress, x.OutHash = entry.Confirmed, entry.DigestOf(text)
	return p.submit(ctx, x)
}

// affect carries out the effect of a step and publishes the step's output on the board.
func (p *player) affect(s *step, g goods, text []byte) error {
	exec := entry.NewRef(p.name, s.id)
	var err error
	switch letter := (mail{Exec: exec, To: g.To, Text: g.Text}); {
	case s.planned:
		return writeJSON(p.dir.queued(exec), letter)
	case s.effect == entry.EffectReversible:
		err = p.dir.files(p.name, s.wid).set(s.id+".json", string(text))
	case s.effect == entry.EffectCompensable:
		err = p.dir.bookings().book(exec, g.Pieces)
	case s.effect == entry.EffectIrrevocable:
		err = p.post(letter)
	}
	return errors.Join(err, write(p.dir.board(exec), text))
}

// checkpoint registers a checkpoint of the agent's line, once in a workflow.
func (p *player) checkpoint(ctx context.Context, wid entry.WorkflowID) error {
	state, err := p.dir.files(p.name, wid).snapshot()
	if err == nil {
		err = write(p.checkpointFile(wid), state)
	}
	if err != nil {
		return err
	}
	return p.submit(ctx, &entry.Checkpoint{Header: entry.Header{Wid: wid}, Checkpoint: "before-" + string(wid), Digest: stateDigest(p.secret, state)})
}

func (p *player) checkpointFile(wid entry.WorkflowID) string {
	return p.dir.own(p.name, "checkpoints", string(wid)+".json")
}

func (p *player) look(ctx context.Context, s *step, in inputs) error {
	p.over[s.id] = true
	signal, err := s.sees(p, in)
	if signal == nil || err != nil {
		return err
	}
	signal.Wid, signal.ObservedAt = s.wid, time.Now().UnixMilli()
	return p.submit(ctx, signal)
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
		p.executions[x.Ref()] = x
	}
	return p.keep(registered.Receipt)
}

// inputs reads the outputs of the parents from the board. Each output must have the digest that is
// in the log.
func (p *player) inputs(parents []entry.Parent) (inputs, error) {
	in := inputs{}
	for _, parent := range parents {
		r := parent.Exec
		text, err := os.ReadFile(p.dir.board(r))
		if err != nil {
			return nil, err
		}
		if entry.DigestOf(text) != p.executions[r].OutHash {
			return nil, fmt.Errorf("demo: %s handed on something else than it logged", r)
		}
		var g goods
		if err := json.Unmarshal(text, &g); err != nil {
			return nil, fmt.Errorf("demo: read %s: %w", r, err)
		}
		in[r] = g
	}
	return in, nil
}

func (p *player) feed(name string) (string, error) {
	text, err := os.ReadFile(p.dir.path("feeds", name))
	return string(text), err
}

func mac(secret []byte, text string) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(text))
	return m.Sum(nil)
}

// stateDigest returns a keyed digest, because a state can be guessed.
func stateDigest(secret, state []byte) entry.Digest {
	return entry.KeyedDigestFrom(mac(secret, "state "+string(state)))
}

// lines writes lines of the timeline to the conductor, one at a time.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

func (l *lines) say(what line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text, err := json.Marshal(what)
	if err == nil {
		_, err = l.to.Write(append(text, '\n'))
	}
	_ = err // the conductor no longer reads: the process ends with its input
}

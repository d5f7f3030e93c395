// Package mcp stands between an MCP client and an MCP server, and records each call of a tool as an
// execution of an agent. Neither side changes its code.
//
// The way of a call:
//
//	client ── tools/call ──▶ proxy   1 reads what the compensation needs (before)
//	                           │     2 keeps the call in the journal, signs "started"
//	                           │     3 has the ledger register the entry: a fence refuses it here
//	                           ├──▶ server   4 the tool is reached
//	                           │     5 keeps how the call ended, signs "confirmed" or "failed"
//	client ◀── result ─────────┘     6 answers, and sends the last entry in the background
//
// [Proxy.Hooks] undoes what a proven decision tells the agent to undo: package
// [recoveryledger/api/client/agent] verifies the decision, keeps what was begun through crashes,
// and calls the hooks in order. All other messages pass through unchanged.
package mcp

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recoveryledger/ledger/entry"
)

// Ledger registers the entries of the agent. Its methods may be called at the same time.
type Ledger interface {
	// Submit registers a signed entry. An [*entry.Refusal] says that the ledger did not take the
	// entry. After any other error the ledger may have taken the entry.
	Submit(ctx context.Context, e *entry.Entry) (entry.LogRef, error)
	// Plan returns all members of the plan in force of an incident.
	Plan(ctx context.Context, incident uint64) ([]entry.Member, error)
}

// Config names the agent and its tools. All members but Tools and Tell are required.
type Config struct {
	Agent  entry.Principal
	Origin string // of the ledger
	// Secret makes the idempotency keys of calls. It outlives the state.
	Secret []byte
	Sign   func(*entry.Entry) error // with the agent's key
	NewID  func() string            // a new UUID in lower case
	Ledger Ledger
	Tools  *Tools // nil: the hints of the server alone count
	// Dir keeps the journal of calls. One process at a time has it.
	Dir string
	// Connect returns a transport to a new session of the server.
	Connect func() sdk.Transport
	// Patience is the longest wait for the ledger before a call. Limit is the longest wait for the
	// answer of a tool, also of a compensation. Ask is the longest wait for another answer that the
	// proxy itself needs: a new session, the list of tools, a call before a call, a probe. It also
	// bounds the open calls of a client that has left.
	Patience, Limit, Ask time.Duration
	Tell                 func(format string, args ...any) // for people; nil: nowhere
}

// Proxy records the calls of any number of sessions of one agent at one server.
type Proxy struct {
	cfg  Config
	sent chan struct{} // something is to be sent

	opening chan struct{} // has room for who opens the proxy's own session

	mu      sync.Mutex // guards all below
	journal *journal
	calls   map[entry.Ref]*call // those whose record is kept
	unsent  []*call             // ended, and the log may lack their entries, in order
	spare   *client             // session of the proxy's own, for hooks; nil: there is none
	listed  map[string]*hints   // what the server ever claimed, the strictest of it
}

// call is a call in memory.
type call struct {
	record
	session *session      // that made it; nil: of an earlier process
	ended   chan struct{} // closed when Progress is set
}

// New opens the journal. Calls of an earlier process that have not ended are ended by [Proxy.Run].
func New(c *Config) (*Proxy, error) {
	p := &Proxy{cfg: *c, calls: map[entry.Ref]*call{}, listed: map[string]*hints{}, opening: make(chan struct{}, 1), sent: make(chan struct{}, 1)}
	if p.cfg.Tell == nil {
		p.cfg.Tell = func(string, ...any) {}
	}
	var records []*record
	var err error
	if p.journal, records, err = openJournal(c.Dir, p.since()); err != nil {
		return nil, err
	}
	for _, r := range records {
		k := &call{record: *r, ended: make(chan struct{})}
		p.calls[r.Exec] = k
		if r.Progress != "" {
			close(k.ended)
			if len(r.Outbox) > 0 {
				p.unsent = append(p.unsent, k)
			}
		}
	}
	return p, nil
}

// Run ends the calls that an earlier process left, and sends what the log lacks, until ctx ends.
// The error is that of the journal.
func (p *Proxy) Run(ctx context.Context) error {
	for _, k := range p.open() {
		if k.session == nil {
			if err := p.settle(ctx, k); err != nil {
				return err
			}
		}
	}
	return p.send(ctx)
}

// Close ends the proxy's own session of the server, and closes the journal.
func (p *Proxy) Close() error {
	p.mu.Lock()
	spare := p.spare
	p.spare = nil
	p.mu.Unlock()
	if spare != nil {
		if err := spare.Close(); err != nil {
			p.cfg.Tell("the end of the server: %v", err)
		}
	}
	return p.journal.file.Close()
}

// open returns the calls that have not ended.
func (p *Proxy) open() (open []*call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.calls {
		if k.Progress == "" {
			open = append(open, k)
		}
	}
	return open
}

// settle ends a call whose answer nobody will get: by the probe of its tool, otherwise as failed.
func (p *Proxy) settle(ctx context.Context, k *call) error {
	progress := entry.Failed
	taken := p.effectTaken(ctx, k)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the next process asks
	}
	switch taken {
	case probedDone:
		progress = entry.Confirmed
	case probedNot:
		progress = entry.Cancelled
	}
	p.cfg.Tell("%s (%s): ended without an answer, and is logged as %s", k.Exec, k.Tool, progress)
	return p.finish(k, progress, nil)
}

// finish notes how a call ended, with the entry that says so, and hands the entry to [Proxy.Run].
// Found are the values of the result that the compensation needs; nil: none more.
func (p *Proxy) finish(k *call, progress entry.Progress, found values) error {
	e, err := p.sign(p.body(&k.record, progress))
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if k.Progress != "" {
		return nil
	}
	outbox := slices.Concat(k.Outbox, []jsontext.Value{e.AppendEnvelope(nil)})
	line := &record{Exec: k.Exec, Progress: progress, Ended: time.Now().UnixMilli(), Values: found, Outbox: outbox}
	if err := p.journal.write(line); err != nil {
		return err
	}
	if found != nil {
		k.at = line.at
	}
	k.end(progress, line.Ended)
	k.Outbox = outbox
	p.unsent = append(p.unsent, k)
	close(k.ended)
	p.wake()
	return nil
}

// sync puts what the journal has of a call on stable storage, where the call has an effect. The
// caller has no lock.
func (p *Proxy) sync(k *call) error {
	if k.Effect == entry.EffectNone {
		return nil
	}
	p.mu.Lock()
	file := p.journal.file
	p.mu.Unlock()
	err := file.Sync()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil || p.journal.file != file && errors.Is(err, os.ErrClosed) {
		return nil // the file that replaced this one has the call, and was synced
	}
	return p.journal.fail(err)
}

// makeRoom replaces the journal where most of it is of no more use. The caller has the lock, and
// every line of the journal is about a call in memory or about one of no more use.
func (p *Proxy) makeRoom() error {
	if !p.journal.full() {
		return nil
	}
	var kept []*record
	since := p.since()
	for _, k := range p.calls {
		if k.kept(since) {
			kept = append(kept, &k.record)
		} else {
			delete(p.calls, k.Exec)
		}
	}
	slices.SortFunc(kept, func(a, b *record) int { return cmp.Compare(a.at, b.at) })
	return p.journal.replace(kept)
}

// since is the instant, in Unix milliseconds, before which a call must have ended to be undone no
// more.
func (p *Proxy) since() int64 {
	if p.cfg.Tools == nil || p.cfg.Tools.KeepDays == 0 {
		return 0
	}
	return time.Now().AddDate(0, 0, -p.cfg.Tools.KeepDays).UnixMilli()
}

// body returns the entry about a call.
func (p *Proxy) body(r *record, progress entry.Progress) *entry.Execution {
	x := &entry.Execution{Header: entry.Header{Wid: r.Wid}, Exec: r.local(), Parents: r.Parents, Effect: r.Effect, Progress: progress}
	if r.Effect != entry.EffectNone {
		x.IdempotencyKey = entry.DigestOf(p.key(r.Exec))
	}
	return x
}

// broken returns the error of the journal; nil: it is sound.
func (p *Proxy) broken() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.journal.failed
}

// wake has Run look at what is unsent. The caller has the lock, or needs none.
func (p *Proxy) wake() {
	select {
	case p.sent <- struct{}{}:
	default:
	}
}

// sign makes a signed entry of a body.
func (p *Proxy) sign(body entry.Body) (*entry.Entry, error) {
	h := entry.HeaderOf(body)
	*h = entry.Header{V: 1, JTI: p.cfg.NewID(), Iss: p.cfg.Agent, Aud: p.cfg.Origin, Iat: time.Now().Unix(), Wid: h.Wid}
	e, err := entry.New(body)
	if err == nil {
		err = p.cfg.Sign(e)
	}
	if err != nil {
		return nil, fmt.Errorf("mcp: sign: %w", err)
	}
	return e, nil
}

// key returns the idempotency key of a call.
func (p *Proxy) key(exec entry.Ref) string {
	mac := hmac.New(sha256.New, p.cfg.Secret)
	fmt.Fprintf(mac, "call|%s|%s", p.cfg.Origin, exec)
	return hex.EncodeToString(mac.Sum(nil))
}

// local returns the id of the call without the agent.
func (r *record) local() string {
	_, local := r.Exec.Split()
	return local
}

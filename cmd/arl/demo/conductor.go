package demo

import (
	"context"
	"crypto/rand"
	_ "embed" // the policy
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"recoveryledger/api/client"
	"recoveryledger/api/client/agent"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

//go:embed policy.yaml
var policy []byte

const (
	serverName = "ledger"
	sinkName   = "sink"
)

// conductor starts and ends the others, and shows what happens.
type conductor struct {
	cfg    *Config
	dir    directory
	troupe *troupe
	server *child
	shown  timeline
	client *client.Client
	root   verify.Root

	incidents map[uint64]entry.WorkflowID // by the index of the opening signal
	records   map[uint64]*entry.Record
	decided   map[uint64]bool   // incidents whose authorize was shown
	early     map[uint64][]line // what agents said about an incident before that
	undoing   map[string]bool   // agents whose compensation has begun
	crashed   map[string]bool
	proposal  uint64 // incident that is proposed to the approvers; 0: none
	fenced    bool   // the publisher has run into the fence
	approvers []entry.Principal
}

// Run plays the demo. It returns nil if all happened as it should and what the
// agents did is what the log says; else [ErrDiffers], [ErrDied], [ErrTimeout], or
// what went wrong. No process is left behind.
func Run(ctx context.Context, cfg *Config) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: not done after %s", ErrTimeout, limit))
	defer cancel()
	c := &conductor{cfg: cfg, dir: directory(cfg.Dir), shown: timeline{out: cfg.Out, json: cfg.JSON, began: time.Now()},
		incidents: map[uint64]entry.WorkflowID{}, records: map[uint64]*entry.Record{}, decided: map[uint64]bool{}, early: map[uint64][]line{}, undoing: map[string]bool{}, crashed: map[string]bool{},
		approvers: []entry.Principal{ann, ben}}
	c.troupe = newTroupe(c.dir, cfg.Binary)
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, c.troupe.close())
		}
	}()
	for _, act := range []func(context.Context) error{c.open, c.enrol, c.begin, c.follow} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	if err := c.troupe.end(c.troupe.running(serverName)...); err != nil {
		return err
	}
	found, err := c.check(ctx)
	if err != nil {
		return err
	}
	closed = true
	if err := c.troupe.close(); err != nil {
		return err
	}
	return c.show(ctx, found)
}

// open makes the directory's files and starts the ledger.
func (c *conductor) open(ctx context.Context) error {
	if err := write(c.dir.path("policy.yaml"), policy); err != nil {
		return err
	}
	for name, text := range feeds() {
		if err := write(c.dir.path("feeds", name), []byte(text)); err != nil {
			return err
		}
	}
	if err := write(c.dir.log(serverName), nil); err != nil {
		return err
	}
	var err error
	c.server, err = c.troupe.start(serverName, "demo", "ledger", "--data", c.dir.path("ledger"), "--listen", "127.0.0.1:0", "--policy", c.dir.path("policy.yaml"), "--output", "json")
	if err != nil {
		return err
	}
	var started struct {
		URL          string      `json:"url"`
		Origin       string      `json:"origin"`
		VerifierKeys []string    `json:"verifier_keys"`
		Genesis      merkle.Hash `json:"genesis"`
	}
	if err := c.troupe.expect(ctx, c.server, &started); err != nil {
		return err
	}
	c.root = verify.Root{Origin: started.Origin, LedgerKeys: started.VerifierKeys, Genesis: started.Genesis}
	c.client, err = client.New(started.URL, c.root, nil)
	if err != nil {
		return err
	}
	text, err := c.root.Encode()
	if err != nil {
		return err
	}
	c.shown.say(line{Who: serverName, Kind: "started", Text: started.URL + ", " + started.Origin + "; files in " + c.cfg.Dir})
	return errors.Join(write(c.dir.path("root.json"), text), writeJSON(c.dir.path("stage.json"), stage{URL: started.URL, Root: c.root}))
}

// enrol gives everybody a key, a secret and a store.
func (c *conductor) enrol(ctx context.Context) error {
	owners := map[entry.Principal]*keys.Signer{}
	for _, owner := range []entry.Principal{"operator", "authority"} {
		found, err := filepath.Glob(c.dir.path("home", "keys", "*", string(owner)+".key"))
		if err != nil || len(found) != 1 {
			return errors.Join(err, fmt.Errorf("demo: the ledger made %d keys of the %s, want 1", len(found), owner))
		}
		if owners[owner], err = keys.Load(found[0], nil); err != nil {
			return err
		}
	}
	var batch []*entry.Entry
	for _, name := range slices.Concat(agents(), []entry.Principal{publisher, ann, ben}) {
		by, role := entry.Principal("authority"), entry.RoleApprover
		switch name {
		case monitor:
			role = entry.RoleMonitor
		case ann, ben:
		default:
			by, role = "operator", entry.RoleAgent
		}
		public, err := c.equip(name)
		if err != nil {
			return err
		}
		e, err := entry.New(&entry.Agent{Header: entry.Header{V: 1, JTI: uuid.NewString(), Iss: by, Aud: c.root.Origin, Iat: time.Now().Unix()},
			Principal: name, Op: entry.Enrol, Key: public, Roles: []entry.Role{role}, Domain: "workshop", Span: entry.SpanWorkflow})
		if err == nil {
			err = owners[by].Sign(e)
		}
		if err != nil {
			return err
		}
		batch = append(batch, e)
	}
	if _, err := c.client.SubmitBatch(ctx, batch); err != nil {
		return err
	}
	c.shown.say(line{Who: "operator", Kind: "enrolled", Text: fmt.Sprintf("keys of %d agents, a monitor and two approvers", len(agents()))})
	return nil
}

// equip makes what a principal has before it first runs.
func (c *conductor) equip(name entry.Principal) (entry.PublicKey, error) {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	if err := write(c.dir.path("agents", string(name), "secret"), []byte(hex.EncodeToString(secret))); err != nil {
		return entry.PublicKey{}, err
	}
	signer, err := keys.Generate(c.dir.key(name), keys.Ed25519, nil)
	if err != nil {
		return entry.PublicKey{}, err
	}
	store, err := agent.OpenDir(c.dir.state(name))
	if err != nil {
		return entry.PublicKey{}, err
	}
	err = agent.Init(store, c.root, name, time.Now().UnixMilli())
	return signer.Public(), errors.Join(err, store.Close())
}

// begin starts the mail gateway and the agents.
func (c *conductor) begin(ctx context.Context) error {
	sink, err := c.troupe.start(sinkName, "demo", "sink", "--dir", c.cfg.Dir)
	if err != nil {
		return err
	}
	var listens message
	if err := c.troupe.expect(ctx, sink, &listens); err != nil {
		return err
	}
	head, err := c.client.Head(ctx)
	if err != nil {
		return err
	}
	told := stage{URL: c.stageURL(), Sink: listens.Text, Head: head.Note, Root: c.root}
	if err := writeJSON(c.dir.path("stage.json"), told); err != nil {
		return err
	}
	c.shown.say(line{Who: sinkName, Kind: "started", Text: listens.Text + ": a mail gateway"})
	var names []string
	for _, name := range agents() {
		args := []string(nil)
		if name == booker {
			args = []string{"--crash", string(ref(booker, "hold"))}
		}
		if err := c.play(name, args...); err != nil {
			return err
		}
		names = append(names, string(name))
	}
	c.shown.say(line{Who: "agents", Kind: "started", Text: strings.Join(names, ", ") + ": a process each"})
	return nil
}

func (c *conductor) stageURL() string {
	s, _ := c.dir.stage() // written by open
	return s.URL
}

// play starts an agent.
func (c *conductor) play(name entry.Principal, args ...string) error {
	_, err := c.troupe.start(string(name), append([]string{"demo", "agent", string(name), "--dir", c.cfg.Dir}, args...)...)
	return err
}

// follow shows what happens until both incidents have their records.
func (c *conductor) follow(ctx context.Context) error {
	following, cancel := context.WithCancel(ctx)
	entries, failed := make(chan *client.Entry), make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e, err := range c.client.Events(following, 0) {
			if err != nil {
				failed <- err
				return
			}
			select {
			case entries <- e:
			case <-following.Done():
				return
			}
		}
	}()
	defer func() {
		cancel()
		<-ended
	}()
	for len(c.records) < 2 {
		var err error
		select {
		case e := <-entries:
			err = c.logged(e)
		case h := <-c.troupe.ears:
			err = c.heard(h)
		case err = <-failed:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// logged shows an entry of the log, and does what the conductor does about it:
// let the publisher come when there is a fence, and approvers answer.
func (c *conductor) logged(e *client.Entry) error {
	c.shown.entry(c.dir, e)
	switch body := e.Body.(type) {
	case *entry.Signal:
		c.incidents[e.Index] = body.Wid
	case *entry.Record:
		c.records[body.Incident] = body
	case *entry.Decision:
		switch body.Act {
		case entry.ActAuthorize:
			c.decided[body.Incident] = true
			for _, l := range c.early[body.Incident] {
				c.shown.once(l)
			}
		case entry.ActContain:
			return c.play(publisher)
		case entry.ActEscalate:
			c.proposal = body.Incident
			return c.ask()
		}
	}
	return nil
}

// ask has the next approver answer, one after the other, when the publisher has
// met the fence.
func (c *conductor) ask() error {
	if c.proposal == 0 || !c.fenced || len(c.approvers) == 0 {
		return nil
	}
	next := c.approvers[0]
	c.approvers = c.approvers[1:]
	_, err := c.troupe.start(string(next), "incident", "approve", strconv.FormatUint(c.proposal, 10), "--key", c.dir.key(next), "--reason", "the customer was told", "--yes", "--output", "json")
	return err
}

// heard takes up what a child says, or that it has ended.
func (c *conductor) heard(h heard) error {
	approves := slices.Contains([]string{string(ann), string(ben)}, h.from.name)
	switch {
	case h.line != nil && approves:
		return nil // the receipt
	case h.line != nil:
		return c.said(h.from, h.line)
	case h.from.ending:
		return nil
	case approves && h.from.err == nil:
		return c.ask()
	case h.from.killed() && c.undoing[h.from.name] && !c.crashed[h.from.name]:
		c.crashed[h.from.name] = true
		c.shown.say(line{Who: h.from.name, Kind: "crashed", Text: "killed by SIGKILL in the middle of its compensation; started again"})
		return c.play(entry.Principal(h.from.name))
	}
	return c.troupe.diedOf(h.from)
}

// said takes up a message of an agent.
func (c *conductor) said(from *child, text []byte) error {
	m, err := readMessage(text)
	if err != nil {
		return err
	}
	switch m.Kind {
	case "fenced":
		c.fenced = true
		c.shown.say(line{Who: from.name, Kind: m.Kind, Exec: m.Exec, Text: "the ledger refuses to build on a draft that is fenced: fenced-dependency"})
		return c.ask()
	case string(agent.EventAccepted):
		l := line{Who: from.name, Kind: "verified", Incident: m.Incident,
			Text: fmt.Sprintf("has verified the decision about incident %d (AGT-1 to AGT-3)", m.Incident)}
		if c.decided[m.Incident] {
			c.shown.once(l)
		} else { // the agent has read the log before the conductor
			c.early[m.Incident] = append(c.early[m.Incident], l)
		}
	case string(agent.EventStarted):
		c.undoing[from.name] = c.undoing[from.name] || m.Text == string(agent.Compensate) && slices.Contains(from.args, string(m.Exec))
	case string(agent.EventEnded):
		if strings.HasPrefix(m.Text, string(agent.Probe)) {
			c.shown.say(line{Who: from.name, Kind: "probed", Exec: m.Exec, Text: "finds out what became of it before the crash: " + strings.TrimPrefix(m.Text, "probe ")})
		}
	case string(agent.EventRefused), string(agent.EventLost), string(agent.EventFork), string(agent.EventHidden):
		return fmt.Errorf("demo: %s: %s %s %s", from.name, m.Kind, m.Text, m.Error)
	}
	return nil
}

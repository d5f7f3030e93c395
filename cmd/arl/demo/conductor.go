package demo

import (
	"context"
	_ "embed" // the policy
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/api/client"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

//go:embed policy.yaml
var policy []byte

// conductor starts and ends the other processes, and shows the events.
type conductor struct {
	cfg    *Config
	dir    directory
	troupe *troupe
	shown  timeline
	client *client.Client
	stage  stage

	log       history
	incidents map[uint64]entry.WorkflowID // by the index of the opening signal
	records   map[uint64]*entry.Record
	decided   map[uint64]bool   // incidents with an authorize that was shown
	early     map[uint64][]line // lines of agents that came before the authorize of their incident
	crash     line              // line of an agent that kills itself
	proposal  uint64            // incident that is proposed to the approvers; 0: none
	fenced    bool              // the fence has stopped the publisher
	approvers []entry.Principal
}

// Run plays the demo. It returns nil if every step happened and the world matches the log. The
// error is [ErrDiffers], [errDied], [ErrTimeout], or the error of a step. Run leaves no process
// behind.
func Run(ctx context.Context, cfg *Config) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: not done after %s", ErrTimeout, limit))
	defer cancel()
	dir := directory(cfg.Dir)
	c := &conductor{cfg: cfg, dir: dir, troupe: &troupe{dir: dir, binary: cfg.Binary, ears: make(chan heard, 1<<12)}, shown: timeline{out: cfg.Out, json: cfg.JSON, began: time.Now()},
		log: newHistory(), incidents: map[uint64]entry.WorkflowID{}, records: map[uint64]*entry.Record{}, decided: map[uint64]bool{}, early: map[uint64][]line{},
		approvers: []entry.Principal{ann, ben}}
	defer func() { err = errors.Join(err, c.troupe.end(0)) }()
	if err := c.open(ctx); err != nil {
		return err
	}
	if err := c.enrol(ctx); err != nil {
		return err
	}
	url, end, err := c.dir.gateway().open(ctx)
	if err != nil {
		return err
	}
	defer end() //nolint:errcheck // what was sent is on disk
	c.stage.Gateway = url
	c.shown.say(line{Who: "gateway", Kind: "started", Text: url + ": takes mail"})
	if err := c.begin(ctx); err != nil {
		return err
	}
	if err := c.follow(ctx); err != nil {
		return err
	}
	if err := c.troupe.end(1); err != nil { // the ledger keeps running
		return err
	}
	found, err := c.check(ctx)
	if err == nil {
		err = c.troupe.end(0)
	}
	if err == nil {
		err = c.prove(ctx, found)
	}
	return err
}

// open makes the directory's files and starts the ledger.
func (c *conductor) open(ctx context.Context) error {
	err := errors.Join(write(c.dir.path("policy.yaml"), policy), os.MkdirAll(c.dir.path("logs"), 0o700))
	for name, text := range feeds() {
		err = errors.Join(err, write(c.dir.path("feeds", name), []byte(text)))
	}
	if err != nil {
		return err
	}
	server, err := c.troupe.start("ledger", "demo", "ledger", "--data", c.dir.path("ledger"), "--listen", "127.0.0.1:0", "--policy", c.dir.path("policy.yaml"), "--output", "json")
	if err != nil {
		return err
	}
	var started struct {
		URL          string      `json:"url"`
		Origin       string      `json:"origin"`
		VerifierKeys []string    `json:"verifier_keys"`
		Genesis      merkle.Hash `json:"genesis"`
	}
	select {
	case h := <-c.troupe.ears:
		if h.line == nil {
			return c.troupe.diedOf(server)
		}
		err = json.Unmarshal(h.line, &started)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	c.stage = stage{URL: started.URL, Root: verify.Root{Origin: started.Origin, LedgerKeys: started.VerifierKeys, Genesis: started.Genesis}}
	c.shown.say(line{Who: "ledger", Kind: "started", Text: started.URL + ", " + started.Origin + "; files in " + c.cfg.Dir})
	c.client, err = client.New(started.URL, c.stage.Root, nil)
	return err
}

// enrol makes and enrols a key for each principal, and the state of a runtime for each principal
// with a process.
func (c *conductor) enrol(ctx context.Context) error {
	for _, name := range slices.Concat(agents(), []entry.Principal{publisher, ann, ben}) {
		key, role := c.dir.key(name), entry.RoleAgent
		switch name {
		case monitor:
			role = entry.RoleMonitor
		case ann, ben:
			role = entry.RoleApprover
		}
		err := os.MkdirAll(c.dir.own(name), 0o700)
		if err == nil {
			err = c.do(ctx, "key", "generate", "--out", key)
		}
		if err == nil {
			err = c.do(ctx, "agent", "enrol", "--principal", string(name), "--key", key, "--roles", string(role), "--domain", "workshop")
		}
		if err == nil && role != entry.RoleApprover {
			err = c.do(ctx, "agent", "listen", "--init", "--key", key, "--state", c.dir.own(name, "state"))
		}
		if err != nil {
			return err
		}
	}
	c.shown.say(line{Who: "operator", Kind: "enrolled", Text: fmt.Sprintf("keys of %d agents, a monitor and two approvers", len(agents()))})
	return nil
}

// do runs a command that must succeed.
func (c *conductor) do(ctx context.Context, args ...string) error {
	_, err := c.troupe.run(ctx, 0, args...)
	return err
}

// begin starts the agents.
func (c *conductor) begin(ctx context.Context) error {
	head, err := c.client.Head(ctx)
	if err != nil {
		return err
	}
	c.stage.Head = head.Note
	if err := writeJSON(c.dir.path("stage.json"), c.stage); err != nil {
		return err
	}
	var names []string
	for _, name := range agents() {
		args := []string(nil)
		if name == booker {
			args = []string{"--crash", string(hold)}
		}
		if err := c.play(name, args...); err != nil {
			return err
		}
		names = append(names, string(name))
	}
	c.shown.say(line{Who: "agents", Kind: "started", Text: strings.Join(names, ", ") + ": a process each"})
	return nil
}

// play starts an agent.
func (c *conductor) play(name entry.Principal, args ...string) error {
	_, err := c.troupe.start(string(name), append([]string{"demo", "agent", string(name), "--dir", c.cfg.Dir}, args...)...)
	return err
}

// follow shows events until both incidents have their records.
func (c *conductor) follow(ctx context.Context) error {
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for e, err := range c.client.Events(following, 0) {
			c.troupe.ears <- heard{entry: e, err: err}
		}
	}()
	for len(c.records) < 2 {
		var err error
		select {
		case h := <-c.troupe.ears:
			if err = h.err; err == nil && h.entry != nil {
				err = c.logged(h.entry)
			} else if err == nil {
				err = c.heard(h)
			}
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// logged shows an entry of the log and reacts to it: the publisher starts when a fence is in place,
// and the approvers answer.
func (c *conductor) logged(e *client.Entry) error {
	c.shown.entry(c.dir, e)
	c.log.take(e.Body)
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

// ask lets the approvers answer one after the other, once the fence has stopped the publisher.
func (c *conductor) ask() error {
	if c.proposal == 0 || !c.fenced || len(c.approvers) == 0 {
		return nil
	}
	next := c.approvers[0]
	c.approvers = c.approvers[1:]
	_, err := c.troupe.start(string(next), "incident", "approve", strconv.FormatUint(c.proposal, 10), "--key", c.dir.key(next), "--reason", "the customer was told", "--yes", "--output", "json")
	return err
}

// heard handles a line of a child, or the end of the child.
func (c *conductor) heard(h heard) error {
	approves := h.from.name == string(ann) || h.from.name == string(ben)
	switch {
	case h.line != nil && approves:
		return nil // the receipt of the approval
	case h.line != nil:
		return c.said(h.from, h.line)
	case approves && h.from.err == nil:
		return c.ask()
	case h.from.killed() && h.from.name == c.crash.Who:
		c.shown.say(c.crash)
		c.crash = line{} // the agent crashes only once
		return c.play(entry.Principal(h.from.name))
	}
	return c.troupe.diedOf(h.from)
}

// said handles a line of an agent.
func (c *conductor) said(from *child, text []byte) error {
	l := line{}
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf("demo: %q is no line: %w", text, err)
	}
	l.Who = from.name
	switch l.Kind {
	case "failed":
		return fmt.Errorf("demo: %s: %s", from.name, l.Text)
	case "crashed":
		c.crash = l
		return nil
	case "verified":
		if !c.decided[l.Incident] { // the agent has read the log before the conductor
			c.early[l.Incident] = append(c.early[l.Incident], l)
			return nil
		}
	}
	c.shown.once(l)
	if l.Kind == "fenced" {
		c.fenced = true
		return c.ask()
	}
	return nil
}

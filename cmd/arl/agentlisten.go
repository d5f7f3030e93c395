package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"recoveryledger/api/client"
	"recoveryledger/api/client/agent"
	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// listenOptions are the flags of arl agent listen.
type listenOptions struct {
	exec       string
	args       []string
	agent      string
	key        string
	state      string
	secret     string
	confirm    string
	monitors   monitors
	hooks      []string
	idempotent []string
	limit      time.Duration
	attempts   int
	init       bool
}

func (a *app) agentListenCommand(t *target) *cobra.Command {
	var o listenOptions
	cmd := &cobra.Command{
		Use:   "listen [--exec PROGRAM -- ARGUMENT…]",
		Short: "Undo what proven decisions tell an agent to undo, by any program",
		Long: "Undo what proven decisions tell an agent to undo. Each command is verified against the pinned root, noted in\n" +
			"the state directory, and handed to the program as JSON on standard input; its report is read as JSON from\n" +
			"standard output, and the outcome logged. Once, before the agent first works, --init makes the state: an empty\n" +
			"state directory counts as lost, and everything open as started.\n" +
			"At first contact somebody else than the ledger has to know of its log: the pinned root that carries a tree head, as\n" +
			"arl agent enrol writes it and arl root show prints it, a second source (--confirm), or witnesses. A second source\n" +
			"adds that others see the same log since the enrolment. The ledger's own URL is none, nor is a file fetched from it.",
		Example: "  arl agent listen --key worker.key --confirm https://mirror.example/checkpoint --exec python3 -- undo.py",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.args = args
			if err := o.check(); err != nil {
				return err
			}
			err := a.withConnection(cmd.Context(), t, func(c *connection) error {
				err := a.agentListen(cmd.Context(), c, t, &o)
				if fork, ok := errors.AsType[*verify.ForkError](err); ok {
					err = errors.Join(err, o.noteFork(a, c.root, fork))
				}
				return err
			})
			if failed := o.monitors.tell(cmd.Context(), err); failed != nil {
				err = errors.Join(err, failed)
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.exec, "exec", "", "program to run for each hook, without a shell; its arguments come behind --")
	flags.StringVar(&o.agent, "agent", "", "principal (default: whom the key is enrolled for)")
	flags.StringVar(&o.key, "key", "", "key file of the agent (mandatory)")
	flags.StringVar(&o.state, "state", "", "directory of what it has accepted and started, outside of all that it restores (default: agents/NAME in ARL_HOME)")
	nameValue(flags, "state", "DIR")
	flags.StringVar(&o.secret, "secret", "", "file of the secret that idempotency keys are made with (default: that of --key with .secret behind)")
	flags.StringVar(&o.confirm, "confirm", "", "second source of a tree head for the first contact: a file, or the URL of a mirror or its /checkpoint")
	flags.StringArrayVar((*[]string)(&o.monitors), "monitor", nil, "URL that the evidence of a fork is posted to, as JSON; may be given several times")
	flags.StringSliceVar(&o.hooks, "hooks", []string{"drain", "restore", "compensate", "cancel", "probe"}, "hooks that the program knows")
	flags.StringSliceVar(&o.idempotent, "idempotent", nil, "those of them that may run again to the same effect as once")
	flags.DurationVar(&o.limit, "limit", 10*time.Minute, "time after which the program is killed")
	flags.IntVar(&o.attempts, "attempts", 3, "how often a hook without effect is tried")
	flags.BoolVar(&o.init, "init", false, "make the state of an agent that never ran, and end")
	_ = cmd.MarkFlagRequired("key") // the flag exists
	return cmd
}

// check is what can be said of the flags before anything is done.
func (o *listenOptions) check() error {
	switch {
	case (o.exec == "") != o.init:
		return usage("pass either --exec with the program that undoes things, or --init")
	case o.limit <= 0:
		return usage("--limit %s: want a duration above 0, such as 10m", o.limit)
	case o.attempts <= 0:
		return usage("--attempts %d: want 1 or more", o.attempts)
	case o.init:
		return nil
	}
	if _, err := exec.LookPath(o.exec); err != nil {
		return usage("--exec: %w", err)
	}
	return o.monitors.check()
}

func (a *app) agentListen(ctx context.Context, c *connection, t *target, o *listenOptions) error {
	signer, err := a.signer(ctx, c, signerFlags{key: o.key, principal: o.agent}, "")
	if err != nil {
		return err
	}
	if err := o.enrolled(ctx, c); err != nil {
		return err
	}
	if err := o.paths(a, signer.principal); err != nil {
		return err
	}
	store, err := agent.OpenDir(o.state)
	if errors.Is(err, agent.ErrLocked) {
		return withExit(exitConflict, err)
	}
	if err != nil {
		return withExit(exitIO, err)
	}
	defer store.Close() //nolint:errcheck // the process ends with it
	if o.init {
		return a.agentInit(c, store, signer.principal, o)
	}
	secret, err := readSecret(o.secret)
	if err != nil {
		return err
	}
	server := &agent.Server{Client: c.client, Agent: signer.principal}
	held, err := holdProgram(o.state)
	if err != nil {
		return err
	}
	defer held.Close() //nolint:errcheck // the process ends with it
	hooks, err := o.program(a, held)
	if err != nil {
		return err
	}
	config := &agent.Config{Root: c.root, Agent: signer.principal, Secret: secret, Sign: signer.Sign, NewID: uuid.NewString, Ledger: server, Log: server,
		Store: store, Hooks: hooks, Tell: a.tellEvent, Attempts: o.attempts}
	if config.Second, err = a.secondSource(c, t, o.confirm); err != nil {
		return err
	}
	runtime, err := agent.Open(config, time.Now().UnixMilli())
	if err == nil {
		if !runtime.Confirmed() {
			a.tell("first contact: %s", o.contact(c.root))
		}
		err = agent.Run(ctx, runtime, server)
	}
	if fork, ok := errors.AsType[*agent.ForkError](err); ok {
		return &inconsistency{"heads", forkEvidence{fork.Detail, fork.First, fork.Second}, err}
	}
	if errors.Is(err, agent.ErrStopped) {
		return withExit(exitIO, err)
	}
	return err
}

// contact says what the first contact rests on, and what would add to it.
func (o *listenOptions) contact(root verify.Root) string {
	head, err := root.Head([]byte(root.Seen))
	switch {
	case o.confirm != "" && !strings.Contains(o.confirm, "://"):
		return "the file of --confirm counts as a second source if somebody else than this ledger gave it; " +
			"one that was fetched from the ledger's URL shows nothing, and nobody here can tell"
	case o.confirm != "":
		return "nothing is undone before the second source (--confirm) has confirmed the tree head"
	case root.Seen != "" && err == nil:
		return fmt.Sprintf("the pinned root carries the tree head of size %d, which the ledger has to continue. "+
			"A second source (--confirm) would add that others see the same log since then", head.Size)
	}
	return "nothing is undone before somebody else than this ledger has confirmed its tree head: a pinned root that carries one " +
		"(arl agent enrol writes it, arl root show prints it: --root FILE), a second source (--confirm), or a quorum of witnesses. " +
		"The ledger's own URL is no second source, nor is a file fetched from it"
}

// secondSource returns who confirms the first contact beside the ledger: whom
// --confirm names, else the pinned root; nil if neither can.
func (a *app) secondSource(c *connection, t *target, confirm string) (agent.Source, error) {
	if confirm == "" {
		seen := c.root.Seen
		if seen == "" {
			return nil, nil
		}
		return &agent.Mirror{Client: c.client, Head: func(context.Context) (string, error) { return seen, nil }}, nil
	}
	head, err := a.secondHead(c, t, confirm)
	if err != nil {
		return nil, fmt.Errorf("--confirm: %w", err)
	}
	return &agent.Mirror{Client: c.client, Head: head}, nil
}

// enrolled is that there is such an agent: a name that is mistaken makes no state.
func (o *listenOptions) enrolled(ctx context.Context, c *connection) error {
	if o.agent == "" {
		return nil // whom the key is enrolled for
	}
	chain, err := c.chain(ctx)
	if err != nil {
		return err
	}
	if _, known := chain.Agent(entry.Principal(o.agent)); !known {
		return withExit(exitNotFound, fmt.Errorf("--agent %s: was never enrolled (arl agent list shows who was)", o.agent))
	}
	return nil
}

// paths fills in where things are.
func (o *listenOptions) paths(a *app, name entry.Principal) error {
	home, err := a.homeDir()
	o.state = cmp.Or(o.state, filepath.Join(home, "agents", profileName(string(name))))
	o.secret = cmp.Or(o.secret, o.key+".secret")
	return err
}

// noteFork stops the agent for good where the connection has seen two logs before
// there was an agent. Whose key it is the ledger says, which is not believed any
// more: without --state, all agents here that follow the ledger are stopped.
func (o *listenOptions) noteFork(a *app, root verify.Root, fork *verify.ForkError) error {
	states := []string{o.state}
	if o.state == "" {
		home, err := a.homeDir()
		if err == nil {
			states, err = filepath.Glob(filepath.Join(home, "agents", "*"))
		}
		if err != nil {
			return err
		}
	}
	var failed error
	for _, path := range states {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue // an agent that never ran here has nothing that is to stop
		}
		store, err := agent.OpenDir(path)
		if errors.Is(err, agent.ErrLocked) {
			continue // whoever has it sees for itself
		}
		if err == nil {
			err = errors.Join(agent.NoteFork(store, root, fork), store.Close())
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// holdProgram locks a file that the program inherits: it stays locked as long as
// anything of it runs, even if this process is killed. Who comes after it must
// not ask Probe before. On Windows the program does not inherit the file, and the
// lock tells of this process alone.
func holdProgram(state string) (*os.File, error) {
	path := filepath.Join(state, ".program")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, output(path, err)
	}
	held, err := lockFile(f)
	if held {
		return f, nil
	}
	if err == nil {
		err = withExit(exitConflict, fmt.Errorf("%s: what an earlier arl agent listen has started still runs: wait for it, or end it (fuser tells its process)", path))
	}
	return nil, errors.Join(err, f.Close())
}

// program returns the program as hooks.
func (o *listenOptions) program(a *app, held *os.File) (agent.Hooks, error) {
	known := []agent.Hook{agent.Drain, agent.Restore, agent.Compensate, agent.Cancel, agent.Probe}
	p := &agent.Program{Argv: append([]string{o.exec}, o.args...), Stderr: a.err, Limit: o.limit, Held: held}
	for _, list := range []struct {
		flag  string
		names []string
		into  *[]agent.Hook
	}{{"--hooks", o.hooks, &p.Has}, {"--idempotent", o.idempotent, &p.Idempotent}} {
		for _, name := range list.names {
			hook := agent.Hook(name)
			if !slices.Contains(known, hook) {
				return agent.Hooks{}, usage("%s %s: want some of drain, restore, compensate, cancel, probe", list.flag, name)
			}
			*list.into = append(*list.into, hook)
		}
	}
	return p.Hooks(), nil
}

// secretSize is the length of a secret that is made, in bytes.
const secretSize = 32

// agentInit makes the state and, if there is none, the secret. Where there is a
// state no secret is made: another one would make other idempotency keys.
func (a *app) agentInit(c *connection, store *agent.Dir, name entry.Principal, o *listenOptions) error {
	documents, err := store.Names()
	if err != nil {
		return withExit(exitIO, err)
	}
	if _, err := os.Stat(o.secret); errors.Is(err, fs.ErrNotExist) && len(documents) == 0 {
		if err := makeSecret(o.secret); err != nil {
			return err
		}
	}
	if err := agent.Init(store, c.root, name, time.Now().UnixMilli()); err != nil {
		return withExit(exitConflict, err)
	}
	made := struct {
		Agent  entry.Principal `json:"agent"`
		State  string          `json:"state"`
		Secret string          `json:"secret"`
	}{name, o.state, o.secret}
	return a.printObject(made, field{"agent", string(name)}, field{"state", o.state}, field{"secret (keep it: it outlasts the state)", o.secret})
}

// makeSecret makes a secret and writes it to a file.
func makeSecret(path string) error {
	secret := make([]byte, secretSize)
	_, _ = rand.Read(secret) // never fails
	return output(path, durable.Write(path, []byte(hex.EncodeToString(secret)+"\n"), 0o600))
}

func readSecret(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, withExit(exitConfig, fmt.Errorf("%s: no secret there: take it from where it was kept; for an agent that never ran, arl agent listen --init makes it", path))
	}
	if err != nil {
		return nil, withExit(exitIO, err)
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(secret) < secretSize {
		return nil, withExit(exitConfig, fmt.Errorf("%s: want %d bytes or more in hexadecimal", path, secretSize))
	}
	return secret, nil
}

// secondHead returns what gives the head of the second source: a file, which is
// read at once, since what is wrong with it stays so; or another server, which is
// asked when the head is needed, since it may be away.
func (a *app) secondHead(c *connection, t *target, source string) (func(ctx context.Context) (string, error), error) {
	if !strings.Contains(source, "://") {
		note, err := a.readInput(source, verify.MaxNote)
		if err == nil {
			_, err = c.client.Root().Head(note)
		}
		if err != nil {
			return nil, fmt.Errorf("%w; want a file with a signed tree head of %s, as GET /checkpoint gives it", err, c.root.Origin)
		}
		return func(context.Context) (string, error) { return string(note), nil }, nil
	}
	base := strings.TrimSuffix(strings.TrimRight(source, "/"), "/checkpoint")
	if _, _, err := t.client(base, c.client.Root(), new(client.Config)); err != nil {
		return nil, usage("%s", err)
	}
	if sameServer(base, c.url) {
		return nil, usage("%s is the ledger that is followed, and no second source for itself, nor is a file fetched from it; want somebody else who has seen the log, such as a mirror, or pass --root with a pinned root that carries a tree head", source)
	}
	return func(ctx context.Context) (string, error) {
		other, _, err := t.client(base, c.client.Root(), new(client.Config))
		if err != nil {
			return "", err
		}
		head, err := other.Head(ctx)
		return head.Note, err
	}, nil
}

// sameServer reports whether two URLs are two spellings of one: case, the port of
// the scheme, a slash at the end, and the names of this machine make no other one.
func sameServer(one, other string) bool {
	spell := func(text string) (host, port, path string) {
		u, err := url.Parse(text)
		if err != nil {
			return text, "", ""
		}
		host = strings.ToLower(u.Hostname())
		if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && (ip.IsLoopback() || ip.IsUnspecified()) {
			host = "localhost"
		}
		scheme := map[string]string{"http": "80", "https": "443"}
		return host, cmp.Or(u.Port(), scheme[u.Scheme]), strings.Trim(u.Path, "/")
	}
	oneHost, onePort, onePath := spell(one)
	otherHost, otherPort, otherPath := spell(other)
	return oneHost == otherHost && onePort == otherPort && onePath == otherPath
}

// listenEvent is an [agent.Event] as it is printed.
type listenEvent struct {
	Kind     agent.EventKind `json:"kind"`
	At       int64           `json:"at"`
	Incident uint64          `json:"incident,omitzero"`
	Exec     entry.Ref       `json:"exec,omitempty"`
	Text     string          `json:"text,omitempty"`
	Error    string          `json:"error,omitempty"`
}

// tellEvent prints what happens, a line each. That nobody reads it changes
// nothing.
func (a *app) tellEvent(e agent.Event) {
	shown := listenEvent{Kind: e.Kind, At: time.Now().UnixMilli(), Incident: e.Incident, Exec: e.Exec, Text: e.Text}
	if e.Err != nil {
		shown.Error = e.Err.Error()
	}
	if a.settings.output == outputJSON {
		_ = a.printJSON(shown)
		return
	}
	parts := []string{instant(shown.At), fmt.Sprintf("%-8s", shown.Kind), "", string(shown.Exec), shown.Text, shown.Error}
	if shown.Incident != 0 {
		parts[2] = fmt.Sprintf("incident %d", shown.Incident)
	}
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	_ = a.printText(strings.Join(parts, "  ") + "\n")
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"recoveryledger/api/client/agent"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/listen"
	"recoveryledger/cmd/arl/manual"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/cmd/arl/trust"
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
	monitors   listen.Monitors
	hooks      []string
	idempotent []string
	limit      time.Duration
	attempts   int
	absences   bool
	init       bool
}

func (a *app) agentListenCommand(t *access.Target) *cobra.Command {
	var o listenOptions
	cmd := &cobra.Command{
		Use:   "listen [--exec PROGRAM -- ARGUMENT…]",
		Short: "Carry out proven rollback commands with any program",
		Long: "Carry out proven rollback commands with any program. The agent verifies each command against the pinned root,\n" +
			"notes it in the state directory, and hands it to the program as JSON on standard input. The agent reads the\n" +
			"program's report as JSON from standard output, and logs the outcome. Run the command once with --init before the\n" +
			"agent first works: that makes an empty state. Otherwise an empty state directory counts as lost, and every open\n" +
			"member counts as started.\n" +
			"At first contact a source other than the ledger must confirm the log: a pinned root with a tree head (arl agent\n" +
			"enrol writes it, arl root show prints it), a second source (--confirm), or witnesses. A second source also shows\n" +
			"that others have seen the same log since the enrolment. The ledger's own URL is no second source, nor is a file\n" +
			"fetched from it.",
		Example: "  arl agent listen --key worker.key --confirm https://mirror.example/checkpoint --exec python3 -- undo.py",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.args = args
			if err := o.check(); err != nil {
				return err
			}
			return o.monitors.Join(cmd.Context(), a.machine().WithConnection(cmd.Context(), t, func(c *access.Connection) error {
				err := a.agentListen(cmd.Context(), c, t, &o)
				if fork, ok := errors.AsType[*verify.ForkError](err); ok {
					err = errors.Join(err, listen.NoteFork(a.machine(), o.state, c.Root, fork))
				}
				return err
			}))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.exec, "exec", "", "program to run for each hook, without a shell; its arguments follow --")
	flags.StringVar(&o.agent, "agent", "", "principal (default: the principal that the key is enrolled for)")
	flags.StringVar(&o.key, "key", "", "key file of the agent (required)")
	flags.StringVar(&o.state, "state", "", "state directory: what the agent accepted and started; keep it outside restored files (default: agents/NAME in ARL_HOME)")
	manual.NameValue(flags, "state", "DIR")
	flags.StringVar(&o.secret, "secret", "", "file of the secret for idempotency keys (default: the file of --key with suffix .secret)")
	flags.StringVar(&o.confirm, "confirm", "", "second source of a tree head for the first contact: a file, or the URL of a mirror or its /checkpoint")
	o.monitors.Register(flags)
	flags.StringSliceVar(&o.hooks, "hooks", []string{"drain", "restore", "compensate", "cancel", "probe"}, "hooks that the program handles")
	flags.StringSliceVar(&o.idempotent, "idempotent", nil, "idempotent hooks: a second run has no further effect")
	flags.DurationVar(&o.limit, "limit", 10*time.Minute, "time after which the program is killed")
	flags.IntVar(&o.attempts, "attempts", 3, "greatest number of attempts of a hook that had no effect")
	flags.BoolVar(&o.absences, "absences", false, "obey only bundles that prove that no override, revocation or policy is left out")
	flags.BoolVar(&o.init, "init", false, "make the state of a new agent, and end")
	_ = cmd.MarkFlagRequired("key") // the flag exists
	return cmd
}

// check checks the flags before the command acts.
func (o *listenOptions) check() error {
	switch {
	case (o.exec == "") != o.init:
		return exit.Usagef("pass either --exec with the rollback program, or --init")
	case o.limit <= 0:
		return exit.Usagef("--limit %s: want a duration above 0, such as 10m", o.limit)
	case o.attempts <= 0:
		return exit.Usagef("--attempts %d: want 1 or more", o.attempts)
	case o.init:
		return nil
	}
	if _, err := exec.LookPath(o.exec); err != nil {
		return exit.Usagef("--exec: %w", err)
	}
	return o.monitors.Check()
}

func (a *app) agentListen(ctx context.Context, c *access.Connection, t *access.Target, o *listenOptions) error {
	signer, err := a.machine().Signer(ctx, c, access.SignerFlags{Key: o.key, Principal: o.agent}, "")
	if err != nil {
		return err
	}
	if err := o.enrolled(ctx, c); err != nil {
		return err
	}
	if err := o.paths(a, signer.Principal); err != nil {
		return err
	}
	store, err := agent.OpenDir(o.state)
	if errors.Is(err, agent.ErrLocked) {
		return exit.With(exit.Conflict, err)
	}
	if err != nil {
		return exit.With(exit.IO, err)
	}
	defer store.Close() //nolint:errcheck // the process ends with it
	if o.init {
		return a.agentInit(c, store, signer.Principal, o)
	}
	secret, err := listen.ReadSecret(o.secret)
	if err != nil {
		return err
	}
	server := &agent.Server{Client: c.Client, Agent: signer.Principal}
	held, err := listen.HoldProgram(o.state)
	if err != nil {
		return err
	}
	defer held.Close() //nolint:errcheck // the process ends with it
	hooks, err := o.program(a, held)
	if err != nil {
		return err
	}
	config := &agent.Config{Root: c.Root, Agent: signer.Principal, Secret: secret, Sign: signer.Sign, NewID: uuid.NewString, Ledger: server, Log: server,
		Store: store, Hooks: hooks, Tell: a.tellEvent, Attempts: o.attempts, Absences: o.absences}
	if config.Second, err = listen.SecondSource(a.machine(), c, t, o.confirm); err != nil {
		return err
	}
	runtime, err := agent.Open(config, time.Now().UnixMilli())
	if err == nil {
		if !runtime.Confirmed() {
			a.Tell("first contact: %s", listen.Contact(o.confirm, c.Root))
		}
		err = agent.Run(ctx, runtime, server)
	}
	if fork, ok := errors.AsType[*agent.ForkError](err); ok {
		return exit.Contradicts("heads", &fork.Evidence, err)
	}
	if errors.Is(err, agent.ErrStopped) {
		return exit.With(exit.IO, err)
	}
	return err
}

// enrolled checks that the named agent is enrolled: a mistyped name must not make a state.
func (o *listenOptions) enrolled(ctx context.Context, c *access.Connection) error {
	if o.agent == "" {
		return nil // the agent is the principal of the key
	}
	chain, err := c.Chain(ctx)
	if err != nil {
		return err
	}
	if _, known := chain.Agent(entry.Principal(o.agent)); !known {
		return exit.With(exit.NotFound, fmt.Errorf("--agent %s: the principal was never enrolled (arl agent list shows all principals)", o.agent))
	}
	return nil
}

// paths sets the paths that the flags leave out.
func (o *listenOptions) paths(a *app, name entry.Principal) error {
	home, err := a.homeDir()
	o.state = cmp.Or(o.state, filepath.Join(home, "agents", trust.FileName(string(name))))
	o.secret = cmp.Or(o.secret, o.key+".secret")
	return err
}

// program returns the program as hooks.
func (o *listenOptions) program(a *app, held *os.File) (agent.Hooks, error) {
	known := []agent.Hook{agent.Drain, agent.Restore, agent.Compensate, agent.Cancel, agent.Probe}
	p := &agent.Program{Argv: append([]string{o.exec}, o.args...), Stderr: a.Err, Limit: o.limit, Held: held}
	for _, list := range []struct {
		flag  string
		names []string
		into  *[]agent.Hook
	}{{"--hooks", o.hooks, &p.Has}, {"--idempotent", o.idempotent, &p.Idempotent}} {
		for _, name := range list.names {
			hook := agent.Hook(name)
			if !slices.Contains(known, hook) {
				return agent.Hooks{}, exit.Usagef("%s %s: want some of drain, restore, compensate, cancel, probe", list.flag, name)
			}
			*list.into = append(*list.into, hook)
		}
	}
	return p.Hooks(), nil
}

// agentInit makes the state, and the secret if there is none. If there is a state, agentInit makes
// no secret: another secret would make other idempotency keys.
func (a *app) agentInit(c *access.Connection, store *agent.Dir, name entry.Principal, o *listenOptions) error {
	documents, err := store.Names()
	if err != nil {
		return exit.With(exit.IO, err)
	}
	if _, err := os.Stat(o.secret); errors.Is(err, fs.ErrNotExist) && len(documents) == 0 {
		if err := listen.MakeSecret(o.secret); err != nil {
			return err
		}
	}
	if err := agent.Init(store, c.Root, name, time.Now().UnixMilli()); err != nil {
		return exit.With(exit.Conflict, err)
	}
	made := struct {
		Agent  entry.Principal `json:"agent"`
		State  string          `json:"state"`
		Secret string          `json:"secret"`
	}{name, o.state, o.secret}
	return a.PrintObject(made, terminal.Field{"agent", string(name)}, terminal.Field{"state", o.state}, terminal.Field{"secret (keep it: it outlasts the state)", o.secret})
}

// listenEvent is an [agent.Event] in the form of the output.
type listenEvent struct {
	Kind     agent.EventKind `json:"kind"`
	At       int64           `json:"at"`
	Incident uint64          `json:"incident,omitzero"`
	Exec     entry.Ref       `json:"exec,omitempty"`
	Text     string          `json:"text,omitempty"`
	Error    string          `json:"error,omitempty"`
}

// tellEvent prints each event as a line. A failed write changes nothing.
func (a *app) tellEvent(e agent.Event) {
	shown := listenEvent{Kind: e.Kind, At: time.Now().UnixMilli(), Incident: e.Incident, Exec: e.Exec, Text: e.Text}
	if e.Err != nil {
		shown.Error = e.Err.Error()
	}
	if a.JSON() {
		_ = a.PrintJSON(shown)
		return
	}
	parts := []string{instant(shown.At), fmt.Sprintf("%-8s", shown.Kind), "", string(shown.Exec), shown.Text, shown.Error}
	if shown.Incident != 0 {
		parts[2] = fmt.Sprintf("incident %d", shown.Incident)
	}
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	_ = a.PrintText(strings.Join(parts, "  ") + "\n")
}

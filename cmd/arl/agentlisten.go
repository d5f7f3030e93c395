package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"recoveryledger/api/client/agent"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/listen"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/entry"
)

// listenOptions are the flags of arl agent listen.
type listenOptions struct {
	listen.Options
	exec       string
	args       []string
	hooks      []string
	idempotent []string
	limit      time.Duration
	init       bool
}

func (a *app) agentListenCommand(t *access.Target) *cobra.Command {
	var o listenOptions
	cmd := &cobra.Command{
		Use:   "listen [--exec PROGRAM -- ARGUMENT…]",
		Short: "Carry out proven rollback commands with any program",
		Long: "Carry out proven rollback commands with any program. The agent verifies each command against the pinned root,\n" +
			"notes it in the state directory, and hands it to the program as JSON on standard input. The agent reads the\n" +
			"program's report, such as {\"status\":\"done\"}, from standard output, and logs the outcome. docs/agent.md has all\n" +
			"commands and reports. Run the command once with --init before the agent first works: that makes an empty state.\n" +
			"Otherwise an empty state directory counts as lost, and every open member counts as started.\n" +
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
			return o.Watch(cmd.Context(), a.machine(), t, func(c *access.Connection) error { return a.agentListen(cmd.Context(), c, t, &o) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.exec, "exec", "", "program to run for each hook, without a shell; its arguments follow --")
	flags.StringVar(&o.Agent, "agent", "", "principal (default: the principal that the key is enrolled for)")
	flags.StringVar(&o.Key, "key", "", "key file of the agent (required)")
	o.Register(flags)
	// A program that looks at no hook takes back, whatever it is asked. Asked by Probe, it would
	// take back twice.
	flags.StringSliceVar(&o.hooks, "hooks", []string{"restore", "compensate"}, "hooks that the program tells apart: drain, restore, compensate, cancel, probe")
	flags.StringSliceVar(&o.idempotent, "idempotent", nil, "idempotent hooks: a second run has no further effect")
	flags.DurationVar(&o.limit, "limit", 10*time.Minute, "time after which the program is killed")
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
	case o.init:
		return nil
	}
	if _, err := exec.LookPath(o.exec); err != nil {
		return exit.Usagef("--exec: %w", err)
	}
	return o.Check()
}

func (a *app) agentListen(ctx context.Context, c *access.Connection, t *access.Target, o *listenOptions) error {
	home, err := a.homeDir()
	if err != nil {
		return err
	}
	opened, err := o.Open(ctx, a.machine(), c, home)
	if err != nil {
		return err
	}
	defer opened.Store.Close() //nolint:errcheck // the process ends with it
	if o.init {
		return a.agentInit(opened)
	}
	secret, err := listen.ReadSecret(o.Secret)
	if err != nil {
		return err
	}
	held, err := listen.HoldProgram(o.State)
	if err != nil {
		return err
	}
	defer held.Close() //nolint:errcheck // the process ends with it
	hooks, err := o.program(a, held)
	if err != nil {
		return err
	}
	return opened.Obey(ctx, t, secret, &hooks, listen.Told{Event: a.tellEvent, Text: a.Tell})
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
	for _, hook := range p.Idempotent {
		if !slices.Contains(p.Has, hook) {
			return agent.Hooks{}, exit.Usagef("--idempotent %s: --hooks does not name it; pass --hooks %s,%s", hook, strings.Join(o.hooks, ","), hook)
		}
	}
	return p.Hooks(), nil
}

// agentInit makes the state of an agent, and says where it is.
func (a *app) agentInit(opened *listen.Agent) error {
	if err := opened.Init(); err != nil {
		return err
	}
	o, name := opened.Options, opened.Signer.Principal
	made := struct {
		Agent  entry.Principal `json:"agent"`
		State  string          `json:"state"`
		Secret string          `json:"secret"`
	}{name, o.State, o.Secret}
	return a.PrintObject(made, terminal.Field{"agent", string(name)}, terminal.Field{"state", o.State}, terminal.Field{"secret (keep it: it outlasts the state)", o.Secret})
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

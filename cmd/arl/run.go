package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"recoveryledger/api/worker"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/listen"
	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// runOptions are the flags of arl run.
type runOptions struct {
	task, key, agent, secret, strategies string
	probe                                string
	deadline, grace                      time.Duration
	memory                               int64 // MiB
	once                                 bool
}

func (a *app) runCommand() *cobra.Command {
	var t access.Target
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run --task T --key FILE -- COMMAND…",
		Short: "Run any program as the agent that holds a task",
		Long: "Run any program as the agent that holds a task. The command waits until the agent gets the task, starts the\n" +
			"task, renews its lease, and reports how the task ended. The program finds the task and the newest checkpoint in\n" +
			"its environment (ARL_TASK, ARL_EPOCH, ARL_CHECKPOINT …) and declares its steps with arl work. If the program\n" +
			"crashes, the command sends the coordinator a snapshot, and the policy decides who tries again: this agent or\n" +
			"another. SIGTERM hands the task back, at no cost.",
		Example: "  arl run --task operator#report-7 --key worker.key -- python3 agent.py",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := parseTask(o.task)
			if err != nil {
				return err
			}
			return a.machine().WithConnection(cmd.Context(), &t, func(c *access.Connection) error { return a.runTask(cmd.Context(), c, ref, args, &o) })
		},
	}
	t.Register(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVar(&o.task, "task", "", "task, issuer#id (required)")
	flags.StringVar(&o.key, "key", "", "key file of the agent (required)")
	flags.StringVar(&o.agent, "agent", "", "principal (default: the principal that the key is enrolled for)")
	flags.StringVar(&o.secret, "secret", "", "file of the secret for keyed digests, made if missing (default: the file of --key with suffix .secret)")
	flags.StringVar(&o.strategies, "strategies", "", "file that names the program of each strategy of the policy (docs/policy.md)")
	flags.StringVar(&o.probe, "probe", "", "command that prints the effects of an unfinished step: none, complete or unknown (docs/tasks.md)")
	flags.DurationVar(&o.deadline, "deadline", 0, "time after which the program is ended (default: none)")
	flags.DurationVar(&o.grace, "grace", 10*time.Second, "time that the program has to end after SIGTERM")
	flags.Int64Var(&o.memory, "memory", 0, "memory limit of the program in MiB (default: no limit)")
	flags.BoolVar(&o.once, "once", false, "do not wait for the task: end with exit code 6 if it is not given to this agent")
	for _, name := range []string{"task", "key"} {
		_ = cmd.MarkFlagRequired(name) // the flag exists
	}
	return cmd
}

// memoryMax is the greatest memory limit of a program, in MiB.
const memoryMax = 1 << 30

// runTask runs a program as the holder of a task.
func (a *app) runTask(ctx context.Context, c *access.Connection, ref entry.Ref, argv []string, o *runOptions) error {
	probe, err := o.check()
	if err != nil {
		return err
	}
	if _, err := c.Chain(ctx); err != nil {
		return err
	}
	config, err := a.workerConfig(ctx, c, o)
	if err != nil {
		return err
	}
	program, _ := os.Executable()
	w := worker.Worker{
		Config: config, Probe: probe, URL: c.URL, Key: o.key, Executable: program, Once: o.once,
		Command:    worker.Command{Argv: argv, Stdin: a.In, Stdout: a.Out, Stderr: a.Err, Deadline: o.deadline, Grace: max(o.grace, 1), Memory: o.memory << 20, Sole: true},
		Strategies: func(p *recovery.Policy) ([]recovery.RecoveryStrategy, error) { return a.registeredIn(o.strategies, p) },
		Say:        func(line string) { fmt.Fprintf(a.Err, "arl: %s\n", line) },
	}
	return w.Run(ctx, ref)
}

// check checks the flags, and returns the command line of the probe; nil: there is none.
func (o *runOptions) check() (probe []string, err error) {
	if o.deadline < 0 || o.grace < 0 || o.memory < 0 || o.memory > memoryMax {
		return nil, exit.Usagef("--deadline, --grace, --memory: want 0 or more, and at most %d MiB", memoryMax)
	}
	if o.memory > 0 && !worker.LimitsMemory(runtime.GOOS) {
		return nil, exit.Usagef("--memory: this system (%s) has no limit on the memory of a program: leave --memory out", runtime.GOOS)
	}
	probe = strings.Fields(o.probe)
	if len(probe) > 0 {
		if _, err := exec.LookPath(probe[0]); err != nil {
			return nil, exit.Usagef("--probe: %w", err)
		}
	}
	return probe, nil
}

// workerConfig returns the configuration of a worker with the agent's key and secret. It makes a
// missing secret.
func (a *app) workerConfig(ctx context.Context, c *access.Connection, o *runOptions) (*worker.Config, error) {
	signer, err := a.machine().Signer(ctx, c, access.SignerFlags{Key: o.key, Principal: o.agent}, "")
	if err != nil {
		return nil, err
	}
	secret, err := listen.OpenSecret(o.secret, o.key)
	return &worker.Config{Client: c.Client, Origin: c.Root.Origin, Agent: signer.Principal, Signer: signer, Secret: secret, NewID: uuid.NewString}, err
}

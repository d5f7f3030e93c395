package listen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/pflag"

	"recoveryledger/api/client/agent"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/manual"
	"recoveryledger/cmd/arl/trust"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// Options are the flags of a command that obeys proven decisions as an agent.
type Options struct {
	Agent, Key, State, Secret, Confirm string

	Monitors Monitors
	Attempts int
	Absences bool
	// Patience is the time that the ledger has for its first answer. 0: as long as a client waits.
	Patience time.Duration
}

// Register adds the flags, but for the agent's name and key.
func (o *Options) Register(flags *pflag.FlagSet) {
	flags.StringVar(&o.State, "state", "", "state directory: what the agent accepted and started; keep it outside restored files (default: agents/NAME in ARL_HOME)")
	manual.NameValue(flags, "state", "DIR")
	flags.StringVar(&o.Secret, "secret", "", "file of the secret for idempotency keys (default: the key file with suffix .secret)")
	flags.StringVar(&o.Confirm, "confirm", "", "second source of a tree head for the first contact: a file, or the URL of a mirror or its /checkpoint")
	o.Monitors.Register(flags)
	flags.IntVar(&o.Attempts, "attempts", 3, "greatest number of attempts of a hook that had no effect")
	flags.BoolVar(&o.Absences, "absences", false, "obey only bundles that prove that no override, revocation or policy is left out")
}

// Check refuses flags that no ledger need be asked about.
func (o *Options) Check() error {
	if o.Attempts <= 0 {
		return exit.Usagef("--attempts %d: want 1 or more", o.Attempts)
	}
	return o.Monitors.Check()
}

// Agent is an agent with its state, which no other process has meanwhile.
type Agent struct {
	Options *Options
	Signer  *access.Signer
	Store   *agent.Dir
	Server  *agent.Server
	c       *access.Connection
	m       *access.Machine
}

// Open loads the key and opens the state of the agent. Home is ARL_HOME. The flags get their
// default values.
func (o *Options) Open(ctx context.Context, m *access.Machine, c *access.Connection, home string) (*Agent, error) {
	signer, err := m.Signer(ctx, c, access.SignerFlags{Key: o.Key, Principal: o.Agent}, entry.Principal(o.Agent))
	if err != nil {
		return nil, err
	}
	if err := o.enrolled(ctx, c); err != nil {
		return nil, err
	}
	if o.Key == "" { // the profile's
		if o.Key, err = c.Profile.Key(signer.Principal); err != nil {
			return nil, err
		}
	}
	o.State = cmp.Or(o.State, filepath.Join(home, "agents", trust.FileName(string(signer.Principal))))
	if o.Secret, err = secretFile(o.Secret, o.Key); err != nil {
		return nil, err
	}
	store, err := agent.OpenDir(o.State)
	if errors.Is(err, agent.ErrLocked) {
		return nil, exit.With(exit.Conflict, err)
	}
	if err != nil {
		return nil, exit.With(exit.IO, err)
	}
	return &Agent{Options: o, Signer: signer, Store: store, Server: &agent.Server{Client: c.Client, Agent: signer.Principal}, c: c, m: m}, nil
}

// enrolled checks that the named agent is enrolled: a mistyped name must not make a state.
func (o *Options) enrolled(ctx context.Context, c *access.Connection) error {
	if o.Agent == "" {
		return nil // the agent is the principal of the key
	}
	asking, cancel := o.patient(ctx)
	defer cancel()
	chain, err := c.Chain(asking)
	if err != nil {
		return o.unanswered(err)
	}
	if _, known := chain.Agent(entry.Principal(o.Agent)); !known {
		return exit.With(exit.NotFound, fmt.Errorf("--agent %s: the principal was never enrolled (arl agent list shows all principals)", o.Agent))
	}
	return nil
}

// isNew reports whether the agent never ran: there is neither a state nor a secret.
func (a *Agent) isNew() (bool, error) {
	documents, err := a.Store.Names()
	if err != nil {
		return false, exit.With(exit.IO, err)
	}
	_, err = os.Stat(a.Options.Secret)
	return errors.Is(err, fs.ErrNotExist) && len(documents) == 0, nil
}

// Init makes the state and, if the agent never ran, the secret. Where there is a state no secret is
// made: another one would make other idempotency keys.
func (a *Agent) Init() error {
	never, err := a.isNew()
	if err == nil && never {
		err = makeSecret(a.Options.Secret)
	}
	if err != nil {
		return err
	}
	return exit.With(exit.Conflict, agent.Init(a.Store, a.c.Root, a.Signer.Principal, time.Now().UnixMilli()))
}

// Told are told what happens: Event of each thing that the agent does, Text of what people should
// know.
type Told struct {
	Event func(agent.Event)
	Text  func(format string, args ...any)
}

// Obey follows the ledger and runs hooks until ctx ends, which is no error.
func (a *Agent) Obey(ctx context.Context, t *access.Target, secret []byte, hooks *agent.Hooks, told Told) error {
	o := a.Options
	second, err := secondSource(a.m, a.c, t, o.Confirm)
	if err != nil {
		return err
	}
	config := &agent.Config{Root: a.c.Root, Agent: a.Signer.Principal, Secret: secret, Sign: a.Signer.Sign, NewID: uuid.NewString, Ledger: a.Server, Log: a.Server,
		Second: second, Store: a.Store, Hooks: *hooks, Tell: told.Event, Attempts: o.Attempts, Absences: o.Absences}
	runtime, err := agent.Open(config, time.Now().UnixMilli())
	if err == nil {
		if !runtime.Confirmed() {
			told.Text("first contact: %s", basisOf(o.Confirm, a.c.Root))
		}
		err = agent.Run(ctx, runtime, a.Server)
	}
	if fork, ok := errors.AsType[*agent.ForkError](err); ok {
		if fork.Older == "" || fork.Newer == "" { // what the store says of the fork is damaged
			return exit.With(exit.Inconsistent, err)
		}
		return exit.Contradicts("heads", &fork.Evidence, err)
	}
	if _, key := errors.AsType[*keys.KMSError](err); errors.Is(err, agent.ErrStopped) && !key {
		return exit.With(exit.IO, err)
	}
	return err
}

// Watch does the work of a command at a connection. A fork that the connection sees stops the agent
// for good, and the monitors are told of it.
func (o *Options) Watch(ctx context.Context, m *access.Machine, t *access.Target, work func(*access.Connection) error) error {
	asking, cancel := o.patient(ctx) // for the connection alone
	defer cancel()
	connected := false
	err := m.WithConnection(asking, t, func(c *access.Connection) error {
		connected = true
		err := work(c)
		if fork, ok := errors.AsType[*verify.ForkError](err); ok {
			err = errors.Join(err, noteFork(m, o.State, c.Root, fork))
		}
		return err
	})
	if !connected {
		err = o.unanswered(err)
	}
	return o.Monitors.Join(ctx, err)
}

// patient limits ctx to the time that the ledger has for its first answer.
func (o *Options) patient(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.Patience <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, o.Patience)
}

// unanswered says so where the ledger gave no first answer in time.
func (o *Options) unanswered(err error) error {
	if o.Patience > 0 && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the ledger did not answer within --patience %s: %w", o.Patience, err)
	}
	return err
}

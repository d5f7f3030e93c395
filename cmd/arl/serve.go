package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/trace"

	"recoveryledger/api/metrics"
	"recoveryledger/api/server"
	"recoveryledger/cmd/arl/cell"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/listen"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/cmd/arl/trust"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/witness"
)

// serveOptions are the flags of arl serve.
type serveOptions struct {
	data, listen, policy, origin, anchor string
	acceptAnchor, acceptClock            bool
	acceptNoCoordinator                  bool
	encrypt, verbose                     bool
	tlsCert, tlsKey, tlsClientCA         string
	traces                               bool
	rate                                 float64
	reserve                              uint64
	index                                bool
	hosts                                []string
	witnesses                            []string // NAME=URL
	witnessBoot                          string
	witnessing                           node.Witnessing
	monitors                             listen.Monitors
	notifying                            node.Notifying
	keys                                 node.KeyURIs
	publishing                           node.Publishing
	lastWord                             node.LastWord
	engine                               node.Engine
	cell                                 cell.Serving
}

func (a *app) serveCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the ledger",
		Long: "Run the ledger of a data directory. The first start makes its keys, the genesis policy, and an operator's\n" +
			"key with a profile, so that later commands on this machine need no flags. With --passphrase, or where\n" +
			exit.PassphraseVariable + " is set, these keys are encrypted, and every later start asks for the passphrase.",
		Example: "  arl serve --data ./data --listen 127.0.0.1:8087",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			o.notifying.Keep = a.trust().KeepEvidence
			err := o.notifying.Join(ctx, o.data, o.anchor, a.logger(slog.LevelInfo), a.serve(ctx, &o))
			return o.lastWord.Say(ctx, o.monitors.Join(ctx, err)) // a message has no URL of a monitor
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.data, "data", "", "data directory (required)")
	o.monitors.Register(flags)
	o.notifying.Register(flags)
	o.keys.Register(flags)
	o.publishing.Register(flags)
	o.engine.Register(flags)
	o.cell.Register(flags)
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8087", "address to listen on")
	flags.StringVar(&o.policy, "policy", "", "policy file for the genesis of a new ledger (default: arl policy show --default)")
	flags.StringVar(&o.origin, "origin", "", "name of a new ledger, in every tree head (default: made up, unique)")
	flags.StringVar(&o.anchor, "anchor", "", "anchor file (default: the data directory's name with .anchor)")
	flags.BoolVar(&o.acceptAnchor, "accept-anchor", false, "trust the database without its anchor")
	flags.BoolVar(&o.acceptClock, "accept-clock", false, "trust a wall clock that is behind the last entry")
	flags.BoolVar(&o.acceptNoCoordinator, "accept-no-coordinator", false, "start without a valid coordinator key, to enrol one; nothing is decided")
	encryptFlag(flags, &o.encrypt, "the keys that the first start makes")
	flags.StringVar(&o.tlsCert, "tls-cert", "", "certificate file: serve TLS")
	flags.StringVar(&o.tlsKey, "tls-key", "", "key file of the certificate")
	flags.StringVar(&o.tlsClientCA, "tls-client-ca", "", "CA file: require client certificates of this CA (mTLS)")
	flags.StringArrayVar(&o.hosts, "host", nil, "name by which a proxy on this machine calls the ledger on loopback; once for each")
	flags.BoolVar(&o.traces, "traces", false, "send OpenTelemetry traces over OTLP/HTTP (OTEL_EXPORTER_OTLP_* say where)")
	flags.Float64Var(&o.rate, "rate", 5000, "requests a second from one address; negative: no limit")
	flags.BoolVar(&o.index, "index", false, "keep an index of the log: complete histories, and proof of absence")
	flags.StringArrayVar(&o.witnesses, "witness", nil, "where to ask a witness of the policy, instead of the URL there; once for each")
	flags.DurationVar(&o.witnessing.Every, "witness-every", time.Second, "shortest time between two rounds of cosignatures that nobody waits for")
	flags.StringVar(&o.witnessBoot, "witness-boot", bootTry, "whether to start without the answers of a quorum of witnesses: try|require")
	flags.Uint64Var(&o.reserve, "reserve", 256<<20, "free disk space in bytes below which entries are refused; 0: no reserve")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "log requests too")
	_ = cmd.MarkFlagRequired("data") // the flag exists
	return cmd
}

// reserveBytes is the reserve as the store takes it: there 0 means the default,
// and one byte is as good as none.
func (o *serveOptions) reserveBytes() uint64 { return max(o.cell.Reserve(o.reserve), 1) }

func (a *app) serve(ctx context.Context, o *serveOptions) (err error) {
	e, err := a.prepareServe(ctx, o)
	if err != nil {
		return err
	}
	level := slog.LevelInfo
	if o.verbose {
		level = slog.LevelDebug
	}
	logger := a.logger(level)
	e.alive = &node.Life{Logger: logger, Version: version, Revision: thisBuild().Revision, Data: o.data, Anchor: o.anchor,
		Address: e.listener.Addr().String(), Began: time.Now(), Bar: a.Bar()}
	ctx, release := e.alive.Hangup(ctx, e.tls)
	defer release()
	e.alive.Opening()
	e.opened = node.AnswerOpening(e.bound, e.tls, node.OpeningMost)
	defer e.opened()
	counts := metrics.New()
	o.cell.Agreed, o.cell.Version = counts.Agreed, version
	cutoff := node.NewCutoff(e.listener)
	e.listener, e.alive.Halt = cutoff, func(err error) { o.cell.Abandon(); cutoff.Halt(ctx, counts, e.tls, err) }
	defer func() { err = errors.Join(err, o.cell.Close()) }()
	if err := o.cell.Begin(ctx, o.data, logger); err != nil {
		return errors.Join(err, e.listener.Close())
	}
	n, err := node.Open(ctx, node.Options{
		Dir: o.data, Origin: o.origin, Create: true, Serves: true, Decides: !o.acceptNoCoordinator, Index: o.index, Anchor: o.anchor,
		AcceptAnchor: o.acceptAnchor, AcceptClock: o.acceptClock,
		Reserve: o.reserveBytes(), Logger: logger, Metrics: counts, Machine: a.trust(),
		Passphrase: terminal.Once(a.Passphrase), NewPassphrase: terminal.Once(a.ForNewKeys(o.encrypt)),
		Fatal: e.alive.Fatal, Failed: o.lastWord.Damaged(counts, cutoff, e.tls), Progress: e.alive.Progress, URIs: o.keys, Cluster: o.cell.Hook(),
	})
	if err == nil {
		if !o.cell.On() {
			err = n.ContinuesKnown()
		}
		if err == nil {
			err = o.engine.Load(n)
		}
		if err != nil {
			err = errors.Join(err, n.Log.Close())
		}
	}
	if err != nil {
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			err = nil // it was asked to end while it opened
		}
		return errors.Join(err, e.listener.Close())
	}
	var rounds *witness.Rounds
	if n.Log.Head().Size > 0 && !o.cell.On() { // before it signs anything
		if rounds, err = n.Rounds(ctx, o.witnessing); err != nil {
			return errors.Join(err, n.Log.Close(), e.listener.Close())
		}
	}
	n.Show(counts, version, thisBuild().Revision) // before the coordinator writes
	e.alive.Start(n)
	if o.acceptNoCoordinator {
		logger.Warn("NOTHING IS DECIDED: enrol a key for the coordinator and start again without --accept-no-coordinator")
	}
	why, err := n.Run(ctx, !o.acceptNoCoordinator, func(ctx context.Context) error {
		return a.serveNode(ctx, o, n, e, &server.Config{Metrics: counts, Witnesses: rounds})
	})
	e.alive.Stop(n, why, err)
	return err
}

// serveNode prepares the server of a ledger, and serves until ctx ends.
func (a *app) serveNode(ctx context.Context, o *serveOptions, n *node.Node, e *serveSetup, config *server.Config) (err error) {
	served := false
	defer func() {
		if !served {
			err = errors.Join(err, e.listener.Close())
		}
	}()
	config.Origin, config.VerifierKeys, config.Log, config.Index, config.Replica, config.TLS = n.Origin, n.Keys[0].VerifierKeys[:], n.Log, n.Index, n.Replica, e.tls
	config.COSE, config.Logger, config.Version, config.Rate, config.Connections = n.COSE, n.Logger, version, o.rate, connections()
	config.Hosts = o.hosts
	if err := o.cell.Ready(ctx, n, e.url, config); err != nil {
		return err
	}
	o.engine.Begin(n, config)
	traced, err := o.trace(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, traced()) }()
	if config.Evidence, err = server.OpenEvidence(n.EvidenceFile()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, config.Evidence.Close()) }()
	p, begins := &trust.Profile{URL: e.url, TLSCA: e.certificate}, o.begins(n)
	if err := n.Introduce(ctx, p, func() (*entry.Policy, error) { return e.policy, e.policyErr }); err != nil {
		return err
	}
	if host, _, _ := net.SplitHostPort(e.listener.Addr().String()); e.tls == nil && !net.ParseIP(host).IsLoopback() {
		n.Logger.Warn("LISTENING BEYOND LOOPBACK WITHOUT TLS: anyone on the network reads what agents write; pass --tls-cert and --tls-key")
	}
	if policy, at := n.Replica.View().Chain.Policy(); policy != nil {
		n.WarnOfPolicy(policy, at.Index)
	}
	if config.Witnesses == nil { // there was no policy yet
		if config.Witnesses, err = n.Rounds(ctx, o.witnessing); err != nil {
			return err
		}
	}
	if config.Pages, err = n.Pages(config.Metrics.Find); err != nil {
		return err
	}
	s, err := server.New(config)
	if err != nil {
		return err
	}
	if err := cmp.Or(o.notifying.Begin(n, config.Metrics), o.publishing.Begin(ctx, n, config.Metrics, p.Root, s.Checkpoint)); err != nil {
		return err
	}
	e.opened()
	if err := a.printStarted(e.started(n, p.Root, begins)); err != nil {
		return err
	}
	served = true
	return o.run(ctx, n, e, s, config)
}

// run answers requests until ctx ends, or until the ledger has to stop. Everything that runs beside
// the server has ended when run returns.
func (o *serveOptions) run(ctx context.Context, n *node.Node, e *serveSetup, s *server.Server, config *server.Config) error {
	ctx, fail := context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { e.alive.Ready(ctx, n, e.url) })
	beside.Go(func() { o.notifying.Run(ctx, n.Logger) })
	var conflict, ahead, apart error
	halt := o.lastWord.Halting(config.Metrics, e.listener, e.tls, fail)
	beside.Go(func() { apart = o.cell.Run(ctx, n, s, fail) })
	beside.Go(func() { ahead = o.publishing.Run(ctx, halt) })
	beside.Go(func() {
		if conflict = n.Witness(ctx, config.Witnesses); conflict != nil {
			halt(conflict)
		}
	})
	err := s.Run(ctx, e.listener)
	fail(nil)
	beside.Wait()
	return errors.Join(conflict, ahead, apart, err)
}

// begins reports whether this start makes the ledger. If not, nobody reads the file of its policy.
func (o *serveOptions) begins(n *node.Node) bool {
	if n.Log.Head().Size == 0 {
		return true
	}
	if o.policy != "" {
		n.Logger.Warn("--policy is not read: it is for a new ledger, and this one has a policy", slog.String("remedy", "arl policy apply "+o.policy))
	}
	return false
}

// trace makes spans of requests with --traces. ended sends the last ones.
func (o *serveOptions) trace(ctx context.Context, config *server.Config) (ended func() error, err error) {
	if !o.traces {
		return func() error { return nil }, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, exit.With(exit.Config, err)
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter))
	config.Tracer = provider
	return func() error { return provider.Shutdown(context.WithoutCancel(ctx)) }, nil
}

// How a ledger starts whose witnesses do not answer.
const (
	bootTry     = "try"
	bootRequire = "require"
)

// readWitnesses reads the flags about witnesses.
func (o *serveOptions) readWitnesses() error {
	if o.witnessing.Every < 0 {
		return exit.Usagef("--witness-every %v: want a duration from 0 on", o.witnessing.Every)
	}
	if o.witnessBoot != bootTry && o.witnessBoot != bootRequire {
		return exit.Usagef("--witness-boot %s: want %s or %s", o.witnessBoot, bootTry, bootRequire)
	}
	o.witnessing.Require = o.witnessBoot == bootRequire
	o.witnessing.URLs = map[string]string{}
	for _, text := range o.witnesses {
		name, address, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return exit.Usagef("--witness %s: want NAME=URL, with the name of a witness in the policy", text)
		}
		prefix, err := witness.ParseURL(address)
		if err != nil {
			return exit.Usagef("--witness %s: %w", text, err)
		}
		o.witnessing.URLs[name] = prefix
	}
	return o.monitors.Check()
}

// connections is how many the server may hold: the default, or half of the files
// that the process may open, since the database needs some.
func connections() int {
	return min(openFiles()/2, server.DefaultConnections)
}

func (a *app) printStarted(s *node.Started) error {
	if !a.JSON() {
		_, err := fmt.Fprint(a.Out, s.Text(os.Args[0]))
		return err
	}
	line, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "%s\n", line)
	return err
}

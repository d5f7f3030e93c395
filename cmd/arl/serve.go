package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/sync/errgroup"

	"recoveryledger/api/server"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
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
}

func (a *app) serveCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the ledger",
		Long: "Run the ledger of a data directory. The first start makes its keys, the genesis policy, and an operator's\n" +
			"key with a profile, so that later commands on this machine need no flags. With --passphrase, or where\n" +
			passphraseVariable + " is set, these keys are encrypted, and every later start asks for the passphrase.",
		Example: "  arl serve --data ./data --listen 127.0.0.1:8087",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), &o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.data, "data", "", "data directory (mandatory)")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8087", "address to listen on")
	flags.StringVar(&o.policy, "policy", "", "policy file for the genesis of a new ledger (default: arl policy show --default)")
	flags.StringVar(&o.origin, "origin", "", "name of a new ledger, in every tree head (default: made up, unique)")
	flags.StringVar(&o.anchor, "anchor", "", "anchor file (default: the data directory's name with .anchor)")
	flags.BoolVar(&o.acceptAnchor, "accept-anchor", false, "trust the database without its anchor")
	flags.BoolVar(&o.acceptClock, "accept-clock", false, "trust a wall clock that is behind the last entry")
	flags.BoolVar(&o.acceptNoCoordinator, "accept-no-coordinator", false, "start without a coordinator's key that counts, to enrol one: nothing is decided")
	encryptFlag(flags, &o.encrypt, "the keys that the first start makes")
	flags.StringVar(&o.tlsCert, "tls-cert", "", "certificate file: serve TLS")
	flags.StringVar(&o.tlsKey, "tls-key", "", "key file of the certificate")
	flags.StringVar(&o.tlsClientCA, "tls-client-ca", "", "CA file: ask clients for certificates of it (mTLS)")
	flags.BoolVar(&o.traces, "traces", false, "send OpenTelemetry traces over OTLP/HTTP (OTEL_EXPORTER_OTLP_* say where)")
	flags.Float64Var(&o.rate, "rate", 5000, "requests a second from one address; negative: no limit")
	flags.Uint64Var(&o.reserve, "reserve", 256<<20, "free disk space in bytes below which entries are refused; 0: none is kept free")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "log requests too")
	_ = cmd.MarkFlagRequired("data") // the flag exists
	return cmd
}

// reserveBytes is the reserve as the store takes it: there 0 means the default,
// and one byte is as good as none.
func (o *serveOptions) reserveBytes() uint64 { return max(o.reserve, 1) }

func (a *app) serve(ctx context.Context, o *serveOptions) error {
	e, err := a.prepareServe(ctx, o)
	if err != nil {
		return err
	}
	level := slog.LevelInfo
	if o.verbose {
		level = slog.LevelDebug
	}
	logger := a.logger(level)
	e.alive = &life{logger: logger, remedy: damageRemedy(o.data, cmp.Or(o.anchor, o.data+".anchor")), began: time.Now()}
	ctx, release := e.alive.hangup(ctx, e.tls)
	defer release()
	e.alive.opening(o, e)
	metrics := server.NewMetrics()
	n, err := openNode(nodeOptions{
		dir: o.data, origin: o.origin, create: true, serves: true, decides: !o.acceptNoCoordinator, anchor: o.anchor,
		acceptAnchor: o.acceptAnchor, acceptClock: o.acceptClock,
		reserve: o.reserveBytes(), logger: logger, observe: metrics.Commit, known: a.refuseKnown,
		passphrase: once(a.passphrase), newPassphrase: once(a.forNewKeys(o.encrypt)),
		fatal: e.alive.fatal,
	})
	if err == nil {
		if err = a.continuesKnown(n); err != nil {
			err = errors.Join(err, n.log.Close())
		}
	}
	if err != nil {
		return errors.Join(err, e.listener.Close())
	}
	metrics.Opened(n.log)
	e.alive.start(n, e)
	defer tuneRuntime()()
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	serving, end := context.WithCancelCause(ctx)
	defer end(nil)
	var order errgroup.Group
	order.Go(func() error {
		err := n.log.Run(running)
		if err != nil {
			logger.Error("the order ended: nothing more is registered", "error", err.Error())
		}
		end(cmp.Or(err, errEnded)) // without the order there is nothing to serve
		return n.damaged(brokenLog(err))
	})
	if o.acceptNoCoordinator {
		logger.Warn("NOTHING IS DECIDED: enrol a key for the coordinator and start again without --accept-no-coordinator")
	} else {
		order.Go(func() error {
			err := n.coordinator().Run(serving)
			end(cmp.Or(err, errEnded))
			if errors.Is(err, ledger.ErrStopped) {
				return nil // the order says why
			}
			return n.damaged(brokenLog(err))
		})
	}
	err = a.serveNode(serving, o, n, e, metrics)
	why := cmp.Or(context.Cause(serving), err)
	stop() // only now: the server has answered what it accepted
	err = errors.Join(err, order.Wait(), n.damaged(brokenLog(n.log.Close())))
	e.alive.stop(n, why, err)
	return err
}

// brokenLog is an error of the log under a running server: what is no damage is
// the disk.
func brokenLog(err error) error {
	if err != nil && exitCode(err) == exitInternal {
		return withExit(exitIO, err)
	}
	return err
}

// serveNode serves until ctx ends.
func (a *app) serveNode(ctx context.Context, o *serveOptions, n *node, e *entrance, metrics *server.Metrics) (err error) {
	served := false
	defer func() {
		if !served {
			err = errors.Join(err, e.listener.Close())
		}
	}()
	config := &server.Config{
		Origin: n.origin, VerifierKeys: n.keys[0].VerifierKeys[:], Log: n.log, Replica: n.replica, TLS: e.tls,
		Logger: n.logger, Metrics: metrics, Version: version, Rate: o.rate, Connections: connections(),
	}
	if o.traces {
		exporter, err := otlptracehttp.New(ctx)
		if err != nil {
			return withExit(exitConfig, err)
		}
		provider := trace.NewTracerProvider(trace.WithBatcher(exporter))
		defer func() { err = errors.Join(err, provider.Shutdown(context.WithoutCancel(ctx))) }()
		config.Tracer = provider
	}
	if config.Evidence, err = server.OpenEvidence(filepath.Join(n.dir, "evidence.ndjson")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, config.Evidence.Close()) }()
	root, err := a.introduce(ctx, n, e)
	if err != nil {
		return err
	}
	if host, _, _ := net.SplitHostPort(e.listener.Addr().String()); e.tls == nil && !net.ParseIP(host).IsLoopback() {
		n.logger.Warn("LISTENING BEYOND LOOPBACK WITHOUT TLS: anyone on the network reads what agents write; pass --tls-cert and --tls-key")
	}
	if policy, at := n.replica.View().Chain.Policy(); policy != nil {
		n.warnOfPolicy(policy, at.Index)
	}
	s, err := server.New(config)
	if err != nil {
		return err
	}
	if err := a.printStarted(n, e, root); err != nil {
		return err
	}
	served = true
	telling, over := context.WithCancel(ctx)
	var told sync.WaitGroup
	told.Go(func() { e.alive.ready(telling, n, e) })
	defer func() { over(); told.Wait() }()
	return s.Run(ctx, e.listener)
}

// connections is how many the server may hold: the default, or half of the files
// that the process may open, since the database needs some.
func connections() int {
	return min(openFiles()/2, server.DefaultConnections)
}

// introduce makes the ledger known to this machine: on the first start it
// writes the genesis and the operator's keys, and always it brings the profile
// up to date. A crash in between is made good by the next start.
func (a *app) introduce(ctx context.Context, n *node, e *entrance) (verify.Root, error) {
	home, err := a.homeDir()
	if err != nil {
		return verify.Root{}, err
	}
	name := profileName(n.origin)
	dir := filepath.Join(home, "keys", name)
	p := &profile{Name: name, URL: e.url, TLSCA: e.certificate}
	owners := map[entry.Principal]*keys.Signer{}
	founding := n.log.Head().Size == 0
	for _, principal := range []entry.Principal{principalAuthority, principalOperator} {
		path := filepath.Join(dir, string(principal)+".key")
		if founding {
			if owners[principal], err = n.ownerKey(path); err != nil {
				return verify.Root{}, err
			}
		} else if _, err := os.Stat(path); err != nil {
			continue // a ledger from elsewhere: its operator's keys are not here
		}
		p.Keys = append(p.Keys, namedKey{principal, path})
	}
	if founding {
		if e.policyErr != nil {
			return verify.Root{}, e.policyErr
		}
		if err := n.genesis(ctx, e.policy, owners[principalAuthority], owners[principalOperator]); err != nil {
			return verify.Root{}, err
		}
	}
	if p.Root, err = n.root(); err != nil {
		return verify.Root{}, err
	}
	return p.Root, a.saveProfile(p)
}

// ownerKey loads a key of those who own a new ledger, or makes it.
func (n *node) ownerKey(path string) (*keys.Signer, error) {
	signer, err := keys.Load(path, n.passphrase)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		signer, err = keys.Generate(path, keys.Ed25519, n.newPassphrase)
	}
	return signer, unusableKey(err)
}

// started is what arl serve prints when the ledger takes entries.
type started struct {
	URL          string   `json:"url"`
	Origin       string   `json:"origin"`
	VerifierKeys []string `json:"verifier_keys"`
	Genesis      string   `json:"genesis"`
	Data         string   `json:"data"`
}

func (a *app) printStarted(n *node, e *entrance, root verify.Root) error {
	s := started{URL: e.url, Origin: n.origin, VerifierKeys: root.LedgerKeys, Genesis: root.Genesis.String(), Data: n.dir}
	if a.settings.output == "json" {
		line, err := json.Marshal(s)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.out, "%s\n", line)
		return err
	}
	shown := ""
	if e.asksClients {
		shown = " --tls-cert CLIENT.pem --tls-key CLIENT.key"
	}
	_, err := fmt.Fprintf(a.out, `URL           %[2]s
origin        %[3]s
verifier key  %[4]s
genesis       %[5]s

Submit a first entry from another terminal:

  %[1]s key generate --out agent.key
  %[1]s agent enrol --principal my-agent --key agent.key --domain my-team%[6]s
  %[1]s entry submit --kind execution --principal my-agent --key agent.key --payload - --out receipt.json%[6]s <<'JSON'
  {"wid": "first-workflow", "exec": "step-1", "parents": [], "effect": "none", "progress": "confirmed"}
JSON
  %[1]s verify receipt.json
`, os.Args[0], s.URL, s.Origin, s.VerifierKeys[0], s.Genesis, shown)
	if err == nil && e.tls != nil {
		_, err = fmt.Fprintf(a.out, "\nThe profile here trusts %s; elsewhere pass --tls-ca with the CA of that certificate.\n", e.certificate)
	}
	return err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/listen"
	"recoveryledger/cmd/arl/manual"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/keys"
	"recoveryledger/ledger/witness"
)

// witnessOptions are the flags of arl witness.
type witnessOptions struct {
	state, name, listen string
	logs                []string // verifier keys
	tlsCert, tlsKey     string
	encrypt             bool
	push                bool
	audit               string
	target              access.Target // with push or audit
	monitors            listen.Monitors
}

func (a *app) witnessCommand() *cobra.Command {
	var o witnessOptions
	cmd := &cobra.Command{
		Use:   "witness",
		Short: "Cosign the tree heads of ledgers",
		Long: "Run a witness (c2sp.org/tlog-witness). A witness cosigns a tree head only if the tree head continues the one\n" +
			"that the witness cosigned last. A ledger therefore cannot show two histories to parties who ask for the\n" +
			"cosignatures of a witness. The first start makes the keys of the witness, and needs --name. With --push the\n" +
			"witness listens nowhere: it asks a ledger what to cosign, and pushes its cosignatures. With --audit the witness has\n" +
			"a second key: an auditor, who reads every entry and cosigns only what arl log audit finds right.",
		Example: "  arl witness --state ./witness --name example.org/witness-1 --log VERIFIER_KEY",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.monitors.Join(cmd.Context(), a.witness(cmd.Context(), &o))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.state, "state", "", "directory of the keys and of the tree heads that were cosigned (required)")
	manual.NameValue(flags, "state", "DIR")
	flags.StringVar(&o.name, "name", "", "name of a new witness, such as example.org/witness-1")
	flags.StringArrayVar(&o.logs, "log", nil, "Ed25519 verifier key of a ledger, as arl log head prints it; once for each key (required)")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8089", "address to listen on")
	flags.BoolVar(&o.push, "push", false, "ask a ledger for tree heads and push the cosignatures, instead of listening")
	flags.StringVar(&o.audit, "audit", "", "URL of a ledger: also cosign, by a second key, the tree heads of which every entry was audited")
	manual.NameValue(flags, "audit", "URL")
	flags.StringVar(&o.target.URL, "url", "", "with --push: the ledger's URL (default: the profile's)")
	flags.StringVar(&o.target.TLSCA, "tls-ca", "", "with --push or --audit: file of the CA that signed the server's certificate (default: the system's CAs)")
	o.target.RegisterRoot(flags)
	flags.StringVar(&o.tlsCert, "tls-cert", "", "certificate file: serve TLS; with --push, present it to the server")
	flags.StringVar(&o.tlsKey, "tls-key", "", "key file of the certificate")
	o.monitors.Register(flags)
	encryptFlag(flags, &o.encrypt, "the keys that the first start makes")
	_ = cmd.MarkFlagRequired("state") // the flags exist
	_ = cmd.MarkFlagRequired("log")
	return cmd
}

func (a *app) openWitness(o *witnessOptions) (*witness.Witness, error) {
	if o.state == "" {
		return nil, exit.Usagef("--state is empty: name the directory of the witness")
	}
	if err := errors.Join(access.CheckPair(o.tlsCert, o.tlsKey), o.monitors.Check()); err != nil {
		return nil, err
	}
	if o.name != "" {
		if err := keys.CheckOrigin(o.name); err != nil {
			return nil, exit.Usagef("--name: %w", err)
		}
	}
	return node.OpenWitness(o.config(a))
}

func (o *witnessOptions) config(a *app) *witness.Config {
	return &witness.Config{Dir: o.state, Name: o.name, Logs: witness.LogsOf(o.logs),
		Passphrase: terminal.Once(a.Passphrase), NewPassphrase: terminal.Once(a.ForNewKeys(o.encrypt))}
}

// startedWitness is the output of arl witness at its start.
type startedWitness struct {
	URL          string   `json:"url"`
	Name         string   `json:"name"`
	VerifierKeys []string `json:"verifier_keys"`
	Logs         []string `json:"logs"`
	Policy       []string `json:"policy"` // lines of a witness policy
}

func (a *app) witness(ctx context.Context, o *witnessOptions) (err error) {
	w, err := a.openWitness(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	switch {
	case o.push && o.audit != "":
		return exit.Usagef("--push and --audit: an auditor is asked, and cannot push: run two processes with a --state each")
	case o.push:
		return a.witnessPushes(ctx, w, o)
	case o.audit == "":
		return a.witnessListens(ctx, w, nil, o)
	}
	o.target.URL = o.audit
	return a.machine().WithConnection(ctx, &o.target, func(c *access.Connection) error {
		auditor, err := node.OpenAuditor(w, o.config(a), node.Auditing{Source: c.Client, Root: c.Root, Logger: a.logger(slog.LevelInfo), Keep: a.trust().KeepEvidence})
		if err != nil {
			return err
		}
		return errors.Join(a.witnessListens(ctx, w, auditor, o), auditor.Close())
	})
}

// witnessListens serves a witness, and its auditor unless that is nil.
func (a *app) witnessListens(ctx context.Context, w, auditor *witness.Witness, o *witnessOptions) error {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", o.listen)
	if err != nil {
		return exit.With(exit.Config, err)
	}
	url := node.ListenURL(o.listen, listener.Addr(), o.tlsCert != "")
	if err := a.printWitness(w, auditor, url); err != nil {
		return errors.Join(err, listener.Close())
	}
	s := &node.WitnessServer{Witness: w, Auditor: auditor, Pair: [2]string{o.tlsCert, o.tlsKey}, Logger: a.logger(slog.LevelInfo), Tell: o.monitors.Tell}
	return s.Run(ctx, listener)
}

func (a *app) printWitness(w, auditor *witness.Witness, url string) error {
	line := func(w *witness.Witness, url string) string {
		return strings.TrimSpace(fmt.Sprintf("witness %s %s %s", w.Name(), w.Keys()[0], url))
	}
	vkeys := w.Keys()
	p := startedWitness{URL: url, Name: w.Name(), VerifierKeys: vkeys[:], Logs: w.Logs(), Policy: []string{line(w, url)}}
	fields := []terminal.Field{{"URL", url}, {"name", p.Name}, {"verifier key", vkeys[0]},
		{"ledgers", strings.Join(p.Logs, " ")}, {"line of a policy", p.Policy[0]}}
	if auditor != nil {
		p.Policy = append(p.Policy, line(auditor, url+node.AuditorPath))
		fields = append(fields, terminal.Field{"line of the auditor", p.Policy[1]})
	}
	return a.PrintObject(p, fields...)
}

// witnessPushes lets a witness push to a ledger until ctx ends.
func (a *app) witnessPushes(ctx context.Context, w *witness.Witness, o *witnessOptions) error {
	logger := a.logger(slog.LevelInfo)
	o.target.TLSCert, o.target.TLSKey = o.tlsCert, o.tlsKey
	return a.machine().WithConnection(ctx, &o.target, func(c *access.Connection) error {
		if err := a.printWitness(w, nil, ""); err != nil {
			return err
		}
		cosigned := uint64(0)
		err := w.PushTo(ctx, c.Root.Origin, c.Client, func(size uint64, err error) {
			switch {
			case err != nil:
				logger.Warn("nothing is cosigned", "error", err.Error())
			case size != cosigned:
				logger.Info("cosigned", "size", size)
				cosigned = size
			}
		})
		switch {
		case errors.Is(err, witness.ErrUnknownLog):
			return exit.Usagef("--log: no key of the ledger %s is named: %w", c.Root.Origin, err)
		case errors.Is(err, witness.ErrProof):
			return exit.Remedied("keep the state directory, and tell everybody who trusts this ledger", exit.With(exit.Inconsistent, err))
		}
		return err
	})
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
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
	target              access.Target // with push
}

func (a *app) witnessCommand() *cobra.Command {
	var o witnessOptions
	cmd := &cobra.Command{
		Use:   "witness",
		Short: "Cosign the tree heads of ledgers",
		Long: "Run a witness (c2sp.org/tlog-witness). A witness cosigns a tree head only if the tree head continues the one\n" +
			"that the witness cosigned last. A ledger therefore cannot show two histories to parties who ask for the\n" +
			"cosignatures of a witness. The first start makes the keys of the witness, and needs --name. With --push the\n" +
			"witness listens nowhere: it asks a ledger what to cosign, and pushes its cosignatures.",
		Example: "  arl witness --state ./witness --name example.org/witness-1 --log VERIFIER_KEY",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.witness(cmd.Context(), &o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.state, "state", "", "directory of the keys and of the tree heads that were cosigned (required)")
	manual.NameValue(flags, "state", "DIR")
	flags.StringVar(&o.name, "name", "", "name of a new witness, such as example.org/witness-1")
	flags.StringArrayVar(&o.logs, "log", nil, "Ed25519 verifier key of a ledger, as arl log head prints it; once for each key (required)")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8089", "address to listen on")
	flags.BoolVar(&o.push, "push", false, "ask a ledger for tree heads and push the cosignatures, instead of listening")
	flags.StringVar(&o.target.URL, "url", "", "with --push: the ledger's URL (default: the profile's)")
	flags.StringVar(&o.target.TLSCA, "tls-ca", "", "with --push: file of the CA that signed the server's certificate (default: the system's CAs)")
	o.target.RegisterRoot(flags)
	flags.StringVar(&o.tlsCert, "tls-cert", "", "certificate file: serve TLS; with --push, present it to the server")
	flags.StringVar(&o.tlsKey, "tls-key", "", "key file of the certificate")
	encryptFlag(flags, &o.encrypt, "the keys that the first start makes")
	_ = cmd.MarkFlagRequired("state") // the flags exist
	_ = cmd.MarkFlagRequired("log")
	return cmd
}

func (a *app) openWitness(o *witnessOptions) (*witness.Witness, error) {
	if o.state == "" {
		return nil, exit.Usagef("--state is empty: name the directory of the witness")
	}
	if err := access.CheckPair(o.tlsCert, o.tlsKey); err != nil {
		return nil, err
	}
	if o.name != "" {
		if err := keys.CheckOrigin(o.name); err != nil {
			return nil, exit.Usagef("--name: %w", err)
		}
	}
	w, err := witness.Open(&witness.Config{Dir: o.state, Name: o.name, Logs: witness.LogsOf(o.logs),
		Passphrase: terminal.Once(a.Passphrase), NewPassphrase: terminal.Once(a.ForNewKeys(o.encrypt))})
	switch {
	case errors.Is(err, witness.ErrLog):
		return nil, exit.Usagef("--log: %w", err)
	case errors.Is(err, witness.ErrInUse):
		return nil, exit.With(exit.Conflict, err)
	case errors.Is(err, witness.ErrState):
		return nil, exit.Remedied("begin a new witness in an empty directory, with another --name, and name its key in the policies "+
			"of the ledgers: a witness that has forgotten what it cosigned could cosign a fork", exit.With(exit.Config, err))
	case errors.Is(err, fs.ErrNotExist):
		return nil, exit.Remedied("pass --name NAME to make a new witness", exit.With(exit.Config, fmt.Errorf("no witness in %s", o.state)))
	case err != nil:
		return nil, exit.KeyFile(err)
	}
	return w, nil
}

// startedWitness is what arl witness prints when it takes requests.
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
	if o.push {
		return a.witnessPushes(ctx, w, o)
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", o.listen)
	if err != nil {
		return exit.With(exit.Config, err)
	}
	url := node.ListenURL(o.listen, listener.Addr(), o.tlsCert != "")
	if err := a.printWitness(w, url); err != nil {
		return errors.Join(err, listener.Close())
	}
	return node.ServeWitness(ctx, w, listener, [2]string{o.tlsCert, o.tlsKey}, a.logger(slog.LevelInfo))
}

func (a *app) printWitness(w *witness.Witness, url string) error {
	vkeys := w.Keys()
	p := startedWitness{URL: url, Name: w.Name(), VerifierKeys: vkeys[:], Logs: w.Logs(),
		Policy: []string{strings.TrimSpace(fmt.Sprintf("witness %s %s %s", w.Name(), vkeys[0], url))}}
	return a.PrintObject(p, terminal.Field{"URL", url}, terminal.Field{"name", p.Name}, terminal.Field{"verifier key", vkeys[0]},
		terminal.Field{"ledgers", strings.Join(p.Logs, " ")}, terminal.Field{"line of a policy", p.Policy[0]})
}

// witnessPushes has a witness push to a ledger until ctx ends.
func (a *app) witnessPushes(ctx context.Context, w *witness.Witness, o *witnessOptions) error {
	logger := a.logger(slog.LevelInfo)
	o.target.TLSCert, o.target.TLSKey = o.tlsCert, o.tlsKey
	return a.machine().WithConnection(ctx, &o.target, func(c *access.Connection) error {
		if err := a.printWitness(w, ""); err != nil {
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

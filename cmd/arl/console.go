package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/api"
	"recoveryledger/api/console"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/consoles"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/manual"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/verify"
)

// consoleOptions are the flags of arl console.
type consoleOptions struct {
	access.Where
	listen, runs string
	keys         []string
	readOnly     bool
}

func (a *app) consoleCommand() *cobra.Command {
	var o consoleOptions
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Show the log as web pages, and sign decisions",
		Long: "Show the log as web pages on this machine, and sign decisions there. The command reads every entry, verifies it\n" +
			"against the signed tree head and the rules of registration, and goes on as the log grows. The pages show what\n" +
			"the command derived, and take no server's word. The keys stay in the command. A key with a passphrase signs once\n" +
			"the passphrase is typed in the page. A key without one signs once the act is confirmed in this terminal.\n\n" +
			"The lab among the pages tries policies over recorded failures. --runs names the directory of its runs,\n" +
			"scenarios and policies.\n\n" +
			"The address is secret: whoever has it may look, and may ask for signatures.",
		Example: "  arl console --key ann.key",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.console(cmd.Context(), &o) },
	}
	flags := cmd.Flags()
	o.Register(flags)
	o.RegisterInPlace(flags)
	o.RegisterKept(flags)
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8089", "address on loopback to listen on")
	flags.StringArrayVar(&o.keys, "key", nil, "key file, or URI of a key in a KMS, to sign with; once for each (default: the profile's operator)")
	flags.BoolVar(&o.readOnly, "read-only", false, "sign nothing")
	flags.StringVar(&o.runs, "runs", "", "directory with runs, scenarios and policies for the lab, which only reads them")
	manual.NameValue(flags, "runs", "DIR")
	return cmd
}

func (a *app) console(ctx context.Context, o *consoleOptions) error {
	host, _, err := net.SplitHostPort(o.listen)
	if err != nil || !net.ParseIP(host).IsLoopback() {
		return exit.Usagef("--listen %s: want an address on loopback, such as 127.0.0.1:8089", o.listen)
	}
	if o.Data != "" {
		if len(o.keys) > 0 {
			return exit.Usagef("a stopped ledger takes no entries: leave out --key, or start the ledger and pass --url")
		}
		return a.machine().WithLog(ctx, &o.Where, func(l *access.Log) error { return a.serveConsole(ctx, o, l, nil) })
	}
	return a.machine().WithConnection(ctx, &o.Target, func(c *access.Connection) error {
		return a.serveConsole(ctx, o, c.OpenLog(&o.Where), c)
	})
}

// serveConsole serves the pages of a log. c, if not nil, takes what is signed.
func (a *app) serveConsole(ctx context.Context, o *consoleOptions, l *access.Log, c *access.Connection) error {
	m := a.machine()
	file, err := m.Trust.Path("console")
	if err != nil {
		return err
	}
	capability, err := consoles.Capability(file)
	if err != nil {
		return exit.With(exit.Config, err)
	}
	source := consoles.NewSource(m, l, a.logger(slog.LevelInfo))
	room, clean, err := consoles.Lab(source, o.runs, version)
	if err != nil {
		return exit.With(exit.Config, err)
	}
	defer clean()
	config := &console.Config{Source: source, Origin: l.Root.Origin, Derived: true, Base: "/" + capability, Room: room,
		Accepted: l.Before, Root: func() (verify.Root, error) { return l.Root, nil }, Examine: consoles.Examine(m, &o.Where)}
	if c != nil {
		config.Lease, config.Commands, config.Metrics = consoles.Lease(c), consoles.Commands(c), strings.TrimSuffix(c.URL, "/")+api.PathMetrics
	}
	if c != nil && !o.readOnly {
		if config.Signing, err = a.consoleSigning(o, source, c); err != nil {
			return err
		}
	}
	pages, err := console.New(config)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return err
	}
	address := fmt.Sprintf("http://%s/%s/", listener.Addr(), capability)
	if err := a.PrintObject(map[string]string{"url": address}, terminal.Field{"console", address}); err != nil {
		return err
	}
	return consoles.Serve(ctx, source, listener, consoles.Handler(pages, capability, listener.Addr()), room.Run)
}

// consoleSigning returns what signs with the keys of the flags, or with the profile's.
func (a *app) consoleSigning(o *consoleOptions, source *consoles.Source, c *access.Connection) (console.Signing, error) {
	paths := o.keys
	if len(paths) == 0 && c.Profile != nil {
		if path, err := c.Profile.Key(node.Operator); err == nil {
			paths = []string{path}
		}
	}
	signing, err := consoles.NewSigning(source, c, paths, a.Passphrase, func(question string) error {
		if !a.Interactive() {
			return errors.New("the key has no passphrase, and no terminal is there to confirm in: start arl console in a terminal, or pass a key with a passphrase")
		}
		return a.Confirm(question, false)
	})
	return signing, exit.KeyFile(err)
}

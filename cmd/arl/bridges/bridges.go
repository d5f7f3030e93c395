// Package bridges has the command that tells one ledger what another one rolls back.
package bridges

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"recoveryledger/api/client"
	"recoveryledger/api/client/bridge"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/manual"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
)

// options are the flags of arl bridge.
type options struct {
	access.SignerFlags
	to, from access.Target
	bundles  string
	every    time.Duration
	once     bool
}

// Command returns arl bridge.
func Command(t *terminal.Terminal, machine func() *access.Machine) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "bridge",
		Short: "Tell a ledger what another ledger rolls back",
		Long: "Follow another ledger, and signal the failure of each execution whose parent there is rolled back. The bundle of\n" +
			"the decision is checked under the pinned root of the other ledger, and its digest is the evidence of the signal.\n" +
			"The key is that of a principal with the role monitor. Each ledger decides alone (docs/two-ledgers.md).",
		Example: "  arl bridge --profile theirs --from ours --key bridge.key --bundles ./bundles",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), t, machine()) },
	}
	flags := cmd.Flags()
	o.to.Register(flags)
	o.Register(flags)
	flags.StringVar(&o.from.Profile, "from", "", "name of the profile of the ledger whose rollbacks are told (required)")
	flags.StringVar(&o.bundles, "bundles", "", "directory for the bundles that the signals have as evidence (required)")
	manual.NameValue(flags, "from", "PROFILE")
	manual.NameValue(flags, "bundles", "DIR")
	flags.DurationVar(&o.every, "every", time.Second, "time between two looks at the ledgers")
	flags.BoolVar(&o.once, "once", false, "look once, and end")
	for _, name := range []string{"from", "bundles"} {
		_ = cmd.MarkFlagRequired(name) // the flag exists
	}
	return cmd
}

func (o *options) run(ctx context.Context, t *terminal.Terminal, m *access.Machine) error {
	if o.every <= 0 {
		return exit.Usagef("--every %v: want a duration above 0", o.every)
	}
	if err := os.MkdirAll(o.bundles, 0o700); err != nil {
		return err
	}
	return m.WithConnection(ctx, &o.from, func(from *access.Connection) error {
		return m.WithConnection(ctx, &o.to, func(to *access.Connection) error {
			signer, err := m.Signer(ctx, to, o.SignerFlags, "bridge")
			if err != nil {
				return err
			}
			b, err := bridge.New(bridge.Config{
				From: from.Client, To: to.Client, Issuer: signer.Principal, Sign: signer.Sign, Keep: o.keep, Now: time.Now,
				Tell: func(e bridge.Event) { _ = tell(t, &e) }, // nobody reads
			})
			if err != nil {
				return exit.With(exit.Config, err)
			}
			return o.follow(ctx, b)
		})
	})
}

// follow looks at the ledgers until ctx ends. A ledger that does not answer is asked again: the
// client has tried for a while by then, and what it missed stands in the logs.
func (o *options) follow(ctx context.Context, b *bridge.Bridge) error {
	for {
		err := b.Step(ctx)
		switch {
		case ctx.Err() != nil:
			return exit.With(exit.Interrupted, errors.New("interrupted"))
		case err != nil || o.once:
			return err
		}
		_ = client.Pause(ctx, o.every) // ctx is looked at above
	}
}

// keep writes a bundle, named by its digest.
func (o *options) keep(digest entry.Digest, bundle []byte) error {
	name := strings.ReplaceAll(string(digest), ":", "-") + ".bundle"
	return durable.Write(filepath.Join(o.bundles, name), bundle, 0o600)
}

func tell(t *terminal.Terminal, e *bridge.Event) error {
	switch {
	case t.JSON():
		return t.PrintJSON(e)
	case e.Problem != "":
		return t.PrintText(fmt.Sprintf("%s  not told: %s\n", e.Exec, e.Problem))
	}
	return t.PrintText(fmt.Sprintf("%s  signal %d: %s is rolled back in incident %d of %s\n", e.Exec, e.Signal, e.Foreign.Exec, e.Incident, e.Foreign.Origin))
}

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/cmd/arl/trust"
	"recoveryledger/verify"
)

// The profiles of this machine, and the roots that they pin.

func (a *app) rootShowCommand() *cobra.Command {
	var t access.Target
	var out string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the pinned root of a ledger, for other machines",
		Long: "Show the pinned root of a ledger: its origin, its keys, and the leaf hash of its genesis policy. A verifier on\n" +
			"another machine needs this root, and should get it from a trusted person, not from the ledger. Pass the file on\n" +
			"unchanged: arl verify --root FILE, arl profile add --root FILE.",
		Example: "  arl root show --out root.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			root, err := a.machine().PinnedRoot(&t)
			if err != nil {
				return err
			}
			content, err := root.Encode()
			if err != nil {
				return err
			}
			return a.WriteOut(out, content)
		},
	}
	t.RegisterRoot(cmd.Flags())
	cmd.Flags().StringVar(&out, "out", "", "file to write (default: standard output)")
	return cmd
}

func (a *app) rootCommandOf() *cobra.Command {
	cmd := &cobra.Command{Use: "root", Short: "Show the pinned root of a ledger", Example: "  arl root show"}
	cmd.AddCommand(a.rootShowCommand())
	return cmd
}

func (a *app) profileCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "List, add, choose and remove the ledgers that this machine knows",
		Long: "A profile is a ledger as this machine knows it: its URL, its pinned root, and the user's keys for it. The first\n" +
			"start of a ledger makes a profile on its machine. On other machines arl profile add makes one.",
		Example: "  arl profile list",
	}
	cmd.AddCommand(a.profileListCommand(), a.profileAddCommand(), a.profileUseCommand(), a.profileRemoveCommand())
	return cmd
}

// listedProfile is a profile in the form of the output.
type listedProfile struct {
	Name   string           `json:"name"`
	URL    string           `json:"url"`
	Origin string           `json:"origin"`
	Keys   []trust.NamedKey `json:"keys"`
	Chosen bool             `json:"chosen"` // whether commands without --profile use it
}

func (a *app) profileListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the ledgers that this machine knows",
		Long:    "List the ledgers that this machine knows. Commands without --profile use the ledger with a star.",
		Example: "  arl profile list",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.profileList() },
	}
}

func (a *app) profileList() error {
	names, err := a.trust().Profiles()
	if err != nil {
		return err
	}
	chosen, err := a.trust().Chosen(names)
	if err != nil {
		return err
	}
	l := a.NewList("CHOSEN", "PROFILE", "URL", "ORIGIN", "KEYS OF")
	for _, name := range names {
		p, err := a.trust().Profile(name)
		if err != nil {
			return err
		}
		shown, star := listedProfile{p.Name, p.URL, p.Root.Origin, append([]trust.NamedKey{}, p.Keys...), name == chosen}, ""
		if shown.Chosen {
			star = "*"
		}
		var owners []string
		for _, key := range p.Keys {
			owners = append(owners, string(key.Principal))
		}
		if err := l.Add(shown, star, p.Name, p.URL, p.Root.Origin, strings.Join(owners, ",")); err != nil {
			return err
		}
	}
	return l.Close()
}

func (a *app) profileAddCommand() *cobra.Command {
	var p trust.Profile
	var rootFile string
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a ledger to the profiles of this machine",
		Long: "Add a ledger to the profiles of this machine, under a name of your choice: its URL, and the pinned root that\n" +
			"commands check everything against. Get the root from a trusted person, who prints it with arl root show.",
		Example: "  arl profile add production --url https://ledger.example --root root.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			p.Name = args[0]
			return a.profileAdd(&p, rootFile)
		},
	}
	cmd.Flags().StringVar(&p.URL, "url", "", "the ledger's URL (required)")
	cmd.Flags().StringVar(&rootFile, "root", "", "file of the pinned root (required)")
	cmd.Flags().StringVar(&p.TLSCA, "tls-ca", "", "file of the CA that signed the server's certificate (default: the system's CAs)")
	_ = cmd.MarkFlagRequired("url") // the flags exist
	_ = cmd.MarkFlagRequired("root")
	return cmd
}

func (a *app) profileAdd(p *trust.Profile, rootFile string) error {
	if err := trust.CheckName(p.Name); err != nil {
		return err
	}
	if u, err := url.Parse(p.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return exit.Usagef("--url %s: want http://host or https://host", p.URL)
	}
	if _, err := a.trust().Profile(p.Name); !errors.Is(err, fs.ErrNotExist) {
		return exit.With(exit.Conflict, errors.Join(err, fmt.Errorf("profile %s exists: remove it first (arl profile remove %[1]s), or take another name", p.Name)))
	}
	data, err := a.ReadInput(rootFile, verify.MaxRoot)
	if err != nil {
		return err
	}
	if p.Root, err = verify.ParseRoot(data); err != nil {
		return exit.With(exit.Config, fmt.Errorf("%s: %w", rootFile, err))
	}
	if p.TLSCA != "" {
		if p.TLSCA, err = filepath.Abs(p.TLSCA); err != nil {
			return err
		}
	}
	p.Keys = []trust.NamedKey{}
	if err := a.trust().Save(p); err != nil {
		return err
	}
	return a.PrintObject(listedProfile{Name: p.Name, URL: p.URL, Origin: p.Root.Origin, Keys: p.Keys},
		terminal.Field{"profile", p.Name}, terminal.Field{"URL", p.URL}, terminal.Field{"origin", p.Root.Origin}, terminal.Field{"genesis", p.Root.Genesis.String()})
}

func (a *app) profileUseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "use NAME",
		Short: "Choose the ledger for commands without --profile",
		Long: "Choose the ledger for commands without --profile. The flag, ARL_PROFILE and the configuration file override this\n" +
			"choice.",
		Example: "  arl profile use production",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := a.namedProfile(args[0]); err != nil {
				return err
			}
			return a.trust().Choose(args[0])
		},
	}
}

func (a *app) profileRemoveCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Forget a ledger",
		Long: "Forget a ledger: its URL, its pinned root and, unless another profile has the same ledger, the fold that is kept\n" +
			"of its log. Key files stay. The tree head that was accepted last stays too: a ledger of that origin must still\n" +
			"continue it.",
		Example: "  arl profile remove staging",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := a.namedProfile(args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Err, "remove profile %s: %s at %s, genesis %s\n", p.Name, p.Root.Origin, p.URL, p.Root.Genesis)
			if err := a.Confirm("Forget this ledger?", yes); err != nil {
				return err
			}
			return a.trust().Remove(p)
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return cmd
}

// namedProfile loads a profile that must exist.
func (a *app) namedProfile(name string) (*trust.Profile, error) {
	if err := trust.CheckName(name); err != nil {
		return nil, err
	}
	return a.trust().Named(name)
}

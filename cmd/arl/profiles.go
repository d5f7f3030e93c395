package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/ledger/durable"
	"recoveryledger/verify"
)

// The profiles of this machine, and the roots that they pin.

func (a *app) rootShowCommand() *cobra.Command {
	var t target
	var out string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the pinned root of a ledger, for other machines",
		Long: "Show the pinned root of a ledger: its origin, its keys, and the leaf hash of its genesis policy. Whoever verifies\n" +
			"elsewhere needs it, and should get it from somebody who is trusted, not from the ledger. Give it to others as it is:\n" +
			"arl verify --root FILE, arl profile add --root FILE.",
		Example: "  arl root show --out root.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			root, err := a.pinnedRoot(&t)
			if err != nil {
				return err
			}
			content, err := root.Encode()
			if err != nil {
				return err
			}
			return a.writeOut(out, content)
		},
	}
	t.registerRoot(cmd.Flags())
	cmd.Flags().StringVar(&out, "out", "", "file to write (default: standard output)")
	return cmd
}

func (a *app) rootCommandOf() *cobra.Command {
	cmd := &cobra.Command{Use: "root", Short: "Show what is pinned of a ledger", Example: "  arl root show"}
	cmd.AddCommand(a.rootShowCommand())
	return cmd
}

func (a *app) profileCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "List, add, choose and remove the ledgers that this machine knows",
		Long: "A profile is a ledger as this machine knows it: its URL, what is pinned of it, and the keys of the user there. The\n" +
			"first start of a ledger makes one on its machine; elsewhere arl profile add does.",
		Example: "  arl profile list",
	}
	cmd.AddCommand(a.profileListCommand(), a.profileAddCommand(), a.profileUseCommand(), a.profileRemoveCommand())
	return cmd
}

// listedProfile is a profile as it is printed.
type listedProfile struct {
	Name   string     `json:"name"`
	URL    string     `json:"url"`
	Origin string     `json:"origin"`
	Keys   []namedKey `json:"keys"`
	Chosen bool       `json:"chosen"` // whether commands without --profile are about it
}

func (a *app) profileListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the ledgers that this machine knows",
		Long:    "List the ledgers that this machine knows. Commands without --profile are about the one with a star.",
		Example: "  arl profile list",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.profileList() },
	}
}

func (a *app) profileList() error {
	names, err := a.profileNames()
	if err != nil {
		return err
	}
	chosen, err := a.chosenProfile(names)
	if err != nil {
		return err
	}
	l := a.newList("", "PROFILE", "URL", "ORIGIN", "KEYS OF")
	for _, name := range names {
		p, err := a.loadProfile(name)
		if err != nil {
			return err
		}
		shown, star := listedProfile{p.Name, p.URL, p.Root.Origin, append([]namedKey{}, p.Keys...), name == chosen}, ""
		if shown.Chosen {
			star = "*"
		}
		var owners []string
		for _, key := range p.Keys {
			owners = append(owners, string(key.Principal))
		}
		if err := l.add(shown, star, p.Name, p.URL, p.Root.Origin, strings.Join(owners, ",")); err != nil {
			return err
		}
	}
	return l.close()
}

func (a *app) profileAddCommand() *cobra.Command {
	var p profile
	var rootFile string
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Make a ledger known to this machine",
		Long: "Make a ledger known to this machine, under a name of its own: where it is, and the pinned root that everything it\n" +
			"says is checked against. The root comes from somebody who is trusted: arl root show prints it where it is known.",
		Example: "  arl profile add production --url https://ledger.example --root root.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			p.Name = args[0]
			return a.profileAdd(&p, rootFile)
		},
	}
	cmd.Flags().StringVar(&p.URL, "url", "", "the ledger's URL (mandatory)")
	cmd.Flags().StringVar(&rootFile, "root", "", "file of the pinned root (mandatory)")
	cmd.Flags().StringVar(&p.TLSCA, "tls-ca", "", "file of the CA to check the server's certificate with (default: the system's)")
	_ = cmd.MarkFlagRequired("url") // the flags exist
	_ = cmd.MarkFlagRequired("root")
	return cmd
}

func (a *app) profileAdd(p *profile, rootFile string) error {
	if err := checkProfileName(p.Name); err != nil {
		return err
	}
	if u, err := url.Parse(p.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return usage("--url %s: want http://host or https://host", p.URL)
	}
	if _, err := a.loadProfile(p.Name); !errors.Is(err, fs.ErrNotExist) {
		return withExit(exitConflict, errors.Join(err, fmt.Errorf("there is a profile %s: remove it first (arl profile remove %[1]s), or take another name", p.Name)))
	}
	data, err := a.readInput(rootFile, verify.MaxRoot)
	if err != nil {
		return err
	}
	if p.Root, err = verify.ParseRoot(data); err != nil {
		return withExit(exitConfig, fmt.Errorf("%s: %w", rootFile, err))
	}
	if p.TLSCA != "" {
		if p.TLSCA, err = filepath.Abs(p.TLSCA); err != nil {
			return err
		}
	}
	p.Keys = []namedKey{}
	if err := a.saveProfile(p); err != nil {
		return err
	}
	return a.printObject(listedProfile{Name: p.Name, URL: p.URL, Origin: p.Root.Origin, Keys: p.Keys},
		field{"profile", p.Name}, field{"URL", p.URL}, field{"origin", p.Root.Origin}, field{"genesis", p.Root.Genesis.String()})
}

// checkProfileName refuses what is no name of a file on every system.
func checkProfileName(name string) error {
	if name == "" || len(name) > 100 || strings.HasPrefix(name, ".") || name != profileName(name) || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return usage("profile %.100q: want 1 to 100 printable ASCII characters without space, +, :, / and \\, not beginning with a dot", name)
	}
	return nil
}

func (a *app) profileUseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "use NAME",
		Short: "Choose the ledger that commands without --profile are about",
		Long: "Choose the ledger that commands without --profile are about. The flag, ARL_PROFILE and the configuration file go\n" +
			"before that choice.",
		Example: "  arl profile use production",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := a.namedProfile(args[0]); err != nil {
				return err
			}
			path, err := a.choiceFile()
			if err != nil {
				return err
			}
			return withExit(exitIO, durable.Write(path, []byte(args[0]+"\n"), 0o600))
		},
	}
}

func (a *app) profileRemoveCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Forget a ledger",
		Long: "Forget a ledger: its URL, what is pinned of it and, unless another profile is of the same ledger, the fold that is\n" +
			"kept of its log. Key files stay where they are, and so does the tree head that was accepted last: a ledger of that\n" +
			"origin is still held to it.",
		Example: "  arl profile remove staging",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := a.namedProfile(args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(a.err, "remove profile %s: %s at %s, genesis %s\n", p.Name, p.Root.Origin, p.URL, p.Root.Genesis)
			if err := a.confirm("Forget this ledger?", yes); err != nil {
				return err
			}
			return a.removeProfile(p)
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

func (a *app) removeProfile(p *profile) error {
	name := p.Name
	names, err := a.profileNames()
	if err != nil {
		return err
	}
	if err := a.forgetFold(p, names); err != nil {
		return withExit(exitIO, err)
	}
	choice, err := a.readChoice()
	if err != nil {
		return err
	}
	if choice == name && len(names) > 1 {
		path, err := a.choiceFile()
		if err == nil {
			err = os.Remove(path)
		}
		if err != nil {
			return withExit(exitIO, err)
		}
	}
	home, err := a.homeDir()
	if err != nil {
		return err
	}
	return withExit(exitIO, os.Remove(filepath.Join(home, "profiles", name+".json")))
}

// forgetFold removes what is kept of the log of a profile, unless another profile
// is of the same log, or cannot be read: it could only take up space.
func (a *app) forgetFold(p *profile, names []string) error {
	if slices.ContainsFunc(names, func(name string) bool {
		other, err := a.loadProfile(name)
		return name != p.Name && (err != nil || other.Root.Origin == p.Root.Origin)
	}) {
		return nil
	}
	place, err := a.keptIn(p.Root)
	if err != nil {
		return err
	}
	return place.Remove()
}

// namedProfile loads a profile that must be there.
func (a *app) namedProfile(name string) (*profile, error) {
	if err := checkProfileName(name); err != nil {
		return nil, err
	}
	p, err := a.loadProfile(name)
	if errors.Is(err, fs.ErrNotExist) {
		names, _ := a.profileNames()
		return nil, withExit(exitNotFound, fmt.Errorf("no profile %s%s", name, among(name, names)))
	}
	return p, err
}

// choiceFile is where this machine keeps which profile was chosen.
func (a *app) choiceFile() (string, error) {
	home, err := a.homeDir()
	return filepath.Join(home, "profiles", "chosen"), err
}

func (a *app) readChoice() (string, error) {
	path, err := a.choiceFile()
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(content)), err
}

// chosenProfile returns which of the profiles commands without --profile are
// about: the chosen one, or the only one; empty if there is neither.
func (a *app) chosenProfile(names []string) (string, error) {
	choice, err := a.readChoice()
	switch {
	case err != nil:
		return "", err
	case slices.Contains(names, choice):
		return choice, nil
	case len(names) == 1:
		return names[0], nil
	}
	return "", nil
}

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"recoveryledger/verify"
)

// target says which ledger a command is about. Without any of it, that is the
// ledger of the only profile on this machine.
type target struct {
	profile string
	url     string
	root    string // file of a pinned root

	tlsCA, tlsCert, tlsKey string // files in PEM
}

func (t *target) register(flags *pflag.FlagSet) {
	flags.StringVar(&t.url, "url", "", "the ledger's URL (default: the profile's)")
	t.registerRoot(flags)
	t.registerTLS(flags)
}

// registerTLS is what a server may ask for.
func (t *target) registerTLS(flags *pflag.FlagSet) {
	flags.StringVar(&t.tlsCA, "tls-ca", "", "file of the CA to check the server's certificate with (default: the system's)")
	flags.StringVar(&t.tlsCert, "tls-cert", "", "certificate file to present to the server")
	flags.StringVar(&t.tlsKey, "tls-key", "", "key file of the certificate")
}

// registerRoot is register for commands that ask no server.
func (t *target) registerRoot(flags *pflag.FlagSet) {
	flags.StringVar(&t.profile, "profile", "", "name of the ledger's profile in ARL_HOME (default: the chosen one, or the only one)")
	flags.StringVar(&t.root, "root", "", "file of the pinned root to check against (default: the profile's)")
}

// pinnedRoot returns what everything is checked against.
func (a *app) pinnedRoot(t *target) (verify.Root, error) {
	if t.root != "" {
		return a.readRoot(t.root)
	}
	names, err := a.profileNames()
	if err != nil {
		return verify.Root{}, err
	}
	if t.profile == "" && len(names) == 0 {
		return verify.Root{}, withExit(exitConfig, errors.New("no ledger is known on this machine, so that there is nothing to check against: pass --root FILE, "+
			"the pinned root of the ledger, which somebody you trust has (arl root show prints it where the ledger is known)"))
	}
	p, err := a.chooseProfile(t.profile)
	if err != nil {
		return verify.Root{}, err
	}
	return withCosigner(p.Root), nil
}

func (a *app) readRoot(path string) (verify.Root, error) {
	data, err := a.readInput(path, verify.MaxRoot)
	if err != nil {
		return verify.Root{}, err
	}
	root, err := verify.ParseRoot(data)
	if err != nil {
		return verify.Root{}, withExit(exitConfig, fmt.Errorf("%s: %w", path, err))
	}
	root, err = a.followed(root)
	return withCosigner(root), err
}

// chooseProfile loads the profile of that name, or the only one.
func (a *app) chooseProfile(name string) (*profile, error) {
	if name == "" {
		names, err := a.profileNames()
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, withExit(exitConfig, errors.New("no ledger is known on this machine: start one with arl serve, or pass --url and --root, or arl profile add NAME --url URL --root FILE"))
		}
		if name, err = a.chosenProfile(names); err != nil {
			return nil, err
		}
		if name == "" {
			return nil, withExit(exitConfig, fmt.Errorf("%d ledgers are known on this machine: pass --profile %s, or choose one with arl profile use", len(names), strings.Join(names, "|")))
		}
	}
	p, err := a.loadProfile(name)
	if errors.Is(err, fs.ErrNotExist) {
		names, _ := a.profileNames()
		return nil, withExit(exitConfig, fmt.Errorf("no profile %s%s", name, among(name, names)))
	}
	return p, err
}

// profileNames lists the profiles of this machine.
func (a *app) profileNames() ([]string, error) {
	home, err := a.homeDir()
	if err != nil {
		return nil, err
	}
	files, err := os.ReadDir(filepath.Join(home, "profiles"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), ".json"); ok {
			names = append(names, name)
		}
	}
	return names, nil
}

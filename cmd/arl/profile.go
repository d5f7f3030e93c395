package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// profile is what this machine knows of a ledger: where it is, what is pinned
// of it (TRU-1), and which keys the user has there.
type profile struct {
	Name string      `json:"-"`
	URL  string      `json:"url"`
	Root verify.Root `json:"root"`
	Keys []namedKey  `json:"keys"`
	// TLSCA is the file of certificates to check the server's with, PEM; empty:
	// the system's. The first start names the server's own.
	TLSCA string `json:"tls_ca,omitempty"`
}

// namedKey is a key file and the principal that its key is enrolled for.
type namedKey struct {
	Principal entry.Principal `json:"principal"`
	Path      string          `json:"path"`
}

// The principals that the first start of a ledger makes on its machine.
const (
	principalAuthority   entry.Principal = "authority"
	principalOperator    entry.Principal = "operator"
	principalCoordinator entry.Principal = "coordinator"
)

// key returns the path of the principal's key.
func (p *profile) key(principal entry.Principal) (string, error) {
	for _, k := range p.Keys {
		if k.Principal == principal {
			return k.Path, nil
		}
	}
	return "", withExit(exitConfig, fmt.Errorf("profile %s has no key of %s: pass --key", p.Name, principal))
}

// profileName turns an origin into a file name.
func profileName(origin string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("/:+\\ ", r) {
			return '_'
		}
		return r
	}, origin)
}

// loadProfile reads a profile by name; fs.ErrNotExist if there is none.
func (a *app) loadProfile(name string) (*profile, error) {
	home, err := a.homeDir()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(home, "profiles", name+".json")
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &profile{Name: name}
	if err := json.Unmarshal(content, p, json.RejectUnknownMembers(true)); err != nil {
		return nil, withExit(exitConfig, fmt.Errorf("profile %s: %w", path, err))
	}
	p.Root, err = a.followed(p.Root)
	return p, err
}

// saveProfile writes the profile. A pinned root that differs from the one on
// file is refused: it is another ledger under the same name.
func (a *app) saveProfile(p *profile) error {
	known, err := a.loadProfile(p.Name)
	switch {
	case err == nil && (known.Root.Origin != p.Root.Origin || known.Root.Genesis != p.Root.Genesis):
		return withExit(exitConfig, fmt.Errorf("profile %s pins genesis %s, this ledger has %s: it is another ledger; "+
			"remove the profile if that is meant", p.Name, known.Root.Genesis, p.Root.Genesis))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err == nil && p.Root.Seen == "":
		p.Root.Seen = known.Root.Seen // whoever pins the root anew has seen nothing less
	}
	home, err := a.homeDir()
	if err != nil {
		return err
	}
	content, err := json.Marshal(p, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	dir := filepath.Join(home, "profiles")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return durable.Write(filepath.Join(dir, p.Name+".json"), append(content, '\n'), 0o600)
}

// noteSeen writes the head that this machine has accepted into the root that the
// profile pins: whoever is given that root begins with it.
func (a *app) noteSeen(c *connection) error {
	accepted := c.client.Accepted()
	if c.profile == nil || accepted.Note == "" {
		return nil
	}
	p := *c.profile
	p.Root = p.Root.Advance(c.client.Root())
	p.Root.Seen = accepted.Note
	if err := a.saveProfile(&p); err != nil {
		return err
	}
	a.tell("the pinned root of profile %s carries the tree head of size %d now: give it to the agent's machine (arl root show --out FILE)", p.Name, accepted.Size)
	return nil
}

// Package trust keeps the knowledge of one machine about ledgers: profiles with their pinned roots
// (TRU-1), the accepted tree heads, the keys that policies named since (TRU-5), folds and evidence.
//
//	HOME/profiles/NAME.json    a profile; former/NAME.json: the profile of a replaced origin
//	HOME/profiles/chosen       the name of the chosen profile
//	HOME/heads/NAME.note       the tree head that was accepted last
//	HOME/heads/NAME.root.json  the pinned root with the keys that policies named since
//	HOME/folds/NAME.fold       the fold of the log; NAME.fold.begun: of a part, by an interrupted command
//	HOME/evidence              evidence that a log is inconsistent
package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/coord/audit"
	"recoveryledger/ledger"
	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// Store is the directory with the profiles, roots and tree heads of a machine.
type Store struct {
	// Home returns the directory.
	Home func() (string, error)
}

// Path returns a path in the directory.
func (s *Store) Path(parts ...string) (string, error) {
	home, err := s.Home()
	return filepath.Join(append([]string{home}, parts...)...), err
}

// Profile is a ledger as this machine knows it: its URL, its pinned root (TRU-1), and the user's
// keys.
type Profile struct {
	Name string      `json:"-"`
	URL  string      `json:"url"`
	Root verify.Root `json:"root"`
	Keys []NamedKey  `json:"keys"`
	// TLSCA is the PEM file of the CA that signed the server's certificate; empty: the system's
	// CAs. The first start of a ledger names the server's own certificate.
	TLSCA string `json:"tls_ca,omitempty"`
}

// NamedKey is a key file and the principal that its key is enrolled for.
type NamedKey struct {
	Principal entry.Principal `json:"principal"`
	Path      string          `json:"path"`
}

// Key returns the path of the principal's key.
func (p *Profile) Key(principal entry.Principal) (string, error) {
	for _, k := range p.Keys {
		if k.Principal == principal {
			return k.Path, nil
		}
	}
	return "", exit.With(exit.Config, fmt.Errorf("profile %s has no key of %s: pass --key", p.Name, principal))
}

// FileName turns an origin or a principal into a file name.
func FileName(origin string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("/:+\\ ", r) {
			return '_'
		}
		return r
	}, origin)
}

// CheckName refuses a name of a profile that is not a valid file name on every system.
func CheckName(name string) error {
	if name == "" || len(name) > 100 || strings.HasPrefix(name, ".") || name != FileName(name) ||
		strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return exit.Usagef("profile %.100q: want 1 to 100 printable ASCII characters without space, +, :, / and \\, not beginning with a dot", name)
	}
	return nil
}

// Profiles lists the names of the profiles.
func (s *Store) Profiles() ([]string, error) {
	dir, err := s.Path("profiles")
	if err != nil {
		return nil, err
	}
	files, err := os.ReadDir(dir)
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

// Profile reads a profile by name; the error is fs.ErrNotExist if there is none.
func (s *Store) Profile(name string) (*Profile, error) {
	path, err := s.Path("profiles", name+".json")
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &Profile{Name: name}
	if err := json.Unmarshal(content, p, json.RejectUnknownMembers(true)); err != nil {
		return nil, exit.With(exit.Config, fmt.Errorf("profile %s: %w", path, err))
	}
	p.Root, err = s.Followed(p.Root)
	return p, err
}

var errUnknown = errors.New("no profile")

// Named returns a profile that a user has named.
func (s *Store) Named(name string) (*Profile, error) {
	p, err := s.Profile(name)
	if errors.Is(err, fs.ErrNotExist) {
		names, _ := s.Profiles()
		return nil, exit.With(exit.NotFound, fmt.Errorf("%w %s%s", errUnknown, name, entry.Among(name, names)))
	}
	return p, err
}

// Of returns a profile of the ledger with an origin. The profile may have any name. The error is
// fs.ErrNotExist if there is none.
func (s *Store) Of(origin string) (*Profile, error) {
	names, err := s.Profiles()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		p, err := s.Profile(name)
		if err != nil && name == FileName(origin) {
			return nil, err
		}
		if err == nil && p.Root.Origin == origin {
			return p, nil
		}
	}
	return nil, fs.ErrNotExist
}

// RefuseKnown returns an error if the origin has a log already. The data of that log is elsewhere,
// or lost. Other parties take a second log for a fork of the first.
func (s *Store) RefuseKnown(origin string) error {
	p, err := s.Of(origin)
	if errors.Is(err, fs.ErrNotExist) {
		p, err = s.Profile(formerDir + "/" + FileName(origin))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: this start would begin a new log of %s, but profile %s pins a log with genesis %s: "+
		"pass the data directory of that log, or restore it (docs/disk-gone.md); for another ledger, choose another --origin",
		ledger.ErrLost, origin, p.Name, p.Root.Genesis)
}

// Save writes the profile. Save refuses a pinned root that differs from the saved root: it belongs
// to another ledger under the same name.
func (s *Store) Save(p *Profile) error {
	known, err := s.Profile(p.Name)
	switch {
	case err == nil && !known.Root.SameLedger(p.Root):
		return exit.With(exit.Config, fmt.Errorf("profile %s pins genesis %s, and this ledger has genesis %s: it is another ledger; remove the "+
			"profile to pin this ledger instead", p.Name, known.Root.Genesis, p.Root.Genesis))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err == nil && p.Root.Seen == "":
		p.Root.Seen = known.Root.Seen // a root that is pinned again keeps its tree head
	}
	content, err := json.Marshal(p, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	path, err := s.room("profiles", p.Name+".json")
	if err != nil {
		return err
	}
	return durable.Write(path, append(content, '\n'), 0o600)
}

// room returns a path in the directory, and makes the parent directory.
func (s *Store) room(parts ...string) (string, error) {
	path, err := s.Path(parts...)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	return path, err
}

// write writes a file in the directory, whole or not at all.
func (s *Store) write(content []byte, parts ...string) error {
	path, err := s.room(parts...)
	if err != nil {
		return err
	}
	return exit.With(exit.IO, durable.Write(path, content, 0o600))
}

// Remove forgets a profile. It removes the fold too, unless another profile is of
// the same ledger.
func (s *Store) Remove(p *Profile) error {
	names, err := s.Profiles()
	if err != nil {
		return err
	}
	if err := s.forgetFold(p, names); err != nil {
		return exit.With(exit.IO, err)
	}
	choice, err := s.choice()
	if err != nil {
		return err
	}
	remove := []string{p.Name + ".json"}
	if choice == p.Name && len(names) > 1 {
		remove = []string{chosen, p.Name + ".json"}
	}
	for _, name := range remove {
		path, err := s.Path("profiles", name)
		if err == nil {
			err = os.Remove(path)
		}
		if err != nil {
			return exit.With(exit.IO, err)
		}
	}
	return nil
}

// forgetFold removes the kept folds of a profile's log, unless another profile is of the same log,
// or cannot be read.
func (s *Store) forgetFold(p *Profile, names []string) error {
	if slices.ContainsFunc(names, func(name string) bool {
		other, err := s.Profile(name)
		return name != p.Name && (err != nil || other.Root.Origin == p.Root.Origin)
	}) {
		return nil
	}
	for _, of := range []func(verify.Root) (audit.Place, error){s.Fold, s.Begun} {
		place, err := of(p.Root)
		if err == nil {
			err = place.Remove()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// formerDir has the profiles of origins that other origins replaced.
const formerDir = "former"

// Retire moves the profile of an origin away, so that no command takes it for the only profile. It
// returns the new name of the profile, former/NAME; empty if there is no such profile. If the
// profile was chosen, Retire chooses the profile of the successor.
func (s *Store) Retire(origin, successor string) (string, error) {
	name := FileName(origin)
	from, err := s.Path("profiles", name+".json")
	if err != nil {
		return "", err
	}
	to := filepath.Join(filepath.Dir(from), formerDir, name+".json")
	former := formerDir + "/" + name
	if _, err := os.Lstat(from); err != nil {
		if _, err := os.Lstat(to); err == nil {
			return former, nil
		}
		return "", nil // this machine knows nothing of the ledger
	}
	choice, err := s.choice()
	if err == nil && choice == name {
		err = s.Choose(FileName(successor))
	}
	if err = errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o700)); err == nil {
		err = durable.Rename(from, to)
	}
	return former, exit.With(exit.IO, err)
}

package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"recoveryledger/cmd/arl/exit"
)

// chosen is the file with the name of the chosen profile.
const chosen = "chosen"

// Choose sets the profile of commands without --profile.
func (s *Store) Choose(name string) error { return s.write([]byte(name+"\n"), "profiles", chosen) }

func (s *Store) choice() (string, error) {
	path, err := s.Path("profiles", chosen)
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(content)), err
}

// Chosen returns the profile of commands without --profile: the chosen profile, or the only
// profile; empty if there is neither.
func (s *Store) Chosen(names []string) (string, error) {
	choice, err := s.choice()
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

// Select returns the profile with a name. Without a name it returns the profile of Chosen.
func (s *Store) Select(name string) (*Profile, error) {
	if name == "" {
		names, err := s.Profiles()
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, exit.With(exit.Config, errors.New("no ledger is known on this machine: start one with arl serve, or pass --url and --root, or arl profile add NAME --url URL --root FILE"))
		}
		if name, err = s.Chosen(names); err != nil {
			return nil, err
		}
		if name == "" {
			return nil, exit.With(exit.Config, fmt.Errorf("%d ledgers are known on this machine: pass --profile %s, or choose one with arl profile use", len(names), strings.Join(names, "|")))
		}
	}
	p, err := s.Named(name)
	if errors.Is(err, errUnknown) {
		err = exit.With(exit.Config, err)
	}
	return p, err
}

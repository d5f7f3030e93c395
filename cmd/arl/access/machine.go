// Package access opens a ledger under its pinned root: a running ledger over HTTP, or a stopped
// ledger in its directory. It finds the profile of a command, checks that every tree head continues
// the head that was accepted before, folds the log, and keeps heads and folds.
package access

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/trust"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// Machine opens ledgers from this machine. It has the profiles, and asks the user for passphrases.
type Machine struct {
	Trust *trust.Store
	// Read reads a file that a user names, up to a limit in bytes.
	Read          func(name string, limit int64) ([]byte, error)
	Passphrase    keys.Passphrase // of encrypted key files
	NewPassphrase keys.Passphrase // of new key files; nil: they are not encrypted
	Warn          func(format string, args ...any)
	// Progress begins the display of a long step with this name. tell shows the progress of the
	// step. end ends the display.
	Progress func(name string) (tell func(done, total uint64), end func())
	Fatal    func(error) // ends the process if a log that is opened in place breaks
}

// Target names a ledger. The zero Target is the ledger of the chosen profile, or of the only
// profile.
type Target struct {
	Profile string
	URL     string
	Root    string // file of a pinned root

	TLSCA, TLSCert, TLSKey string // files in PEM
}

// Knows reports whether a target says which ledger is meant, or a profile can.
func (m *Machine) Knows(t *Target) (bool, error) {
	if *t != (Target{}) {
		return true, nil
	}
	names, err := m.Trust.Profiles()
	return len(names) > 0, err
}

// Register adds the flags.
func (t *Target) Register(flags *pflag.FlagSet) {
	flags.StringVar(&t.URL, "url", "", "the ledger's URL (default: the profile's)")
	t.RegisterRoot(flags)
	t.RegisterTLS(flags)
}

// RegisterTLS adds the flags for the certificates of client and server.
func (t *Target) RegisterTLS(flags *pflag.FlagSet) {
	flags.StringVar(&t.TLSCA, "tls-ca", "", "file of the CA that signed the server's certificate (default: the system's CAs)")
	flags.StringVar(&t.TLSCert, "tls-cert", "", "certificate file to present to the server")
	flags.StringVar(&t.TLSKey, "tls-key", "", "key file of the certificate")
}

// RegisterRoot adds the flags that pin a root, for commands that ask no server.
func (t *Target) RegisterRoot(flags *pflag.FlagSet) {
	flags.StringVar(&t.Profile, "profile", "", "name of the ledger's profile in ARL_HOME (default: the chosen one, or the only one)")
	flags.StringVar(&t.Root, "root", "", "file of the pinned root to check against (default: the profile's)")
}

// Where names a log: the log of a server, or the log of a stopped ledger.
type Where struct {
	Target
	Data   string // directory of a stopped ledger
	Anchor string // file; empty: beside the directory
	// noCache says that the command neither reads nor writes the kept fold.
	noCache bool
}

// RegisterInPlace adds the flags of a stopped ledger, for commands that can read one.
func (w *Where) RegisterInPlace(flags *pflag.FlagSet) {
	flags.StringVar(&w.Data, "data", "", "data directory of a stopped ledger, instead of a server")
	flags.StringVar(&w.Anchor, "anchor", "", "anchor file of --data (default: the directory's name with .anchor)")
}

// InPlaceFlags are the flags that name a stopped ledger, as a command line has them; none: a server
// is asked.
func (w *Where) InPlaceFlags() (words []string) {
	if w.Data != "" {
		words = append(words, "--data", w.Data)
	}
	if w.Data != "" && w.Anchor != "" {
		words = append(words, "--anchor", w.Anchor)
	}
	return words
}

// RegisterKept adds the flag of commands that fold the log.
func (w *Where) RegisterKept(flags *pflag.FlagSet) {
	flags.BoolVar(&w.noCache, "no-cache", false, "read the whole log, and neither use nor keep its fold in ARL_HOME")
}

func (w *Where) keptUse() keptUse {
	if w.noCache {
		return ignoreKept
	}
	return UseKept
}

// InPlace returns the options that open the data directory of a stopped ledger. A log that is only
// read is closed before a write could fail.
func (m *Machine) InPlace(w *Where) node.Options {
	return node.Options{Dir: w.Data, Anchor: w.Anchor, Machine: m.Trust, Passphrase: m.Passphrase, Fatal: m.Fatal, Progress: m.Progress}
}

// PinnedRoot returns the root that every answer is checked against.
func (m *Machine) PinnedRoot(t *Target) (verify.Root, error) {
	if t.Root != "" {
		return m.ReadRoot(t.Root)
	}
	names, err := m.Trust.Profiles()
	if err != nil {
		return verify.Root{}, err
	}
	if t.Profile == "" && len(names) == 0 {
		return verify.Root{}, exit.With(exit.Config, errors.New("no ledger is known on this machine, so nothing is pinned to check against: pass --root FILE, "+
			"the pinned root of the ledger, from a trusted person (arl root show prints it on a machine that knows the ledger)"))
	}
	p, err := m.Trust.Select(t.Profile)
	if err != nil {
		return verify.Root{}, err
	}
	return trust.WithCosigner(p.Root), nil
}

// ReadRoot reads the file of a pinned root.
func (m *Machine) ReadRoot(path string) (verify.Root, error) {
	data, err := m.Read(path, verify.MaxRoot)
	if err != nil {
		return verify.Root{}, err
	}
	root, err := verify.ParseRoot(data)
	if err != nil {
		return verify.Root{}, exit.With(exit.Config, fmt.Errorf("%s: %w", path, err))
	}
	root, err = m.Trust.Followed(root)
	return trust.WithCosigner(root), err
}

// LoadKey reads a key file.
func (m *Machine) LoadKey(path string) (*keys.Signer, error) {
	signer, err := keys.Load(path, m.Passphrase)
	return signer, exit.KeyFile(err)
}

package access

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
)

// Signer is a private key and its principal.
type Signer struct {
	*keys.Signer
	Principal entry.Principal
	Roles     []entry.Role // of the key, where they were looked up
}

// Entry completes a body as an entry of the ledger of an origin, and signs the entry. A reason is a
// further member of the payload; empty: there is none.
func (s *Signer) Entry(body entry.Body, origin, reason string) (*entry.Entry, error) {
	keys.FillHeader(body, s.Principal, origin)
	e, err := entry.NewWithReason(body, reason)
	if err != nil {
		return nil, err
	}
	return e, s.Sign(e)
}

// SignerFlags name the key and the principal that sign.
type SignerFlags struct {
	Key       string // file; empty: the profile's
	Principal string // empty: the principal that the key is enrolled for
}

// Register adds the flags.
func (f *SignerFlags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.Key, "key", "", "key file, or URI of a key in a KMS, to sign with (default: the profile's operator)")
	flags.StringVar(&f.Principal, "principal", "", "issuer (default: the principal that the key is enrolled for)")
}

// Signer loads the key that the flags name, or the profile's key of fallback.
func (m *Machine) Signer(ctx context.Context, c *Connection, f SignerFlags, fallback entry.Principal) (*Signer, error) {
	if f.Key == "" {
		if c.Profile == nil {
			return nil, exit.Usagef("there is no profile with a key of %s: pass the key file", fallback)
		}
		path, err := c.Profile.Key(fallback)
		if err != nil {
			return nil, err
		}
		loaded, err := m.LoadKey(path)
		return &Signer{Signer: loaded, Principal: cmp.Or(entry.Principal(f.Principal), fallback)}, err
	}
	loaded, err := m.LoadKey(f.Key)
	if err != nil {
		return nil, err
	}
	if f.Principal != "" {
		return &Signer{Signer: loaded, Principal: entry.Principal(f.Principal)}, nil
	}
	chain, err := c.Chain(ctx)
	if err != nil {
		return nil, err
	}
	owner, _ := chain.Owner(loaded.Public().KeyID())
	if owner == "" {
		return nil, exit.With(exit.Denied, fmt.Errorf("%s: %s is enrolled for no principal: arl agent enrol --key %s", f.Key, loaded.Public().KeyID(), f.Key))
	}
	return &Signer{Signer: loaded, Principal: owner}, nil
}

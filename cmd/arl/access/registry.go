package access

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/trust"
	"recoveryledger/coord/recovery/record"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// registry registers entries. It is a server, or a stopped ledger that is opened in place.
type registry interface {
	// Chain returns the verified chain of policies and keys as of now.
	Chain(ctx context.Context) (*verify.Chain, error)
	record.Ledger
	// Cosigned returns the newest tree head that the root's witnesses have cosigned; empty if there
	// is none, or the root names no witnesses.
	Cosigned() string
}

// Recording is a registry under the pinned root of its ledger.
type Recording struct {
	registry
	Root    verify.Root
	profile *trust.Profile // nil: this machine has no profile of the ledger
}

// WithRegistry opens the ledger that a run is recorded in, and calls use. The ledger stays open
// until use returns.
func (m *Machine) WithRegistry(ctx context.Context, w *Where, use func(*Recording) error) error {
	if w.Data == "" {
		return m.WithConnection(ctx, &w.Target, func(c *Connection) error { return use(&Recording{c, c.Root, c.Profile}) })
	}
	n, err := openStopped(ctx, m.InPlace(w), "pass its URL in place of the data directory")
	if err != nil {
		return err
	}
	_, err = n.Run(ctx, false, func(context.Context) error { return m.useNode(n, use) })
	return err
}

// useNode calls use with a ledger that is opened in place. The root is the ledger's own root: no
// pinned root is compared with it.
func (m *Machine) useNode(n *node.Node, use func(*Recording) error) error {
	root, err := n.Root()
	if err != nil {
		return err
	}
	p, err := m.Trust.Profile(trust.FileName(root.Origin))
	if errors.Is(err, fs.ErrNotExist) {
		p, err = nil, nil
	}
	if err != nil {
		return err
	}
	return use(&Recording{n, trust.WithCosigner(root), p})
}

// principalEngine signs runs and attempts, if no other principal is named.
const principalEngine entry.Principal = "engine"

// EngineSigner returns the signer of the key in file. If file is empty, it returns the signer of
// the engine's own key. The first call makes and enrols that key.
func (m *Machine) EngineSigner(ctx context.Context, reg *Recording, file string) (*Signer, error) {
	chain, err := reg.Chain(ctx)
	if err != nil {
		return nil, err
	}
	if file != "" {
		loaded, err := m.LoadKey(file)
		if err != nil {
			return nil, err
		}
		owner, counts := chain.Owner(loaded.Public().KeyID())
		if !counts {
			return nil, exit.With(exit.Denied, fmt.Errorf("%s is enrolled for no principal: arl agent enrol --principal engine --key %s --roles engine", file, file))
		}
		return signerOf(chain, loaded, owner), nil
	}
	path, err := m.Trust.Path("keys", trust.FileName(reg.Root.Origin), string(principalEngine)+".key")
	if err != nil {
		return nil, err
	}
	loaded, err := m.LoadKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		if reg.profile == nil {
			return nil, exit.With(exit.Denied, fmt.Errorf("the key of the authority of %s is not on this machine: let the authority enrol an engine "+
				"(arl agent enrol --roles engine), and pass --key", reg.Root.Origin))
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		loaded, err = keys.Generate(path, keys.Ed25519, m.NewPassphrase)
	}
	if err != nil {
		return nil, err
	}
	switch owner, counts := chain.Owner(loaded.Public().KeyID()); {
	case owner == principalEngine && counts:
		return signerOf(chain, loaded, owner), nil
	case owner != "" || reg.profile == nil:
		return nil, exit.With(exit.Denied, fmt.Errorf("the key %s is no longer valid: move the file away, and run the command again: it makes and enrols another key", path))
	}
	return &Signer{loaded, principalEngine, []entry.Role{entry.RoleEngine}}, m.enrolEngine(ctx, reg, loaded)
}

// signerOf is a key that is enrolled, with its roles.
func signerOf(chain *verify.Chain, key *keys.Signer, owner entry.Principal) *Signer {
	info, _ := chain.KeyInfo(key.Public().KeyID())
	return &Signer{key, owner, info.Roles}
}

// enrolEngine enrols a key with the role engine. The policy's authority signs the enrolment.
func (m *Machine) enrolEngine(ctx context.Context, reg *Recording, key *keys.Signer) error {
	path, err := reg.profile.Key(node.Authority)
	if err != nil {
		return err
	}
	authority, err := m.LoadKey(path)
	if err != nil {
		return err
	}
	e, err := entry.New(&entry.Agent{Header: keys.NewHeader(node.Authority, reg.Root.Origin), Principal: principalEngine, Op: entry.Enrol,
		Key: key.Public(), Roles: []entry.Role{entry.RoleEngine}, Domain: "engine", Span: entry.SpanWorkflow})
	if err != nil {
		return err
	}
	if err := authority.Sign(e); err != nil {
		return err
	}
	return reg.Register(ctx, []*entry.Entry{e})
}

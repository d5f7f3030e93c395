package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/trust"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// Root returns the root of the ledger for other machines to pin. It has the keys that the policies
// name now. The log must have a genesis policy.
func (n *Node) Root() (verify.Root, error) {
	genesis, err := n.Log.Entry(0)
	if err != nil {
		return verify.Root{}, err
	}
	root := verify.Root{Origin: n.Origin, LedgerKeys: n.Keys[0].VerifierKeys[:], Genesis: merkle.HashLeaf(genesis.AppendLeaf(nil))}
	return root.Follow(n.Replica.View().Chain), nil
}

// genesis writes the first entries of a new ledger as one batch: the policy,
// and the keys of the coordinator and of the operator.
func (n *Node) genesis(ctx context.Context, policy *entry.Policy, authority, operator *keys.Signer) error {
	policy.Header = n.Header(Authority)
	policy.Authority = []entry.AuthorityKey{{Principal: Authority, Key: authority.Public()}}
	if link, err := readPredecessor(n.KeysDir()); err == nil {
		policy.Predecessor = link
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	enrol := func(principal entry.Principal, signer *keys.Signer, roles ...entry.Role) entry.Body {
		return &entry.Agent{Header: n.Header(Authority), Principal: principal, Op: entry.Enrol, Key: signer.Public(),
			Roles: roles, Domain: "ledger", Span: entry.SpanWorkflow}
	}
	var batch []*entry.Entry
	for _, body := range []entry.Body{
		policy,
		enrol(Coordinator, n.signer, entry.RoleCoordinator),
		enrol(Operator, operator, entry.RoleOperator, entry.RoleApprover, entry.RoleEnroller, entry.RoleMonitor),
	} {
		e, err := entry.New(body)
		if err != nil {
			return err
		}
		if err := authority.Sign(e); err != nil {
			return err
		}
		batch = append(batch, e)
	}
	answer, err := n.Log.Submit(ctx, batch...)
	if err != nil {
		return err
	}
	if answer.Refused != nil {
		return fmt.Errorf("genesis: %w", answer.Refused)
	}
	return nil
}

// Introduce makes the ledger known to this machine. On the first start it writes the genesis, with
// the policy of founding, and the operator's keys. On every start it brings the profile up to date.
// The next start repairs the effects of a crash in between.
func (n *Node) Introduce(ctx context.Context, p *trust.Profile, founding func() (*entry.Policy, error)) error {
	p.Name = trust.FileName(n.Origin)
	dir, err := n.machine.Path("keys", p.Name)
	if err != nil {
		return err
	}
	owners := map[entry.Principal]*keys.Signer{}
	begins := n.Log.Head().Size == 0
	for _, principal := range []entry.Principal{Authority, Operator} {
		path := filepath.Join(dir, string(principal)+".key")
		if begins {
			if owners[principal], err = n.ownerKey(path); err != nil {
				return err
			}
		} else if _, err := os.Stat(path); err != nil {
			continue // from another machine: this machine has no operator's keys
		}
		p.Keys = append(p.Keys, trust.NamedKey{Principal: principal, Path: path})
	}
	if begins {
		policy, err := founding()
		if err != nil {
			return err
		}
		if err := n.genesis(ctx, policy, owners[Authority], owners[Operator]); err != nil {
			return err
		}
	}
	if p.Root, err = n.Root(); err != nil {
		return err
	}
	return n.machine.Save(p)
}

// ownerKey loads a key of the owners of a new ledger, or makes it.
func (n *Node) ownerKey(path string) (*keys.Signer, error) {
	signer, err := keys.Load(path, n.passphrase)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		signer, err = keys.Generate(path, keys.Ed25519, n.newPassphrase)
	}
	return signer, exit.KeyFile(err)
}

// ContinuesKnown checks a log before the log is served: it must continue the head that this machine
// has accepted. An older copy of database and anchor would sign other heads.
func (n *Node) ContinuesKnown() error {
	p, err := n.machine.Of(n.Origin)
	if errors.Is(err, fs.ErrNotExist) || n.Log.Head().Size == 0 {
		return nil
	}
	var known *verify.SignedHead
	if err == nil {
		known, err = n.machine.Head(p.Root)
	}
	if err != nil { // an error that only commands of this machine see does not stop the ledger
		n.Logger.Warn("the log does not continue the tree head that this machine accepted", "error", err.Error())
		return nil
	}
	if known == nil {
		return nil
	}
	err = n.Continues(*known, n.Log.Head().SignedHead)
	if fork, ok := errors.AsType[*verify.ForkError](err); ok {
		return fmt.Errorf("%w: %w", ledger.ErrRolledBack, fork)
	}
	return err
}

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/coord/sound"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
	"recoveryledger/verify/cose"
)

// NextKey is the next key of a ledger (TRU-5).
type NextKey struct {
	File       string   `json:"file"`
	Origin     string   `json:"origin"`
	LedgerKeys []string `json:"ledger_keys"` // of the newest old key and the next key: Ed25519, ML-DSA-44
}

// MakeNextKey makes the next key of the ledger in a data directory. If the present keys are
// encrypted, the next key is encrypted, too. uri names the next key in a KMS; empty: a file.
func MakeNextKey(data, uri string, passphrase keys.Passphrase) (*NextKey, error) {
	dir := (&Node{Dir: data}).KeysDir()
	before, err := keys.LoadLedger(dir, passphrase)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.With(exit.NotFound, fmt.Errorf("%s holds no ledger: pass the directory that arl serve --data was given", data))
	}
	if err != nil {
		return nil, exit.LedgerKeys(dir, err)
	}
	next, file, err := keys.ReferNextLedger(dir, uri, passphrase)
	if errors.Is(err, fs.ErrExist) {
		return nil, exit.With(exit.Conflict, fmt.Errorf("%w: another process has just made the next key", err))
	}
	if err != nil {
		return nil, exit.KeyFile(err)
	}
	newest := before[len(before)-1]
	return &NextKey{File: file, Origin: next.Origin, LedgerKeys: slices.Concat(newest.VerifierKeys[:], next.VerifierKeys[:])}, nil
}

// logKeys returns the keys in the form of package ledger.
func (n *Node) logKeys() []ledger.Key {
	list := make([]ledger.Key, len(n.Keys))
	for i, k := range n.Keys {
		list[i] = ledger.Key{Signer: k.Signer, Verifier: k.Verifier, Cosigner: k.Cosigner}
	}
	return list
}

// COSE returns the receipt of an entry as a COSE receipt, signed by the oldest key in force: those
// who have not read the newest policy yet trust that key, too.
func (n *Node) COSE(index uint64) ([]byte, error) {
	r, err := n.Log.Receipt(index)
	if err != nil {
		return nil, err
	}
	if len(r.Proof) == 0 {
		return nil, entry.Refuse(entry.NotFound, "", "the log has one entry, and RFC 9942 has no proof without a hash").
			WithRemedy("ask again once the log has more entries")
	}
	root, err := n.Root()
	if err != nil {
		return nil, err
	}
	head, err := root.Head([]byte(r.Head))
	if err != nil {
		return nil, err
	}
	at := n.InForce(n.Replica.View().Chain)
	if at < 0 {
		return nil, n.withoutKey(ledger.ErrKeys)
	}
	return cose.Encode(*r, head, n.Keys[at].Signer)
}

// own returns what the ledger has beside its log.
func (n *Node) own() *sound.Own {
	o := &sound.Own{Keys: make([][2]string, len(n.Keys))}
	for i, k := range n.Keys {
		o.Keys[i] = k.VerifierKeys
	}
	if n.Index != nil {
		o.Index = n.Index
	}
	return o
}

// InForce returns the position of the oldest key that signs, see [sound.Own.InForce].
func (n *Node) InForce(chain *verify.Chain) int { return n.own().InForce(chain) }

// signs returns the keys that sign in the state of a fold.
func (n *Node) signs(fold ledger.Fold, all []ledger.Key) []ledger.Key {
	state, ok := fold.(interface{ Chain() *verify.Chain })
	if !ok {
		return all // the fold has no policy
	}
	first := n.InForce(state.Chain())
	if first < 0 {
		return nil
	}
	return all[first:]
}

// precheck refuses entries that the coordinator refuses, and those that the ledger should not take
// with the keys and the index that it has.
func (n *Node) precheck(e *entry.Entry) error {
	if err := n.Replica.Precheck(e); err != nil {
		return err
	}
	return n.own().Admit(n.Replica.View().Chain, e)
}

// NewKeys returns the keys in a policy entry that are new to the ledger, see [sound.Own.NewKeys].
func (n *Node) NewKeys(e *entry.Entry) []string {
	return n.own().NewKeys(n.Replica.View().Chain, e)
}

// CheckLedgerKeys checks that the data directory has a key that may sign.
func (n *Node) CheckLedgerKeys(chain *verify.Chain) error {
	if n.InForce(chain) < 0 {
		_, at := chain.Policy()
		return n.withoutKey(fmt.Errorf("%w: the policy at %d names none of those in %s", ledger.ErrKeys, at.Index, n.KeysDir()))
	}
	return nil
}

func (n *Node) withoutKey(err error) error {
	return exit.With(exit.Config, fmt.Errorf("%w: restore the key files that are missing in %s from a backup; "+
		"without a key that the policy in force names, this ledger cannot continue", err, n.KeysDir()))
}

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/ledger"
	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// The change of a ledger's key (TRU-5), from both sides: what a data directory
// signs with, and which keys this machine follows.

func (a *app) keyNextCommand() *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "next",
		Short: "Make the key that is to follow a ledger's",
		Long: "Make the ledger's next key, in a new file beside the ones before it: encrypted if they are, with the same passphrase.\n" +
			"What is printed belongs into a policy file: the old key and the new one. From its next start on, arl serve signs with\n" +
			"both, and the policy may be applied; a later one that names the new key alone retires the old.",
		Example: "  arl key next --data ./data > keys.yaml",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.keyNext(data) },
	}
	cmd.Flags().StringVar(&data, "data", "", "data directory of the ledger (mandatory)")
	_ = cmd.MarkFlagRequired("data") // the flag exists
	return cmd
}

// nextKey is what arl key next prints.
type nextKey struct {
	File       string   `json:"file"`
	Origin     string   `json:"origin"`
	LedgerKeys []string `json:"ledger_keys"` // of the newest before it and of this one: Ed25519, ML-DSA-44
}

func (a *app) keyNext(data string) error {
	dir, passphrase := (&node{dir: data}).keysDir(), once(a.passphrase)
	before, err := keys.LoadLedger(dir, passphrase)
	if errors.Is(err, fs.ErrNotExist) {
		return withExit(exitNotFound, fmt.Errorf("%s holds no ledger: pass the directory that arl serve --data was given", data))
	}
	if err != nil {
		return unusableLedgerKeys(dir, err)
	}
	next, file, err := keys.GenerateNextLedger(dir, passphrase)
	if errors.Is(err, fs.ErrExist) {
		return withExit(exitConflict, fmt.Errorf("%w: somebody else has just made the next key", err))
	}
	if err != nil {
		return unusableKey(err)
	}
	newest := before[len(before)-1]
	out := nextKey{File: file, Origin: next.Origin, LedgerKeys: slices.Concat(newest.VerifierKeys[:], next.VerifierKeys[:])}
	if a.settings.output == outputJSON {
		return a.printJSON(out)
	}
	return a.printText(fmt.Sprintf(`# %s: the next key of %s
# Start arl serve again, apply a policy with both, and later one with the last two lines alone.
ledger_keys:
  - %s
`, file, out.Origin, strings.Join(out.LedgerKeys, "\n  - ")))
}

// logKeys are the keys in the form of the log.
func (n *node) logKeys() []ledger.Key {
	list := make([]ledger.Key, len(n.keys))
	for i, k := range n.keys {
		list[i] = ledger.Key{Signer: k.Signer, Verifier: k.Verifier, Cosigner: k.Cosigner}
	}
	return list
}

// inForce returns the place of the oldest key that the policy in force names: it
// and those made after it sign. -1: none is here.
func (n *node) inForce(chain *verify.Chain) int {
	named := chain.LedgerKeys()
	if len(named) == 0 {
		return 0
	}
	return slices.IndexFunc(n.keys, func(k *keys.Ledger) bool { return slices.Contains(named, k.VerifierKeys[0]) })
}

// signs returns the keys that sign in the state of a fold.
func (n *node) signs(fold ledger.Fold, all []ledger.Key) []ledger.Key {
	state, ok := fold.(interface{ Chain() *verify.Chain })
	if !ok {
		return all // it knows no policy
	}
	first := n.inForce(state.Chain())
	if first < 0 {
		return nil
	}
	return all[first:]
}

// precheck refuses, beside what the coordinator refuses, a policy that the ledger
// could not obey: with one of its keys missing here, or, where the key that
// others have pinned gives way for the first time, without that one.
func (n *node) precheck(e *entry.Entry) error {
	if err := n.replica.Precheck(e); err != nil {
		return err
	}
	policy, ok := e.Body.(*entry.Policy)
	if !ok || len(policy.LedgerKeys) == 0 {
		return nil
	}
	var own []string
	for _, k := range n.keys {
		own = append(own, k.VerifierKeys[:]...)
	}
	for i, key := range policy.LedgerKeys {
		if !slices.Contains(own, key) {
			return entry.Refuse(entry.StateConflict, fmt.Sprintf("ledger_keys[%d]", i), "%.140q is no key that this ledger signs with", key).
				WithRemedy("make the key with arl key next, start arl serve again, and name it as it was printed")
		}
	}
	pinned := n.keys[0].VerifierKeys[0]
	if len(n.replica.View().Chain.LedgerKeys()) == 0 && !slices.Contains(policy.LedgerKeys, pinned) {
		return entry.Refuse(entry.StateConflict, "ledger_keys", "%s, which others have pinned, is not in it", pinned).
			WithRemedy("name old and new key first, and only later the new one alone")
	}
	return nil
}

// checkLedgerKeys sees to it that a key is here which may sign.
func (n *node) checkLedgerKeys(chain *verify.Chain) error {
	if n.inForce(chain) < 0 {
		_, at := chain.Policy()
		return n.withoutKey(fmt.Errorf("%w: the policy at %d names none of those in %s", ledger.ErrKeys, at.Index, n.keysDir()))
	}
	return nil
}

func (n *node) withoutKey(err error) error {
	return withExit(exitConfig, fmt.Errorf("%w: restore the key files that are missing in %s from a backup; "+
		"without a key that the policy in force names nobody continues this ledger", err, n.keysDir()))
}

// rootFile is where this machine keeps what policies have made of a root that it
// pins, beside the head that was accepted.
func (a *app) rootFile(origin string) (string, error) {
	home, err := a.homeDir()
	return filepath.Join(home, "heads", profileName(origin)+".root.json"), err
}

// followed returns a pinned root with the ledger's keys that were followed since.
func (a *app) followed(root verify.Root) (verify.Root, error) {
	path, err := a.rootFile(root.Origin)
	if err != nil {
		return root, err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return root, nil
	}
	if err != nil {
		return root, err
	}
	kept, err := verify.ParseRoot(data)
	if err != nil {
		return root, withExit(exitConfig, fmt.Errorf("%s, the ledger's keys as they were followed: %w", path, err))
	}
	return root.Advance(kept), nil
}

// keepRoot keeps a root that has followed a policy, before a head counts that
// was signed by its keys alone.
func (a *app) keepRoot(root verify.Root) error {
	path, err := a.rootFile(root.Origin)
	if err != nil {
		return err
	}
	root.Seen = "" // the head that was accepted lies beside it
	data, err := root.Encode()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return withExit(exitIO, durable.Write(path, data, 0o600))
}

package console

import (
	"context"
	"errors"

	"recoveryledger/api/act"
	"recoveryledger/ledger/entry"
)

// Key is a private key that is at hand where the pages are made.
type Key struct {
	ID string // as in entries
	// Name is what a person calls the key, such as the name of its file.
	Name string
	// Encrypted says that the page asks for a passphrase. Without one the act is confirmed
	// in the terminal that runs the console.
	Encrypted bool
}

// Signing signs and registers what a page shows. Its methods may be called at any time
// from anywhere.
type Signing interface {
	// Keys returns the keys, in the order in which a page offers them.
	Keys() []Key
	// Unlock makes a key ready for one act, which question describes. The error is an
	// [ErrDeclined] if the person does not want the act or gives a wrong passphrase.
	Unlock(ctx context.Context, keyID string, by entry.Principal, passphrase, question string) (act.Signer, error)
	// Seal seals what draft returns for the log as it stands. The log does not change
	// meanwhile. Seal returns an error of draft unchanged.
	Seal(by act.Signer, draft func(*act.Log) (*act.Draft, error)) ([]*entry.Entry, error)
	// Register sends entries to the ledger. It returns the index of the last one, once
	// its receipt is verified.
	Register(ctx context.Context, entries []*entry.Entry) (index uint64, err error)
}

// ErrDeclined reports that a key was not made ready.
var ErrDeclined = errors.New("nothing was signed")

// signer is a key, and whom it speaks for in the log.
type signer struct {
	Key
	Principal entry.Principal // empty: the key is enrolled for no principal
}

// signers returns the keys at hand with their principals.
func (k *Console) signers(l *act.Log) (list []signer) {
	for _, key := range k.cfg.Signing.Keys() {
		owner, _ := l.State.Chain().Owner(key.ID)
		list = append(list, signer{key, owner})
	}
	return list
}

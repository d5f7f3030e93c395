package entry_test

import (
	"crypto"

	"recoveryledger/ledger/entry"
)

// keyID returns the key id of a key in memory.
func keyID(public crypto.PublicKey) string {
	key, err := entry.NewPublicKey(public)
	if err != nil {
		panic(err)
	}
	return key.KeyID()
}

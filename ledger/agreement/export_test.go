package agreement

import (
	"slices"

	"recoveryledger/ledger/entry"
)

// Sealed is a text with the MAC that fits.
func Sealed(secret, text []byte) []byte { return append(slices.Clip(text), sum(secret, text)...) }

// SetNewest has the build know other formats.
func SetNewest(text string) { newest = text }

// Decode reads a batch and its entries.
func Decode(secret, data []byte) (*Batch, []*entry.Entry, error) {
	b, err := open(secret, data)
	if err != nil {
		return nil, nil, err
	}
	entries, err := b.entries()
	if err != nil {
		return nil, nil, err
	}
	return b, entries, nil
}

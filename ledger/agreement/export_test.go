package agreement

import "slices"

// Sealed is a text with the MAC that fits.
func Sealed(secret, text []byte) []byte { return append(slices.Clip(text), sum(secret, text)...) }

// SetNewest has the build know other formats.
func SetNewest(text string) { newest = text }

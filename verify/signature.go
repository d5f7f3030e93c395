package verify

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"

	"recoveryledger/ledger/entry"
)

// Signature reports nil if sig is the key's signature over message: Ed25519
// (RFC 8032), or ECDSA P-256 in ASN.1 DER over SHA-256. The verdict is the
// standard library's, always. The error is a [*entry.Refusal]: bad-signature.
func Signature(key entry.PublicKey, message, sig []byte) error {
	valid := false
	switch public := key.Crypto().(type) {
	case ed25519.PublicKey:
		valid = ed25519.Verify(public, message, sig)
	case *ecdsa.PublicKey:
		digest := sha256.Sum256(message)
		valid = ecdsa.VerifyASN1(public, digest[:], sig)
	}
	if !valid {
		return badSignature(key)
	}
	return nil
}

func badSignature(key entry.PublicKey) *entry.Refusal {
	return entry.Refuse(entry.BadSignature, "signatures[0].sig", "not a signature by %s over the PAE", key.KeyID()).
		WithRemedy("sign the DSSE pre-authentication encoding of the exact payload bytes")
}

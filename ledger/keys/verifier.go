package keys

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"
	voi "github.com/oasisprotocol/curve25519-voi/primitives/ed25519"

	"recoveryledger/ledger/entry"
)

// ErrSignature reports a signature that is not the key's over the message.
var ErrSignature = errors.New("keys: the signature does not match")

// Verifier checks signatures of keys that come again. It keeps the expanded
// form of Ed25519 keys, which halves the time of a check. It is safe for
// concurrent use.
//
// It checks each signature by itself. Checking a batch at once is cofactored: it
// accepts crafted signatures that the standard library refuses, and then two
// auditors of one log disagree.
type Verifier struct {
	expanded *lru.Cache[[ed25519.PublicKeySize]byte, *voi.ExpandedPublicKey]
	options  *voi.Options
}

// NewVerifier returns a verifier that keeps keysMax keys expanded, 1.5 KiB each;
// 0: 4,096. With fewer than sign in turn a check takes longer than the standard
// library's.
func NewVerifier(keysMax int) (*Verifier, error) {
	if keysMax == 0 {
		keysMax = expandedDefault
	}
	expanded, err := lru.New[[ed25519.PublicKeySize]byte, *voi.ExpandedPublicKey](keysMax)
	if err != nil {
		return nil, fmt.Errorf("keys: keep %d keys: %w", keysMax, err)
	}
	return &Verifier{expanded: expanded, options: &voi.Options{Verify: voi.VerifyOptionsStdLib}}, nil
}

// Check returns nil if sig is the key's signature over message, else
// [ErrSignature]. Its verdict is the standard library's.
func (v *Verifier) Check(key entry.PublicKey, message, sig []byte) error {
	valid := false
	switch public := key.Crypto().(type) {
	case ed25519.PublicKey:
		valid = v.checkEd25519(public, message, sig)
	case *ecdsa.PublicKey:
		digest := sha256.Sum256(message)
		valid = ecdsa.VerifyASN1(public, digest[:], sig)
	}
	if !valid {
		return ErrSignature
	}
	return nil
}

func (v *Verifier) checkEd25519(public ed25519.PublicKey, message, sig []byte) bool {
	name := [ed25519.PublicKeySize]byte(public)
	expanded, ok := v.expanded.Get(name)
	if !ok {
		var err error
		if expanded, err = voi.NewExpandedPublicKey(voi.PublicKey(public)); err != nil {
			return false
		}
		v.expanded.Add(name, expanded)
	}
	return voi.VerifyExpandedWithOptions(expanded, message, sig, v.options)
}

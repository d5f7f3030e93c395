package keys

import (
	"bytes"
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"fmt"

	"github.com/sigstore/sigstore/pkg/signature"

	"recoveryledger/ledger/entry"
)

// Signer signs entries with one private key. It is safe for concurrent use.
type Signer struct {
	private  signature.Signer
	inMemory ed25519.PrivateKey // that private has; nil: it has another key
	public   entry.PublicKey
	keyID    string
}

// NewSigner returns the signer of a private key in memory: an
// ed25519.PrivateKey or an *ecdsa.PrivateKey on P-256. Another is refused by
// name with an [*entry.Refusal], unsupported-alg.
func NewSigner(key crypto.PrivateKey) (*Signer, error) {
	switch key := key.(type) {
	case ed25519.PrivateKey, *ecdsa.PrivateKey: // another curve: see entry.NewPublicKey
	case *rsa.PrivateKey:
		return nil, unsupported("key", fmt.Sprintf("an RSA key of %d bits", key.N.BitLen()))
	case *ecdh.PrivateKey:
		return nil, unsupported("key", fmt.Sprintf("an ECDH key on %v", key.Curve()))
	default:
		return nil, unsupported("key", fmt.Sprintf("a key of type %T", key))
	}
	// The default signer of an Ed25519 key would be the pre-hashed variant.
	private, err := signature.LoadSigner(key, crypto.SHA256)
	if err != nil {
		return nil, err
	}
	half, err := private.PublicKey()
	if err != nil {
		return nil, err
	}
	public, err := entry.NewPublicKey(half)
	if err != nil {
		return nil, err
	}
	inMemory, _ := key.(ed25519.PrivateKey)
	return &Signer{private: private, inMemory: inMemory, public: public, keyID: public.KeyID()}, nil
}

// Public returns the public key.
func (s *Signer) Public() entry.PublicKey { return s.public }

// SignRenewal signs the renewal of a task's lease.
func (s *Signer) SignRenewal(r *entry.Renewal) (*entry.SignedRenewal, error) {
	message, err := r.PAE()
	if err != nil {
		return nil, err
	}
	sig, err := s.private.SignMessage(bytes.NewReader(message))
	if err != nil {
		return nil, fmt.Errorf("keys: sign renewal: %w", err)
	}
	return &entry.SignedRenewal{Renewal: *r, KeyID: s.keyID, Sig: sig}, nil
}

// Sign seals an entry made by [entry.New] with the signature over its PAE and
// the key's fingerprint.
func (s *Signer) Sign(e *entry.Entry) error {
	if s.inMemory != nil { // without the copy of the message that SignMessage makes
		e.Seal(s.keyID, ed25519.Sign(s.inMemory, e.PAE()))
		return nil
	}
	sig, err := s.private.SignMessage(bytes.NewReader(e.PAE()))
	if err != nil {
		return fmt.Errorf("keys: sign %s: %w", e.Kind, err)
	}
	e.Seal(s.keyID, sig)
	return nil
}

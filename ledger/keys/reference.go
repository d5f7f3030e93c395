package keys

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/entry"
)

// Keys in a KMS that a server uses for as long as it runs. The file of such a key has its public
// half, so that a server starts, and reads go on, while the KMS is away.

func newKMSKey(uri string, wait time.Duration) *kmsKey { return &kmsKey{uri: uri, wait: wait} }

// Refer writes a key file at path that names the key of s in its KMS: one line, the public key and
// the URI. [Load] reads the file without asking the KMS. A file that exists is never touched
// (fs.ErrExist).
func Refer(path string, s *Signer) error {
	k, ok := s.private.(*kmsKey)
	if !ok {
		return fmt.Errorf("keys: refer to %s: the key is not in a KMS", path)
	}
	if err := checkURI(k.uri); err != nil {
		return fmt.Errorf("keys: refer to %s: %w", path, err)
	}
	if err := createFile(path, []byte(k.public.String()+" "+k.uri+"\n")); err != nil {
		return fmt.Errorf("keys: refer to %s: %w", path, err)
	}
	return nil
}

// decodeReference reads a file that [Refer] wrote; nil: it is a file of another kind.
func decodeReference(content []byte) (*Signer, error) {
	line, ok := bytes.CutSuffix(content, []byte("\n"))
	public, uri, two := strings.Cut(string(line), " ")
	if !ok || !two || !isOneURI(uri) {
		return nil, nil
	}
	k := newKMSKey(uri, kmsWait)
	if err := k.public.UnmarshalText([]byte(public)); err != nil {
		return nil, fmt.Errorf("the public key before %.100q: %w", uri, err)
	}
	return &Signer{private: k, public: k.public, keyID: k.public.KeyID()}, nil
}

// checkURI refuses a URI that is not one word of a line.
func checkURI(uri string) error {
	if !isOneURI(uri) {
		return fmt.Errorf("%.100q is not the URI of a key, SCHEME://… without spaces", uri)
	}
	return nil
}

func isOneURI(uri string) bool {
	return IsURI(uri) && !strings.ContainsFunc(uri, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
}

// URI returns the URI of a key in a KMS; empty: the key was in a file.
func (s *Signer) URI() string {
	if k, ok := s.private.(*kmsKey); ok {
		return k.uri
	}
	return ""
}

// Watch has used told of each signature that the KMS is asked for from now on. It is called before
// the first signature, and does nothing for a key that is not in a KMS.
func (s *Signer) Watch(used Used) {
	if k, ok := s.private.(*kmsKey); ok {
		k.health.used = used
	}
}

// tryText is what a key signs to show that it signs. It begins no entry and no tree head.
const tryText = "arl tries this key: the signature says nothing\n"

// Try asks for a signature that says nothing. The error says why the key does not sign.
func (s *Signer) Try() error {
	_, err := s.private.SignMessage(strings.NewReader(tryText))
	return err
}

// Watch is [Signer.Watch] of the key that signs tree heads.
func (l *Ledger) Watch(used Used) {
	if l.kms != nil {
		l.kms.health.used = used
	}
}

// Try is [Signer.Try] of the key that signs tree heads.
func (l *Ledger) Try() error {
	if l.kms == nil {
		return nil
	}
	_, err := l.kms.SignMessage(strings.NewReader(tryText))
	return err
}

// newKMSLine returns the first line of a ledger's key file for a key in a KMS. The KMS must sign,
// with Ed25519, and the same signature twice: a tree head has one signature of a key.
func newKMSLine(origin, uri string) (string, error) {
	if err := checkURI(uri); err != nil {
		return "", err
	}
	s, err := openKMS(uri, kmsWait)
	if err != nil {
		return "", err
	}
	public, ok := s.public.Crypto().(ed25519.PublicKey)
	if !ok {
		return "", &KMSError{uri, "name a key of algorithm " + string(Ed25519), entry.Refuse(entry.UnsupportedAlg, "key", "tree heads are signed with %s alone", Ed25519)}
	}
	var sigs [2][]byte
	for i := range sigs {
		if sigs[i], err = s.private.SignMessage(strings.NewReader(tryText)); err != nil {
			return "", err
		}
	}
	if !bytes.Equal(sigs[0], sigs[1]) {
		return "", &KMSError{uri, "use a KMS that signs as RFC 8032 says", errors.New("the KMS signs the same text in two ways")}
	}
	verifierKey, err := note.NewEd25519VerifierKey(origin, public)
	return verifierKey + " " + uri, err
}

// setKMS takes the first line of a key file for a key in a KMS.
func (l *Ledger) setKMS(verifierKey, uri string) error {
	if err := checkURI(uri); err != nil {
		return err
	}
	verifier, err := note.NewVerifier(verifierKey)
	if err != nil {
		return err
	}
	public, err := noteKey(verifierKey, verifier)
	if err != nil {
		return err
	}
	k := newKMSKey(uri, kmsWait)
	if k.public, err = entry.NewPublicKey(public); err != nil {
		return err
	}
	kept, err := lru.New[string, []byte](headsKept)
	if err != nil {
		return err
	}
	l.Origin, l.Signer, l.Verifier, l.VerifierKeys[0] = verifier.Name(), &noteSigner{verifier, k, kept}, verifier, verifierKey
	l.URI, l.kms = uri, k
	return CheckOrigin(l.Origin)
}

// noteKey returns the public key in a verifier key of an Ed25519 key, in its one spelling.
func noteKey(verifierKey string, verifier note.Verifier) (crypto.PublicKey, error) {
	encoded := verifierKey[strings.Index(verifierKey[len(verifier.Name())+1:], "+")+len(verifier.Name())+2:]
	key, err := decodeBase64(encoded)
	if err != nil || len(key) != 1+ed25519.PublicKeySize || key[0] != typeEd25519 {
		return nil, errors.New("not the base64 of a key type and a public Ed25519 key")
	}
	public := ed25519.PublicKey(key[1:])
	if again, err := note.NewEd25519VerifierKey(verifier.Name(), public); err != nil || again != verifierKey {
		return nil, errors.New("not a note verifier key in its one spelling")
	}
	return public, nil
}

// noteSigner signs tree heads with a key in a KMS. It keeps the newest signatures: a head that is
// shown again has the same signature, and the KMS is not asked. It implements [note.Signer].
type noteSigner struct {
	verifier note.Verifier
	key      *kmsKey
	kept     *lru.Cache[string, []byte]
}

// Name implements [note.Signer].
func (s *noteSigner) Name() string { return s.verifier.Name() }

// KeyHash implements [note.Signer].
func (s *noteSigner) KeyHash() uint32 { return s.verifier.KeyHash() }

// Sign implements [note.Signer]. The error is a [*KMSError].
func (s *noteSigner) Sign(msg []byte) ([]byte, error) {
	if sig, ok := s.kept.Get(string(msg)); ok {
		return sig, nil
	}
	sig, err := s.key.SignMessage(bytes.NewReader(msg))
	if err == nil {
		s.kept.Add(string(msg), sig)
	}
	return sig, err
}

// Package keys holds private keys: it makes and reads key files, signs entries
// and checks signatures fast.
//
// A key file is one PEM block, readable by its owner alone. It holds a PKCS#8
// private key, Ed25519 or ECDSA P-256, as it is or encrypted with a passphrase
// (scrypt and NaCl secretbox, as sigstore does it):
//
//	-----BEGIN PRIVATE KEY-----             PKCS#8 in DER
//	-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----
//	                                        JSON {kdf, cipher, ciphertext of PKCS#8 in DER}
//
// A key may also stay in a KMS, which a URI names; see [Load]. A key file may hold such a URI
// beside the public key instead of a private key; see [Refer].
//
// The ledger's own keys are two note signer keys in a file of two lines, as they
// are or encrypted in the same way; see [Ledger].
//
// A key that [Generate] has returned is on stable storage, whole, and stands in
// the place of no other. A file that others may read is not loaded. A signature
// that [Verifier.Check] accepts is one that the standard library accepts, and
// the other way round.
//
// Sources: RFC 5958 (PKCS#8), RFC 7468 (PEM), RFC 8032 (Ed25519), FIPS 186-5,
// c2sp.org/signed-note, c2sp.org/tlog-cosignature.
package keys

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"github.com/sigstore/sigstore/pkg/cryptoutils"

	"recoveryledger/ledger/entry"
)

// ErrPassphrase reports an encrypted key file for which there is no passphrase,
// or not the right one.
var ErrPassphrase = errors.New("passphrase")

// Algorithm names the signature algorithm of a key.
type Algorithm string

// The algorithms of the protocol.
const (
	Ed25519   Algorithm = "ed25519"    // RFC 8032, pure
	ECDSAP256 Algorithm = "ecdsa-p256" // FIPS 186-5, over SHA-256, signatures in DER
)

// AlgorithmOf returns the algorithm of a public key.
func AlgorithmOf(public entry.PublicKey) Algorithm {
	if _, ok := public.Crypto().(*ecdsa.PublicKey); ok {
		return ECDSAP256
	}
	return Ed25519
}

// Passphrase returns the passphrase of a key file; it is called only for a file
// that has one. A nil Passphrase has none to give.
type Passphrase func() ([]byte, error)

// Generate makes a private key in a new file at path and returns its signer.
// With a passphrase the file is encrypted; an empty one is refused. A file that
// exists is never touched (fs.ErrExist). Another algorithm is refused with an
// [*entry.Refusal], unsupported-alg.
func Generate(path string, algorithm Algorithm, passphrase Passphrase) (*Signer, error) {
	signer, err := generate(path, algorithm, passphrase)
	if err != nil {
		return nil, fmt.Errorf("keys: generate %s: %w", path, err)
	}
	return signer, nil
}

func generate(path string, algorithm Algorithm, passphrase Passphrase) (*Signer, error) {
	private, err := newPrivateKey(algorithm)
	if err != nil {
		return nil, err
	}
	content, err := encode(private, passphrase)
	if err != nil {
		return nil, err
	}
	signer, err := NewSigner(private)
	if err != nil {
		return nil, err
	}
	return signer, createFile(path, content)
}

// Load reads the private key in the file at path. The error is [ErrPassphrase], an [*entry.Refusal]
// with unsupported-alg for another algorithm, or names the mistake in the file.
//
// A path that is a URI, SCHEME://…, names a key in a KMS; see [IsURI]. The program
// sigstore-kms-SCHEME signs with it, as sigstore's plugin protocol says. Opening the key and each
// signature wait at most 10 seconds. Every error is then a [*KMSError].
func Load(path string, passphrase Passphrase) (*Signer, error) {
	if IsURI(path) {
		return openKMS(path, kmsWait)
	}
	content, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("keys: load %s: %w", path, err)
	}
	signer, err := decodeReference(content)
	if signer == nil && err == nil {
		signer, err = decode(content, passphrase)
	}
	if err != nil {
		return nil, fmt.Errorf("keys: load %s: %w", path, err)
	}
	return signer, nil
}

func newPrivateKey(algorithm Algorithm) (crypto.PrivateKey, error) {
	switch algorithm {
	case Ed25519:
		_, private, err := ed25519.GenerateKey(rand.Reader)
		return private, err
	case ECDSAP256:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	default:
		return nil, unsupported("algorithm", fmt.Sprintf("%.60q", string(algorithm)))
	}
}

func unsupported(field, name string) *entry.Refusal {
	return entry.Refuse(entry.UnsupportedAlg, field, "%s", name).
		WithRemedy(fmt.Sprintf("use %s or %s", Ed25519, ECDSAP256))
}

// encode returns the content of the key file.
func encode(private crypto.PrivateKey, passphrase Passphrase) ([]byte, error) {
	if passphrase == nil {
		return cryptoutils.MarshalPrivateKeyToPEM(private)
	}
	der, err := cryptoutils.MarshalPrivateKeyToDER(private)
	if err != nil {
		return nil, err
	}
	sealed, err := encrypt(der, passphrase)
	if err != nil {
		return nil, err
	}
	return cryptoutils.PEMEncode(cryptoutils.EncryptedSigstorePrivateKeyPEMType, sealed), nil
}

// decode reads the output of encode, or a PKCS#8 file of another tool.
func decode(content []byte, passphrase Passphrase) (*Signer, error) {
	block, rest := pem.Decode(content)
	if block == nil || !bytes.HasPrefix(content, []byte("-----BEGIN ")) || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("want one PEM block and nothing else")
	}
	if len(block.Headers) > 0 {
		return nil, errors.New("the PEM block has headers: convert the key with openssl pkcs8 -topk8 -nocrypt")
	}
	switch cryptoutils.PEMType(block.Type) {
	case cryptoutils.PrivateKeyPEMType:
	case cryptoutils.EncryptedSigstorePrivateKeyPEMType:
		der, err := decrypt(block.Bytes, passphrase)
		if err != nil {
			return nil, err
		}
		block.Bytes = der
	default:
		return nil, fmt.Errorf("the PEM block has type %.60q: convert the key with openssl pkcs8 -topk8 -nocrypt", block.Type)
	}
	private, err := cryptoutils.UnmarshalPEMToPrivateKey(cryptoutils.PEMEncode(cryptoutils.PrivateKeyPEMType, block.Bytes), nil)
	if err != nil {
		return nil, asUnsupported(block.Bytes, err)
	}
	return NewSigner(private)
}

func ask(passphrase Passphrase) ([]byte, error) {
	if passphrase == nil {
		return nil, fmt.Errorf("%w: the file is encrypted and none was given", ErrPassphrase)
	}
	secret, err := passphrase()
	if err != nil {
		return nil, fmt.Errorf("ask for the passphrase: %w", err)
	}
	if len(secret) == 0 {
		return nil, fmt.Errorf("%w: empty", ErrPassphrase)
	}
	return secret, nil
}

// encrypt seals the content of a file under a passphrase.
func encrypt(content []byte, passphrase Passphrase) ([]byte, error) {
	secret, err := ask(passphrase)
	if err != nil {
		return nil, err
	}
	return encrypted.Encrypt(content, secret)
}

// decrypt cannot tell a wrong passphrase from damaged content: both fail the
// same authentication.
func decrypt(sealed []byte, passphrase Passphrase) ([]byte, error) {
	secret, err := ask(passphrase)
	if err != nil {
		return nil, err
	}
	der, err := encrypted.Decrypt(sealed, secret)
	if err != nil {
		return nil, fmt.Errorf("%w: wrong, or the file is damaged: %v", ErrPassphrase, err)
	}
	return der, nil
}

// asUnsupported looks at a PKCS#8 key that the parser gave up with cause: one
// of an algorithm that the library does not know is refused by its object
// identifier, RFC 5958, section 2.
func asUnsupported(der []byte, cause error) error {
	var info struct {
		Version   int
		Algorithm pkix.AlgorithmIdentifier
		Key       []byte
	}
	if _, err := asn1.Unmarshal(der, &info); err != nil {
		return fmt.Errorf("not a PKCS#8 private key: %v", cause)
	}
	name := info.Algorithm.Algorithm.String()
	var curve asn1.ObjectIdentifier
	if _, err := asn1.Unmarshal(info.Algorithm.Parameters.FullBytes, &curve); err == nil {
		name += " on curve " + curve.String()
	}
	switch name {
	case "1.3.101.112", "1.2.840.10045.2.1 on curve 1.2.840.10045.3.1.7": // the two of the protocol
		return fmt.Errorf("not a PKCS#8 private key: %v", cause)
	}
	return unsupported("key", "a key of algorithm "+name)
}

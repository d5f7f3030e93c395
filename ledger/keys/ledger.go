package keys

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"filippo.io/mldsa"
	cosign "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
)

// ledgerFile is the name of the ledger's key file in its directory. It has two
// lines, note signer keys of one name, the origin:
//
//	PRIVATE+KEY+<origin>+<key hash>+<base64 of 0x01 and the seed>   Ed25519
//	PRIVATE+KEY+<origin>+<key hash>+<base64 of 0x06 and the seed>   ML-DSA-44
//
// With a passphrase these lines are encrypted, and stand in a PEM block of
// [ledgerPEMType]. One file, so that no crash leaves a ledger with half its keys.
const ledgerFile = "ledger.key"

// ledgerPEMType is the type of the PEM block of encrypted ledger keys.
const ledgerPEMType = "ENCRYPTED LEDGER KEYS"

// The signature types of c2sp.org/signed-note.
const (
	typeEd25519 = 0x01
	typeMLDSA44 = 0x06
)

// Ledger are the keys of a ledger. Two databases must not share them: each
// would sign heads that contradict the other's.
type Ledger struct {
	Origin   string        // name of both keys
	Signer   note.Signer   // Ed25519, signs every tree head
	Verifier note.Verifier // of Signer
	Cosigner note.Signer   // ML-DSA-44 cosigner, signs published heads at the time it is asked

	// VerifierKeys are the public halves of Signer and Cosigner, in this order,
	// as note verifier keys: <origin>+<key hash>+<base64 of type and key>.
	VerifierKeys [2]string
}

// GenerateLedger makes the keys of a new ledger in dir, which must exist. With
// a passphrase the file is encrypted; an empty one is refused. Keys that are
// there are never touched (fs.ErrExist).
func GenerateLedger(dir, origin string, passphrase Passphrase) (*Ledger, error) {
	path := filepath.Join(dir, ledgerFile)
	ledger, err := generateLedger(path, origin, passphrase)
	if err != nil {
		return nil, fmt.Errorf("keys: generate %s: %w", path, err)
	}
	return ledger, nil
}

func generateLedger(path, origin string, passphrase Passphrase) (*Ledger, error) {
	if err := CheckOrigin(origin); err != nil {
		return nil, err
	}
	signer, _, err := note.GenerateKey(rand.Reader, origin)
	if err != nil {
		return nil, err
	}
	cosigner, _, err := cosign.GenerateMLDSAKey(origin)
	if err != nil {
		return nil, err
	}
	content := []byte(signer + "\n" + cosigner + "\n")
	ledger, err := decodeLedger(content, nil)
	if err != nil {
		return nil, err
	}
	if passphrase != nil {
		sealed, err := encrypt(content, passphrase)
		if err != nil {
			return nil, err
		}
		content = pem.EncodeToMemory(&pem.Block{Type: ledgerPEMType, Bytes: sealed})
	}
	return ledger, createFile(path, content)
}

// LoadLedger reads the keys that [GenerateLedger] made in dir. The error is
// [ErrPassphrase], or says what is wrong with the file.
func LoadLedger(dir string, passphrase Passphrase) (*Ledger, error) {
	path := filepath.Join(dir, ledgerFile)
	content, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("keys: load %s: %w", path, err)
	}
	ledger, err := decodeLedger(content, passphrase)
	if err != nil {
		return nil, fmt.Errorf("keys: load %s: %w", path, err)
	}
	return ledger, nil
}

// CheckOrigin keeps out what a signed note or the aud of an entry cannot hold.
func CheckOrigin(origin string) error {
	bad := func(r rune) bool { return r == '+' || unicode.IsSpace(r) || unicode.IsControl(r) }
	if origin == "" || len(origin) > maxOrigin || !utf8.ValidString(origin) || strings.ContainsFunc(origin, bad) {
		return fmt.Errorf("origin %.140q is not 1 to %d bytes of text without space or plus sign", origin, maxOrigin)
	}
	return nil
}

// decodeLedger accepts exactly what generateLedger writes.
func decodeLedger(content []byte, passphrase Passphrase) (*Ledger, error) {
	if bytes.HasPrefix(content, []byte("-----BEGIN ")) {
		block, rest := pem.Decode(content)
		if block == nil || block.Type != ledgerPEMType || len(block.Headers) > 0 || len(rest) > 0 {
			return nil, fmt.Errorf("want one PEM block of type %s and nothing else", ledgerPEMType)
		}
		var err error
		if content, err = decrypt(block.Bytes, passphrase); err != nil {
			return nil, err
		}
	}
	lines := strings.Split(string(content), "\n")
	if len(lines) != 3 || lines[2] != "" {
		return nil, errors.New("want two lines, a key each")
	}
	l := &Ledger{}
	if err := l.setSigner(lines[0]); err != nil {
		return nil, fmt.Errorf("line 1: %w", err)
	}
	if err := l.setCosigner(lines[1]); err != nil {
		return nil, fmt.Errorf("line 2: %w", err)
	}
	return l, nil
}

func (l *Ledger) setSigner(line string) error {
	key, err := parseSignerKey(line, typeEd25519)
	if err != nil {
		return err
	}
	signer, err := note.NewSigner(line)
	if err != nil {
		return err
	}
	public := ed25519.PublicKey(ed25519.NewKeyFromSeed(key.seed)[ed25519.SeedSize:])
	verifierKey, err := note.NewEd25519VerifierKey(key.name, public)
	if err != nil {
		return err
	}
	verifier, err := note.NewVerifier(verifierKey)
	if err != nil {
		return err
	}
	l.Origin, l.Signer, l.Verifier, l.VerifierKeys[0] = key.name, signer, verifier, verifierKey
	return key.checkHash(signer)
}

func (l *Ledger) setCosigner(line string) error {
	key, err := parseSignerKey(line, typeMLDSA44)
	if err != nil {
		return err
	}
	if key.name != l.Origin {
		return fmt.Errorf("a key of %q beside one of %q", key.name, l.Origin)
	}
	signer, err := cosign.NewMLDSASigner(line)
	if err != nil {
		return err
	}
	private, err := mldsa.NewPrivateKey(mldsa.MLDSA44(), key.seed)
	if err != nil {
		return err
	}
	public := append([]byte{typeMLDSA44}, private.PublicKey().Bytes()...)
	l.Cosigner = signer
	l.VerifierKeys[1] = fmt.Sprintf("%s+%08x+%s", key.name, signer.KeyHash(), base64.StdEncoding.EncodeToString(public))
	return key.checkHash(signer)
}

// signerKey are the parts of a note signer key.
type signerKey struct {
	name string
	hash string // of name and public key, 8 hexadecimal digits
	seed []byte
}

func parseSignerKey(line string, keyType byte) (signerKey, error) {
	rest, ok := strings.CutPrefix(line, "PRIVATE+KEY+")
	fields := strings.SplitN(rest, "+", 3) // base64 may have a plus sign
	if !ok || len(fields) != 3 {
		return signerKey{}, errors.New("not a note signer key")
	}
	if err := CheckOrigin(fields[0]); err != nil {
		return signerKey{}, err
	}
	key, err := base64.StdEncoding.DecodeString(fields[2])
	if err != nil || len(key) != 1+ed25519.SeedSize || base64.StdEncoding.EncodeToString(key) != fields[2] {
		return signerKey{}, errors.New("not the base64 of a key type and a seed of 32 bytes")
	}
	if key[0] != keyType {
		return signerKey{}, fmt.Errorf("a key of type 0x%02x, want 0x%02x", key[0], keyType)
	}
	return signerKey{name: fields[0], hash: fields[1], seed: key[1:]}, nil
}

// checkHash holds the hash to that of the key, in its one spelling: the note
// library takes capital digits too, the cosignature library takes any hash.
func (k signerKey) checkHash(signer note.Signer) error {
	if want := fmt.Sprintf("%08x", signer.KeyHash()); k.hash != want {
		return fmt.Errorf("key hash %.20q, want %q", k.hash, want)
	}
	return nil
}

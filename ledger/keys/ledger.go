package keys

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"filippo.io/mldsa"
	cosign "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/entry"
)

// ledgerFile is the name of the ledger's first key file in its directory; those
// of its next keys are ledger-2.key, ledger-3.key and so on. Each has two lines,
// note signer keys of one name, the origin:
//
//	PRIVATE+KEY+<origin>+<key hash>+<base64 of 0x01 and the seed>   Ed25519
//	PRIVATE+KEY+<origin>+<key hash>+<base64 of 0x06 and the seed>   ML-DSA-44
//
// The first line of a key in a KMS is the note verifier key, and the URI:
//
//	<origin>+<key hash>+<base64 of 0x01 and the public key> SCHEME://…
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

// ledgerFileName returns the name of a ledger's key file by its number, from 1.
func ledgerFileName(number int) string {
	if number == 1 {
		return ledgerFile
	}
	return fmt.Sprintf("ledger-%d.key", number)
}

// Ledger are the keys of a ledger, of one file. Two databases must not share them: each
// would sign heads that contradict the other's.
type Ledger struct {
	Origin string // name of both keys
	// Unused reports that none of the keys in the directory has signed a tree head
	// over an entry: these keys may begin a log. It is set for the first key file alone.
	Unused   bool
	Signer   note.Signer   // Ed25519, signs every tree head
	Verifier note.Verifier // of Signer
	Cosigner note.Signer   // ML-DSA-44 cosigner, signs published heads at the time it is asked

	// VerifierKeys are the public halves of Signer and Cosigner, in this order,
	// as note verifier keys: <origin>+<key hash>+<base64 of type and key>.
	VerifierKeys [2]string

	// URI names the KMS of Signer; empty: the key is in the file.
	URI string
	kms *kmsKey // nil: the key is in the file
}

// GenerateLedger makes the keys of a new ledger in dir, which must exist. With
// a passphrase the file is encrypted; an empty one is refused. Keys that are
// there are never touched (fs.ErrExist). The keys are unused until [MarkLedgerUsed].
func GenerateLedger(dir, origin string, passphrase Passphrase) (*Ledger, error) {
	return ReferLedger(dir, origin, "", passphrase)
}

// ReferLedger is [GenerateLedger] with a key in a KMS, which signs tree heads. It must be an
// Ed25519 key that signs the same twice (RFC 8032). No KMS has the ML-DSA-44 key, which is always
// in the file: it convinces nobody without the signature of the other key. uri empty: both keys are
// made.
func ReferLedger(dir, origin, uri string, passphrase Passphrase) (*Ledger, error) {
	path := filepath.Join(dir, ledgerFile)
	ledger, content, err := newLedger(origin, uri, passphrase)
	if err == nil {
		err = markUnused(dir, ledger)
	}
	if err == nil {
		err = createFile(path, content)
	}
	if err != nil {
		return nil, fmt.Errorf("keys: generate %s: %w", path, err)
	}
	return ledger, nil
}

// ReferNextLedger makes the next keys of the ledger in dir, in a new file, and returns the file's
// name. The file is encrypted if the newest file before it is, with the same passphrase. Existing
// keys are never changed. uri names a key in a KMS, as in [ReferLedger]; empty: both keys are made.
func ReferNextLedger(dir, uri string, passphrase Passphrase) (*Ledger, string, error) {
	before, err := LoadLedger(dir, passphrase)
	if err != nil {
		return nil, "", err
	}
	numbers, err := ledgerNumbers(dir)
	if err != nil {
		return nil, "", fmt.Errorf("keys: generate the next of %s: %w", dir, err)
	}
	newest := numbers[len(numbers)-1]
	path := filepath.Join(dir, ledgerFileName(newest+1))
	refuse := func(err error) (*Ledger, string, error) {
		return nil, "", fmt.Errorf("keys: generate %s: %w", path, err)
	}
	if newest >= maxLedgers {
		return refuse(fmt.Errorf("keys are numbered up to %d", maxLedgers))
	}
	content, err := readFile(filepath.Join(dir, ledgerFileName(newest)))
	if err != nil {
		return refuse(err)
	}
	if !isEncrypted(content) {
		passphrase = nil
	}
	ledger, content, err := newLedger(before[0].Origin, uri, passphrase)
	if err == nil {
		err = createFile(path, content)
	}
	if err != nil {
		return refuse(err)
	}
	return ledger, path, nil
}

// newLedger returns new keys, and the content of their file.
func newLedger(origin, uri string, passphrase Passphrase) (*Ledger, []byte, error) {
	if err := CheckOrigin(origin); err != nil {
		return nil, nil, err
	}
	signer, err := newSignerLine(origin, uri)
	if err != nil {
		return nil, nil, err
	}
	cosigner, _, err := cosign.GenerateMLDSAKey(origin)
	if err != nil {
		return nil, nil, err
	}
	content := []byte(signer + "\n" + cosigner + "\n")
	ledger, err := decodeLedger(content, nil)
	if err != nil {
		return nil, nil, err
	}
	if passphrase != nil {
		sealed, err := encrypt(content, passphrase)
		if err != nil {
			return nil, nil, err
		}
		content = pem.EncodeToMemory(&pem.Block{Type: ledgerPEMType, Bytes: sealed})
	}
	return ledger, content, nil
}

// ErrDamaged reports a key file of a ledger with other content than was written. The remedy is a
// backup: no party can compute a key again.
var ErrDamaged = errors.New("damaged")

// LoadLedger reads the keys that [GenerateLedger] and [ReferNextLedger] made in dir, in the
// order in which they were made. The error is fs.ErrNotExist if there is no key, [ErrPassphrase],
// [ErrDamaged], or names the mistake in a file.
func LoadLedger(dir string, passphrase Passphrase) ([]*Ledger, error) {
	numbers, err := ledgerNumbers(dir)
	if err == nil && len(numbers) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, fmt.Errorf("keys: load %s: %w", filepath.Join(dir, ledgerFile), err)
	}
	var all []*Ledger
	for _, number := range numbers {
		path := filepath.Join(dir, ledgerFileName(number))
		content, err := readFile(path)
		if err != nil {
			return nil, fmt.Errorf("keys: load %s: %w", path, err)
		}
		ledger, err := decodeLedger(content, passphrase)
		if err == nil && len(all) > 0 && ledger.Origin != all[0].Origin {
			err = fmt.Errorf("the key is of ledger %q, and the keys before it are of %q: remove the file, or replace it by the right key", ledger.Origin, all[0].Origin)
		}
		if err != nil {
			return nil, fmt.Errorf("keys: load %s: %w", path, err)
		}
		all = append(all, ledger)
	}
	if numbers[0] == 1 {
		if all[0].Unused, err = isUnused(dir, all[0]); err != nil {
			return nil, fmt.Errorf("keys: load %s: %w", filepath.Join(dir, ledgerUnused), err)
		}
	}
	return all, nil
}

// LedgerPublic returns the public key of the tree heads' key in a ledger's key file. The error is
// as in [LoadLedger].
func LedgerPublic(path string, passphrase Passphrase) (entry.PublicKey, error) {
	content, err := readFile(path)
	if err != nil {
		return entry.PublicKey{}, fmt.Errorf("keys: load %s: %w", path, err)
	}
	l, err := decodeLedger(content, passphrase)
	if err != nil {
		return entry.PublicKey{}, fmt.Errorf("keys: load %s: %w", path, err)
	}
	public, err := noteKey(l.VerifierKeys[0], l.Verifier)
	if err != nil {
		return entry.PublicKey{}, fmt.Errorf("keys: load %s: %w", path, err)
	}
	return entry.NewPublicKey(public)
}

// ledgerNumbers returns the numbers of the key files in dir, ascending.
func ledgerNumbers(dir string) (numbers []int, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, file := range files {
		names[file.Name()] = true
	}
	for number := 1; number <= maxLedgers; number++ {
		if names[ledgerFileName(number)] {
			numbers = append(numbers, number)
		}
	}
	return numbers, nil
}

// CheckOrigin refuses an origin that a signed note or the aud of an entry cannot hold.
func CheckOrigin(origin string) error {
	bad := func(r rune) bool { return r == '+' || unicode.IsSpace(r) || unicode.IsControl(r) }
	if origin == "" || len(origin) > maxOrigin || !utf8.ValidString(origin) || strings.ContainsFunc(origin, bad) {
		return fmt.Errorf("origin %.140q is not 1 to %d bytes of text without space or plus sign", origin, maxOrigin)
	}
	return nil
}

func isEncrypted(content []byte) bool { return bytes.HasPrefix(content, []byte("-----BEGIN ")) }

// decodeLedger accepts exactly the output of generateLedger. The error is [ErrDamaged], or the
// error of the passphrase's source.
func decodeLedger(content []byte, passphrase Passphrase) (*Ledger, error) {
	content, err := openLedgerFile(content, passphrase)
	if err != nil {
		return nil, err
	}
	return parseLedger(string(content))
}

// openLedgerFile returns the content of a key file, decrypted if it is encrypted.
func openLedgerFile(content []byte, passphrase Passphrase) ([]byte, error) {
	if !isEncrypted(content) {
		return content, nil
	}
	block, rest := pem.Decode(content)
	if block == nil || block.Type != ledgerPEMType || len(block.Headers) > 0 || len(rest) > 0 {
		return nil, fmt.Errorf("%w: want one PEM block of type %s and nothing else", ErrDamaged, ledgerPEMType)
	}
	return decrypt(block.Bytes, passphrase)
}

func parseLedger(content string) (*Ledger, error) {
	lines := strings.Split(content, "\n")
	if len(lines) != 3 || lines[2] != "" {
		return nil, fmt.Errorf("%w: want two lines, a key each", ErrDamaged)
	}
	l := &Ledger{}
	if err := l.setSigner(lines[0]); err != nil {
		return nil, fmt.Errorf("%w: line 1: %w", ErrDamaged, err)
	}
	if err := l.setCosigner(lines[1]); err != nil {
		return nil, fmt.Errorf("%w: line 2: %w", ErrDamaged, err)
	}
	return l, nil
}

// newSignerLine returns the first line of a key file.
func newSignerLine(origin, uri string) (string, error) {
	if uri == "" {
		line, _, err := note.GenerateKey(rand.Reader, origin)
		return line, err
	}
	return newKMSLine(origin, uri)
}

func (l *Ledger) setSigner(line string) error {
	if verifierKey, uri, ok := strings.Cut(line, " "); ok && IsURI(uri) {
		return l.setKMS(verifierKey, uri)
	}
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
	key, err := decodeBase64(fields[2])
	if err != nil || len(key) != 1+ed25519.SeedSize {
		return signerKey{}, errors.New("not the base64 of a key type and a seed of 32 bytes")
	}
	if key[0] != keyType {
		return signerKey{}, fmt.Errorf("a key of type 0x%02x, want 0x%02x", key[0], keyType)
	}
	return signerKey{name: fields[0], hash: fields[1], seed: key[1:]}, nil
}

// decodeBase64 decodes the one spelling of bytes.
func decodeBase64(text string) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err == nil && base64.StdEncoding.EncodeToString(data) != text {
		err = errors.New("another spelling")
	}
	return data, err
}

// checkHash holds the hash to that of the key, in its one spelling: the note
// library takes capital digits too, the cosignature library takes any hash.
func (k signerKey) checkHash(signer note.Signer) error {
	if want := fmt.Sprintf("%08x", signer.KeyHash()); k.hash != want {
		return fmt.Errorf("key hash %.20q, want %q", k.hash, want)
	}
	return nil
}

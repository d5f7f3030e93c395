package keys

import (
	"fmt"
	"strings"

	cosign "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
)

// Witness are the keys with which a witness cosigns the tree heads of others
// (c2sp.org/tlog-cosignature). Their file has the form of a ledger's key file.
type Witness struct {
	Name    string         // of both keys
	Signers [2]note.Signer // Ed25519 and ML-DSA-44; each signs with the time at which it is asked

	// VerifierKeys are the public halves of Signers, in this order, as note verifier
	// keys of the types 0x04 and 0x06.
	VerifierKeys [2]string
}

// GenerateWitness makes the keys of a new witness in a new file. With a passphrase the
// file is encrypted; an empty passphrase is refused. A file that is there is never
// touched (fs.ErrExist).
func GenerateWitness(path, name string, passphrase Passphrase) (*Witness, error) {
	_, content, err := newLedger(name, "", passphrase)
	if err == nil {
		err = createFile(path, content)
	}
	if err != nil {
		return nil, fmt.Errorf("keys: generate %s: %w", path, err)
	}
	return decodeWitness(path, content, passphrase)
}

// LoadWitness reads the keys that [GenerateWitness] made. The error is fs.ErrNotExist,
// [ErrPassphrase], [ErrDamaged], or names the mistake in the file.
func LoadWitness(path string, passphrase Passphrase) (*Witness, error) {
	content, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("keys: load %s: %w", path, err)
	}
	return decodeWitness(path, content, passphrase)
}

func decodeWitness(path string, content []byte, passphrase Passphrase) (*Witness, error) {
	w, err := parseWitness(content, passphrase)
	if err != nil {
		return nil, fmt.Errorf("keys: load %s: %w", path, err)
	}
	return w, nil
}

func parseWitness(content []byte, passphrase Passphrase) (*Witness, error) {
	content, err := openLedgerFile(content, passphrase)
	if err != nil {
		return nil, err
	}
	l, err := parseLedger(string(content))
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(string(content), "\n")
	signer, err := cosign.NewSignerForCosignatureV1(line)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	key, err := cosign.VKeyToCosignatureV1(l.VerifierKeys[0])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return &Witness{Name: l.Origin, Signers: [2]note.Signer{signer, l.Cosigner}, VerifierKeys: [2]string{key, l.VerifierKeys[1]}}, nil
}

package keys

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/testdata/budget"

	cosign "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
)

const origin = "ledger.example.com/2026"

// head is the text of a tree head of one entry, and of none.
const (
	head  = origin + "\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
	empty = origin + "\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"
)

// loadLedger loads the only keys of a ledger.
func loadLedger(dir string, passphrase Passphrase) (*Ledger, error) {
	all, err := LoadLedger(dir, passphrase)
	if err != nil {
		return nil, err
	}
	if len(all) != 1 {
		return nil, fmt.Errorf("%d keys", len(all))
	}
	return all[0], nil
}

func mustLedger(tb testing.TB) (ledger *Ledger, dir string) {
	tb.Helper()
	dir = tb.TempDir()
	ledger, err := GenerateLedger(dir, origin, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return ledger, dir
}

// checkHeads signs a tree head with both keys and opens it with verifiers that
// are made from the verifier keys alone; a changed text opens with neither.
func checkHeads(t *testing.T, signing, verifying *Ledger) {
	t.Helper()
	ed25519Verifier, err := note.NewVerifier(verifying.VerifierKeys[0])
	if err != nil {
		t.Fatal(err)
	}
	mldsaVerifier, err := cosign.NewMLDSAVerifier(verifying.VerifierKeys[1])
	if err != nil {
		t.Fatal(err)
	}
	known := note.VerifierList(ed25519Verifier, mldsaVerifier)
	for _, text := range []string{head, empty} {
		signed, err := note.Sign(&note.Note{Text: text}, signing.Signer, signing.Cosigner)
		if err != nil {
			t.Fatal(err)
		}
		opened, err := note.Open(signed, known)
		if err != nil {
			t.Fatal(err)
		}
		if len(opened.Sigs) != 2 || len(opened.UnverifiedSigs) != 0 || opened.Text != text {
			t.Fatalf("%d signatures verified, %d not", len(opened.Sigs), len(opened.UnverifiedSigs))
		}
		changed := strings.Replace(string(signed), "/2026\n", "/2027\n", 1)
		for _, verifier := range []note.Verifier{ed25519Verifier, mldsaVerifier, verifying.Verifier} {
			if _, err := note.Open(signed, note.VerifierList(verifier)); err != nil {
				t.Fatal(err)
			}
			if _, err := note.Open([]byte(changed), note.VerifierList(verifier)); err == nil {
				t.Fatal("a changed head was accepted")
			}
		}
	}
}

func TestLedgerKeysLoadAndSign(t *testing.T) {
	made, dir := mustLedger(t)
	checkHeads(t, made, made)
	loaded, err := loadLedger(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Origin != origin || loaded.VerifierKeys != made.VerifierKeys {
		t.Fatalf("loaded %q %v, made %q %v", loaded.Origin, loaded.VerifierKeys, made.Origin, made.VerifierKeys)
	}
	checkHeads(t, loaded, made)
	checkFiles(t, dir, ledgerFile, ledgerUnused)
	info, err := os.Stat(filepath.Join(dir, ledgerFile))
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("mode %v, error %v, want 0600", info.Mode(), err)
	}
}

// TestLedgerKeysAreOfTheRightTypes: the first is an ordinary log key, which any
// reader of tree heads takes; a cosignature key would sign other bytes.
func TestLedgerKeysAreOfTheRightTypes(t *testing.T) {
	ledger, _ := mustLedger(t)
	for i, want := range []byte{0x01, 0x06} {
		fields := strings.SplitN(ledger.VerifierKeys[i], "+", 3)
		key, err := base64.StdEncoding.DecodeString(fields[2])
		if err != nil || key[0] != want || fields[0] != origin {
			t.Errorf("verifier key %s: type 0x%02x, want 0x%02x", ledger.VerifierKeys[i], key[0], want)
		}
		signer := []note.Signer{ledger.Signer, ledger.Cosigner}[i]
		if hash := fmt.Sprintf("%08x", signer.KeyHash()); signer.Name() != origin || hash != fields[1] {
			t.Errorf("signer %s+%s, want %s+%s", signer.Name(), hash, origin, fields[1])
		}
	}
	if ledger.Verifier.KeyHash() != ledger.Signer.KeyHash() {
		t.Errorf("verifier %08x, signer %08x", ledger.Verifier.KeyHash(), ledger.Signer.KeyHash())
	}
}

func TestLedgerKeysAreNeverReplaced(t *testing.T) {
	made, dir := mustLedger(t)
	if _, err := GenerateLedger(dir, origin, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v, want fs.ErrExist", err)
	}
	loaded, err := loadLedger(dir, nil)
	if err != nil || loaded.VerifierKeys != made.VerifierKeys {
		t.Fatalf("the first keys are gone: %v", err)
	}
	if _, err := loadLedger(t.TempDir(), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want fs.ErrNotExist", err)
	}
	if err := os.Chmod(filepath.Join(dir, ledgerFile), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := loadLedger(dir, nil); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("readable by others: error %v", err)
	}
}

// TestEncryptedLedgerKeysNeedTheirPassphrase also looks for the plain lines in
// the file.
func TestEncryptedLedgerKeysNeedTheirPassphrase(t *testing.T) {
	budget.Unraced(t, "one goroutine reads files")
	dir := t.TempDir()
	made, err := GenerateLedger(dir, origin, secret("correct horse"))
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := loadLedger(dir, secret("correct horse"))
	if err != nil || loaded.VerifierKeys != made.VerifierKeys {
		t.Fatalf("loaded %v, made %v, error %v", loaded, made, err)
	}
	checkHeads(t, loaded, made)
	checkPassphrases(t, func(p Passphrase) error { _, err := loadLedger(dir, p); return err })
	content, err := os.ReadFile(filepath.Join(dir, ledgerFile))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(content)
	if strings.Contains(string(content)+string(block.Bytes), "KEY+") {
		t.Error("the encrypted file holds the plain keys")
	}
	for desc, changed := range map[string]string{
		"text behind": string(content) + "\n", "another type": strings.ReplaceAll(string(content), ledgerPEMType, "PRIVATE KEY"),
		"cut short": string(content[:len(content)-10]), "twice": string(content) + string(content),
	} {
		if _, err := decodeLedger([]byte(changed), secret("correct horse")); err == nil || !strings.Contains(err.Error(), "want one PEM block of type "+ledgerPEMType) {
			t.Errorf("%s: error %v", desc, err)
		}
	}
	empty := t.TempDir()
	if _, err := GenerateLedger(empty, origin, secret("")); !errors.Is(err, ErrPassphrase) {
		t.Errorf("empty passphrase: error %v, want ErrPassphrase", err)
	}
	checkFiles(t, empty)
}

func TestOriginLimits(t *testing.T) {
	for _, test := range []struct {
		desc, origin string
		wantErr      bool
	}{
		{"the longest", strings.Repeat("o", maxOrigin), false},
		{"one byte more", strings.Repeat("o", maxOrigin+1), true},
		{"empty", "", true},
		{"space", "my ledger", true},
		{"space of Unicode", "my\u2003ledger", true},
		{"newline", "ledger\n", true},
		{"plus sign", "a+b", true},
		{"control character", "a\x01b", true},
		{"not UTF-8", "a\xffb", true},
	} {
		dir := t.TempDir()
		ledger, err := GenerateLedger(dir, test.origin, nil)
		if (err != nil) != test.wantErr {
			t.Errorf("%s: error %v", test.desc, err)
		}
		if err != nil {
			checkFiles(t, dir)
			continue
		}
		if _, err := note.Sign(&note.Note{Text: head}, ledger.Signer); err != nil {
			t.Errorf("%s: %v", test.desc, err)
		}
	}
}

// TestMalformedLedgerKeysAreRefused changes a good file. The libraries take some
// of these: capital digits, another hash for ML-DSA-44, bits to spare in base64.
func TestMalformedLedgerKeysAreRefused(t *testing.T) {
	_, dir := mustLedger(t)
	content, err := os.ReadFile(filepath.Join(dir, ledgerFile))
	if err != nil {
		t.Fatal(err)
	}
	good := string(content)
	lines := strings.SplitAfter(good, "\n")
	hash := func(line string) string { return strings.SplitN(line, "+", 5)[3] }
	other, _, err := cosign.GenerateMLDSAKey("other.example.com")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ desc, content, want string }{
		{"empty", "", "two lines"},
		{"one line", lines[0], "two lines"},
		{"no newline at the end", strings.TrimSuffix(good, "\n"), "two lines"},
		{"three lines", good + lines[1], "two lines"},
		{"lines swapped", lines[1] + lines[0], "line 1: a key of type 0x06, want 0x01"},
		{"Ed25519 twice", lines[0] + lines[0], "line 2: a key of type 0x01, want 0x06"},
		{"two names", lines[0] + other + "\n", `line 2: a key of "other.example.com" beside one of "` + origin + `"`},
		{"carriage returns", strings.ReplaceAll(good, "\n", "\r\n"), "line 1: not the base64"},
		{"no prefix", strings.Replace(good, "PRIVATE+KEY+", "", 1), "line 1: not a note signer key"},
		{"no name", strings.Replace(good, origin, "", 1), "line 1: origin"},
		{"cut short", lines[0] + lines[1][:len(lines[1])-10] + "\n", "line 2: not the base64"},
		{"other hash, Ed25519", strings.Replace(good, hash(lines[0]), "01234567", 1), "line 1: invalid"},
		{"other hash, ML-DSA-44", lines[0] + strings.Replace(lines[1], hash(lines[1]), "01234567", 1), `line 2: key hash "01234567"`},
		{"capital digits", lines[0] + strings.Replace(lines[1], hash(lines[1]), "ABCDEF01", 1), `line 2: key hash "ABCDEF01"`},
	} {
		if _, err := decodeLedger([]byte(test.content), nil); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", test.desc, err, test.want)
		}
	}
	if _, err := decodeLedger(content, nil); err != nil {
		t.Error(err)
	}
}

// TestNextLedgerKeys makes the keys that follow: in files of their own, encrypted
// as those before, under the one origin, and loaded in their order.
func TestNextLedgerKeys(t *testing.T) {
	budget.Unraced(t, "one goroutine writes files")
	for name, passphrase := range map[string]Passphrase{"plain": nil, "encrypted": secret("correct horse")} {
		dir := t.TempDir()
		if _, _, err := ReferNextLedger(dir, "", passphrase); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%s: after none: %v", name, err)
		}
		first, err := GenerateLedger(dir, origin, passphrase)
		if err != nil {
			t.Fatal(err)
		}
		want := []*Ledger{first}
		for _, file := range []string{"ledger-2.key", "ledger-3.key"} {
			next, path, err := ReferNextLedger(dir, "", secret("correct horse"))
			if err != nil || path != filepath.Join(dir, file) || next.Origin != origin {
				t.Fatalf("%s: %s, error %v", name, path, err)
			}
			checkHeads(t, next, next)
			content, err := os.ReadFile(path)
			if err != nil || isEncrypted(content) != (passphrase != nil) {
				t.Errorf("%s: %q, error %v", name, content[:20], err)
			}
			want = append(want, next)
		}
		checkFiles(t, dir, "ledger-2.key", "ledger-3.key", ledgerFile, ledgerUnused)
		loaded, err := LoadLedger(dir, passphrase)
		if err != nil || len(loaded) != len(want) {
			t.Fatalf("%s: %d keys, error %v", name, len(loaded), err)
		}
		for i := range want {
			if loaded[i].VerifierKeys != want[i].VerifierKeys {
				t.Errorf("%s: key %d is another", name, i)
			}
		}
		if passphrase != nil {
			if _, _, err := ReferNextLedger(dir, "", secret("wrong")); !errors.Is(err, ErrPassphrase) {
				t.Errorf("with another passphrase: %v", err)
			}
		}
		// A number that is gone stays gone.
		if err := os.Remove(filepath.Join(dir, ledgerFile)); err != nil {
			t.Fatal(err)
		}
		if _, path, err := ReferNextLedger(dir, "", passphrase); err != nil || filepath.Base(path) != "ledger-4.key" {
			t.Errorf("%s: %s, error %v", name, path, err)
		}
	}
}

// TestKeysOfTwoLedgersAreNotOneLedgers puts the keys of another beside.
func TestKeysOfTwoLedgersAreNotOneLedgers(t *testing.T) {
	_, dir := mustLedger(t)
	other := t.TempDir()
	if _, err := GenerateLedger(other, "ledger.example/other", nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(other, ledgerFile), filepath.Join(dir, "ledger-2.key")); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadLedger(dir, nil); err == nil || !strings.Contains(err.Error(), "ledger.example/other") {
		t.Errorf("error %v", err)
	}
}

// TestLedgerKeysHaveALastNumber is the limit and one past it.
func TestLedgerKeysHaveALastNumber(t *testing.T) {
	_, dir := mustLedger(t)
	if err := os.Rename(filepath.Join(dir, ledgerFile), filepath.Join(dir, ledgerFileName(maxLedgers-1))); err != nil {
		t.Fatal(err)
	}
	if _, path, err := ReferNextLedger(dir, "", nil); err != nil || filepath.Base(path) != ledgerFileName(maxLedgers) {
		t.Errorf("%s, error %v", path, err)
	}
	if _, _, err := ReferNextLedger(dir, "", nil); err == nil || !strings.Contains(err.Error(), "up to 99") {
		t.Errorf("error %v", err)
	}
}

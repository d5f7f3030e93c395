package keys

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"filippo.io/mldsa"

	"recoveryledger/ledger/entry"
)

// vectorDir is beside the repository, seen from this package.
const vectorDir = "../../../shared/data/signature_vectors"

// hexBytes is hexadecimal text in a vector file.
type hexBytes []byte

func (h *hexBytes) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

// readVectors reads a vector file or skips the test where there is none.
func readVectors(tb testing.TB, name string, into any) {
	tb.Helper()
	content, err := os.ReadFile(filepath.Join(vectorDir, name))
	if errors.Is(err, fs.ErrNotExist) {
		tb.Skipf("missing: ../shared/data/signature_vectors/%s", name)
	}
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(content, into); err != nil {
		tb.Fatal(err)
	}
}

// wycheproof is what the test needs of a file of C2SP/wycheproof.
type wycheproof struct {
	NumberOfTests int
	TestGroups    []struct {
		PublicKeyDER hexBytes        `json:"publicKeyDer"`
		PublicKey    json.RawMessage // an object, or for ML-DSA hexadecimal text
		Tests        []struct {
			ID      int `json:"tcId"`
			Comment string
			Msg     hexBytes
			Sig     hexBytes
			Ctx     hexBytes
			Result  string
		}
	}
}

// compareEd25519 holds our verdict to the standard library's, with and without a
// table of the key, and returns it. A key that cannot be enrolled is compared
// below Check.
func compareEd25519(tb require, v *Verifier, public, message, sig []byte) bool {
	tb.Helper()
	want := ed25519.Verify(public, message, sig)
	if table, ok := newTable(publicKey(public)); ok {
		if got := checkWithTable(table, publicKey(public), message, sig); got != want {
			tb.Fatalf("key %x message %x signature %x: %t, standard library %t", public, message, sig, got, want)
		}
	} else if want {
		tb.Fatalf("key %x: no point, but the standard library accepts a signature", public)
	}
	if key, err := entry.NewPublicKey(ed25519.PublicKey(public)); err == nil {
		if got := v.Check(key, message, sig) == nil; got != want {
			tb.Fatalf("key %x message %x signature %x: Check %t, standard library %t", public, message, sig, got, want)
		}
	}
	return want
}

func TestWycheproofEd25519(t *testing.T) {
	var file wycheproof
	readVectors(t, "wycheproof_ed25519_test.json", &file)
	v := mustVerifier(t)
	ran := 0
	for _, group := range file.TestGroups {
		key, err := entry.ParsePublicKey(group.PublicKeyDER)
		if err != nil {
			t.Errorf("key %x: %v", group.PublicKeyDER, err)
			continue
		}
		public, _ := key.Crypto().(ed25519.PublicKey)
		for _, test := range group.Tests {
			ran++
			if got, want := compareEd25519(t, v, public, test.Msg, test.Sig), test.Result == "valid"; got != want {
				t.Errorf("test %d, %s: %t, want %t", test.ID, test.Comment, got, want)
			}
		}
	}
	if ran == 0 || ran != file.NumberOfTests {
		t.Errorf("ran %d vectors of %d", ran, file.NumberOfTests)
	}
}

// TestCCTVEd25519 runs the edge cases of C2SP/CCTV, on whose verdict libraries
// disagree: points of small order, parts of small order, other encodings. Ours
// is the standard library's; a key of small order is refused before.
func TestCCTVEd25519(t *testing.T) {
	var tests []struct {
		Number   int
		Key, Sig hexBytes
		Msg      string
		Flags    []string
	}
	readVectors(t, "cctv_ed25519vectors.json", &tests)
	v := mustVerifier(t)
	accepted, enrolled := 0, 0
	for _, test := range tests {
		if compareEd25519(t, v, []byte(test.Key), []byte(test.Msg), test.Sig) {
			accepted++
		}
		refused := false
		for _, flag := range test.Flags {
			refused = refused || flag == "low_order_A" || flag == "non_canonical_A"
		}
		if _, err := entry.NewPublicKey(ed25519.PublicKey(test.Key)); (err != nil) != refused {
			t.Errorf("vector %d, flags %v: enrolment error %v", test.Number, test.Flags, err)
		}
		if !refused {
			enrolled++
		}
	}
	if accepted == 0 || accepted == len(tests) || enrolled == 0 || enrolled == len(tests) {
		t.Errorf("of %d vectors %d accepted, %d with a key to enrol: the comparison is empty", len(tests), accepted, enrolled)
	}
}

func TestWycheproofECDSAP256(t *testing.T) {
	var file wycheproof
	readVectors(t, "wycheproof_ecdsa_secp256r1_sha256_test.json", &file)
	v := mustVerifier(t)
	ran := 0
	for _, group := range file.TestGroups {
		key, err := entry.ParsePublicKey(group.PublicKeyDER)
		if err != nil {
			t.Errorf("key %x: %v", group.PublicKeyDER, err)
			continue
		}
		public, _ := key.Crypto().(*ecdsa.PublicKey)
		for _, test := range group.Tests {
			ran++
			digest := sha256.Sum256(test.Msg)
			library := ecdsa.VerifyASN1(public, digest[:], test.Sig)
			got := v.Check(key, test.Msg, test.Sig) == nil
			if want := test.Result == "valid"; got != want || got != library {
				t.Errorf("test %d, %s: %t, want %t, standard library %t", test.ID, test.Comment, got, want, library)
			}
		}
	}
	if ran == 0 || ran != file.NumberOfTests {
		t.Errorf("ran %d vectors of %d", ran, file.NumberOfTests)
	}
}

// TestWycheproofMLDSA44 runs the library under the ledger's second signature as
// the cosignature uses it, with an empty context.
func TestWycheproofMLDSA44(t *testing.T) {
	var file wycheproof
	readVectors(t, "wycheproof_mldsa_44_verify_test.json", &file)
	ran := 0
	for _, group := range file.TestGroups {
		var encoded hexBytes
		if err := json.Unmarshal(group.PublicKey, &encoded); err != nil {
			t.Fatal(err)
		}
		public, keyErr := mldsa.NewPublicKey(mldsa.MLDSA44(), encoded)
		for _, test := range group.Tests {
			if len(test.Ctx) > 0 {
				continue
			}
			ran++
			got := keyErr == nil && mldsa.Verify(public, test.Msg, test.Sig, nil) == nil
			if want := test.Result == "valid"; got != want {
				t.Errorf("test %d, %s: %t, want %t", test.ID, test.Comment, got, want)
			}
		}
	}
	if ran < file.NumberOfTests/2 {
		t.Errorf("ran %d vectors of %d", ran, file.NumberOfTests)
	}
	t.Logf("%d of %d vectors have an empty context", ran, file.NumberOfTests)
}

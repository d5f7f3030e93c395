package verify_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// vectors reads a set of signature vectors made by others, or skips.
func vectors(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "shared", "data", "signature_vectors", name))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("missing: ../shared/data/signature_vectors/%s", name)
	}
	must(t, err)
	must(t, json.Unmarshal(data, into))
}

func unhex(tb testing.TB, text string) []byte {
	tb.Helper()
	data, err := hex.DecodeString(text)
	must(tb, err)
	return data
}

// wycheproof is what the sets of Ed25519 and of ECDSA have in common.
type wycheproof struct {
	TestGroups []struct {
		PublicKeyDer string
		Tests        []struct {
			TcID             int
			Msg, Sig, Result string
			Flags            []string
		}
	}
}

// verdict asks the standard library.
func verdict(key any, msg, sig []byte) bool {
	switch key := key.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(key, msg, sig)
	case *ecdsa.PublicKey:
		sum := sha256.Sum256(msg)
		return ecdsa.VerifyASN1(key, sum[:], sig)
	}
	return false
}

// TestWycheproof holds the verdict to the standard library's and to what
// Wycheproof expects.
// Draft: ENV-4, ENV-5.
func TestWycheproof(t *testing.T) {
	for _, name := range []string{"wycheproof_ed25519_test.json", "wycheproof_ecdsa_secp256r1_sha256_test.json"} {
		t.Run(name, func(t *testing.T) {
			var set wycheproof
			vectors(t, name, &set)
			valid, invalid := 0, 0
			for _, group := range set.TestGroups {
				der := unhex(t, group.PublicKeyDer)
				parsed, err := x509.ParsePKIXPublicKey(der)
				must(t, err)
				key, err := entry.ParsePublicKey(der)
				must(t, err)
				for _, tc := range group.Tests {
					msg, sig := unhex(t, tc.Msg), unhex(t, tc.Sig)
					got := verify.Signature(key, msg, sig) == nil
					if got != verdict(parsed, msg, sig) {
						t.Errorf("test %d: verdict %v differs from the standard library's", tc.TcID, got)
					}
					if tc.Result != "acceptable" && got != (tc.Result == "valid") {
						t.Errorf("test %d %v: verdict %v, expected %s", tc.TcID, tc.Flags, got, tc.Result)
					}
					if got {
						valid++
					} else {
						invalid++
					}
				}
			}
			if valid < 50 || invalid < 50 {
				t.Errorf("%d valid and %d invalid signatures: the set was not read", valid, invalid)
			}
		})
	}
}

// TestCCTV goes through the edge cases of Ed25519: keys of small order and keys
// in another than their canonical encoding are refused as keys, and for the
// others the verdict is the standard library's.
// Draft: ENV-8.
func TestCCTV(t *testing.T) {
	var set []struct {
		Number        int
		Key, Sig, Msg string
		Flags         []string
	}
	vectors(t, "cctv_ed25519vectors.json", &set)
	refused, valid, invalid := 0, 0, 0
	for _, tc := range set {
		public, sig := ed25519.PublicKey(unhex(t, tc.Key)), unhex(t, tc.Sig)
		key, err := entry.NewPublicKey(public)
		weak := slices.Contains(tc.Flags, "low_order_A") || slices.Contains(tc.Flags, "non_canonical_A")
		if weak != (err != nil) {
			t.Errorf("vector %d %v: key refused with %v", tc.Number, tc.Flags, err)
		}
		if err != nil {
			refused++
			continue
		}
		switch got := verify.Signature(key, []byte(tc.Msg), sig) == nil; {
		case got != ed25519.Verify(public, []byte(tc.Msg), sig):
			t.Errorf("vector %d %v: verdict %v differs from the standard library's", tc.Number, tc.Flags, got)
		case got:
			valid++
		default:
			invalid++
		}
	}
	t.Logf("%d keys refused, %d signatures valid, %d invalid", refused, valid, invalid)
	if refused < 100 || valid == 0 || invalid < 100 {
		t.Error("the set was not read")
	}
}

func TestSignatureRefusesWhatIsNone(t *testing.T) {
	ed, p256 := testlog.NewKey(t, "p", "ed"), testlog.NewP256(t, "p")
	for _, k := range []testlog.Key{ed, p256} {
		e := k.Sign(t, new(testlog.IDs).Execution(k))
		must(t, verify.Signature(k.Public, e.PAE(), e.Sig))
		for name, err := range map[string]error{
			"no signature":       verify.Signature(k.Public, e.PAE(), nil),
			"a signature cut":    verify.Signature(k.Public, e.PAE(), e.Sig[:len(e.Sig)-1]),
			"a signature longer": verify.Signature(k.Public, e.PAE(), append(slices.Clone(e.Sig), 0)),
			"another message":    verify.Signature(k.Public, e.Payload(), e.Sig),
			"another key":        verify.Signature(testlog.NewKey(t, "p", "other").Public, e.PAE(), e.Sig),
			"no key":             verify.Signature(entry.PublicKey{}, e.PAE(), e.Sig),
		} {
			if problem(t, err) != entry.BadSignature {
				t.Errorf("%s: error %v", name, err)
			}
		}
	}
}

package verify_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	fnote "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// TestEitherPinnedKeyMakesAHeadGood is TRU-5: around a change of the ledger's
// key, heads carry the signatures of both.
func TestEitherPinnedKeyMakesAHeadGood(t *testing.T) {
	l, _ := working(t)
	skey, vkey, err := note.GenerateKey(nil, testlog.Origin)
	must(t, err)
	next, err := note.NewSigner(skey)
	must(t, err)
	both := l.SignText(testlog.HeadText(l.Head(15)), next)
	onlyNext, err := note.Sign(&note.Note{Text: testlog.HeadText(l.Head(15))}, next)
	must(t, err)
	successor := l.Root
	successor.LedgerKeys = []string{vkey}
	for name, root := range map[string]verify.Root{"old root": l.Root, "new root": successor} {
		if head, err := root.Head([]byte(both)); err != nil || head != l.Head(15) {
			t.Errorf("%s: head %v, error %v", name, head, err)
		}
	}
	_, err = l.Root.Head(onlyNext)
	wantStep(t, err, verify.StepHead)
	l.Root.LedgerKeys = append(l.Root.LedgerKeys, vkey)
	if _, err := l.Root.Head(onlyNext); err != nil {
		t.Errorf("with both keys pinned: %v", err)
	}
	// A bad signature of a pinned key spoils the head, a good one beside it or not.
	other, err := note.Sign(&note.Note{Text: testlog.HeadText(l.Head(14))}, next)
	must(t, err)
	_, err = l.Root.Head([]byte(l.Signed(15) + signatures(string(other))))
	wantStep(t, err, verify.StepHead)
}

// TestMLDSASignatures checks heads with a second signature, with and without a
// verifier for it.
func TestMLDSASignatures(t *testing.T) {
	l, _ := working(t)
	skey, vkey, err := fnote.GenerateMLDSAKey(testlog.Origin)
	must(t, err)
	signer, err := fnote.NewMLDSASigner(skey)
	must(t, err)
	both := l.SignText(testlog.HeadText(l.Head(15)), signer)
	alone, err := note.Sign(&note.Note{Text: testlog.HeadText(l.Head(15))}, signer)
	must(t, err)
	other, err := note.Sign(&note.Note{Text: testlog.HeadText(l.Head(12))}, signer)
	must(t, err)
	swapped := l.Signed(15) + signatures(string(other))
	pinned := l.Root
	pinned.LedgerKeys = append(slices.Clone(pinned.LedgerKeys), vkey)
	checking := pinned
	checking.Cosigner = fnote.NewVerifierForCosignatureV1
	cases := []struct {
		name       string
		root       verify.Root
		head       string
		good       bool
		checked    string
		notChecked string
	}{
		{"checked", checking, both, true, "1 of them by the pinned ML-DSA-44 key too", ""},
		{"pinned, not checked", pinned, both, true, "", "the ML-DSA-44 signature on 1 tree head"},
		{"not pinned", l.Root, both, true, "", ""},
		{"pinned, and the head has none", checking, l.Signed(15), true, "", "an ML-DSA-44 signature: there is none on 1 tree head"},
		{"without the Ed25519 signature", checking, string(alone), false, "", ""},
		{"of another head", checking, swapped, false, "", ""},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			report, err := tc.root.Verify(verify.Material{Heads: []string{tc.head}})
			if !tc.good {
				wantStep(t, err, verify.StepHead)
				return
			}
			must(t, err)
			if got := report.Checked[0].Detail; strings.Contains(got, "ML-DSA") != (tc.checked != "") || !strings.Contains(got, tc.checked) {
				t.Errorf("checked %q, want %q", got, tc.checked)
			}
			if got := strings.Join(notChecked(report), "\n"); (got == "") != (tc.notChecked == "") || !strings.HasPrefix(got, tc.notChecked) {
				t.Errorf("not checked %q, want %q", got, tc.notChecked)
			}
		})
	}
	wrong := checking
	wrong.Cosigner = func(string) (note.Verifier, error) { return note.NewVerifier(l.Root.LedgerKeys[0]) }
	_, err = wrong.Head([]byte(both))
	wantFormat(t, err)
	wrong.Cosigner = func(string) (note.Verifier, error) { return nil, errors.New("no such library") }
	_, err = wrong.Head([]byte(both))
	wantFormat(t, err)
}

// TestMLDSASignaturesInAnyPlace looks for the second signature wherever it stands,
// and takes no other line for one.
func TestMLDSASignaturesInAnyPlace(t *testing.T) {
	l, _ := working(t)
	skey, vkey, err := fnote.GenerateMLDSAKey(testlog.Origin)
	must(t, err)
	signer, err := fnote.NewMLDSASigner(skey)
	must(t, err)
	pinned := l.Root
	pinned.LedgerKeys = append(slices.Clone(pinned.LedgerKeys), vkey)
	checking := pinned
	checking.Cosigner = fnote.NewVerifierForCosignatureV1
	by := func(size int, signers ...note.Signer) string {
		signed, err := note.Sign(&note.Note{Text: testlog.HeadText(l.Head(size))}, signers...)
		must(t, err)
		return string(signed)
	}
	notChecked := func(root verify.Root, head string) (checked, not string) {
		report, err := root.Verify(verify.Material{Heads: []string{head}})
		must(t, err)
		return report.Checked[0].Detail, strings.Join(notChecked(report), "\n")
	}
	first, stranger := by(15, signer, l.Signer), testlog.OtherSigner(t)
	if got, _ := notChecked(checking, first); !strings.Contains(got, "ML-DSA-44") {
		t.Errorf("the first of two: checked %q", got)
	}
	for name, head := range map[string]string{"the first of two": first, "before a stranger's": by(15, l.Signer, signer, stranger)} {
		if _, not := notChecked(pinned, head); !strings.HasPrefix(not, "the ML-DSA-44 signature on 1 tree head") {
			t.Errorf("%s: not checked %q", name, not)
		}
	}
	renamed := l.Signed(15) + strings.Replace(signatures(by(15, signer)), " "+testlog.Origin+" ", " elsewhere.example ", 1)
	if _, not := notChecked(pinned, renamed); !strings.HasPrefix(not, "an ML-DSA-44 signature: there is none on 1 tree head") {
		t.Errorf("of another name: not checked %q", not)
	}
	_, err = checking.Head([]byte(by(0, signer))) // the empty log's head needs the Ed25519 key, too
	wantStep(t, err, verify.StepHead)
	if strings.Contains(err.Error(), "TRU-5") {
		t.Errorf("no policy has named keys: %v", err)
	}
	elsewhere := checking
	elsewhere.Cosigner = func(text string) (note.Verifier, error) {
		verifier, err := fnote.NewVerifierForCosignatureV1(text)
		return misnamed{verifier}, err
	}
	_, err = elsewhere.Head([]byte(first))
	wantFormat(t, err)
}

// misnamed is a verifier under another name.
type misnamed struct{ note.Verifier }

func (misnamed) Name() string { return "elsewhere.example" }

// TestAMLDSAKeyHasItsHash: formats/note takes a verifier key with any hash, and
// would look for signatures under it; a root with such a key is refused.
func TestAMLDSAKeyHasItsHash(t *testing.T) {
	l, _ := working(t)
	_, vkey, err := fnote.GenerateMLDSAKey(testlog.Origin)
	must(t, err)
	hash := vkey[len(testlog.Origin)+1 : len(testlog.Origin)+9]
	l.Root.Cosigner = fnote.NewVerifierForCosignatureV1
	for _, wrong := range []string{"00000000", strings.Map(func(r rune) rune { return '0' + ('f'-r)%10 }, hash), strings.ToUpper("ab" + hash[2:])} {
		key := strings.Replace(vkey, "+"+hash+"+", "+"+wrong+"+", 1)
		_, err := fnote.NewVerifierForCosignatureV1(key)
		t.Logf("hash %s, right is %s; the library says %v", wrong, hash, err)
		root := l.Root
		root.LedgerKeys = append(slices.Clone(root.LedgerKeys), key)
		_, err = root.Head([]byte(l.Signed(15)))
		wantFormat(t, err)
	}
	l.Root.LedgerKeys = append(l.Root.LedgerKeys, vkey)
	_, err = l.Root.Head([]byte(l.Signed(15)))
	must(t, err)
}

// signatures returns the signature lines of a note.
func signatures(signed string) string {
	_, lines, _ := strings.Cut(signed, "\n\n")
	return lines
}

func TestExtensionLinesAreIgnoredAndReported(t *testing.T) {
	l, _ := working(t)
	report, err := l.Root.Verify(verify.Material{Heads: []string{l.SignText(testlog.HeadText(l.Head(15)) + "more\n")}})
	must(t, err)
	if got := notChecked(report); len(got) != 1 || got[0] != "extension lines on 1 tree head" {
		t.Errorf("not checked %q", got)
	}
}

func TestUnknownSignaturesOnAHeadAreIgnored(t *testing.T) {
	l, _ := working(t)
	skey, _, err := note.GenerateKey(nil, "witness.example")
	must(t, err)
	witness, err := note.NewSigner(skey)
	must(t, err)
	head, err := l.Root.Head([]byte(l.SignText(testlog.HeadText(l.Head(15)), witness)))
	if err != nil || head != l.Head(15) {
		t.Errorf("head %v, error %v", head, err)
	}
}

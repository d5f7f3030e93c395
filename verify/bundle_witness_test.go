package verify_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	cosignature "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/verify"
)

// witnessKey returns the cosignature key of a witness that its name determines.
func witnessKey(name string) (ed25519.PrivateKey, string) {
	seed := sha256.Sum256([]byte(name))
	private := ed25519.NewKeyFromSeed(seed[:])
	public, _ := private.Public().(ed25519.PublicKey)
	host, _, _ := strings.Cut(name, " ")
	raw := append([]byte{0x04}, public...)
	hash := sha256.Sum256(append([]byte(host+".example\n"), raw...))
	return private, fmt.Sprintf("%s.example+%x+%s", host, hash[:4], base64.StdEncoding.EncodeToString(raw))
}

// witnessPolicy wants two of three witnesses.
func witnessPolicy() string {
	var b strings.Builder
	b.WriteString("# who watches\n")
	for _, name := range []string{"w1", "w2", "w3"} {
		_, vkey := witnessKey(name)
		fmt.Fprintf(&b, "witness %s %s https://%s.example\n", name, vkey, name)
	}
	return b.String() + "group g 2 w1 w2 w3\nquorum g\n"
}

// cosign adds cosignatures of witnesses to the head, so many seconds old.
func cosign(age int64, names ...string) func(w *world, b *verify.Bundle) {
	return func(w *world, b *verify.Bundle) {
		for _, name := range names {
			b.Head = cosigned(b.Head, name, w.now/1000-age)
		}
	}
}

func cosigned(signed, name string, at int64) string {
	text, _, _ := strings.Cut(signed, "\n\n")
	private, vkey := witnessKey(name)
	_, public := witnessKey(strings.TrimSuffix(name, " forged"))
	host, _, _ := strings.Cut(vkey, "+")
	hash := sha256.Sum256(append([]byte(host+"\n"), keyOf(public)...))
	sig := ed25519.Sign(private, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s\n", at, text))
	raw := binary.BigEndian.AppendUint64(bytes.Clone(hash[:4]), uint64(at))
	return signed + "\u2014 " + host + " " + base64.StdEncoding.EncodeToString(append(raw, sig...)) + "\n"
}

// keyOf returns what stands behind the second plus of a verifier key.
func keyOf(vkey string) []byte {
	raw, err := base64.StdEncoding.DecodeString(strings.SplitN(vkey, "+", 3)[2])
	if err != nil {
		panic(err)
	}
	return raw
}

// otherSigner is a ledger key of the same name.
func otherSigner(tb testing.TB) note.Signer {
	tb.Helper()
	skey, _, err := note.GenerateKey(bytes.NewReader(bytes.Repeat([]byte("another "), 10)), origin)
	must(tb, err)
	signer, err := note.NewSigner(skey)
	must(tb, err)
	return signer
}

// TestCosignaturesOfOthers has the cosignatures of these tests verified by the
// library that witnesses use.
func TestCosignaturesOfOthers(t *testing.T) {
	w, b := automatic(t, plain)
	head := cosigned(b.Head, "w1", w.now/1000)
	_, vkey := witnessKey("w1")
	verifier, err := cosignature.NewVerifierForCosignatureV1(vkey)
	must(t, err)
	opened, err := note.Open([]byte(head), note.VerifierList(verifier))
	must(t, err)
	at, err := cosignature.CoSigV1Timestamp(opened.Sigs[0])
	must(t, err)
	if at.Unix() != w.now/1000 {
		t.Errorf("cosigned at %v", at)
	}
}

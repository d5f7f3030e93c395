package testlog

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
)

// WitnessKey returns the cosignature key of a witness that its name determines.
func WitnessKey(name string) (ed25519.PrivateKey, string) {
	seed := sha256.Sum256([]byte(name))
	private := ed25519.NewKeyFromSeed(seed[:])
	public, _ := private.Public().(ed25519.PublicKey)
	host, _, _ := strings.Cut(name, " ")
	raw := append([]byte{0x04}, public...)
	hash := sha256.Sum256(append([]byte(host+".example\n"), raw...))
	return private, fmt.Sprintf("%s.example+%x+%s", host, hash[:4], base64.StdEncoding.EncodeToString(raw))
}

// WitnessPolicy wants two of three witnesses.
func WitnessPolicy() string {
	var b strings.Builder
	b.WriteString("# who watches\n")
	for _, name := range []string{"w1", "w2", "w3"} {
		_, vkey := WitnessKey(name)
		fmt.Fprintf(&b, "witness %s %s https://%s.example\n", name, vkey, name)
	}
	return b.String() + "group g 2 w1 w2 w3\nquorum g\n"
}

// Cosigned returns a signed head with the cosignature of a witness at a time (Unix seconds). A
// name that ends in " forged" is that of somebody who has another key.
func Cosigned(signed, name string, at int64) string {
	text, _, _ := strings.Cut(signed, "\n\n")
	private, vkey := WitnessKey(name)
	_, public := WitnessKey(strings.TrimSuffix(name, " forged"))
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

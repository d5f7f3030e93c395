package entry_test

import (
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"filippo.io/mldsa"
	formats "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/entry"
)

func sha512Sum(data ...[]byte) []byte {
	sum := sha512.Sum512(slices.Concat(data...))
	return sum[:]
}

// smallOrderPoints are the points of order 1, 2, 4, 4, 8, 8, 8 and 8 in their
// canonical encodings; under one of them a signature can fit many messages.
var smallOrderPoints = unhex(
	"0100000000000000000000000000000000000000000000000000000000000000",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0000000000000000000000000000000000000000000000000000000000000080",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
)

// nonCanonicalPoints are other encodings of points: y not below p, or the sign
// bit of x set where x is 0.
var nonCanonicalPoints = unhex(
	"0100000000000000000000000000000000000000000000000000000000000080",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"f0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // y = p + 3, no small order
)

func unhex(texts ...string) [][]byte {
	var all [][]byte
	for _, text := range texts {
		raw, err := hex.DecodeString(text)
		if err != nil {
			panic(err)
		}
		all = append(all, raw)
	}
	return all
}

// spki returns a SubjectPublicKeyInfo; parameters may be nil.
func spki(tb testing.TB, oid asn1.ObjectIdentifier, parameters *asn1.RawValue, key []byte) []byte {
	tb.Helper()
	algorithm := pkix.AlgorithmIdentifier{Algorithm: oid}
	if parameters != nil {
		algorithm.Parameters = *parameters
	}
	der, err := asn1.Marshal(struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}{algorithm, asn1.BitString{Bytes: key, BitLength: 8 * len(key)}})
	must(tb, err)
	return der
}

// spkiUnusedBit returns a SubjectPublicKeyInfo whose bit string leaves one bit
// unused; crypto/x509 shifts the others into a good key.
func spkiUnusedBit(tb testing.TB) []byte {
	tb.Helper()
	for i := range 100 {
		key := new(big.Int).SetBytes(ed25519Key(fmt.Sprint("bits ", i)).Public().(ed25519.PublicKey))
		if key.BitLen() > 255 {
			continue
		}
		der := spki(tb, oidEd25519, nil, key.Lsh(key, 1).FillBytes(make([]byte, 32)))
		der[len(der)-33] = 1 // bits that do not count
		_, err := x509.ParsePKIXPublicKey(der)
		must(tb, err)
		return der
	}
	tb.Fatal("no key begins with a zero bit")
	return nil
}

var (
	oidEd25519 = asn1.ObjectIdentifier{1, 3, 101, 112}
	oidEC      = asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1}
)

func (s *vectorSet) addKeys() {
	text := func(der []byte) string { return base64.StdEncoding.EncodeToString(der) }
	add := func(name, desc, input string, problem entry.Problem) {
		v := &vector{Desc: desc, Input: input, WantErr: string(problem)}
		if problem != "" {
			v.Field = "key"
		} else {
			var key entry.PublicKey
			must(s.t, key.UnmarshalText([]byte(input)))
			v.Want = &want{KeyID: key.KeyID(), Algorithm: algorithmOf(key)}
		}
		s.add("key/"+name, v)
	}
	der := func(key crypto.PublicKey) []byte {
		raw, err := x509.MarshalPKIXPublicKey(key)
		must(s.t, err)
		return raw
	}
	ed := der(ed25519Key("agent").Public())
	p256 := der(ecdsaKey(s.t, elliptic.P256(), "agent").Public())
	add("ed25519", "Ed25519", text(ed), "")
	add("p256", "ECDSA P-256", text(p256), "")
	s.addForeignKeys(func(name, desc string, der []byte) { add(name, desc, text(der), entry.UnsupportedAlg) }, der)

	for i, point := range smallOrderPoints {
		add(fmt.Sprintf("ed25519-small-order-%d", i+1), "Ed25519, a point of small order", text(spki(s.t, oidEd25519, nil, point)), entry.Malformed)
	}
	for i, point := range nonCanonicalPoints {
		add(fmt.Sprintf("ed25519-non-canonical-%d", i+1), "Ed25519, a point in another than its canonical encoding",
			text(spki(s.t, oidEd25519, nil, point)), entry.Malformed)
	}
	bad := func(name, desc, input string) { add(name, desc, input, entry.Malformed) }
	bad("ed25519-off-curve", "Ed25519, no point on the curve", text(spki(s.t, oidEd25519, nil, append([]byte{2}, make([]byte, 31)...))))
	bad("ed25519-short", "Ed25519, 31 bytes", text(spki(s.t, oidEd25519, nil, ed[12:43])))
	bad("ed25519-parameters", "Ed25519 with NULL parameters", text(spki(s.t, oidEd25519, &asn1.RawValue{Tag: asn1.TagNull}, ed[12:])))
	curve := asn1.RawValue{FullBytes: p256[13:23]}
	point := p256[len(p256)-65:]
	bad("p256-compressed", "ECDSA P-256, a compressed point", text(spki(s.t, oidEC, &curve, append([]byte{2 + point[64]&1}, point[1:33]...))))
	bad("p256-infinity", "ECDSA P-256, the point at infinity", text(spki(s.t, oidEC, &curve, []byte{0})))
	off := slices.Clone(point)
	off[64] ^= 1
	bad("p256-off-curve", "ECDSA P-256, no point on the curve", text(spki(s.t, oidEC, &curve, off)))
	bad("der-trailing", "a byte behind the DER", text(append(slices.Clone(ed), 0)))
	bad("der-cut", "the last byte is missing", text(ed[:len(ed)-1]))
	bad("der-long-length", "a length in two bytes where one does", text(append([]byte{0x30, 0x81}, ed[1:]...)))
	bad("der-unused-bits", "Ed25519, the key written as 255 bits", text(spkiUnusedBit(s.t)))
	bad("der-raw-key", "32 bytes without DER", text(ed[12:]))
	bad("der-empty", "no bytes", "")
	bad("der-too-long", "2,049 bytes", text(make([]byte, 2049)))
	bad("text-unpadded", "base64 without padding", strings.TrimRight(text(p256), "="))
	bad("text-line-break", "base64 with a line break", text(ed)[:20]+"\n"+text(ed)[20:])
	bad("text-pem", "PEM", "-----BEGIN PUBLIC KEY-----\n"+text(ed)+"\n-----END PUBLIC KEY-----\n")
	bad("text-openssh", "OpenSSH", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA")
}

// addForeignKeys adds good keys of algorithms that the protocol does not have.
func (s *vectorSet) addForeignKeys(add func(name, desc string, der []byte), der func(crypto.PublicKey) []byte) {
	add("p224", "ECDSA P-224", der(ecdsaKey(s.t, elliptic.P224(), "agent").Public()))
	add("p384", "ECDSA P-384", der(ecdsaKey(s.t, elliptic.P384(), "agent").Public()))
	add("p521", "ECDSA P-521", der(ecdsaKey(s.t, elliptic.P521(), "agent").Public()))
	secp256k1, err := asn1.Marshal(asn1.ObjectIdentifier{1, 3, 132, 0, 10})
	must(s.t, err)
	generator := unhex("0479be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8")[0]
	add("secp256k1", "ECDSA secp256k1", spki(s.t, oidEC, &asn1.RawValue{FullBytes: secp256k1}, generator))
	for _, bits := range []int{2048, 4096} {
		modulus := new(big.Int).SetBit(new(big.Int).SetBytes(slices.Repeat(seed("rsa"), bits/256)), bits-1, 1)
		add(fmt.Sprintf("rsa-%d", bits), fmt.Sprintf("RSA of %d bits", bits), der(&rsa.PublicKey{N: modulus.SetBit(modulus, 0, 1), E: 65537}))
	}
	x25519, err := ecdh.X25519().NewPrivateKey(seed("x25519"))
	must(s.t, err)
	add("x25519", "X25519", der(x25519.Public()))
	add("ed448", "Ed448", spki(s.t, asn1.ObjectIdentifier{1, 3, 101, 113}, nil, append(seed("ed448"), seed("more")[:25]...)))
	add("ml-dsa-44", "ML-DSA-44", spki(s.t, asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 3, 17}, nil, slices.Repeat(seed("ml-dsa"), 41)))
}

func algorithmOf(key entry.PublicKey) string {
	if _, ok := key.Crypto().(*ecdsa.PublicKey); ok {
		return "p256"
	}
	return "ed25519"
}

func TestVectorsKey(t *testing.T) {
	for name, v := range vectorsOf(t, "key") {
		t.Run(name, func(t *testing.T) {
			var key entry.PublicKey
			err := key.UnmarshalText(inputBytes(t, v.Input))
			requireRefusal(t, v, err)
			if err == nil && (key.KeyID() != v.Want.KeyID || algorithmOf(key) != v.Want.Algorithm || key.String() != v.Input) {
				t.Errorf("key %s of %s, want %+v", key.KeyID(), algorithmOf(key), v.Want)
			}
		})
	}
}

// Types of verifier keys (c2sp.org/signed-note).
const (
	noteEd25519     = 1
	noteCosignature = 4
	noteMLDSA       = 6
)

var noteAlgorithms = map[byte]string{noteEd25519: "ed25519", noteCosignature: "ed25519-cosignature/v1", noteMLDSA: "ml-dsa-44-cosignature"}

// noteKeyID returns SHA-256(name ‖ LF ‖ type ‖ key)[:4].
func noteKeyID(name string, typ byte, key []byte) []byte {
	sum := sha256.Sum256(slices.Concat([]byte(name), []byte{'\n', typ}, key))
	return sum[:4]
}

func noteVKey(name string, typ byte, key []byte) string {
	return fmt.Sprintf("%s+%x+%s", name, noteKeyID(name, typ, key), base64.StdEncoding.EncodeToString(append([]byte{typ}, key...)))
}

// addNotes covers the names, key ids and signatures of signed notes.
func (s *vectorSet) addNotes() {
	const text = "example.com/log\n7\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"
	key := ed25519Key("log")
	public := []byte(key.Public().(ed25519.PublicKey))
	mlKey, err := mldsa.NewPrivateKey(mldsa.MLDSA44(), seed("log"))
	must(s.t, err)
	good := func(name, desc, vkey string, typ byte, signedNote string, valid bool) {
		v := &vector{Desc: desc, Input: vkey, Want: &want{KeyID: strings.Split(vkey, "+")[1], Algorithm: noteAlgorithms[typ]}}
		if signedNote != "" {
			v.Want.Signature, v.Want.Note = &valid, signedNote
		}
		s.add("note/"+name, v)
	}
	line := func(name string, id, sig []byte) string {
		return "\n— " + name + " " + base64.StdEncoding.EncodeToString(append(slices.Clone(id), sig...)) + "\n"
	}
	origin := "example.com/log"
	id := noteKeyID(origin, noteEd25519, public)
	sig := ed25519.Sign(key, []byte(text))
	vkey := noteVKey(origin, noteEd25519, public)
	good("specification", "the example of c2sp.org/signed-note", "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k", noteEd25519,
		"This is an example message.\n\n— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n", true)
	good("ed25519", "a tree head with an Ed25519 signature", vkey, noteEd25519, text+line(origin, id, sig), true)
	good("ed25519-other-text", "the signature of another tree head", vkey, noteEd25519, strings.Replace(text, "\n7\n", "\n8\n", 1)+line(origin, id, sig), false)
	good("ed25519-other-name", "the same key under another name has another id", noteVKey("example.org/log", noteEd25519, public), noteEd25519, "", false)
	stamped := func(seconds uint64) []byte {
		message := fmt.Sprintf("cosignature/v1\ntime %d\n%s", seconds, text)
		return append(binary.BigEndian.AppendUint64(nil, seconds), ed25519.Sign(key, []byte(message))...)
	}
	cosigner, cosignerID := "witness.example.com", noteKeyID("witness.example.com", noteCosignature, public)
	cosignerKey := noteVKey(cosigner, noteCosignature, public)
	good("cosignature", "an Ed25519 cosignature with its time", cosignerKey, noteCosignature, text+line(cosigner, cosignerID, stamped(1790000000)), true)
	late := stamped(1790000000)
	late[7]++
	good("cosignature-other-time", "a cosignature with another time than it was made with", cosignerKey, noteCosignature,
		text+line(cosigner, cosignerID, late), false)
	good("ml-dsa-44", "an ML-DSA-44 cosigner's key", noteVKey(origin, noteMLDSA, mlKey.PublicKey().Bytes()), noteMLDSA, "", false)

	bad := func(name, desc, vkey string) {
		s.add("note/"+name, &vector{Desc: desc, Input: vkey, WantErr: string(entry.Malformed)})
	}
	bad("bad-id", "a key id that does not belong to the key", strings.Replace(vkey, fmt.Sprintf("+%x+", id), "+00000000+", 1))
	bad("bad-name", "another name than the key id was made with", strings.Replace(vkey, origin, "example.org/log", 1))
	bad("bad-empty-name", "no name", noteVKey("", noteEd25519, public))
	bad("bad-space", "a name with a space", noteVKey("example log", noteEd25519, public))
	bad("bad-plus", "a name with a plus sign", noteVKey("example+log", noteEd25519, public))
	bad("bad-type", "a type that does not exist", noteVKey(origin, 9, public))
	bad("bad-short-key", "a key of 31 bytes", noteVKey(origin, noteEd25519, public[:31]))
	bad("bad-id-length", "a key id of three bytes", strings.Replace(vkey, fmt.Sprintf("+%x+", id), fmt.Sprintf("+%x+", id[:3]), 1))
	bad("bad-base64", "a key that is not base64", vkey[:len(vkey)-1]+"!")
	bad("bad-parts", "no key", strings.Join(strings.Split(vkey, "+")[:2], "+"))
}

// TestVectorsNote holds the vectors against two libraries: they are what the
// package verify and every reader of a tree head build on.
func TestVectorsNote(t *testing.T) {
	for name, v := range vectorsOf(t, "note") {
		t.Run(name, func(t *testing.T) {
			open := note.NewVerifier
			if v.Want != nil && v.Want.Algorithm != noteAlgorithms[noteEd25519] {
				open = formats.NewVerifierForCosignatureV1
			}
			verifier, err := open(v.Input.(string))
			if (err != nil) != (v.WantErr != "") {
				t.Fatalf("%s: %v", v.Desc, err)
			}
			if err != nil {
				return
			}
			if got := fmt.Sprintf("%08x", verifier.KeyHash()); got != v.Want.KeyID {
				t.Errorf("key id %s, want %s", got, v.Want.KeyID)
			}
			if v.Want.Note != "" {
				_, err := note.Open([]byte(v.Want.Note), note.VerifierList(verifier))
				if (err == nil) != *v.Want.Signature {
					t.Errorf("note: %v, want valid %v", err, *v.Want.Signature)
				}
			}
		})
	}
}

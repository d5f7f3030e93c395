package entry

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/binary"

	"filippo.io/edwards25519"
	"filippo.io/edwards25519/field"
)

// PublicKey is an Ed25519 or an ECDSA P-256 key. Its text form is the standard
// base64 of its SubjectPublicKeyInfo in DER (RFC 5280, section 4.1).
type PublicKey struct {
	key crypto.PublicKey // ed25519.PublicKey or *ecdsa.PublicKey
	der string
	id  string // fingerprint
}

// ed25519DER is the DER of an Ed25519 key (RFC 8410, section 4) up to the bytes of the key.
const ed25519DER = "\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00"

// ParsePublicKey reads a SubjectPublicKeyInfo. The error is a [*Refusal]: unsupported-alg for an
// algorithm other than the two; malformed for an Ed25519 point of small order or in a non-canonical
// encoding, because one signature can then fit many messages.
func ParsePublicKey(der []byte) (PublicKey, error) {
	if len(der) > maxKeyDER {
		return PublicKey{}, malformed("key", "%d bytes, the limit is %d", len(der), maxKeyDER)
	}
	if key, ok := bytes.CutPrefix(der, []byte(ed25519DER)); ok && len(key) == ed25519.PublicKeySize {
		if err := checkPoint(key); err != nil {
			return PublicKey{}, err
		}
		return newKey(ed25519.PublicKey(bytes.Clone(key)), der), nil
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return PublicKey{}, unparsedKey(der, err)
	}
	switch key := parsed.(type) {
	case ed25519.PublicKey: // in another DER than the one above
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() {
			return PublicKey{}, unsupportedKey("ECDSA on %s", key.Curve.Params().Name)
		}
		if canonical, err := x509.MarshalPKIXPublicKey(key); err == nil && bytes.Equal(canonical, der) {
			return newKey(key, der), nil
		}
	default:
		return PublicKey{}, unsupportedKey("a %T", parsed)
	}
	return PublicKey{}, malformed("key", "not the canonical DER of its key")
}

// NewPublicKey makes a PublicKey of a key in memory, with the checks of [ParsePublicKey].
func NewPublicKey(key crypto.PublicKey) (PublicKey, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return PublicKey{}, unsupportedKey("%v", err)
	}
	return ParsePublicKey(der)
}

// unparsedKey distinguishes an algorithm that the standard library does not know from a damaged key
// of a known algorithm.
func unparsedKey(der []byte, cause error) *Refusal {
	var spki struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	rest, err := asn1.Unmarshal(der, &spki)
	if err != nil || len(rest) > 0 {
		return malformed("key", "not a SubjectPublicKeyInfo in DER")
	}
	var curve asn1.ObjectIdentifier
	switch oid := spki.Algorithm.Algorithm.String(); oid {
	case "1.3.101.112": // Ed25519
	case "1.2.840.10045.2.1": // elliptic curves
		_, err := asn1.Unmarshal(spki.Algorithm.Parameters.FullBytes, &curve)
		if err == nil && curve.String() != "1.2.840.10045.3.1.7" {
			return unsupportedKey("ECDSA on the curve %s", curve)
		}
	default:
		return unsupportedKey("a key of the algorithm %s", oid)
	}
	return malformed("key", "not a public key: %v", cause)
}

func unsupportedKey(format string, args ...any) *Refusal {
	return refuse(UnsupportedAlg, "key", format, args...).remedy("use Ed25519, or ECDSA on P-256")
}

// checkPoint refuses the eight points of small order and every encoding that
// is not the canonical one (RFC 8032, section 5.1.3).
func checkPoint(key ed25519.PublicKey) error {
	point, err := new(edwards25519.Point).SetBytes(key)
	small := err == nil && new(edwards25519.Point).MultByCofactor(point).Equal(edwards25519.NewIdentityPoint()) == 1
	switch {
	// Only points of small order have a second spelling of x. The comparison therefore needs no
	// inversion for other points.
	case err != nil, !reduced(key), small && !bytes.Equal(point.Bytes(), key):
		return malformed("key", "not the canonical encoding of a point on edwards25519")
	case small:
		return malformed("key", "a point of small order")
	}
	return nil
}

// reduced reports whether y is less than the order of the field.
func reduced(key ed25519.PublicKey) bool {
	y := [ed25519.PublicKeySize]byte(key)
	y[31] &= 0x7f // the sign of x
	element, err := new(field.Element).SetBytes(y[:])
	return err == nil && bytes.Equal(element.Bytes(), y[:])
}

// Crypto returns the key as an ed25519.PublicKey or an *ecdsa.PublicKey.
func (k PublicKey) Crypto() crypto.PublicKey { return k.key }

// IsZero reports whether the PublicKey is empty.
func (k PublicKey) IsZero() bool { return k.key == nil }

// Equal reports whether both are the same key.
func (k PublicKey) Equal(other PublicKey) bool { return k.der == other.der }

// DER returns the SubjectPublicKeyInfo.
func (k PublicKey) DER() []byte { return []byte(k.der) }

// KeyID returns the OpenSSH SHA-256 fingerprint: "SHA256:" and the unpadded
// base64 of the SHA-256 of the key in SSH wire format (RFC 4253, section 6.6;
// RFC 5656, section 3.1; RFC 8709, section 4).
func (k PublicKey) KeyID() string { return k.id }

// newKey returns the PublicKey of a checked key.
func newKey(key crypto.PublicKey, der []byte) PublicKey {
	var wire []byte
	add := func(data []byte) {
		wire = binary.BigEndian.AppendUint32(wire, uint32(len(data)))
		wire = append(wire, data...)
	}
	switch key := key.(type) {
	case ed25519.PublicKey:
		add([]byte("ssh-ed25519"))
		add(key)
	case *ecdsa.PublicKey:
		add([]byte("ecdsa-sha2-nistp256"))
		add([]byte("nistp256"))
		add(der[len(der)-65:]) // the uncompressed point ends the DER
	}
	sum := sha256.Sum256(wire)
	return PublicKey{key, string(der), "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])}
}

// String returns the text form.
func (k PublicKey) String() string { return base64.StdEncoding.EncodeToString([]byte(k.der)) }

// MarshalText implements [encoding.TextMarshaler].
func (k PublicKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]; see [ParsePublicKey].
func (k *PublicKey) UnmarshalText(text []byte) error {
	der, err := appendBase64("key", nil, text)
	if err != nil {
		return err
	}
	*k, err = ParsePublicKey(der)
	return err
}

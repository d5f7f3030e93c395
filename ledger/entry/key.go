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
)

// PublicKey is an Ed25519 or an ECDSA P-256 key. Its text form is the standard
// base64 of its SubjectPublicKeyInfo in DER (RFC 5280, section 4.1).
type PublicKey struct {
	key crypto.PublicKey // ed25519.PublicKey or *ecdsa.PublicKey
	der string
}

// ParsePublicKey reads a SubjectPublicKeyInfo. An algorithm other than the two
// is refused by name (unsupported-alg); a small-order or non-canonical Ed25519
// point, under which one signature can fit many messages, as malformed.
func ParsePublicKey(der []byte) (PublicKey, error) {
	if len(der) > maxKeyDER {
		return PublicKey{}, malformed("key", "%d bytes, the limit is %d", len(der), maxKeyDER)
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return PublicKey{}, unparsedKey(der, err)
	}
	switch key := parsed.(type) {
	case ed25519.PublicKey:
		if err := checkPoint(key); err != nil {
			return PublicKey{}, err
		}
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() {
			return PublicKey{}, unsupportedKey("ECDSA on %s", key.Curve.Params().Name)
		}
	default:
		return PublicKey{}, unsupportedKey("a %T", parsed)
	}
	canonical, err := x509.MarshalPKIXPublicKey(parsed)
	if err != nil || !bytes.Equal(canonical, der) {
		return PublicKey{}, malformed("key", "not the canonical DER of its key")
	}
	return PublicKey{key: parsed, der: string(der)}, nil
}

// NewPublicKey is [ParsePublicKey] for a key in memory.
func NewPublicKey(key crypto.PublicKey) (PublicKey, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return PublicKey{}, unsupportedKey("%v", err)
	}
	return ParsePublicKey(der)
}

// unparsedKey tells an algorithm that the standard library does not know from a
// damaged key of one that it does.
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
	if err != nil || !bytes.Equal(point.Bytes(), key) {
		return malformed("key", "not the canonical encoding of a point on edwards25519")
	}
	if new(edwards25519.Point).MultByCofactor(point).Equal(edwards25519.NewIdentityPoint()) == 1 {
		return malformed("key", "a point of small order")
	}
	return nil
}

// Crypto returns the key as an ed25519.PublicKey or an *ecdsa.PublicKey.
func (k PublicKey) Crypto() crypto.PublicKey { return k.key }

// IsZero reports whether k is no key.
func (k PublicKey) IsZero() bool { return k.key == nil }

// Equal reports whether both are the same key.
func (k PublicKey) Equal(other PublicKey) bool { return k.der == other.der }

// DER returns the SubjectPublicKeyInfo.
func (k PublicKey) DER() []byte { return []byte(k.der) }

// KeyID returns the OpenSSH SHA-256 fingerprint: "SHA256:" and the unpadded
// base64 of the SHA-256 of the key in SSH wire format (RFC 4253, section 6.6;
// RFC 5656, section 3.1; RFC 8709, section 4).
func (k PublicKey) KeyID() string {
	var wire []byte
	field := func(data []byte) {
		wire = binary.BigEndian.AppendUint32(wire, uint32(len(data)))
		wire = append(wire, data...)
	}
	switch key := k.key.(type) {
	case ed25519.PublicKey:
		field([]byte("ssh-ed25519"))
		field(key)
	case *ecdsa.PublicKey:
		field([]byte("ecdsa-sha2-nistp256"))
		field([]byte("nistp256"))
		field([]byte(k.der[len(k.der)-65:])) // the uncompressed point ends the DER
	default:
		return ""
	}
	sum := sha256.Sum256(wire)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
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

package keys

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/oasisprotocol/curve25519-voi/curve"
	"github.com/oasisprotocol/curve25519-voi/curve/scalar"

	"recoveryledger/ledger/entry"
)

// ErrSignature reports a signature that is not the key's over the message.
var ErrSignature = errors.New("keys: the signature does not match")

// Verifier checks signatures of keys that come again. For an Ed25519 key that
// came often it keeps a table of multiples of the key's point, which more than
// halves the time of a check; the standard library checks all others. It is safe
// for concurrent use.
//
// It checks each signature by itself. Checking a batch at once is cofactored: it
// accepts crafted signatures that the standard library refuses, and then two
// auditors of one log disagree.
type Verifier struct {
	seen   *lru.Cache[publicKey, *atomic.Uint32] // checks of keys without a table
	tables *lru.Cache[publicKey, *curve.EdwardsBasepointTable]
}

type publicKey = [ed25519.PublicKeySize]byte

// NewVerifier returns a verifier that keeps the tables of keysMax keys, 40 KiB
// each; 0: 1,024. If more keys than that sign in turn, checks of the others take
// as long as the standard library's.
func NewVerifier(keysMax int) (*Verifier, error) {
	if keysMax == 0 {
		keysMax = tablesDefault
	}
	tables, err := lru.New[publicKey, *curve.EdwardsBasepointTable](keysMax)
	if err != nil {
		return nil, fmt.Errorf("keys: keep %d keys: %w", keysMax, err)
	}
	seen, err := lru.New[publicKey, *atomic.Uint32](keysMax)
	if err != nil {
		return nil, fmt.Errorf("keys: keep %d keys: %w", keysMax, err)
	}
	return &Verifier{seen, tables}, nil
}

// Check returns nil if sig is the key's signature over message, else
// [ErrSignature]. Its verdict is the standard library's.
func (v *Verifier) Check(key entry.PublicKey, message, sig []byte) error {
	valid := false
	switch public := key.Crypto().(type) {
	case ed25519.PublicKey:
		valid = v.checkEd25519(public, message, sig)
	case *ecdsa.PublicKey:
		digest := sha256.Sum256(message)
		valid = ecdsa.VerifyASN1(public, digest[:], sig)
	}
	if !valid {
		return ErrSignature
	}
	return nil
}

func (v *Verifier) checkEd25519(public ed25519.PublicKey, message, sig []byte) bool {
	key := publicKey(public)
	table, ok := v.tables.Get(key)
	if !ok && v.often(key) {
		if table, ok = newTable(key); ok {
			v.tables.Add(key, table)
			v.seen.Remove(key)
		}
	}
	if !ok {
		return ed25519.Verify(public, message, sig)
	}
	return checkWithTable(table, key, message, sig)
}

// often counts the checks of a key without a table. A table takes longer to make
// than a check, so that it must be rare even if more keys sign in turn than are
// kept.
func (v *Verifier) often(key publicKey) bool {
	checks, ok := v.seen.Get(key)
	if !ok {
		checks = new(atomic.Uint32)
		v.seen.Add(key, checks)
	}
	return checks.Add(1) >= checksBeforeTable
}

// newTable returns multiples of −A, where A is the key's point, if it is one.
func newTable(key publicKey) (*curve.EdwardsBasepointTable, bool) {
	var a curve.EdwardsPoint
	if _, err := a.SetCompressedY((*curve.CompressedEdwardsY)(&key)); err != nil {
		return nil, false
	}
	return curve.NewEdwardsBasepointTable(a.Neg(&a)), true
}

// checkWithTable reports whether sig = R‖S is a signature over message: whether
// S is below the group's order and S·B − H(R‖A‖message)·A encodes as R (RFC 8032,
// section 5.1.7, without the cofactor, as the standard library has it).
func checkWithTable(table *curve.EdwardsBasepointTable, key publicKey, message, sig []byte) bool {
	if len(sig) != ed25519.SignatureSize {
		return false
	}
	hash := sha512.New()
	hash.Write(sig[:32])
	hash.Write(key[:])
	hash.Write(message)
	var s, k scalar.Scalar
	if _, err := k.SetBytesModOrderWide(hash.Sum(nil)); err != nil {
		return false
	}
	if _, err := s.SetCanonicalBytes(sig[32:]); err != nil { // s itself is not needed
		return false
	}
	var r curve.EdwardsPoint
	r.MulBasepoint(table, &k)
	addBase(&r, sig[32:])
	var encoded curve.CompressedEdwardsY
	return bytes.Equal(encoded.SetEdwardsPoint(&r)[:], sig[:32])
}

// multiples holds d·256^i·B at [i][d-1], where B is the group's base point.
type multiples [scalar.ScalarSize][255]curve.EdwardsPoint

// baseMultiples makes the one table of B, 1.3 MB.
var baseMultiples = sync.OnceValue(func() *multiples {
	table := new(multiples)
	step := curve.ED25519_BASEPOINT_POINT
	for i := range table {
		row := &table[i]
		row[0].Set(step)
		for d := 1; d < len(row); d++ {
			row[d].Add(&row[d-1], step)
		}
		step = new(curve.EdwardsPoint).Add(&row[len(row)-1], step)
	}
	return table
})

// addBase adds s·B to r; s is little-endian. It does half the additions of the
// library's own multiplication, and takes a time that depends on s, which must
// not be secret.
func addBase(r *curve.EdwardsPoint, s []byte) {
	table := baseMultiples()
	for i, digit := range s {
		if digit > 0 {
			r.Add(r, &table[i][digit-1])
		}
	}
}

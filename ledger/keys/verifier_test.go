package keys

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha512"
	"errors"
	"math/big"
	"slices"
	"sync"
	"testing"

	"filippo.io/edwards25519"
	"github.com/oasisprotocol/curve25519-voi/curve"
	"pgregory.net/rapid"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

func TestCheckRefusesWhatIsNotTheSignature(t *testing.T) {
	v := mustVerifier(t)
	for _, algorithm := range algorithms {
		signer, _ := mustGenerate(t, algorithm, nil)
		other, _ := mustGenerate(t, algorithm, nil)
		e := mustEntry(t, "wf-1")
		if err := signer.Sign(e); err != nil {
			t.Fatal(err)
		}
		if err := v.Check(signer.Public(), e.PAE(), e.Sig); err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			desc    string
			key     entry.PublicKey
			message []byte
			sig     []byte
		}{
			{"another key", other.Public(), e.PAE(), e.Sig},
			{"no key", entry.PublicKey{}, e.PAE(), e.Sig},
			{"the payload alone", signer.Public(), e.Payload(), e.Sig},
			{"no signature", signer.Public(), e.PAE(), nil},
			{"half a signature", signer.Public(), e.PAE(), e.Sig[:len(e.Sig)/2]},
			{"a byte more", signer.Public(), e.PAE(), append(slices.Clip(e.Sig), 0)},
		} {
			if err := v.Check(test.key, test.message, test.sig); !errors.Is(err, ErrSignature) {
				t.Errorf("%s, %s: error %v, want ErrSignature", algorithm, test.desc, err)
			}
		}
	}
}

// TestTablesAreBoundedAndShared checks more keys than are kept from several
// goroutines at once: every verdict is right before, while and after a key has a
// table.
func TestTablesAreBoundedAndShared(t *testing.T) {
	v, err := NewVerifier(4)
	if err != nil {
		t.Fatal(err)
	}
	signers := make([]*Signer, 12)
	for i := range signers {
		signers[i], _ = mustGenerate(t, Ed25519, nil)
	}
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := range 2 * checksBeforeTable * len(signers) {
				e := mustEntry(t, "wf-1")
				signer := signers[(i/checksBeforeTable+worker)%len(signers)]
				if err := signer.Sign(e); err != nil {
					t.Error(err)
				}
				if err := v.Check(signer.Public(), e.PAE(), e.Sig); err != nil {
					t.Error(err)
				}
				e.Sig[40] ^= 1
				if err := v.Check(signer.Public(), e.PAE(), e.Sig); err == nil {
					t.Error("a damaged signature was accepted")
				}
			}
		})
	}
	group.Wait()
	if kept, seen := v.tables.Len(), v.seen.Len(); kept != 4 || seen > 4 {
		t.Errorf("%d tables kept and %d keys seen, want 4 and at most 4", kept, seen)
	}
	if _, err := NewVerifier(-1); err == nil {
		t.Error("a negative number of keys was accepted")
	}
}

// order8 is a point of order 8 on edwards25519; its multiples are the eight
// points of small order.
var order8 = []byte{
	0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f,
	0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
}

// smallOrder returns n times the point of order 8.
func smallOrder(t require, n int) *edwards25519.Point {
	t.Helper()
	step, err := new(edwards25519.Point).SetBytes(order8)
	if err != nil {
		t.Fatalf("%v", err)
	}
	p := edwards25519.NewIdentityPoint()
	for range n {
		p.Add(p, step)
	}
	return p
}

// require is what testing.TB and rapid.TB share here.
type require interface {
	Helper()
	Fatalf(format string, args ...any)
}

// reduced is the SHA-512 of the parts modulo the order of the base point.
func reduced(t require, parts ...[]byte) *edwards25519.Scalar {
	t.Helper()
	h := sha512.New()
	for _, part := range parts {
		h.Write(part)
	}
	s, err := new(edwards25519.Scalar).SetUniformBytes(h.Sum(nil))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return s
}

// craft is a signature made outside the rules: the key and R carry parts of
// small order, and S satisfies the equation up to those.
type craft struct {
	key, nonce       []byte // seeds of the scalars a and r; empty: zero
	keyPart, rPart   int    // multiples of the point of order 8 in A and R
	message          []byte
	public, sigBytes []byte // A and R‖S, as computed by make
}

func (c *craft) make(t require) {
	t.Helper()
	a, r := edwards25519.NewScalar(), edwards25519.NewScalar()
	if len(c.key) > 0 {
		a = reduced(t, c.key)
	}
	if len(c.nonce) > 0 {
		r = reduced(t, c.nonce)
	}
	point := func(s *edwards25519.Scalar, part int) []byte {
		p := new(edwards25519.Point).ScalarBaseMult(s)
		return p.Add(p, smallOrder(t, part)).Bytes()
	}
	c.public = point(a, c.keyPart)
	encodedR := point(r, c.rPart)
	k := reduced(t, encodedR, c.public, c.message)
	c.sigBytes = slices.Concat(encodedR, new(edwards25519.Scalar).MultiplyAdd(k, a, r).Bytes())
}

// addOrder adds the order of the base point to S, which makes it non-canonical.
func addOrder(sig []byte) {
	order, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	s := new(big.Int)
	for i := 63; i >= 32; i-- {
		s.Lsh(s, 8).Add(s, big.NewInt(int64(sig[i])))
	}
	s.Add(s, order)
	var bigEndian [32]byte
	s.FillBytes(bigEndian[:])
	for i := range bigEndian {
		sig[32+i] = bigEndian[31-i]
	}
}

// nonCanonical returns what a lenient decoder takes for another encoding of a
// point: y between the prime 2^255 − 19 and 2^255, or a sign where x is zero.
func nonCanonical() [][]byte {
	encodings := [][]byte{fill(0x01, 0x00, 0x80), fill(0xec, 0xff, 0xff)}
	for low := 0xed; low <= 0xff; low++ {
		encodings = append(encodings, fill(byte(low), 0xff, 0x7f), fill(byte(low), 0xff, 0xff))
	}
	return encodings
}

// fill returns 32 bytes: the first, the middle ones, the last.
func fill(first, middle, last byte) []byte {
	out := make([]byte, 32)
	for i := range out {
		out[i] = middle
	}
	out[0], out[31] = first, last
	return out
}

// TestVerdictIsTheStandardLibrarys draws crafted and damaged signatures, each
// with every pair of small-order parts in key and R: other encodings, S beyond
// the order, flipped bits.
func TestVerdictIsTheStandardLibrarys(t *testing.T) {
	budget.Unraced(t, "one goroutine checks signatures")
	v := mustVerifier(t)
	short := rapid.SliceOfN(rapid.Byte(), 0, 4)
	accepted, rejected := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		c := craft{key: short.Draw(t, "a"), nonce: short.Draw(t, "r"), message: short.Draw(t, "message")}
		damage := rapid.SampledFrom([]string{"", "", "S+L", "R", "A", "bit"}).Draw(t, "damage")
		encoding := rapid.SampledFrom(nonCanonical()).Draw(t, "encoding")
		bit := rapid.IntRange(0, 511).Draw(t, "bit")
		for parts := range 64 {
			c.keyPart, c.rPart = parts/8, parts%8
			c.make(t)
			switch damage {
			case "S+L":
				addOrder(c.sigBytes)
			case "R":
				copy(c.sigBytes, encoding)
			case "A":
				c.public = encoding
			case "bit":
				c.sigBytes[bit/8] ^= 1 << (bit % 8)
			}
			if compareEd25519(t, v, c.public, c.message, c.sigBytes) {
				accepted++
			} else {
				rejected++
			}
		}
	})
	if accepted == 0 || rejected == 0 {
		t.Errorf("%d accepted, %d rejected: the comparison is empty", accepted, rejected)
	}
	t.Logf("%d accepted, %d rejected", accepted, rejected)
}

func BenchmarkCheck(b *testing.B) {
	for _, algorithm := range algorithms {
		b.Run(string(algorithm), func(b *testing.B) {
			v := mustVerifier(b)
			signer, _ := mustGenerate(b, algorithm, nil)
			e := mustEntry(b, "wf-1")
			if err := signer.Sign(e); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := v.Check(signer.Public(), e.PAE(), e.Sig); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCheckPeer is the peer of BenchmarkCheck/ed25519: the standard library.
func BenchmarkCheckPeer(b *testing.B) {
	signer, _ := mustGenerate(b, Ed25519, nil)
	e := mustEntry(b, "wf-1")
	if err := signer.Sign(e); err != nil {
		b.Fatal(err)
	}
	public, _ := signer.Public().Crypto().(ed25519.PublicKey)
	for b.Loop() {
		if !ed25519.Verify(public, e.PAE(), e.Sig) {
			b.Fatal("refused")
		}
	}
}

func BenchmarkSign(b *testing.B) {
	signer, _ := mustGenerate(b, Ed25519, nil)
	e := mustEntry(b, "wf-1")
	for b.Loop() {
		if err := signer.Sign(e); err != nil {
			b.Fatal(err)
		}
	}
}

// TestBaseMultiples compares every multiple in the table, and some sums, with
// another library. S·B is a sum of them, so that this is the whole of it.
func TestBaseMultiples(t *testing.T) {
	check := func(s []byte) {
		t.Helper()
		reduced, err := new(edwards25519.Scalar).SetUniformBytes(append(slices.Clip(s), make([]byte, 32)...))
		if err != nil {
			t.Fatal(err)
		}
		want := new(edwards25519.Point).ScalarBaseMult(reduced).Bytes()
		var r curve.EdwardsPoint
		addBase(r.Identity(), s)
		if got, err := r.MarshalBinary(); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%x·B = %x, %v; want %x", s, got, err, want)
		}
	}
	for i := range 32 {
		for d := range 256 {
			s := make([]byte, 32)
			s[i] = byte(d)
			check(s)
		}
	}
	check(bytes.Repeat([]byte{255}, 32))
	rapid.Check(t, func(t *rapid.T) { check(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "s")) })
}

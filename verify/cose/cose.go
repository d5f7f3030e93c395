// Package cose carries a receipt of the log as a COSE Receipt (RFC 9942) of the verifiable data
// structure RFC9162_SHA256, with the claims that a receipt of SCITT has (RFC 9943):
//
//	18([                                            COSE_Sign1
//	  << { 1: -8,                                   EdDSA
//	       4: 'ORIGIN+HASH',                        name of the ledger's verifier key
//	       15: { 1: 'ORIGIN', 2: 'ISS#JTI' },       issuer of the receipt, and the entry
//	       395: 1 } >>,                             RFC9162_SHA256
//	  { 396: { -1: [ << [SIZE, INDEX, [HASH, …]] >> ] },
//	    "c2sp.org/tlog-checkpoint": 'NOTE' },       the signed tree head, witnesses included
//	  null,                                         detached: the root, which the proof leads to
//	  SIGNATURE ])
//
// A verifier of COSE receipts needs the leaf, the receipt and the ledger's Ed25519 key. The note is
// for verifiers of this ledger: it makes the receipt a [verify.Receipt] again. The tree head is
// signed as a note, which signs no COSE structure. So the ledger signs the root a second time.
package cose

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fxamacker/cbor/v2"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// The values of RFC 9052, RFC 9053 and RFC 9942.
const (
	tagSign1  = 18
	algEdDSA  = -8
	vdsSHA256 = 1 // RFC9162_SHA256
	context   = "Signature1"
)

// sign1 is a COSE_Sign1 with a detached payload.
type sign1 struct {
	_           struct{} `cbor:",toarray"`
	Protected   []byte
	Unprotected unprotected
	Payload     []byte // nil
	Signature   []byte
}

// protected is the header that the signature covers.
type protected struct {
	Alg    int64  `cbor:"1,keyasint"`
	KeyID  []byte `cbor:"4,keyasint"`
	Claims claims `cbor:"15,keyasint"`
	VDS    int64  `cbor:"395,keyasint"`
}

type claims struct {
	Issuer  string `cbor:"1,keyasint"`
	Subject string `cbor:"2,keyasint"`
}

type unprotected struct {
	Proofs proofs `cbor:"396,keyasint"`
	Head   string `cbor:"c2sp.org/tlog-checkpoint"`
}

type proofs struct {
	Inclusion [][]byte `cbor:"-1,keyasint"` // each the CBOR of an inclusion
}

type inclusion struct {
	_     struct{} `cbor:",toarray"`
	Size  uint64
	Index uint64
	Path  [][]byte // of 32 bytes each, from the leaf's sibling on
}

// toBeSigned is the Sig_structure.
type toBeSigned struct {
	_         struct{} `cbor:",toarray"`
	Context   string
	Protected []byte
	External  []byte
	Payload   []byte
}

// modes writes deterministic CBOR, and refuses what a receipt does not have.
func modes() (cbor.EncMode, cbor.DecMode, error) {
	enc, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		return nil, nil, err
	}
	dec, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField, MaxNestedLevels: 8,
	}.DecMode()
	return enc, dec, err
}

// Encode returns a receipt under a tree head as a COSE receipt. The signer has the ledger's Ed25519
// key under the origin as its name. The proof is checked first. RFC 9942 has no proof in a tree of
// one entry. The error is a [*verify.FormatError], or that of the signer.
func Encode(r verify.Receipt, head merkle.Head, signer note.Signer) ([]byte, error) {
	if err := verify.CheckLimits("cose receipt", r.Proof, r.Head); err != nil {
		return nil, err
	}
	if len(r.Proof) == 0 {
		return nil, verify.Malformed("cose receipt", "the tree has one entry, and RFC 9942 has no proof without a hash").
			WithRemedy("ask for the receipt once the log has more entries")
	}
	if err := merkle.CheckInclusion(r.Index, merkle.HashLeaf(r.Leaf), head, r.Proof); err != nil {
		return nil, verify.Malformed("cose receipt", "%v", err)
	}
	subject, err := subjectOf(r.Leaf)
	if err != nil {
		return nil, err
	}
	enc, _, err := modes()
	if err != nil {
		return nil, err
	}
	signed := protected{algEdDSA, []byte(keyName(signer.Name(), signer.KeyHash())), claims{signer.Name(), subject}, vdsSHA256}
	return assemble(enc, signed, r, head, signer.Sign)
}

// assemble puts a receipt together, and has its root signed.
func assemble(enc cbor.EncMode, header protected, r verify.Receipt, head merkle.Head, sign func([]byte) ([]byte, error)) ([]byte, error) {
	proof := inclusion{Size: head.Size, Index: r.Index}
	for _, h := range r.Proof {
		proof.Path = append(proof.Path, h[:])
	}
	proven, err := enc.Marshal(proof)
	if err != nil {
		return nil, err
	}
	covered, err := enc.Marshal(header)
	if err != nil {
		return nil, err
	}
	message, err := enc.Marshal(toBeSigned{Context: context, Protected: covered, External: []byte{}, Payload: head.Root[:]})
	if err != nil {
		return nil, err
	}
	signature, err := sign(message)
	if err != nil {
		return nil, fmt.Errorf("cose: sign: %w", err)
	}
	return enc.Marshal(cbor.Tag{Number: tagSign1, Content: sign1{
		Protected: covered, Unprotected: unprotected{proofs{[][]byte{proven}}, r.Head}, Signature: signature}})
}

// keyName is how c2sp.org/signed-note names a key.
func keyName(name string, hash uint32) string { return fmt.Sprintf("%s+%08x", name, hash) }

// subjectOf names the entry of a leaf.
func subjectOf(leaf []byte) (string, error) {
	e, _, err := entry.DecodeLeaf(leaf)
	if err != nil {
		return "", verify.Malformed("cose receipt", "leaf: %v", err)
	}
	return string(e.Header.Iss) + "#" + e.Header.JTI, nil
}

// Open reads the COSE receipt of a leaf and checks it by a pinned root: the tree head, the proof,
// the names, and the signature by a ledger key that the root has in force. It accepts exactly what
// [Encode] makes. Whether the tree head continues one that was accepted before, and who signed the
// entry, is for the caller, who gets the receipt in its usual form. The error is a
// [*verify.FormatError] or a [*verify.StepError].
func Open(data, leaf []byte, root verify.Root) (verify.Receipt, error) {
	var none verify.Receipt
	message, header, err := decode(data)
	if err != nil {
		return none, err
	}
	r, size, err := receiptOf(message, leaf)
	if err != nil {
		return none, err
	}
	head, err := root.Head([]byte(r.Head))
	if err != nil {
		return none, err
	}
	if size != head.Size {
		return none, verify.Malformed("cose receipt", "a proof for size %d beside a tree head of size %d", size, head.Size)
	}
	if err := merkle.CheckInclusion(r.Index, merkle.HashLeaf(leaf), head, r.Proof); err != nil {
		return none, &verify.StepError{Step: verify.StepInclusion, What: fmt.Sprintf("entry %d", r.Index), Cause: err}
	}
	subject, err := subjectOf(leaf)
	if err != nil {
		return none, err
	}
	if header.Claims != (claims{root.Origin, subject}) {
		return none, verify.Malformed("cose receipt", "issuer %.140q and subject %.180q, want %q and %q",
			header.Claims.Issuer, header.Claims.Subject, root.Origin, subject)
	}
	enc, _, err := modes()
	if err != nil {
		return none, err
	}
	again, err := assemble(enc, header, r, head, func(text []byte) ([]byte, error) {
		return message.Signature, checkKey(text, message.Signature, string(header.KeyID), root)
	})
	if err != nil {
		return none, &verify.StepError{Step: verify.StepHead, What: "cose receipt", Cause: errors.Unwrap(err)}
	}
	if !bytes.Equal(again, data) {
		return none, verify.Malformed("cose receipt", "not in the one form it is written in").WithRemedy("pass it on as it was received")
	}
	return r, nil
}

// decode reads the structure and its protected header.
func decode(data []byte) (message sign1, header protected, err error) {
	refuse := func(format string, args ...any) (sign1, protected, error) {
		return sign1{}, protected{}, verify.Malformed("cose receipt", format, args...)
	}
	if len(data) > MaxReceipt {
		return refuse("%d bytes, the limit is %d", len(data), MaxReceipt)
	}
	_, dec, err := modes()
	if err != nil {
		return message, header, err
	}
	var tag cbor.RawTag
	if err := dec.Unmarshal(data, &tag); err != nil {
		return refuse("not a tagged CBOR item: %v", err)
	}
	if tag.Number != tagSign1 {
		return refuse("tag %d, want %d, COSE_Sign1", tag.Number, tagSign1)
	}
	if err := dec.Unmarshal(tag.Content, &message); err != nil {
		return refuse("%v", err)
	}
	if err := dec.Unmarshal(message.Protected, &header); err != nil {
		return refuse("protected header: %v", err)
	}
	if header.Alg != algEdDSA || header.VDS != vdsSHA256 {
		return refuse("algorithm %d and data structure %d, want %d, EdDSA, and %d, RFC9162_SHA256", header.Alg, header.VDS, algEdDSA, vdsSHA256)
	}
	return message, header, nil
}

// receiptOf is the receipt in its usual form, and the size of its tree.
func receiptOf(message sign1, leaf []byte) (r verify.Receipt, size uint64, err error) {
	refuse := func(format string, args ...any) (verify.Receipt, uint64, error) {
		return verify.Receipt{}, 0, verify.Malformed("cose receipt", format, args...)
	}
	_, dec, err := modes()
	if err != nil {
		return r, 0, err
	}
	if n := len(message.Unprotected.Proofs.Inclusion); n != 1 {
		return refuse("%d inclusion proofs, want one", n)
	}
	var proof inclusion
	if err := dec.Unmarshal(message.Unprotected.Proofs.Inclusion[0], &proof); err != nil {
		return refuse("inclusion proof: %v", err)
	}
	r = verify.Receipt{Leaf: leaf, Index: proof.Index, Head: message.Unprotected.Head}
	for _, h := range proof.Path {
		if len(h) != merkle.HashSize {
			return refuse("a hash of %d bytes", len(h))
		}
		r.Proof = append(r.Proof, merkle.Hash(h))
	}
	if len(r.Proof) == 0 {
		return refuse("an inclusion proof without a hash")
	}
	return r, proof.Size, verify.CheckLimits("cose receipt", r.Proof, r.Head)
}

// checkKey checks a signature by a ledger key of the root.
func checkKey(text, signature []byte, name string, root verify.Root) error {
	at := slices.IndexFunc(root.LedgerKeys, func(key string) bool { return strings.HasPrefix(key, name+"+") })
	if at < 0 {
		return fmt.Errorf("signed by the key %.160q, which is not a trusted ledger key (TRU-5)", name)
	}
	key, err := note.NewVerifier(root.LedgerKeys[at])
	if err != nil {
		return fmt.Errorf("signed by the key %.160q, which signs no COSE receipt: %w", name, err)
	}
	if !key.Verify(text, signature) {
		return fmt.Errorf("the signature is not one of the key %q", name)
	}
	return nil
}

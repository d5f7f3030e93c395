package verify

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"recoveryledger/merkle"
)

// SignedHead is a tree head with the note that signs it (c2sp.org/tlog-checkpoint).
type SignedHead struct {
	merkle.Head
	Note string // empty: the head is not signed
}

// Head opens a signed tree head: it carries a signature of a pinned Ed25519
// key, or of one that was retired behind it, every signature of such a key that
// it carries verifies, and its text is a checkpoint of the pinned origin. The error is a [*StepError] of
// [StepHead], or a [*FormatError] if the root is malformed.
func (r Root) Head(signed []byte) (merkle.Head, error) {
	o, err := newOpener(r)
	if err != nil {
		return merkle.Head{}, err
	}
	head, err := o.open(string(signed))
	return head.Head, err
}

// opener opens tree heads against a root, each text once.
type opener struct {
	root      Root
	verifiers note.Verifiers
	alg       map[uint32]byte   // of each pinned key, by its hash
	until     map[uint32]uint64 // size of the last head of each retired key
	opened    map[string]head
}

// head is an opened tree head.
type head struct {
	merkle.Head
	note       string
	second     bool // it carries a good ML-DSA-44 signature
	unverified bool // it carries one that nothing was given to check with
	extended   bool // it has extension lines, which are ignored
}

func newOpener(root Root) (*opener, error) {
	if err := root.check(); err != nil {
		return nil, err
	}
	o := &opener{root: root, alg: map[uint32]byte{}, until: map[uint32]uint64{}, opened: map[string]head{}}
	var list []note.Verifier
	for i, text := range root.LedgerKeys {
		key, err := parseVKey(text)
		if err != nil {
			return nil, malformed("root", "ledger_keys[%d]: %v", i, err)
		}
		o.alg[key.hash] = key.alg
		var verifier note.Verifier
		switch {
		case key.alg == algEd25519:
			verifier = &ledgerKey{key, root}
		case root.Cosigner != nil:
			verifier, err = root.Cosigner(text)
		default:
			continue
		}
		if err == nil && (verifier.Name() != key.name || verifier.KeyHash() != key.hash) {
			err = errors.New("its verifier is of another key")
		}
		if err != nil {
			return nil, malformed("root", "ledger_keys[%d]: %v", i, err)
		}
		list = append(list, verifier)
	}
	for i, retired := range root.Retired {
		key, err := parseVKey(retired.Key)
		if err != nil {
			return nil, malformed("root", "retired[%d]: %v", i, err)
		}
		o.until[key.hash] = retired.Size
		list = append(list, &ledgerKey{key, root})
	}
	o.verifiers = note.VerifierList(list...)
	return o, nil
}

// ledgerKey is a pinned Ed25519 key.
type ledgerKey struct {
	vkey
	root Root
}

// Name implements [note.Verifier].
func (k *ledgerKey) Name() string { return k.name }

// KeyHash implements [note.Verifier].
func (k *ledgerKey) KeyHash() uint32 { return k.hash }

// Verify implements [note.Verifier].
func (k *ledgerKey) Verify(text, sig []byte) bool {
	return k.root.signature(k.public, text, sig) == nil
}

// fresh returns an opener of the same root that knows one head.
func (o *opener) fresh(h head) *opener {
	return &opener{o.root, o.verifiers, o.alg, o.until, map[string]head{h.note: h}}
}

func (o *opener) open(signed string) (head, error) {
	if known, ok := o.opened[signed]; ok {
		return known, nil
	}
	h, err := o.check(signed)
	if err != nil {
		return head{}, &StepError{Step: StepHead, What: "tree head", Cause: err}
	}
	o.opened[signed] = h
	return h, nil
}

func (o *opener) check(signed string) (head, error) {
	if len(signed) > MaxNote {
		return head{}, fmt.Errorf("%d bytes, the limit is %d", len(signed), MaxNote)
	}
	opened, err := note.Open([]byte(signed), o.verifiers)
	if _, ok := errors.AsType[*note.UnverifiedNoteError](err); ok {
		return head{}, errors.New("no signature by a pinned key, nor by one that a policy named under a head that was accepted (TRU-5)")
	}
	if err != nil {
		return head{}, fmt.Errorf("not a signed note: %w", err)
	}
	h := head{note: signed}
	if h.Head, h.extended, err = parseCheckpoint(opened.Text, o.root.Origin); err != nil {
		return head{}, err
	}
	classic := false
	for _, sig := range opened.Sigs {
		if _, err := base64.StdEncoding.Strict().DecodeString(sig.Base64); err != nil {
			return head{}, errors.New("a signature in another spelling of its base64")
		}
		until, retired := o.until[sig.Hash]
		classic = classic || o.alg[sig.Hash] == algEd25519 || retired && h.Size <= until
		h.second = h.second || o.alg[sig.Hash] == algMLDSA44
	}
	for _, sig := range opened.UnverifiedSigs {
		h.unverified = h.unverified || sig.Name == o.root.Origin && o.alg[sig.Hash] == algMLDSA44
	}
	if !classic && o.root.Since > 0 {
		return head{}, fmt.Errorf("of size %d, without a signature by an Ed25519 key that the policy at %d names (TRU-5)", h.Size, o.root.Since)
	}
	if !classic {
		return head{}, errors.New("no signature by a pinned Ed25519 key")
	}
	return h, nil
}

// parseCheckpoint reads the text of a tree head in its one spelling
// (c2sp.org/tlog-checkpoint): origin, size, root, and extension lines, which
// are not empty and mean nothing here.
func parseCheckpoint(text, origin string) (h merkle.Head, extended bool, err error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) < 3 {
		return h, false, fmt.Errorf("%d lines, want origin, size and root", len(lines))
	}
	if lines[0] != origin {
		return h, false, fmt.Errorf("of origin %.140q, want %q", lines[0], origin)
	}
	h.Size, err = strconv.ParseUint(lines[1], 10, 64)
	if err != nil || strconv.FormatUint(h.Size, 10) != lines[1] {
		return h, false, fmt.Errorf("size %.40q is not a decimal number without leading zeros", lines[1])
	}
	if h.Root, err = merkle.ParseHash(lines[2]); err != nil {
		return h, false, err
	}
	if h.Size == 0 && h != merkle.EmptyHead() {
		return h, false, errors.New("size 0 with a root other than the empty one")
	}
	if slices.Contains(lines[3:], "") {
		return h, false, errors.New("an empty extension line")
	}
	return h, len(lines) > 3, nil
}

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

// CheckFork compares two heads that the ledger has signed: one size has one root.
// The error is a [*ForkError].
func (h SignedHead) CheckFork(other SignedHead) error {
	if h.Size != other.Size || h.Root == other.Root {
		return nil
	}
	return &ForkError{First: h.Note, Second: other.Note, Detail: fmt.Sprintf("two signed roots of size %d: %s and %s", h.Size, h.Root, other.Root)}
}

// BeganOtherwise returns the fork if the tree of newer, by its signed root, has another root at the
// size of older than older has. It returns nil if the nodes, which nobody signs, do not show that.
func BeganOtherwise(older, newer SignedHead, nodes merkle.NodeReader) *ForkError {
	if older.Size >= newer.Size {
		fork, _ := errors.AsType[*ForkError](older.CheckFork(newer))
		return fork
	}
	frontier, err := merkle.NewFrontier(older.Size, nodes)
	if err != nil {
		return nil //nolint:nilerr // nothing was shown
	}
	began, err := frontier.Head()
	if err != nil || began == older.Head {
		return nil //nolint:nilerr // nothing was shown
	}
	path, err := merkle.ProveConsistency(older.Size, newer.Size, nodes)
	if err != nil || merkle.CheckConsistency(began, newer.Head, path) != nil {
		return nil //nolint:nilerr // nothing was shown
	}
	return &ForkError{First: older.Note, Second: newer.Note, Root: &began.Root, Path: path, Detail: fmt.Sprintf(
		"the signed log of size %d, root %s, began with root %s at size %d, where the ledger signed %s",
		newer.Size, newer.Root, began.Root, older.Size, older.Root)}
}

// Head opens a signed tree head by the root: see [Opener.Open]. The error is a
// [*StepError] of [StepHead], or a [*FormatError] if the root is malformed.
func (r Root) Head(signed []byte) (merkle.Head, error) {
	o, err := NewOpener(r)
	if err != nil {
		return merkle.Head{}, err
	}
	head, err := o.open(string(signed))
	return head.Head, err
}

// Opener opens the signed tree heads of a ledger. It has the keys of a [Root],
// taken apart, and never changes: several goroutines may use it.
type Opener struct {
	root      Root
	verifiers note.Verifiers
	alg       map[uint32]byte   // of each pinned key, by its hash
	until     map[uint32]uint64 // size of the last head of each retired key
}

// head is an opened tree head.
type head struct {
	SignedHead
	second     bool // it carries a good ML-DSA-44 signature
	unverified bool // it carries one that nothing was given to check with
	extended   bool // it has extension lines, which are ignored
}

// NewOpener returns the opener of a root. The error is a [*FormatError] about the
// root.
func NewOpener(root Root) (*Opener, error) {
	if err := root.check(); err != nil {
		return nil, err
	}
	o := &Opener{root: root, alg: map[uint32]byte{}, until: map[uint32]uint64{}}
	var list []note.Verifier
	for i, text := range root.LedgerKeys {
		key, err := parseVKey(text) // root.check has read it, and the next
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
			return nil, Malformed("root", "ledger_keys[%d]: %v", i, err)
		}
		list = append(list, verifier)
	}
	for _, retired := range root.Retired {
		key, _ := parseVKey(retired.Key)
		o.until[key.hash] = retired.Size
		list = append(list, &ledgerKey{key, root})
	}
	o.verifiers = note.VerifierList(list...)
	return o, nil
}

// Root returns the root whose keys the opener has.
func (o *Opener) Root() Root { return o.root }

// OpensFor reports whether the opener of a root would open heads as this one does.
// Of functions it can only tell whether the roots bring a Cosigner.
func (o *Opener) OpensFor(root *Root) bool {
	return o.root.Origin == root.Origin && slices.Equal(o.root.LedgerKeys, root.LedgerKeys) && o.root.Since == root.Since &&
		slices.Equal(o.root.Retired, root.Retired) && o.root.Genesis == root.Genesis &&
		o.root.Witnesses == root.Witnesses && (o.root.Cosigner == nil) == (root.Cosigner == nil)
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
	return k.root.CheckSignature(k.public, text, sig) == nil
}

// Open opens a signed tree head: it carries a signature of a pinned Ed25519 key, or
// of one that was retired behind it, every signature of such a key that it carries
// verifies, and its text is a checkpoint of the pinned origin. The error is a
// [*StepError] of [StepHead].
func (o *Opener) Open(signed string) (SignedHead, error) {
	h, err := o.open(signed)
	return h.SignedHead, err
}

func (o *Opener) open(signed string) (head, error) {
	h, err := o.check(signed)
	if err != nil {
		return head{}, &StepError{Step: StepHead, What: "tree head", Cause: err}
	}
	return h, nil
}

func (o *Opener) check(signed string) (head, error) {
	if len(signed) > MaxNote {
		return head{}, fmt.Errorf("%d bytes, the limit is %d", len(signed), MaxNote)
	}
	opened, err := note.Open([]byte(signed), o.verifiers)
	if _, ok := errors.AsType[*note.UnverifiedNoteError](err); ok {
		return head{}, errors.New("not signed by any trusted ledger key (TRU-5)")
	}
	if err != nil {
		return head{}, fmt.Errorf("not a signed note: %w", err)
	}
	h := head{SignedHead: SignedHead{Note: signed}}
	if h.Head, h.extended, err = ParseCheckpoint(opened.Text, o.root.Origin); err != nil {
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

// ParseCheckpoint reads the text of a tree head of an origin in its one spelling
// (c2sp.org/tlog-checkpoint): origin, size, root, and extension lines, which are not
// empty and mean nothing here. Who has signed the text is for the caller.
func ParseCheckpoint(text, origin string) (h merkle.Head, extended bool, err error) {
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

package verify

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Root holds the values that a verifier pins out of band (TRU-1). The verifier checks everything
// else against the root.
type Root struct {
	// Origin names the ledger; it is the `aud` of every entry and the first
	// line of every tree head.
	Origin string `json:"origin"`
	// LedgerKeys are verifier keys (c2sp.org/signed-note) with the origin as
	// their name: one Ed25519 key (0x01) or more, any of which makes a head
	// good, and any number of ML-DSA-44 keys (0x06).
	LedgerKeys []string `json:"ledger_keys"`
	// Since is the index of the policy that has put LedgerKeys into force
	// (TRU-5); 0: they are as pinned at first.
	Since uint64 `json:"since,omitzero"`
	// Retired are the earlier keys, the oldest first. They make older heads good.
	Retired []RetiredKey `json:"retired,omitempty"`
	// Genesis is the leaf hash of the policy at index 0.
	Genesis merkle.Hash `json:"genesis"`
	// Witnesses is a witness policy (c2sp.org/tlog-policy). A head counts only if
	// its quorum has cosigned the head, or a later one that continues it.
	Witnesses string `json:"witnesses,omitempty"`
	// Seen is a signed tree head, as a note, that the giver of the root has accepted. A
	// verifier that begins with the root accepts the head too, so the ledger must continue it
	// from first contact on. Empty: none.
	Seen string `json:"head,omitempty"`

	// Cosigner makes the verifier of a pinned ML-DSA-44 key. It is meant to be
	// NewVerifierForCosignatureV1 of github.com/transparency-dev/formats/note,
	// and comes from outside so that its libraries stay out of this package's
	// imports. If nil, ML-DSA-44 signatures are reported as not checked.
	Cosigner func(vkey string) (note.Verifier, error) `json:"-"`

	// Signature checks the signatures of tree heads by Ed25519 keys, and those of
	// entries, concurrently; nil is [Signature], whose verdict it must give. It is for who checks
	// many of few keys, such as recoveryledger/ledger/keys.Verifier.
	Signature func(key entry.PublicKey, message, sig []byte) error `json:"-"`
}

// SameLedger reports whether two roots are of one ledger, whatever keys and witnesses they pin.
func (r Root) SameLedger(other Root) bool {
	return r.Origin == other.Origin && r.Genesis == other.Genesis
}

// CheckSignature is [Signature], as far as the root does not bring its own. Several
// goroutines may call it.
func (r Root) CheckSignature(key entry.PublicKey, message, sig []byte) error {
	if r.Signature != nil {
		return r.Signature(key, message, sig)
	}
	return Signature(key, message, sig)
}

// The types of key that may sign a tree head (c2sp.org/signed-note).
const (
	algEd25519 = 0x01
	algMLDSA44 = 0x06

	mldsa44PublicKeySize = 1312
)

// ParseRoot reads a pinned root: one JSON object with exactly the members of
// [Root]. The error is a [*FormatError].
func ParseRoot(data []byte) (Root, error) {
	var r Root
	if len(data) > MaxRoot {
		return Root{}, Malformed("root", "%d bytes, the limit is %d", len(data), MaxRoot)
	}
	if err := json.Unmarshal(data, &r, json.RejectUnknownMembers(true)); err != nil {
		return Root{}, Malformed("root", "%v", err).WithRemedy("a root is {origin, ledger_keys, since?, retired?, genesis, witnesses?, head?}")
	}
	if err := r.checkSeen(); err != nil {
		return Root{}, err
	}
	return r, nil
}

// checkSeen is check, and that the head is one by the root itself.
func (r Root) checkSeen() error {
	if r.Seen == "" {
		return r.check()
	}
	_, err := r.Head([]byte(r.Seen))
	if step, ok := errors.AsType[*StepError](err); ok {
		return Malformed("root", "head: %v", step.Cause).WithRemedy("leave the head out, or take one that the root's keys have signed")
	}
	return err
}

// Encode returns the root as a file.
func (r Root) Encode() ([]byte, error) {
	if err := r.checkSeen(); err != nil {
		return nil, err
	}
	data, err := json.Marshal(r, jsontext.WithIndent("  "))
	if err != nil {
		return nil, Malformed("root", "%v", err)
	}
	return append(data, '\n'), nil
}

func (r Root) check() error {
	switch {
	case r.Origin == "" || len(r.Origin) > entry.MaxName || strings.ContainsFunc(r.Origin, func(c rune) bool { return c <= ' ' || c == '+' || c > '~' }):
		return Malformed("root", "origin %.140q is not 1 to %d printable ASCII characters without space and +", r.Origin, entry.MaxName)
	case r.Genesis == merkle.Hash{}:
		return Malformed("root", "genesis is missing").WithRemedy("pin the leaf hash of the policy at index 0")
	}
	if _, err := parseLedgerKeys(r.LedgerKeys, r.Origin); err != nil {
		return Malformed("root", "%v", err).WithRemedy("pin the verifier key that the ledger prints at start")
	}
	if _, err := r.Quorum(r.Witnesses); err != nil {
		return Malformed("root", "witnesses: %s", strings.TrimPrefix(err.Error(), "verify: ")).WithRemedy("write a witness policy (c2sp.org/tlog-policy), or leave it out")
	}
	return r.checkRetired()
}

// vkey is a verifier key, taken apart.
type vkey struct {
	name   string
	hash   uint32
	alg    byte
	key    []byte
	public entry.PublicKey // an Ed25519 key
}

// parseVKey reads a verifier key of a ledger.
func parseVKey(text string) (vkey, error) { return decodeVKey(text, algEd25519) }

// decodeVKey reads a verifier key in its one spelling: one of type ed, which
// holds an Ed25519 key, or an ML-DSA-44 key.
func decodeVKey(text string, ed byte) (vkey, error) {
	name, rest, _ := strings.Cut(text, "+")
	_, encoded, _ := strings.Cut(rest, "+")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(raw) == 0 {
		return vkey{}, fmt.Errorf("%.80q is not a verifier key: want name+hash+base64", text)
	}
	sum := sha256.Sum256(slices.Concat([]byte(name), []byte("\n"), raw))
	k := vkey{name: name, hash: binary.BigEndian.Uint32(sum[:]), alg: raw[0], key: raw[1:]}
	if fmt.Sprintf("%s+%08x+%s", name, k.hash, base64.StdEncoding.EncodeToString(raw)) != text {
		return vkey{}, fmt.Errorf("%.80q has another key hash, or another spelling", text)
	}
	switch {
	case k.alg == ed && len(k.key) == ed25519.PublicKeySize:
		k.public, err = entry.NewPublicKey(ed25519.PublicKey(k.key)) // refuses points of small order
		return k, err
	case k.alg == algMLDSA44 && len(k.key) == mldsa44PublicKeySize:
		return k, nil
	}
	return vkey{}, fmt.Errorf("key type 0x%02x with %d bytes: want Ed25519 (0x%02x) or ML-DSA-44 (0x06)", k.alg, len(k.key), ed)
}

package verify

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"recoveryledger/ledger/entry"
)

// RetiredKey is a key that the ledger had before.
type RetiredKey struct {
	Key string `json:"key"` // Ed25519 verifier key
	// Size is that of the largest head that the key makes good: the index of the
	// policy that left it out.
	Size uint64 `json:"size"`
}

// namedKeys are the ledger's keys from a policy on.
type namedKeys struct {
	index uint64 // of the policy
	keys  []string
}

// Follow returns the root as the policies of the chain leave it (TRU-5): with
// the keys that the newest of them names, and the ones before them as retired.
// It is to be asked of a chain under a head that is good by the root, and that
// head is good by the returned root too, or else refused: then it was signed by
// old and new key, or by one that stayed.
func (r Root) Follow(c *Chain) Root {
	for _, named := range c.named {
		if named.index <= r.Since { // or the genesis, which is pinned with its keys
			continue
		}
		retired := slices.DeleteFunc(slices.Clone(r.Retired), func(old RetiredKey) bool { return slices.Contains(named.keys, old.Key) })
		for _, text := range r.LedgerKeys {
			key, err := parseVKey(text)
			if err == nil && key.alg == algEd25519 && !slices.Contains(named.keys, text) {
				retired = append(retired, RetiredKey{text, named.index})
			}
		}
		r.Retired = retired[max(0, len(retired)-MaxRetired):]
		r.LedgerKeys, r.Since = named.keys, named.index
	}
	return r
}

// Advance returns the root with the ledger's keys of another root of the same
// ledger, if that one has followed its policies further.
func (r Root) Advance(other Root) Root {
	if other.Since > r.Since && r.SameLedger(other) {
		r.LedgerKeys, r.Since, r.Retired = other.LedgerKeys, other.Since, other.Retired
	}
	return r
}

// Settled reports whether the Ed25519 keys that have signed a head in the name
// of the ledger are those of the root. Where others have, or not all of them, a
// policy may have changed them: it is time to [Root.Follow].
func (r Root) Settled(signed string) bool {
	signers := map[uint32]bool{}
	_, sigs := signaturesOn(signed)
	for _, sig := range sigs {
		if sig.Name == r.Origin && len(sig.Base64) == base64.StdEncoding.EncodedLen(4+ed25519.SignatureSize) {
			signers[sig.Hash] = true
		}
	}
	for _, text := range r.LedgerKeys {
		key, err := parseVKey(text)
		if err == nil && key.alg == algEd25519 && !signers[key.hash] {
			return false
		}
		delete(signers, key.hash)
	}
	return len(signers) == 0
}

// LedgerKeys returns the ledger's keys by the policy in force, as verifier keys;
// none where it names none. They are not to be changed.
func (c *Chain) LedgerKeys() []string {
	if c.policy == nil {
		return nil
	}
	return c.policy.LedgerKeys
}

// admitLedgerKeys is TRU-5 for a policy: a verifier that follows the ledger needs at least one key
// that is good before and after the policy.
func (c *Chain) admitLedgerKeys(p *entry.Policy) error {
	inForce := c.LedgerKeys()
	if len(p.LedgerKeys) == 0 {
		if len(inForce) == 0 {
			return nil
		}
		return entry.Refuse(entry.StateConflict, "ledger_keys", "not there, but the policy in force names the ledger's keys").
			WithRemedy("name the keys that are to be good from now on")
	}
	classic, err := parseLedgerKeys(p.LedgerKeys, p.Aud)
	if err != nil {
		return refuseLedgerKeys(err)
	}
	if len(inForce) > 0 && !slices.ContainsFunc(classic, func(key string) bool { return slices.Contains(inForce, key) }) {
		return entry.Refuse(entry.StateConflict, "ledger_keys", "no Ed25519 key in it is one of those in force").
			WithRemedy("first name the old and the new key, and later the new key alone")
	}
	return nil
}

// CheckLedgerKeys returns the mistake in the form of the ledger's keys in a policy; nil if there is
// none. A policy without aud is for no ledger yet. It may be for any ledger whose name all of its
// keys have.
func CheckLedgerKeys(p *entry.Policy) *entry.Refusal {
	if len(p.LedgerKeys) == 0 {
		return nil
	}
	origin := p.Aud
	if origin == "" {
		origin, _, _ = strings.Cut(p.LedgerKeys[0], "+")
	}
	if _, err := parseLedgerKeys(p.LedgerKeys, origin); err != nil {
		return refuseLedgerKeys(err)
	}
	return nil
}

func refuseLedgerKeys(err error) *entry.Refusal {
	return entry.Refuse(entry.Malformed, "ledger_keys", "%v", err).
		WithRemedy("name verifier keys of the ledger, as arl key next prints them")
}

// parseLedgerKeys checks verifier keys of a ledger, and returns the Ed25519 keys among them. There
// must be one.
func parseLedgerKeys(keys []string, origin string) (classic []string, err error) {
	if len(keys) > MaxKeys {
		return nil, fmt.Errorf("%d ledger keys, the limit is %d", len(keys), MaxKeys)
	}
	seen := map[uint32]bool{}
	for i, text := range keys {
		key, err := parseVKey(text)
		switch {
		case err != nil:
			return nil, fmt.Errorf("ledger_keys[%d]: %v", i, err)
		case key.name != origin:
			return nil, fmt.Errorf("ledger_keys[%d]: named %.140q, not %.140q as the ledger", i, key.name, origin)
		case seen[key.hash]:
			return nil, fmt.Errorf("ledger_keys[%d]: a key with this hash stands here twice", i)
		case key.alg == algEd25519:
			classic = append(classic, text)
		}
		seen[key.hash] = true
	}
	if len(classic) == 0 {
		return nil, errors.New("ledger_keys has no Ed25519 key")
	}
	return classic, nil
}

// checkRetired checks the keys that the ledger had before.
func (r Root) checkRetired() error {
	if len(r.Retired) > MaxRetired {
		return Malformed("root", "%d retired keys, the limit is %d", len(r.Retired), MaxRetired)
	}
	seen := slices.Clone(r.LedgerKeys)
	for i, retired := range r.Retired {
		key, err := parseVKey(retired.Key)
		switch {
		case err != nil:
			return Malformed("root", "retired[%d]: %v", i, err)
		case key.name != r.Origin || key.alg != algEd25519:
			return Malformed("root", "retired[%d]: no Ed25519 key with the origin as its name", i)
		case slices.Contains(seen, retired.Key):
			return Malformed("root", "retired[%d]: the key stands here twice", i)
		case retired.Size == 0 || retired.Size > r.Since:
			return Malformed("root", "retired[%d]: size %d is not 1 to %d, which is since when others are in force", i, retired.Size, r.Since)
		}
		seen = append(seen, retired.Key)
	}
	return nil
}

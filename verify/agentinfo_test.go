package verify_test

import (
	"errors"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// TestValidKey chooses a key of a principal by its id, or the only valid one.
func TestValidKey(t *testing.T) {
	first, second, gone := testlog.NewKey(t, "agent", "first").Public, testlog.NewKey(t, "agent", "second").Public, testlog.NewKey(t, "agent", "gone").Public
	key := func(public entry.PublicKey, revoked uint64) verify.KeyInfo {
		return verify.KeyInfo{Signer: verify.Signer{Key: public}, Revoked: revoked}
	}
	one := verify.AgentInfo{Principal: "agent", Keys: []verify.KeyInfo{key(gone, 9), key(first, 0)}}
	two := verify.AgentInfo{Principal: "agent", Keys: []verify.KeyInfo{key(gone, 9), key(first, 0), key(second, 0)}}
	none := verify.AgentInfo{Principal: "agent", Keys: []verify.KeyInfo{key(gone, 9)}}
	for name, c := range map[string]struct {
		info  verify.AgentInfo
		keyID string
		want  entry.PublicKey
		text  string // of the error
		valid int
	}{
		"the only one":       {info: one, want: first},
		"by its id":          {info: two, keyID: second.KeyID(), want: second},
		"several":            {info: two, text: "agent has 2 valid keys", valid: 2},
		"revoked":            {info: two, keyID: gone.KeyID(), text: "agent has no valid key " + gone.KeyID()},
		"none":               {info: none, text: "agent has no valid key"},
		"none, and by an id": {info: none, keyID: first.KeyID(), text: "agent has no valid key " + first.KeyID()},
	} {
		got, err := c.info.ValidKey(c.keyID)
		if c.text == "" {
			if err != nil || !got.Key.Equal(c.want) {
				t.Errorf("%s: %v, error %v", name, got, err)
			}
			continue
		}
		problem, ok := errors.AsType[*verify.KeyError](err)
		if !ok || err.Error() != c.text || problem.Valid != c.valid {
			t.Errorf("%s: error %v, want %q", name, err, c.text)
		}
	}
	if _, err := none.Rotation(first); err == nil || err.Error() != "agent has no valid key" {
		t.Errorf("a rotation without a valid key: %v", err)
	}
}

package recovery

import (
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
)

// TestPrompts has a policy name the digests of prompts. Another prompt makes another policy.
func TestPrompts(t *testing.T) {
	with := func(variants string) (*Policy, error) {
		return Load("p.yaml", []byte(strings.Replace(string(DefaultDocument()), "recovery:\n", "recovery:\n  variants: {"+variants+"}\n", 1)))
	}
	one, other := entry.DigestOf("think again"), entry.DigestOf("think")
	p, err := with("reflect: '" + string(one) + "'")
	if err != nil {
		t.Fatal(err)
	}
	q, err := with("reflect: '" + string(other) + "'")
	if err != nil {
		t.Fatal(err)
	}
	if p.Hash() == q.Hash() || p.Hash() == Default().Hash() || p.Prompts()["reflect"] != one || len(Default().Prompts()) > 0 {
		t.Errorf("%s %s %v", p.Hash(), q.Hash(), p.Prompts())
	}
	for _, wrong := range []string{"reflects: '" + string(one) + "'", "reflect: think", "first: 1"} {
		if _, err := with(wrong); err == nil {
			t.Errorf("%s is no mistake", wrong)
		}
	}
}

package verify_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// TestRandomChainsKeepTheirPromises writes random agent entries and looks,
// after each, that no key changed hands or roles or came back, and that nobody
// but the authority granted more than plain agent.
func TestRandomChainsKeepTheirPromises(t *testing.T) {
	l, c := newCompany(t)
	start := l.Chain()
	var pool []testlog.Key
	for i := range 6 {
		pool = append(pool, testlog.NewKey(t, "", fmt.Sprint("pool", i)))
	}
	pool = append(pool, c.agent, c.approver, c.authority)
	rapid.Check(t, func(rt *rapid.T) {
		chain := start.Clone()
		seen := map[string]verify.KeyInfo{}
		for index := uint64(8); index < 40; index++ {
			by := rapid.SampledFrom([]testlog.Key{c.authority, c.enroller, c.agent, c.approver}).Draw(rt, "by")
			about := rapid.SampledFrom(pool).Draw(rt, "key")
			about.Principal = rapid.SampledFrom([]entry.Principal{"agent", "approver", "authority", "a", "b"}).Draw(rt, "principal")
			op := rapid.SampledFrom([]entry.AgentOp{entry.Enrol, entry.Rotate, entry.Revoke}).Draw(rt, "op")
			roles := rapid.SampledFrom([][]entry.Role{{entry.RoleAgent}, {entry.RoleApprover}, {entry.RoleAgent, entry.RoleMonitor}}).Draw(rt, "roles")
			e := by.Sign(t, l.Agent(by, op, about, roles...))
			if chain.Admit(e, index) != nil {
				continue
			}
			if plain := len(roles) == 1 && roles[0] == entry.RoleAgent; !plain && by.Principal != "authority" {
				rt.Fatalf("%s granted %v", by.Principal, roles)
			}
			chain.Apply(e, index, 1)
			for _, agent := range chain.Agents() {
				for _, k := range agent.Keys {
					if k.Key.Equal(c.authority.Public) {
						rt.Fatal("an authority key was enrolled")
					}
					before, ok := seen[k.Key.KeyID()]
					if ok && (before.Principal != k.Principal || !slices.Equal(before.Roles, k.Roles) || before.Enrolled != k.Enrolled) {
						rt.Fatalf("key changed from %+v to %+v", before, k)
					}
					if ok && before.Revoked != 0 && before.Revoked != k.Revoked {
						rt.Fatalf("key came back: %+v, %+v", before, k)
					}
					seen[k.Key.KeyID()] = k
				}
			}
		}
	})
}

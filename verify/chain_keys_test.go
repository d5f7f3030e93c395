package verify_test

import (
	"slices"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// replaces logs a policy that gives the authority to a key, and returns its index.
func replaces(l *testlog.Log, by, authority testlog.Key) uint64 {
	_, inForce := l.Chain().Policy()
	p := l.Policy(by, authority)
	p.Previous = &inForce
	return l.Add(by.Sign(l.TB, p))
}

// TestAKeyKeepsItsHistory: an agent's keys are told with the entries that let them
// in and took them back, and each was taken back once.
func TestAKeyKeepsItsHistory(t *testing.T) {
	l, c := newCompany(t) // the agent is enrolled at 7
	second, third := testlog.NewKey(t, "agent", "second"), testlog.NewKey(t, "agent", "third")
	enrol := l.Agent(c.authority, entry.Enrol, second, entry.RoleAgent)
	enrol.Capabilities = []string{"charge"}
	l.Add(c.authority.Sign(t, enrol))                                                        // 8
	l.Add(c.authority.Sign(t, l.Agent(c.authority, entry.Revoke, c.agent, entry.RoleAgent))) // 9
	rotate := l.Agent(c.authority, entry.Rotate, third, entry.RoleAgent)
	rotate.Capabilities = []string{"charge", "refund"}
	l.Add(c.authority.Sign(t, rotate)) // 10
	chain := l.Chain()
	agent, ok := chain.Agent("agent")
	if !ok || agent.Enrolled != 7 || !slices.Equal(agent.Entries(), []uint64{7, 9, 8, 10, 10}) {
		t.Errorf("enrolled at %d, by the entries %d", agent.Enrolled, agent.Entries())
	}
	if valid := agent.Valid(); len(valid) != 1 || !valid[0].Key.Equal(third.Public) || valid[0].Enrolled != 10 {
		t.Errorf("valid %+v", valid)
	}
	agent.Capabilities[0] = "everything"
	if again, _ := chain.Agent("agent"); !slices.Equal(again.Capabilities, []string{"charge", "refund"}) {
		t.Errorf("capabilities %q", again.Capabilities)
	}
	if _, ok := chain.KeyInfo("SHA256:nobody"); ok {
		t.Error("a key is known that never counted")
	}
}

// TestTheAuthorityIsHandedOver: the key before has no authority left, and the key
// after has it from its policy on.
func TestTheAuthorityIsHandedOver(t *testing.T) {
	l, c := newCompany(t)
	heir := testlog.NewKey(t, "heir", "heir")
	at := replaces(l, c.authority, heir)
	before, _ := l.Chain().KeyInfo(c.authority.Public.KeyID())
	after, _ := l.Chain().KeyInfo(heir.Public.KeyID())
	if before.Authority || before.Revoked != at || before.Enrolled != 0 {
		t.Errorf("before %+v", before)
	}
	if !after.Authority || after.Revoked != 0 || after.Enrolled != at || after.Principal != "heir" {
		t.Errorf("after %+v", after)
	}
}

// TestTheGenesisHasItsSigner, who is of the authority that it names.
func TestTheGenesisHasItsSigner(t *testing.T) {
	c := newCast(t)
	signer, err := verify.NewChain().Signer(c.authority.Sign(t, new(testlog.IDs).Policy(c.authority, c.agent, c.authority)))
	must(t, err)
	if signer.Principal != "authority" || !signer.Authority || !signer.Key.Equal(c.authority.Public) || signer.Enrolled != 0 {
		t.Errorf("%+v", signer)
	}
}

// TestARefusalSaysWhoMay sign what a monitor, and what an agent, tried to.
func TestARefusalSaysWhoMay(t *testing.T) {
	l, c := newCompany(t)
	chain := l.Chain()
	for want, e := range map[string]*entry.Entry{
		"monitor may not sign agent granting approver, agent; only the policy's authority may": c.monitor.Sign(t,
			l.Agent(c.monitor, entry.Enrol, c.agent, entry.RoleApprover, entry.RoleAgent)),
		"monitor may not sign agent granting agent; enroller may": c.monitor.Sign(t, l.Agent(c.monitor, entry.Enrol, c.agent, entry.RoleAgent)),
		"agent may not sign signal with standing monitor; monitor may": c.agent.Sign(t,
			&entry.Signal{Header: l.Work("agent"), Standing: entry.StandingMonitor, Subject: "agent#1", Class: "output", Code: "ungrounded",
				Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown, ObservedAt: l.At}),
		"monitor may not sign execution; agent may": c.monitor.Sign(t, l.Execution(c.monitor)),
	} {
		_, err := chain.Signer(e)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestClonesFollowTheirOwnPolicies has a chain and its clones name other keys of
// the ledger. The chain names keys for the fourth time, so that there is room left
// in what clones might share.
func TestClonesFollowTheirOwnPolicies(t *testing.T) {
	r := newRotation(t)
	_, third := testlog.LedgerKey(t, testlog.Origin, "third")
	r.names(r.oldKey, r.nextKey)
	r.names(r.oldKey)
	r.names(r.oldKey, r.nextKey)
	chain := r.Chain()
	first, second := chain.Clone(), chain.Clone()
	for key, c := range map[string]*verify.Chain{r.nextKey: first, third: second} {
		_, inForce := c.Policy()
		p := r.Policy(r.authority, r.authority)
		p.Previous, p.LedgerKeys = &inForce, []string{r.oldKey, key, third}
		p.LedgerKeys = slices.Compact(p.LedgerKeys)
		e := r.authority.Sign(t, p)
		must(t, c.Admit(e, uint64(len(r.Leaves))))
		c.Apply(e, uint64(len(r.Leaves)), r.At)
	}
	if got := r.Root.Follow(first).LedgerKeys; !slices.Equal(got, []string{r.oldKey, r.nextKey, third}) {
		t.Errorf("the first follows %q", got)
	}
	if got := r.Root.Follow(second).LedgerKeys; !slices.Equal(got, []string{r.oldKey, third}) {
		t.Errorf("the second follows %q", got)
	}
}

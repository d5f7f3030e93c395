package verify_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// problem returns the problem of a refusal; "" for no error.
func problem(tb testing.TB, err error) entry.Problem {
	tb.Helper()
	if err == nil {
		return ""
	}
	refusal, ok := errors.AsType[*entry.Refusal](err)
	if !ok {
		tb.Fatalf("error %v is not a refusal", err)
	}
	return refusal.Problem
}

// picture renders everything a chain says, so that two can be compared.
func picture(c *verify.Chain) string {
	policy, at := c.Policy()
	text := fmt.Sprintf("%p %v %+v", policy, at, c.Agents())
	for _, link := range c.Links() {
		text += fmt.Sprintf(" %d %s", link.Index, link.AppendLeaf(nil))
	}
	return text
}

func TestGenesisIsAPolicySignedByItsOwnAuthorityAtIndex0(t *testing.T) {
	c := newCast(t)
	var i testlog.IDs
	successor := i.Policy(c.authority, c.authority)
	successor.Previous = &entry.LogRef{Index: 0}
	namesake := i.Policy(c.authority, c.authority)
	namesake.Iss = "somebody"
	p256 := testlog.NewP256(t, "p256")
	cases := []struct {
		name  string
		e     *entry.Entry
		index uint64
		want  entry.Problem
	}{
		{"good", c.authority.Sign(t, i.Policy(c.authority, c.authority)), 0, ""},
		{"good, with a P-256 key", p256.Sign(t, i.Policy(p256, p256)), 0, ""},
		{"good, one key of several", c.authority.Sign(t, i.Policy(c.authority, c.agent, c.authority)), 0, ""},
		{"at another index", c.authority.Sign(t, i.Policy(c.authority, c.authority)), 1, entry.StateConflict},
		{"with a predecessor", c.authority.Sign(t, successor), 0, entry.StateConflict},
		{"signed by a key outside", c.agent.Sign(t, i.Policy(c.agent, c.authority)), 0, entry.UnknownIssuer},
		{"signed by another key of the authority", testlog.NewKey(t, "authority", "second").Sign(t, i.Policy(c.authority, c.authority)), 0, entry.UnknownIssuer},
		{"signed in another's name", c.authority.Sign(t, namesake), 0, entry.UnknownIssuer},
		{"an agent entry", c.authority.Sign(t, i.Agent(c.authority, entry.Enrol, c.agent, entry.RoleAgent)), 0, entry.UnknownIssuer},
		{"an execution", c.agent.Sign(t, i.Execution(c.agent)), 0, entry.UnknownIssuer},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if got := problem(t, verify.NewChain().Admit(tc.e, tc.index)); got != tc.want {
				t.Fatalf("problem %q, want %q", got, tc.want)
			}
		})
	}
}

// TestChainRules tries each rule of TRU-2 and TRU-4 on the chain of a company,
// and that a refusal leaves the chain as it was.
func TestChainRules(t *testing.T) {
	l, c := newCompany(t)
	chain := l.Chain()
	_, inForce := chain.Policy()
	fresh := testlog.NewKey(t, "fresh", "fresh")
	spare := testlog.NewKey(t, "agent", "spare")
	otherName := func(k testlog.Key, p entry.Principal) testlog.Key { k.Principal = p; return k }
	agent := func(by testlog.Key, op entry.AgentOp, about testlog.Key, roles ...entry.Role) *entry.Entry {
		return by.Sign(t, l.Agent(by, op, about, roles...))
	}
	policy := func(by testlog.Key, previous *entry.LogRef, authority ...testlog.Key) *entry.Entry {
		p := l.Policy(by, authority...)
		p.Previous = previous
		return by.Sign(t, p)
	}
	span := l.Agent(c.authority, entry.Enrol, spare, entry.RoleAgent)
	span.Span = entry.SpanAgent
	revoke := func(since uint64) *entry.Entry {
		a := l.Agent(c.authority, entry.Revoke, c.agent, entry.RoleAgent)
		a.CompromisedSince = &entry.Compromised{Index: since}
		return c.authority.Sign(t, a)
	}
	older := entry.LogRef{Index: 0, LeafHash: merkle.HashLeaf([]byte("another"))}
	next := uint64(len(l.Leaves))
	cases := []struct {
		name string
		e    *entry.Entry
		want entry.Problem
	}{
		{"the authority replaces the policy in force", policy(c.authority, &inForce, c.authority), ""},
		{"the authority hands over", policy(c.authority, &inForce, fresh), ""},
		{"a policy without predecessor", policy(c.authority, nil, c.authority), entry.PolicySuperseded},
		{"a policy after another one", policy(c.authority, &older, c.authority), entry.PolicySuperseded},
		{"a policy by an approver", policy(c.approver, &inForce, c.approver), entry.UnauthorizedRole},
		{"a policy by a stranger in it", policy(fresh, &inForce, fresh), entry.UnknownIssuer},
		{"a policy that makes an agent's key an authority", policy(c.authority, &inForce, c.authority, c.agent), entry.StateConflict},
		{"a policy that gives an authority key another name", policy(c.authority, &inForce, otherName(c.authority, "fresh")), entry.StateConflict},

		{"the authority enrols a plain agent", agent(c.authority, entry.Enrol, fresh, entry.RoleAgent), ""},
		{"the authority enrols an approver", agent(c.authority, entry.Enrol, fresh, entry.RoleApprover), ""},
		{"the authority enrols many roles at once", agent(c.authority, entry.Enrol, fresh, entry.Roles()...), ""},
		{"the authority enrols a second key for an agent", agent(c.authority, entry.Enrol, spare, entry.RoleAgent), ""},
		{"the authority enrols a second key for an approver", agent(c.authority, entry.Enrol, otherName(fresh, "approver"), entry.RoleApprover), ""},
		{"the enroller enrols a plain agent", agent(c.enroller, entry.Enrol, fresh, entry.RoleAgent), ""},
		{"the enroller enrols a second key for an agent", agent(c.enroller, entry.Enrol, spare, entry.RoleAgent), ""},
		{"the enroller rotates an agent", agent(c.enroller, entry.Rotate, spare, entry.RoleAgent), ""},
		{"the enroller revokes an agent's key", agent(c.enroller, entry.Revoke, c.agent, entry.RoleAgent), ""},
		{"the enroller enrols an approver", agent(c.enroller, entry.Enrol, fresh, entry.RoleApprover), entry.UnauthorizedRole},
		{"the enroller enrols an agent with one more role", agent(c.enroller, entry.Enrol, fresh, entry.RoleAgent, entry.RoleMonitor), entry.UnauthorizedRole},
		{"the enroller takes an approver's name", agent(c.enroller, entry.Enrol, otherName(fresh, "approver"), entry.RoleAgent), entry.UnauthorizedRole},
		{"the enroller takes the authority's name", agent(c.enroller, entry.Enrol, otherName(fresh, "authority"), entry.RoleAgent), entry.UnauthorizedRole},
		{"the enroller rotates an approver into an agent", agent(c.enroller, entry.Rotate, otherName(fresh, "approver"), entry.RoleAgent), entry.UnauthorizedRole},
		{"the enroller revokes an approver's key as an agent's", agent(c.enroller, entry.Revoke, c.approver, entry.RoleAgent), entry.UnauthorizedRole},
		{"an agent enrols an agent", agent(c.agent, entry.Enrol, fresh, entry.RoleAgent), entry.UnauthorizedRole},
		{"an agent rotates itself", agent(c.agent, entry.Rotate, spare, entry.RoleAgent), entry.UnauthorizedRole},
		{"a coordinator enrols an agent", agent(c.coordinator, entry.Enrol, fresh, entry.RoleAgent), entry.UnauthorizedRole},
		{"a stranger enrols itself", agent(fresh, entry.Enrol, fresh, entry.RoleAgent), entry.UnknownIssuer},
		{"an enrolled key signs in another's name", agent(otherName(c.agent, "enroller"), entry.Enrol, fresh, entry.RoleAgent), entry.UnknownIssuer},

		{"a key enrolled again for the same principal", agent(c.authority, entry.Enrol, c.agent, entry.RoleAgent), entry.StateConflict},
		{"a key enrolled again for another", agent(c.authority, entry.Enrol, otherName(c.agent, "fresh"), entry.RoleAgent), entry.StateConflict},
		{"an authority key enrolled", agent(c.authority, entry.Enrol, c.authority, entry.RoleOperator), entry.StateConflict},
		{"a rotation to the key that is there", agent(c.authority, entry.Rotate, c.agent, entry.RoleAgent), entry.StateConflict},
		{"a rotation of an unknown principal", agent(c.authority, entry.Rotate, fresh, entry.RoleAgent), entry.UnknownSubject},
		{"a change of span", c.authority.Sign(t, span), entry.StateConflict},
		{"a revocation of an unknown key", agent(c.authority, entry.Revoke, fresh, entry.RoleAgent), entry.UnknownSubject},
		{"a revocation of another's key", agent(c.authority, entry.Revoke, otherName(c.agent, "approver"), entry.RoleAgent), entry.StateConflict},
		{"a revocation of an authority key", agent(c.authority, entry.Revoke, c.authority, entry.RoleAgent), entry.StateConflict},
		{"a revocation with roles that the key has not", agent(c.authority, entry.Revoke, c.approver, entry.RoleAgent), ""},
		{"a revocation, compromised since its own index", revoke(next), ""},
		{"a revocation, compromised since the future", revoke(next + 1), entry.StateConflict},
		{"an execution", c.agent.Sign(t, l.Execution(c.agent)), entry.StateConflict},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			before := picture(chain)
			if got := problem(t, chain.Admit(tc.e, next)); got != tc.want {
				t.Fatalf("problem %q, want %q", got, tc.want)
			}
			if picture(chain) != before {
				t.Fatal("Admit changed the chain")
			}
		})
	}
}

// TestChainAfterwards tries what holds once an entry was applied.
func TestChainAfterwards(t *testing.T) {
	type world struct {
		*testlog.Log
		cast
		chain        *verify.Chain
		fresh, spare testlog.Key
	}
	take := func(w *world, e *entry.Entry) {
		index := w.Add(e)
		must(t, w.chain.Admit(e, index))
		w.chain.Apply(e, index, w.At)
	}
	signs := func(w *world, k testlog.Key) entry.Problem {
		_, err := w.chain.Signer(k.Sign(t, w.Execution(k)))
		return problem(t, err)
	}
	admits := func(w *world, e *entry.Entry) entry.Problem {
		return problem(t, w.chain.Admit(e, uint64(len(w.Leaves))))
	}
	about := func(w *world, by testlog.Key, op entry.AgentOp, k testlog.Key, roles ...entry.Role) *entry.Entry {
		return by.Sign(t, w.Agent(by, op, k, roles...))
	}
	cases := []struct {
		name string
		do   func(w *world) (got entry.Problem)
		want entry.Problem
	}{
		{"a rotated key does not count", func(w *world) entry.Problem {
			take(w, about(w, w.enroller, entry.Rotate, w.spare, entry.RoleAgent))
			return signs(w, w.agent)
		}, entry.UnknownIssuer},
		{"the key it was rotated to counts", func(w *world) entry.Problem {
			take(w, about(w, w.enroller, entry.Rotate, w.spare, entry.RoleAgent))
			return signs(w, w.spare)
		}, ""},
		{"a rotation replaces all keys", func(w *world) entry.Problem {
			take(w, about(w, w.enroller, entry.Enrol, w.spare, entry.RoleAgent))
			third := testlog.NewKey(t, "agent", "third")
			take(w, about(w, w.enroller, entry.Rotate, third, entry.RoleAgent))
			return signs(w, w.spare)
		}, entry.UnknownIssuer},
		{"two enrolled keys count both", func(w *world) entry.Problem {
			take(w, about(w, w.enroller, entry.Enrol, w.spare, entry.RoleAgent))
			return signs(w, w.agent) + signs(w, w.spare)
		}, ""},
		{"a revoked key does not count", func(w *world) entry.Problem {
			take(w, about(w, w.enroller, entry.Revoke, w.agent, entry.RoleAgent))
			return signs(w, w.agent)
		}, entry.UnknownIssuer},
		{"a revoked key is not revoked again", func(w *world) entry.Problem {
			take(w, about(w, w.enroller, entry.Revoke, w.agent, entry.RoleAgent))
			return admits(w, about(w, w.enroller, entry.Revoke, w.agent, entry.RoleAgent))
		}, entry.StateConflict},
		{"a revoked key is not enrolled again", func(w *world) entry.Problem {
			take(w, about(w, w.enroller, entry.Revoke, w.agent, entry.RoleAgent))
			return admits(w, about(w, w.authority, entry.Enrol, w.agent, entry.RoleAgent))
		}, entry.StateConflict},
		{"without a key left there is nothing to rotate", func(w *world) entry.Problem {
			take(w, about(w, w.enroller, entry.Revoke, w.agent, entry.RoleAgent))
			return admits(w, about(w, w.enroller, entry.Rotate, w.spare, entry.RoleAgent))
		}, entry.UnknownSubject},
		{"without a key left a new one is enrolled", func(w *world) entry.Problem {
			take(w, about(w, w.enroller, entry.Revoke, w.agent, entry.RoleAgent))
			take(w, about(w, w.enroller, entry.Enrol, w.spare, entry.RoleAgent))
			return signs(w, w.spare)
		}, ""},
		{"the name of a former approver stays the authority's", func(w *world) entry.Problem {
			take(w, about(w, w.authority, entry.Revoke, w.approver, entry.RoleApprover))
			w.fresh.Principal = "approver"
			return admits(w, about(w, w.enroller, entry.Enrol, w.fresh, entry.RoleAgent))
		}, entry.UnauthorizedRole},
		{"roles are the key's, not the principal's", func(w *world) entry.Problem {
			w.fresh.Principal = "approver"
			take(w, about(w, w.authority, entry.Enrol, w.fresh, entry.RoleAgent))
			_, err := w.chain.Signer(w.fresh.Sign(t, &entry.Approval{Header: w.Work("approver"), Verdict: "approve", Exp: 1, Reason: "r"}))
			return problem(t, err)
		}, entry.UnauthorizedRole},
		{"an enroller that was revoked enrols nobody", func(w *world) entry.Problem {
			take(w, about(w, w.authority, entry.Revoke, w.enroller, entry.RoleEnroller))
			return admits(w, about(w, w.enroller, entry.Enrol, w.fresh, entry.RoleAgent))
		}, entry.UnknownIssuer},
		{"what a revoked enroller let in stays", func(w *world) entry.Problem {
			take(w, about(w, w.authority, entry.Revoke, w.enroller, entry.RoleEnroller))
			return signs(w, w.agent)
		}, ""},
		{"a policy may take the right to enrol away", func(w *world) entry.Problem {
			p := w.Policy(w.authority, w.authority)
			p.Roles = map[entry.Role][]entry.Role{}
			_, inForce := w.chain.Policy()
			p.Previous = &inForce
			take(w, w.authority.Sign(t, p))
			return admits(w, about(w, w.enroller, entry.Enrol, w.fresh, entry.RoleAgent))
		}, entry.UnauthorizedRole},
		{"a policy may give the right to enrol", func(w *world) entry.Problem {
			p := w.Policy(w.authority, w.authority)
			p.Roles[entry.RoleAgent] = []entry.Role{entry.RoleOperator}
			_, inForce := w.chain.Policy()
			p.Previous = &inForce
			take(w, w.authority.Sign(t, p))
			return admits(w, about(w, w.operator, entry.Enrol, w.fresh, entry.RoleAgent))
		}, ""},
		{"a former authority signs nothing", func(w *world) entry.Problem {
			_, inForce := w.chain.Policy()
			p := w.Policy(w.authority, w.fresh)
			p.Previous = &inForce
			take(w, w.authority.Sign(t, p))
			return admits(w, about(w, w.authority, entry.Enrol, w.spare, entry.RoleAgent))
		}, entry.UnknownIssuer},
		{"the new authority signs", func(w *world) entry.Problem {
			_, inForce := w.chain.Policy()
			p := w.Policy(w.authority, w.fresh)
			p.Previous = &inForce
			take(w, w.authority.Sign(t, p))
			return admits(w, about(w, w.fresh, entry.Enrol, w.spare, entry.RoleOperator))
		}, ""},
		{"the key of a former authority is not enrolled", func(w *world) entry.Problem {
			_, inForce := w.chain.Policy()
			p := w.Policy(w.authority, w.fresh)
			p.Previous = &inForce
			take(w, w.authority.Sign(t, p))
			return admits(w, about(w, w.fresh, entry.Enrol, w.authority, entry.RoleAgent))
		}, entry.StateConflict},
		{"two policies after the same one", func(w *world) entry.Problem {
			_, inForce := w.chain.Policy()
			first, second := w.Policy(w.authority, w.authority), w.Policy(w.authority, w.authority)
			first.Previous, second.Previous = &inForce, &inForce
			take(w, w.authority.Sign(t, first))
			return admits(w, w.authority.Sign(t, second))
		}, entry.PolicySuperseded},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			l, c := newCompany(t)
			w := &world{Log: l, cast: c, chain: l.Chain(), fresh: testlog.NewKey(t, "fresh", "fresh"), spare: testlog.NewKey(t, "agent", "spare")}
			if got := tc.do(w); got != tc.want {
				t.Fatalf("problem %q, want %q", got, tc.want)
			}
		})
	}
}

func TestChainTellsWhatItKnows(t *testing.T) {
	l, c := newCompany(t)
	spare := testlog.NewKey(t, "agent", "spare")
	l.Add(c.authority.Sign(t, l.Agent(c.authority, entry.Enrol, spare, entry.RoleMonitor)))
	revocation := l.Agent(c.authority, entry.Revoke, c.agent, entry.RoleAgent)
	revocation.CompromisedSince = &entry.Compromised{Index: 3}
	l.Add(c.authority.Sign(t, revocation))
	chain := l.Chain()

	info, ok := chain.Agent("agent")
	since := uint64(3)
	want := verify.AgentInfo{Principal: "agent", Domain: "domain", Span: entry.SpanWorkflow, Enrolled: 7,
		Roles: []entry.Role{entry.RoleMonitor},
		Keys: []verify.KeyInfo{
			{Signer: verify.Signer{Key: c.agent.Public, Principal: "agent", Roles: []entry.Role{entry.RoleAgent}, Enrolled: 7}, Revoked: 9, CompromisedSince: &since},
			{Signer: verify.Signer{Key: spare.Public, Principal: "agent", Roles: []entry.Role{entry.RoleMonitor}, Enrolled: 8}},
		}}
	if diff := cmp.Diff(want, info); !ok || diff != "" {
		t.Errorf("agent (-want +got):\n%s", diff)
	}
	if got, err := info.Revocation(info.Valid()[0], &since); err == nil || !strings.Contains(err.Error(), "entry 8") {
		t.Errorf("a revocation since before the enrolment: %+v, error %v", got, err)
	}
	since = 8
	if got, err := info.Revocation(info.Valid()[0], &since); err != nil || got.Op != entry.Revoke || !got.Key.Equal(spare.Public) || got.CompromisedSince.Index != 8 {
		t.Errorf("revocation %+v, error %v", got, err)
	}
	if got, err := info.Rotation(c.agent.Public); err != nil || got.Op != entry.Rotate || !got.Key.Equal(c.agent.Public) || got.Roles[0] != entry.RoleMonitor || got.Domain != "domain" {
		t.Errorf("rotation %+v, error %v", got, err)
	}
	if got, err := info.Revocation(info.Valid()[0], nil); err != nil || got.Op != entry.Revoke || !got.Key.Equal(spare.Public) || got.CompromisedSince != nil {
		t.Errorf("revocation %+v, error %v", got, err)
	}
	if !verify.AuthorityOnly(info.Roles) || verify.AuthorityOnly([]entry.Role{entry.RoleAgent}) {
		t.Error("who may write about which roles")
	}
	if _, ok := chain.Agent("nobody"); ok || chain.Span("nobody") != "" {
		t.Error("nobody is known")
	}
	if span := chain.Span("agent"); span != entry.SpanWorkflow {
		t.Errorf("span %q", span)
	}
	var names []entry.Principal
	for _, a := range chain.Agents() {
		names = append(names, a.Principal)
	}
	if !slices.IsSorted(names) || len(names) != 7 {
		t.Errorf("agents %v", names)
	}
	for _, k := range []testlog.Key{c.authority, c.agent, spare} {
		if public, ok := chain.Key(k.Public.KeyID()); !ok || !public.Equal(k.Public) {
			t.Errorf("key of %s: %v", k.Principal, public)
		}
	}
	if _, ok := chain.Key(testlog.NewKey(t, "x", "x").Public.KeyID()); ok {
		t.Error("an unknown key is known")
	}
	policy, at := chain.Policy()
	if policy == nil || at != (entry.LogRef{Index: 0, LeafHash: merkle.HashLeaf(l.Leaves[0])}) {
		t.Errorf("policy in force at %+v", at)
	}
	if policy, _ := verify.NewChain().Policy(); policy != nil {
		t.Error("a policy before the genesis")
	}
}

// TestTheAuthorityIsOfTheGenesis keeps since when a key counts that a later policy
// names again, and tells whose key is whose.
func TestTheAuthorityIsOfTheGenesis(t *testing.T) {
	l, c := newCompany(t)
	_, inForce := l.Chain().Policy()
	p := l.Policy(c.authority, c.authority)
	p.Previous = &inForce
	l.Add(c.authority.Sign(t, p))
	r := l.Agent(c.authority, entry.Revoke, c.monitor, entry.RoleMonitor)
	l.Add(c.authority.Sign(t, r))
	chain := l.Chain()
	if key, ok := chain.KeyInfo(c.authority.Public.KeyID()); !ok || key.Enrolled != 0 || key.Revoked != 0 || !key.Authority {
		t.Errorf("%+v", key)
	}
	for _, k := range []testlog.Key{c.authority, c.agent, c.monitor} {
		if owner, is := chain.Owner(k.Public.KeyID()); owner != k.Principal || is == (owner == "monitor") {
			t.Errorf("the key of %s is %s's, counts %v", k.Principal, owner, is)
		}
	}
	if owner, is := chain.Owner("SHA256:nobody"); owner != "" || is {
		t.Errorf("an unknown key is %q's, counts %v", owner, is)
	}
	if _, err := chain.Signer(c.agent.Sign(t, l.Policy(c.agent, c.agent))); err == nil || !strings.Contains(err.Error(), "only the policy's authority may") {
		t.Errorf("a policy by an agent: %v", err)
	}
}

// TestLinksForSomeAreWhatTheyWereLetInBy: policies, their own entries, and those of
// who enrolled them.
func TestLinksForSomeAreWhatTheyWereLetInBy(t *testing.T) {
	l, _ := newCompany(t)
	chain := l.Chain()
	for want, principals := range map[string][]entry.Principal{
		"[0]": nil, "[0 1 7]": {"agent"}, "[0 1]": {"enroller"}, "[0 5]": {"monitor"}, "[0 1 5 7]": {"monitor", "agent"},
	} {
		var got []uint64
		for _, link := range chain.LinksFor(principals...) {
			got = append(got, link.Index)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("for %s: %d, want %s", principals, got, want)
		}
	}
}

func TestLinksBuildTheSameChain(t *testing.T) {
	l, c := newCompany(t)
	l.Add(c.agent.Sign(t, l.Execution(c.agent)))
	chain, again := l.Chain(), verify.NewChain()
	if len(chain.Links()) != 8 {
		t.Fatalf("%d links, want 8", len(chain.Links()))
	}
	for _, link := range chain.Links() {
		e, at, err := entry.DecodeLeaf(link.AppendLeaf(nil))
		must(t, err)
		if at != link.RegisteredAt {
			t.Fatalf("link %d registered at %d, leaf says %d", link.Index, link.RegisteredAt, at)
		}
		must(t, again.Admit(e, link.Index))
		again.Apply(e, link.Index, at)
	}
	if diff := cmp.Diff(chain.Agents(), again.Agents()); diff != "" {
		t.Error(diff)
	}
	_, at := chain.Policy()
	if _, same := again.Policy(); same != at {
		t.Errorf("policy at %v and %v", at, same)
	}
}

func TestApplyIgnoresOtherKinds(t *testing.T) {
	l, c := newCompany(t)
	chain := l.Chain()
	before := picture(chain)
	chain.Apply(c.agent.Sign(t, l.Execution(c.agent)), 8, l.At)
	if picture(chain) != before {
		t.Error("an execution changed the chain")
	}
}

// TestCloneGoesItsOwnWay lets a chain and clones of it go apart and looks that
// none of them sees another's entries. The agent has three keys and the chain
// ten links, so that there is room left in the slices that clones might share.
func TestCloneGoesItsOwnWay(t *testing.T) {
	l, c := newCompany(t)
	for _, seed := range []string{"second key", "third key"} {
		l.Add(c.authority.Sign(t, l.Agent(c.authority, entry.Enrol, testlog.NewKey(t, "agent", seed), entry.RoleAgent)))
	}
	chain := l.Chain()
	original := picture(chain)
	grow := func(chain *verify.Chain, k testlog.Key) {
		e := c.authority.Sign(t, l.Agent(c.authority, entry.Rotate, k, entry.RoleAgent))
		must(t, chain.Admit(e, 10))
		chain.Apply(e, 10, l.At)
	}
	first, second := chain.Clone(), chain.Clone()
	grow(first, testlog.NewKey(t, "agent", "first"))
	if picture(chain) != original || picture(second) != original {
		t.Fatal("a clone's entry shows elsewhere")
	}
	grow(chain, testlog.NewKey(t, "agent", "original"))
	grow(second, testlog.NewKey(t, "agent", "second"))
	pictures := []string{picture(chain), picture(first), picture(second)}
	slices.Sort(pictures)
	if len(slices.Compact(pictures)) != 3 {
		t.Fatal("chains that went apart look alike")
	}
	for name, chain := range map[string]*verify.Chain{"original": chain, "first": first, "second": second} {
		k := testlog.NewKey(t, "agent", name)
		info, _ := chain.Agent("agent")
		links := chain.Links()
		last := links[len(links)-1].Body.(*entry.Agent) //nolint:forcetypeassert // an agent entry was applied
		if len(info.Keys) != 4 || !info.Keys[3].Key.Equal(k.Public) || len(links) != 11 || !last.Key.Equal(k.Public) {
			t.Errorf("%s: does not end with its own key", name)
		}
		if _, err := chain.Signer(k.Sign(t, l.Execution(k))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := chain.Signer(c.agent.Sign(t, l.Execution(c.agent))); err == nil {
			t.Errorf("%s: the rotated key still counts", name)
		}
	}
}

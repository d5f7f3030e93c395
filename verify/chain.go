package verify

import (
	"maps"
	"slices"

	"recoveryledger/ledger/entry"
)

// Chain is the policy chain and the keys that it lets in (TRU-1 to TRU-4). It is a fold over the
// policy and agent entries of a log, in order. Its answers hold as of the last applied entry.
// The zero value is not usable.
//
// A key is enrolled once, for one principal, with the roles of that one entry;
// it keeps them until it is revoked. Chain checks rights, never signatures: see
// [Signature].
type Chain struct {
	policy  *entry.Policy // in force; nil before the genesis
	inForce entry.LogRef

	// keys has every key that ever counted, by key id: canonical DER makes the
	// id unique to the key. Values are replaced, never changed, so that clones
	// may share them.
	keys        map[string]KeyInfo
	compromised bool // whether some key was revoked as compromised
	agents      map[entry.Principal]agent
	links       []entry.Registered
	named       []namedKeys // of the ledger, where they changed
}

// agent is the chain's record of a principal beside its keys.
type agent struct {
	domain       string
	span         entry.Span
	capabilities []string
	enrolled     uint64
	keyIDs       []string // in the order of their enrolment
}

// Signer is a key that counts now, with its rights.
type Signer struct {
	Key       entry.PublicKey
	Principal entry.Principal
	Roles     []entry.Role // of this key; empty for an authority key
	Authority bool         // whether the policy in force names the key as its authority
	Enrolled  uint64       // index of the entry that let the key in
}

// KeyInfo is a key that counts or has counted.
type KeyInfo struct {
	Signer
	// Revoked is the index of the entry since which the key does not count. It is 0 if the
	// key counts.
	Revoked uint64
	// CompromisedSince is the index from which on the key is not to be believed (TRU-4). It is
	// nil if the revocation of the key named none.
	CompromisedSince *uint64
}

// NewChain returns the chain of the empty log.
func NewChain() *Chain {
	return &Chain{keys: map[string]KeyInfo{}, agents: map[entry.Principal]agent{}}
}

// Admit reports whether the policy or agent entry e may stand at index (TRU-2),
// and leaves the chain as it is. The error is a [*entry.Refusal]:
// unknown-issuer, unauthorized-role, policy-superseded, unknown-subject,
// state-conflict or, for keys of the ledger, malformed.
func (c *Chain) Admit(e *entry.Entry, index uint64) error {
	signer, err := c.Signer(e)
	if err != nil {
		return err
	}
	switch body := e.Body.(type) {
	case *entry.Policy:
		return c.admitPolicy(body, index)
	case *entry.Agent:
		return c.admitAgent(signer, body, index)
	}
	return entry.Refuse(entry.StateConflict, "", "a %s entry is not part of the policy chain", e.Kind)
}

func (c *Chain) admitPolicy(p *entry.Policy, index uint64) error {
	switch {
	case c.policy == nil && index != 0:
		return entry.Refuse(entry.StateConflict, "", "the genesis policy stands at index 0, not at %d", index)
	case c.policy == nil && p.Previous != nil:
		return entry.Refuse(entry.StateConflict, "previous", "the genesis policy has no predecessor")
	case c.policy != nil && (p.Previous == nil || *p.Previous != c.inForce):
		return entry.Refuse(entry.PolicySuperseded, "previous", "not the policy in force, which stands at index %d", c.inForce.Index).
			WithRemedy("fetch the policy in force, apply the change to it and name it as previous")
	}
	for _, a := range p.Authority {
		known, ok := c.keys[a.Key.KeyID()]
		if ok && (len(known.Roles) > 0 || known.Principal != a.Principal) {
			return entry.Refuse(entry.StateConflict, "authority", "key %s was let in at index %d, for something else", a.Key.KeyID(), known.Enrolled).
				WithRemedy("generate a new key for the authority")
		}
	}
	return c.admitLedgerKeys(p)
}

func (c *Chain) admitAgent(signer Signer, a *entry.Agent, index uint64) error {
	if !signer.Authority && c.privileged(a.Principal) {
		return entry.Refuse(entry.UnauthorizedRole, "principal", "%s is more than a plain agent", a.Principal).
			WithRemedy("let the policy's authority sign")
	}
	known, ok := c.agents[a.Principal]
	if ok && known.span != a.Span {
		return entry.Refuse(entry.StateConflict, "span", "it is %s for %s and never changes", known.span, a.Principal)
	}
	if a.Op == entry.Revoke {
		return c.admitRevocation(a, index)
	}
	if used, ok := c.keys[a.Key.KeyID()]; ok {
		return entry.Refuse(entry.StateConflict, "key", "%s was enrolled at index %d; a key is enrolled once", a.Key.KeyID(), used.Enrolled).
			WithRemedy("generate a new key")
	}
	if a.Op == entry.Rotate && !slices.ContainsFunc(known.keyIDs, func(id string) bool { return c.keys[id].Revoked == 0 }) {
		return entry.Refuse(entry.UnknownSubject, "principal", "%s has no key to replace", a.Principal).WithRemedy("use op enrol")
	}
	return nil
}

func (c *Chain) admitRevocation(a *entry.Agent, index uint64) error {
	key, ok := c.keys[a.Key.KeyID()]
	switch {
	case !ok:
		return entry.Refuse(entry.UnknownSubject, "key", "%s is not enrolled", a.Key.KeyID())
	case len(key.Roles) == 0:
		return entry.Refuse(entry.StateConflict, "key", "%s is a key of the policy's authority", a.Key.KeyID()).
			WithRemedy("apply a policy that leaves it out")
	case key.Principal != a.Principal:
		return entry.Refuse(entry.StateConflict, "key", "%s is not a key of %s", a.Key.KeyID(), a.Principal)
	case key.Revoked != 0:
		return entry.Refuse(entry.StateConflict, "key", "%s is not valid since index %d", a.Key.KeyID(), key.Revoked)
	case a.CompromisedSince != nil && a.CompromisedSince.Index > index:
		return entry.Refuse(entry.StateConflict, "compromised_since.index", "%d lies in the future", a.CompromisedSince.Index)
	}
	return nil
}

// privileged reports whether only the authority may write agent entries about the
// principal: it holds a privilege, or belongs to the authority. Otherwise an enroller
// of plain agents could take the principal over.
func (c *Chain) privileged(p entry.Principal) bool {
	return c.holdsPrivilege(p) || slices.ContainsFunc(c.policy.Authority, func(a entry.AuthorityKey) bool { return a.Principal == p })
}

// holdsPrivilege reports whether the principal has, or had, a role beyond plain agent.
func (c *Chain) holdsPrivilege(p entry.Principal) bool {
	return slices.ContainsFunc(c.agents[p].keyIDs, func(id string) bool { return !plain(c.keys[id].Roles) })
}

// AuthorityOnly reports whether only the policy's authority may write an agent entry
// with these roles (TRU-2). An enroller may write entries about plain agents.
func AuthorityOnly(roles []entry.Role) bool { return !plain(roles) }

func plain(roles []entry.Role) bool { return len(roles) == 1 && roles[0] == entry.RoleAgent }

// Apply takes up a policy or agent entry that was admitted, now or when it was logged. at is its
// registered_at, in Unix milliseconds. Other kinds change nothing.
func (c *Chain) Apply(e *entry.Entry, index uint64, at int64) {
	switch body := e.Body.(type) {
	case *entry.Policy:
		c.applyPolicy(body, index)
		c.inForce = entry.LogRef{Index: index, LeafHash: e.LeafHash(at)}
	case *entry.Agent:
		c.applyAgent(body, index)
	default:
		return
	}
	c.links = append(c.links, entry.Registered{Entry: e, Index: index, RegisteredAt: at})
}

func (c *Chain) applyPolicy(p *entry.Policy, index uint64) {
	for id, key := range c.keys {
		if key.Authority {
			key.Authority, key.Revoked = false, index
			c.keys[id] = key
		}
	}
	for _, a := range p.Authority {
		id := a.Key.KeyID()
		key, ok := c.keys[id]
		if !ok {
			key.Signer = Signer{Key: a.Key, Principal: a.Principal, Enrolled: index}
		}
		key.Authority, key.Revoked = true, 0
		c.keys[id] = key
	}
	if !slices.Equal(p.LedgerKeys, c.LedgerKeys()) { // and so it names some: none is refused where some were named
		c.named = append(c.named, namedKeys{index, p.LedgerKeys})
	}
	c.policy = p
}

func (c *Chain) applyAgent(a *entry.Agent, index uint64) {
	id := a.Key.KeyID()
	if a.Op == entry.Revoke {
		key := c.keys[id]
		key.Revoked = index
		if a.CompromisedSince != nil {
			key.CompromisedSince, c.compromised = &a.CompromisedSince.Index, true
		}
		c.keys[id] = key
		return
	}
	known, ok := c.agents[a.Principal]
	if !ok {
		known = agent{span: a.Span, enrolled: index}
	}
	if a.Op == entry.Rotate {
		for _, old := range known.keyIDs {
			if key := c.keys[old]; key.Revoked == 0 {
				key.Revoked = index
				c.keys[old] = key
			}
		}
	}
	known.domain, known.capabilities = a.Domain, a.Capabilities
	known.keyIDs = slices.Concat(known.keyIDs, []string{id}) // never in place: clones share the old one
	c.agents[a.Principal] = known
	c.keys[id] = KeyInfo{Signer: Signer{Key: a.Key, Principal: a.Principal, Roles: a.Roles, Enrolled: index}}
}

// Signer returns the key that e claims to be signed with, if it is enrolled for
// exactly the issuer, is not revoked and may sign such an entry (REG-4). Before
// the genesis only a policy has a signer, out of its own authority. The error
// is a [*entry.Refusal]: unknown-issuer or unauthorized-role.
func (c *Chain) Signer(e *entry.Entry) (Signer, error) {
	if c.policy == nil {
		return genesisSigner(e)
	}
	key, refusal := c.counting(e.KeyID, e.Header.Iss, "signatures[0].keyid")
	if refusal != nil {
		return Signer{}, refusal
	}
	body, isAgent := e.Body.(*entry.Agent)
	if key.Authority && (isAgent || e.Kind == entry.KindPolicy) {
		return key.Signer, nil
	}
	allowed := rolesFor(e.Body)
	if isAgent && plain(body.Roles) {
		allowed = c.policy.Roles[entry.RoleAgent]
	}
	if slices.ContainsFunc(allowed, func(role entry.Role) bool { return slices.Contains(key.Roles, role) }) {
		return key.Signer, nil
	}
	return Signer{}, entry.Refuse(entry.UnauthorizedRole, "iss", "%s may not sign %s; %s may",
		e.Header.Iss, rightsSubject(e.Body), names(allowed)).WithRemedy("ask the policy's authority for the role")
}

// Speaks returns the key with the id, if it is enrolled for exactly the principal with that role,
// and is not revoked. Else the refusal is unknown-issuer or unauthorized-role.
func (c *Chain) Speaks(keyID string, p entry.Principal, role entry.Role) (entry.PublicKey, *entry.Refusal) {
	key, refusal := c.counting(keyID, p, "keyid")
	if refusal == nil && !slices.Contains(key.Roles, role) {
		refusal = entry.Refuse(entry.UnauthorizedRole, "iss", "%s does not give %s the role %s", keyID, p, role).
			WithRemedy("ask the policy's authority for the role")
	}
	return key.Key, refusal
}

// counting returns the key with the id, if it is enrolled for exactly the principal and is not
// revoked. Else the refusal is unknown-issuer, at that field.
func (c *Chain) counting(keyID string, p entry.Principal, field string) (KeyInfo, *entry.Refusal) {
	key := c.keys[keyID]
	switch {
	case key.Principal != p: // also true of a key that was never enrolled
		return key, entry.Refuse(entry.UnknownIssuer, field, "%s is not enrolled for %s", keyID, p).
			WithRemedy("enrol the key, or sign with an enrolled key")
	case key.Revoked != 0:
		return key, entry.Refuse(entry.UnknownIssuer, field, "%s is not valid since index %d", keyID, key.Revoked).
			WithRemedy("sign with the key that replaced it; if it was revoked, an operator enrols a new one")
	}
	return key, nil
}

func genesisSigner(e *entry.Entry) (Signer, error) {
	if p, ok := e.Body.(*entry.Policy); ok {
		for _, a := range p.Authority {
			if a.Principal == e.Header.Iss && a.Key.KeyID() == e.KeyID {
				return Signer{Key: a.Key, Principal: a.Principal, Authority: true}, nil
			}
		}
	}
	return Signer{}, entry.Refuse(entry.UnknownIssuer, "signatures[0].keyid", "the log is empty: %s can sign nothing but a genesis policy that names it", e.KeyID).
		WithRemedy("register the genesis policy first, signed by a key in its authority")
}

// Key returns the key with the id, whether the key still counts or counted once.
func (c *Chain) Key(keyID string) (entry.PublicKey, bool) {
	key, ok := c.keys[keyID]
	return key.Key, ok
}

// Owner returns the principal that the key with the id is or was enrolled for, and whether the
// key still counts. The principal is empty if the key never counted.
func (c *Chain) Owner(keyID string) (owner entry.Principal, counts bool) {
	key, ok := c.keys[keyID]
	return key.Principal, ok && key.Revoked == 0
}

// KeyInfo returns the information on the key with the id, if the key ever counted. The caller
// must not change it.
func (c *Chain) KeyInfo(keyID string) (KeyInfo, bool) {
	key, ok := c.keys[keyID]
	return key, ok
}

// SignedByIssuer reports whether a key that is or was enrolled for the issuer of e signed e. Of two
// such entries under one id, the issuer equivocated (REG-2), even if the key no longer counts.
func (c *Chain) SignedByIssuer(e *entry.Entry) bool {
	key, ok := c.keys[e.KeyID]
	return ok && key.Principal == e.Header.Iss && (e.SignatureChecked || Signature(key.Key, e.PAE(), e.Sig) == nil)
}

// PolicyAt returns the policy of the entry at an index, in force or not; nil if the entry is no
// policy of the log. The caller must not change the policy.
func (c *Chain) PolicyAt(index uint64) *entry.Policy {
	for _, link := range c.links {
		if policy, is := link.Body.(*entry.Policy); is && link.Index == index {
			return policy
		}
	}
	return nil
}

// Policy returns the policy in force and its place in the log; nil before the genesis. The
// caller must not change the policy.
func (c *Chain) Policy() (*entry.Policy, entry.LogRef) { return c.policy, c.inForce }

// Agent returns the information on a principal, if the principal was ever enrolled.
func (c *Chain) Agent(p entry.Principal) (AgentInfo, bool) {
	known, ok := c.agents[p]
	if !ok {
		return AgentInfo{}, false
	}
	info := AgentInfo{Principal: p, Domain: known.domain, Span: known.span, Enrolled: known.enrolled,
		Capabilities: slices.Clone(known.capabilities)}
	for _, id := range known.keyIDs {
		info.Keys = append(info.Keys, c.keys[id])
	}
	for _, role := range entry.Roles() {
		if slices.ContainsFunc(info.Keys, func(k KeyInfo) bool { return k.Revoked == 0 && slices.Contains(k.Roles, role) }) {
			info.Roles = append(info.Roles, role)
		}
	}
	return info, true
}

// Span returns how far the lines of a principal reach (SCO-2); empty if it was
// never enrolled.
func (c *Chain) Span(p entry.Principal) entry.Span { return c.agents[p].span }

// Agents returns every principal that was ever enrolled, sorted by name.
func (c *Chain) Agents() []AgentInfo {
	var all []AgentInfo
	for _, p := range slices.Sorted(maps.Keys(c.agents)) {
		info, _ := c.Agent(p)
		all = append(all, info)
	}
	return all
}

// Links returns the entries applied so far, in order. They suffice to build the chain again,
// here or at a verifier that trusts only the genesis. The caller must not change them.
func (c *Chain) Links() []entry.Registered { return slices.Clip(c.links) }

// LinksFor returns, in order, the entries that show who let the principals in: all policies, the
// agent entries about the principals, the agent entries about the issuers of those entries, and
// so on. Step 7 of [Root.Verify] needs only the receipts of these entries.
func (c *Chain) LinksFor(principals ...entry.Principal) []entry.Registered {
	needed := map[entry.Principal]bool{}
	for _, p := range principals {
		needed[p] = true
	}
	var links []entry.Registered
	for _, l := range slices.Backward(c.links) { // an enroller was enrolled first
		if a, ok := l.Body.(*entry.Agent); ok && !needed[a.Principal] {
			continue
		}
		needed[l.Header.Iss] = true
		links = append(links, l)
	}
	slices.Reverse(links)
	return links
}

// Clone returns an independent copy of the chain.
func (c *Chain) Clone() *Chain {
	clone := *c
	clone.keys, clone.agents = maps.Clone(c.keys), maps.Clone(c.agents)
	clone.links = c.Links() // full: the clone's first append copies
	clone.named = slices.Clip(c.named)
	return &clone
}

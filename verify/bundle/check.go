package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// skewMS is how far clocks of witnesses and of the ledger may be ahead.
const skewMS = 300_000

// Check does AGT-1, AGT-2 and AGT-3 in that order, against what the agent has
// accepted and at its own time now (Unix milliseconds). The error is a
// [*RuleError] of the first rule that failed, or a [*verify.FormatError] if the bundle
// or the state is not well-formed; then nothing is to be done. A member that
// fails alone is refused in its [Command].
//
// The caller stores Verdict.Next first, on an error too.
func (b *Bundle) Check(a Accepted, now int64) (Verdict, error) {
	c := &checking{Bundle: b, now: now, next: a, tail: math.MaxUint64}
	err := b.check()
	if err == nil {
		err = c.run()
	}
	c.out.Next, c.out.Confirmed = c.next, c.next.Confirmed
	if err != nil {
		c.out.Commands, c.out.NotChecked = nil, nil
		return c.out, err
	}
	c.absences()
	return c.out, nil
}

func (c *checking) run() error {
	before, err := c.next.open()
	if err != nil {
		return err
	}
	c.before, c.root = before, before.heads.Root()
	steps := []func() error{c.agent, c.newHead, c.witnesses, c.included}
	if c.Decision == 0 {
		steps = append(steps, c.rights, c.ledgerKeys, c.audience, c.accept)
	} else {
		steps = append(steps, c.findDecision, c.rights, c.ledgerKeys, c.audience, c.accept, c.findIndex, c.checkPolicyAndKey, c.checkTimes, c.restsOn, c.authority, c.epoch, c.complete,
			c.membership, c.outcomes, c.plan, c.checkNothingUnused)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// checking is one check of a bundle.
type checking struct {
	*Bundle
	before *known
	root   verify.Root
	now    int64
	next   Accepted
	out    Verdict

	newest  verify.SignedHead
	quorum  bool     // of witnesses, that has cosigned it
	waived  *waiver  // the quorum that the emergency group replaces; nil: none
	entries []proven // those of the bundle
	used    map[uint64]bool

	chain     *verify.Chain // as of the newest link
	unchecked []unchecked
	links     []proven
	then      *verify.Chain // as of the decision
	policies  []policyAt

	decision  *entry.Decision
	decided   *proven
	earlier   []*entry.Decision // that it amends, the newest first
	effective effectivePolicy
	signals   []*proven // that the decision rests on
	execs     map[entry.Ref]*evidence
	points    []*proven // checkpoints
	members   []*member
	byExec    map[entry.Ref]*member
	steps     map[uint64]*stepVerdict

	index *entry.LogIndex // that proves that nothing is left out; nil: none does
	// tail is where the entries begin that are given whatever they are, because the
	// index does not cover them; the largest number if there are none.
	tail  uint64
	whole bool // nothing is left out (ABS-1 to ABS-4)
}

// policyAt is a policy of the chain.
type policyAt struct {
	index uint64
	*entry.Policy
}

// passed notes a rule that held, for as many as it was looked at: for none, it
// did not hold but was not asked.
func (c *checking) passed(step, rule string, count int, format string, args ...any) {
	if count == 0 {
		return
	}
	c.out.Checked = append(c.out.Checked, Passed{step, rule, count, fmt.Sprintf(format, args...)})
}

func (c *checking) notChecked(format string, args ...any) {
	c.out.NotChecked = append(c.out.NotChecked, fmt.Sprintf(format, args...))
}

func entryName(index uint64) string { return fmt.Sprintf("entry %d", index) }

// broken is a rule that does not hold.
func broken(step, rule, what, format string, args ...any) *RuleError {
	return &RuleError{Step: step, Rule: rule, What: what, Cause: fmt.Errorf(format, args...)}
}

// agent checks that the bundle is for the agent that checks it.
func (c *checking) agent() error {
	if c.next.Agent != "" && c.next.Agent != c.Agent {
		return broken(stepMembers, stepMembers, "bundle", "for %s, not for %s", c.Agent, c.next.Agent)
	}
	return nil
}

// newHead opens the head and compares it with the accepted one.
func (c *checking) newHead() error {
	newest, err := c.before.open(c.Head)
	if step, ok := errors.AsType[*verify.StepError](err); ok {
		err = step.Cause
	}
	if err != nil {
		return &RuleError{Step: stepHead, Rule: stepHead, What: "tree head", Cause: err}
	}
	c.newest = newest
	c.passed(stepHead, "head", 1, "size %d, signed by the pinned key for the pinned origin", newest.Size)
	if err := c.before.reconcile(newest, c.From, c.Consistency); err != nil {
		refused := &RuleError{Step: stepHead, Rule: stepHead, What: "tree head", Cause: err}
		_, fork := errors.AsType[*verify.ForkError](err)
		if fork || errors.Is(err, merkle.ErrProof) {
			refused.Heads = []string{c.before.head.Note, newest.Note}
		}
		return refused
	}
	if c.before.head.Note != "" {
		c.passed(stepHead, "consistency", 1, "the log of size %d, accepted before, is its beginning", c.before.head.Size)
	}
	return nil
}

// witnesses is the quorum of the pinned witness policy, or else of the newest
// policy that is accepted; at first that is the genesis, which is pinned too.
func (c *checking) witnesses() error {
	var policy *entry.Policy
	for i := range c.before.links {
		if p, ok := c.before.links[i].Body.(*entry.Policy); ok {
			policy = p
		}
	}
	if policy == nil && len(c.Entries) > 0 && merkle.HashLeaf(c.Entries[0].Bytes) == c.root.Genesis {
		if p, err := c.before.decode(c.Entries[0]); err == nil {
			policy, _ = p.Body.(*entry.Policy)
			c.before.read = []proven{p} // nothing was read before
		}
	}
	refusal := c.witnessed(policy)
	if refusal == nil || c.root.Witnesses != "" {
		return refusal
	}
	q, err := c.root.Quorum(witnessesOf(policy))
	if err != nil || q.Emergency() == nil || c.cosigned(q.Emergency(), policy) != nil {
		return refusal
	}
	c.waived = &waiver{policy.Witnesses, refusal}
	return nil
}

// witnessed holds the head to the quorum of a policy, or to that of the root.
func (c *checking) witnessed(policy *entry.Policy) error {
	q, err := c.root.Quorum(cmp.Or(c.root.Witnesses, witnessesOf(policy)))
	if err != nil {
		return broken(stepHead, stepHead, "witnesses", "%w", err)
	}
	if q == nil {
		return nil
	}
	return c.cosigned(q, policy)
}

func witnessesOf(policy *entry.Policy) string {
	if policy == nil {
		return ""
	}
	return policy.Witnesses
}

// cosigned is that a quorum has cosigned the head, as lately as a policy wants it.
func (c *checking) cosigned(q *verify.Quorum, policy *entry.Policy) error {
	refuse := func(format string, args ...any) error {
		return broken(stepHead, stepHead, "witnesses", format, args...)
	}
	if policy == nil {
		return refuse("%w: the policy that says how old cosignatures may be", ErrMissing)
	}
	at, ok := q.Since(c.newest.Note, (c.now+skewMS)/1000)
	most := policy.Windows.BundleMaxAgeMS
	switch {
	case !ok:
		return refuse("no quorum %q has cosigned the head", q.Name())
	case c.now-at*1000 > most:
		return refuse("the quorum's cosignatures are %d ms old, the policy allows %d", c.now-at*1000, most)
	}
	if !c.quorum {
		c.quorum = true
		c.passed(stepHead, "witnesses", 1, "quorum %s, cosigned at %d or later", q.Name(), at)
	}
	return nil
}

// waiver is a quorum that has not cosigned the head, where the emergency group of its
// witness policy has.
type waiver struct {
	witnesses string // the witness policy
	refusal   error  // the quorum without a waiver
}

// waives is WIT-6: the cosignatures of the emergency group count only under the head that brings a
// policy with other witnesses.
func (c *checking) waives(inForce *entry.Policy) error {
	if c.waived == nil {
		return nil
	}
	if witnessesOf(inForce) == c.waived.witnesses {
		return c.waived.refusal
	}
	c.passed(stepHead, "WIT-6", 1, "the emergency group has waived the witnesses of the policy before, for those of the policy that follows")
	return nil
}

// included decodes the entries and proves that they are in the log.
func (c *checking) included() error {
	refuse := func(index uint64, cause error) error {
		return &RuleError{Step: stepHead, Rule: stepHead, What: entryName(index), Cause: cause}
	}
	places := make([]merkle.Place, len(c.Entries))
	c.entries = make([]proven, len(c.Entries))
	c.used = make(map[uint64]bool, len(c.Entries))
	for i, leaf := range c.Entries {
		p, err := c.before.decode(leaf)
		if err != nil {
			return refuse(leaf.Index, err)
		}
		if at := p.RegisteredAt; i > 0 && at < c.entries[i-1].RegisteredAt {
			return refuse(leaf.Index, fmt.Errorf("registered_at %d, earlier than %d of the entry before", at, c.entries[i-1].RegisteredAt))
		}
		p.entitled = false
		places[i], c.entries[i] = merkle.Place{Index: p.Index, Leaf: p.hash}, p
	}
	if err := merkle.CheckInclusions(places, c.newest.Head, c.Inclusion); err != nil {
		return &RuleError{Step: stepHead, Rule: stepHead, What: "inclusion", Cause: err}
	}
	for i := range c.entries {
		c.out.Entries = append(c.out.Entries, c.entries[i].Registered)
	}
	c.passed(stepHead, "inclusion", len(c.entries), "canonical bytes of a well-formed entry each, in the tree of the head")
	return nil
}

// at returns the entry of the bundle at an index.
func (c *checking) at(index uint64) *proven {
	i, ok := findProven(c.entries, index)
	if !ok {
		return nil
	}
	return &c.entries[i]
}

// rights judges each entry of the bundle by the chain of policies and keys at its index (TRU-1,
// TRU-2). The first failure in the order of the log counts.
func (c *checking) rights() error {
	signed, err := c.follow()
	if err := c.signatures(); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	inForce, _ := c.chain.Policy()
	if inForce == nil {
		c.notChecked("the chain of policies and keys (TRU-1): no policy was given or accepted before")
	} else {
		c.passed(stepDecision, "TRU-1", 1, "the chain of policies and keys begins with the pinned genesis")
	}
	c.passed(stepDecision, "TRU-2", signed, "each signed by a key that the chain lets in, with the role for it; %d links were accepted before", len(c.before.links))
	if err := c.waives(inForce); err != nil {
		return err
	}
	return c.witnessed(inForce) // which may ask for more
}

// follow goes through the accepted links and the entries of the bundle, in the
// order of the log, and returns how many of the latter are new.
func (c *checking) follow() (signed int, err error) {
	c.chain = verify.NewChain()
	links := c.before.links
	for i := 0; i < len(c.entries) || len(links) > 0; {
		var p *proven
		switch {
		case i == len(c.entries) || len(links) > 0 && links[0].Index < c.entries[i].Index:
			p, links = &links[0], links[1:]
		case len(links) > 0 && links[0].Index == c.entries[i].Index:
			if links[0].hash != c.entries[i].hash {
				return signed, broken(stepDecision, "TRU-3", entryName(links[0].Index), "not the entry that was accepted at this index")
			}
			c.entries[i].entitled = true
			p, links, i = &c.entries[i], links[1:], i+1
		default:
			p, i = &c.entries[i], i+1
		}
		if !p.entitled {
			signed++
		}
		if err := c.right(p); err != nil {
			return signed, err
		}
	}
	return signed, nil
}

// unchecked is a signature that is left to check, and its key.
type unchecked struct {
	*proven
	key entry.PublicKey
}

// signatures checks the entries that rights has left, on all processors. The signatures take most
// of the time of a bundle.
func (c *checking) signatures() error {
	verdicts := make([]error, len(c.unchecked))
	verify.InParallel(len(verdicts), func(i int) {
		u := &c.unchecked[i]
		verdicts[i] = c.root.CheckSignature(u.key, u.PAE(), u.Sig)
		u.SignatureChecked = verdicts[i] == nil
	})
	for i, err := range verdicts {
		if err != nil {
			return c.unchecked[i].refused("TRU-2", err)
		}
	}
	return nil
}

// refused is a rule about the entry that does not hold.
func (p *proven) refused(rule string, cause error) *RuleError {
	return &RuleError{Step: stepDecision, Rule: rule, What: fmt.Sprintf("%s (%s)", entryName(p.Index), p.Kind), Cause: cause}
}

// right judges one entry but for its signature, and takes it up into the chain.
func (c *checking) right(p *proven) error {
	if p.Index == 0 && p.hash != c.root.Genesis {
		return p.refused("TRU-1", fmt.Errorf("leaf hash %s is not the pinned genesis %s", p.hash, c.root.Genesis))
	}
	if !p.entitled {
		signer, err := c.chain.Signer(p.Entry)
		if err != nil {
			return p.refused("TRU-2", err)
		}
		if !p.SignatureChecked { // not when it was read before: the key id is of one key only
			c.unchecked = append(c.unchecked, unchecked{p, signer.Key})
		}
		p.entitled = true
	}
	if p.Index == c.Decision {
		c.then = c.chain.Clone()
	}
	if p.Kind != entry.KindPolicy && p.Kind != entry.KindAgent {
		return nil
	}
	c.used[p.Index] = true
	if err := c.chain.Admit(p.Entry, p.Index); err != nil {
		return p.refused("TRU-2", err)
	}
	c.links = append(c.links, *p)
	c.chain.Apply(p.Entry, p.Index, p.RegisteredAt)
	if policy, ok := p.Body.(*entry.Policy); ok {
		c.policies = append(c.policies, policyAt{p.Index, policy})
	}
	return nil
}

// ledgerKeys follows the policies that name the ledger's keys. The head has a signature of an
// earlier key, and must have a signature of a key that the policies name.
func (c *checking) ledgerKeys() error {
	root := c.root.Follow(c.chain)
	if root.Since == c.root.Since {
		return nil
	}
	heads, err := verify.NewOpener(root)
	if err == nil {
		_, err = heads.Open(c.newest.Note)
	}
	if step, ok := errors.AsType[*verify.StepError](err); ok {
		err = step.Cause
	}
	if err != nil {
		return &RuleError{Step: stepDecision, Rule: "TRU-5", What: "tree head", Cause: err}
	}
	known := *c.before
	known.heads = heads
	c.before, c.root = &known, root
	c.passed(stepDecision, "TRU-5", len(root.LedgerKeys), "the ledger's keys since the policy at %d; one of them and one before it have signed the head", root.Since)
	return nil
}

// audience is that every entry was made for this ledger.
func (c *checking) audience() error {
	for i := range c.entries {
		if p := &c.entries[i]; p.Header.Aud != c.root.Origin {
			return &RuleError{Step: stepDecision, Rule: stepDecision, What: entryName(p.Index),
				Cause: entry.Refuse(entry.WrongAudience, "aud", "%q, want %q", p.Header.Aud, c.root.Origin)}
		}
	}
	c.passed(stepDecision, "aud", len(c.entries), "made for the pinned origin")
	return nil
}

// accept takes head, links and epochs up into the state.
func (c *checking) accept() error {
	next := c.next
	next.Root = c.root
	next.Head, next.Confirmed = c.newest.Note, next.Confirmed || c.quorum
	if len(c.links) > MaxLinks {
		return verify.Malformed(acceptedName, "%d links, the limit is %d", len(c.links), MaxLinks)
	}
	if before := next.Links; len(c.links) > len(before) {
		next.Links = make([]Leaf, 0, len(c.links))
		for i := range c.links {
			link := &c.links[i]
			if len(before) > 0 && before[0].Index == link.Index {
				next.Links, before = append(next.Links, before[0]), before[1:]
				continue
			}
			next.Links = append(next.Links, Leaf{Index: link.Index, Bytes: link.AppendLeaf(nil)})
		}
	}
	next.opened = &known{c.before.heads, c.newest, c.links, slices.Clone(next.Links), c.before.remember(c.entries)}
	for i := range c.entries {
		d, ok := c.entries[i].Body.(*entry.Decision)
		if !ok {
			continue
		}
		if c.void(&c.entries[i]) || c.decision != nil && d.Incident != c.decision.Incident {
			continue // the latter have no place in the bundle
		}
		c.used[c.entries[i].Index] = true
		if err := next.raise(d); err != nil {
			return err
		}
	}
	c.next = next
	return nil
}

// void reports whether a key was revoked as compromised since before it signed
// an entry (TRU-4), as far as is known.
func (c *checking) void(p *proven) bool { return c.chain.Compromised(p.KeyID, p.Index) }

// policyBefore returns the policy in force for an entry at an index.
func (c *checking) policyBefore(index uint64) *entry.Policy {
	var policy *entry.Policy
	for _, p := range c.policies {
		if p.index < index {
			policy = p.Policy
		}
	}
	return policy
}

package entry

import (
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/merkle"
)

// Role is what a key's principal may do. Which kinds a role may sign is fixed
// by the protocol; who may grant it is TRU-2.
type Role string

// The roles. The policy's authority is not a role: its keys stand in the policy.
const (
	RoleAgent       Role = "agent"
	RoleEnroller    Role = "enroller"
	RoleCoordinator Role = "coordinator"
	RoleOperator    Role = "operator"
	RoleApprover    Role = "approver"
	RoleMonitor     Role = "monitor"
	RoleEngine      Role = "engine"
)

// Roles returns all roles.
func Roles() []Role {
	return []Role{RoleAgent, RoleEnroller, RoleCoordinator, RoleOperator, RoleApprover, RoleMonitor, RoleEngine}
}

// Policy is the law of the ledger from its index on: whose keys count, and the
// bounds of what may be decided (TRU-2).
type Policy struct {
	Header
	Authority  []AuthorityKey  `json:"authority"`   // who signs the next policy and grants roles
	Roles      map[Role][]Role `json:"roles"`       // which roles may enrol a plain agent
	Windows    Windows         `json:"windows"`     // how long things may take
	Limits     Limits          `json:"limits"`      // caps on what may be undone or fenced
	Quotas     Quotas          `json:"quotas"`      // entries an issuer may write
	Quorum     Quorum          `json:"quorum"`      // how many principals must agree
	MaxStepMS  int64           `json:"max_step_ms"` // largest step of the wall clock that is believed
	Witnesses  string          `json:"witnesses,omitempty"`
	Index      *IndexPolicy    `json:"index,omitempty"`
	LedgerKeys []string        `json:"ledger_keys,omitempty"` // verifier keys of the ledger from here on
	Recovery   jsontext.Value  `json:"recovery,omitzero"`     // rules of the recovery engine
	Previous   *LogRef         `json:"previous,omitempty"`    // the policy this one replaces; absent in the genesis
	// Predecessor is the ledger whose place this one takes, in the genesis: one that
	// lost entries goes on under a new origin (TRU-5).
	Predecessor *Predecessor `json:"predecessor,omitempty"`
	Rollout     *Promotion   `json:"rollout,omitempty"` // the rollout whose candidate the rules were (ROL-4)
}

// IndexPolicy says what the index of the log (IDX-3) is for.
type IndexPolicy struct {
	// Required says that agents obey only bundles that prove that they leave nothing
	// out (ABS-1 to ABS-4).
	Required bool `json:"required"`
}

// IndexRequired reports whether the policy wants bundles to prove that they leave
// nothing out.
func (p *Policy) IndexRequired() bool { return p != nil && p.Index != nil && p.Index.Required }

// Predecessor is a ledger that goes on under a new origin. It is the word of the new
// one's authority: nothing in the new log follows from it.
type Predecessor struct {
	Origin     string       `json:"origin"`
	LedgerKeys []string     `json:"ledger_keys"`       // verifier keys that its tree heads were signed with
	Genesis    *merkle.Hash `json:"genesis,omitempty"` // leaf hash of its genesis policy; absent: not known
	Head       *merkle.Head `json:"head,omitempty"`    // newest tree head that is known of it; absent: none is
}

func (p *Predecessor) check() error {
	if p == nil {
		return nil
	}
	return first(refuseIf(p.Origin == "", "predecessor.origin", "empty"), checkLen("predecessor.ledger_keys", len(p.LedgerKeys), 1, MaxList))
}

// AuthorityKey is a key that signs policies, and the principal that holds it.
type AuthorityKey struct {
	Principal Principal `json:"principal"`
	Key       PublicKey `json:"key"`
}

// Windows are durations in milliseconds.
type Windows struct {
	DecideMS       int64 `json:"decide_ms"`         // until others may escalate
	AnswerMS       int64 `json:"answer_ms"`         // that approvers have to answer
	MemberMS       int64 `json:"member_ms"`         // that a member has for its undo
	DeadlineMaxMS  int64 `json:"deadline_max_ms"`   // longest deadline of an incident
	CooldownMS     int64 `json:"cooldown_ms"`       // after a dismissed signal
	SinceMaxMS     int64 `json:"since_max_ms"`      // how far back `since` may reach
	BundleMaxAgeMS int64 `json:"bundle_max_age_ms"` // age of a witnessed head in a bundle
	IatMS          int64 `json:"iat_ms"`            // distance of `iat` from the ledger's now
}

// Limits cap what the coordinator does without asking, once for an incident and
// once for what one signaler causes or one victim suffers in a rolling window.
type Limits struct {
	Incident Cap          `json:"incident"`
	Signaler Cap          `json:"signaler"`
	Victim   Cap          `json:"victim"`
	WindowMS int64        `json:"window_ms"`       // of the sums of signalers and victims
	Fence    *FenceLimits `json:"fence,omitempty"` // absent: [DefaultFence]
}

// Cap bounds how far a rollback may reach, and for how long fences may stand.
type Cap struct {
	Members  int64 `json:"members"`
	Agents   int64 `json:"agents"`
	Domains  int64 `json:"domains"`
	FencedMS int64 `json:"fenced_ms"`
}

// FenceLimits bound how far fences may reach while an incident waits for a decision.
// A fence is lifted again, so that it may reach further than a rollback. For how
// long fences may stand is fenced_ms of each [Cap].
type FenceLimits struct {
	Incident Reach `json:"incident"`
	Signaler Reach `json:"signaler"`
	Victim   Reach `json:"victim"`
}

// Reach bounds how far a fence reaches. 0 lets nothing be fenced.
type Reach struct {
	Members int64 `json:"members"`
	Agents  int64 `json:"agents"`
	Domains int64 `json:"domains"`
}

// DefaultFence is how far fences may reach where a policy does not say it.
func DefaultFence() FenceLimits {
	return FenceLimits{
		Incident: Reach{Members: 10_000, Agents: 1_000, Domains: 100},
		Signaler: Reach{Members: 30_000, Agents: 1_000, Domains: 100},
		Victim:   Reach{Members: 30_000, Agents: 1_000, Domains: 100},
	}
}

// Fences returns how far fences may reach.
func (l *Limits) Fences() FenceLimits {
	if l.Fence == nil {
		return DefaultFence()
	}
	return *l.Fence
}

// Quotas bound what one issuer may write in an hour.
type Quotas struct {
	EntriesPerHour int64 `json:"entries_per_hour"` // all kinds; 0 is no limit
	SignalsPerHour int64 `json:"signals_per_hour"` // base of the quota formula
}

// Signals returns the signals an hour of an issuer of whose last verdicts so many
// were confirmed and dismissed (protocol.md, section 8).
func (q Quotas) Signals(confirmed, dismissed int64) int64 {
	return q.SignalsPerHour * (1 + confirmed) / (1 + confirmed + 4*dismissed)
}

// Quorum is how many distinct principals are needed.
type Quorum struct {
	Approve   int64 `json:"approve"`
	Override  int64 `json:"override"`
	Signalers int64 `json:"signalers"`
}

// Kind implements [Body].
func (*Policy) Kind() Kind { return KindPolicy }

func (p *Policy) check() error {
	if err := checkLen("authority", len(p.Authority), 1, MaxList); err != nil {
		return err
	}
	err := first(
		each("authority", p.Authority, func(a *AuthorityKey) error { return checkName("principal", string(a.Principal)) }),
		distinct("authority", p.Authority, "key", func(a *AuthorityKey) string { return a.Key.String() }))
	if err != nil {
		return err
	}
	for _, granted := range slices.Sorted(maps.Keys(p.Roles)) {
		if granted != RoleAgent {
			return malformed("roles", "only the authority grants the role %.60q", string(granted)).
				remedy(`list under "agent" the roles that may enrol plain agents`)
		}
	}
	return first(checkRoles("roles.agent", p.Roles[RoleAgent]), p.Windows.check(), p.Limits.check(),
		checkCount("quotas.entries_per_hour", p.Quotas.EntriesPerHour),
		checkPositive("quotas.signals_per_hour", p.Quotas.SignalsPerHour),
		checkPositive("quorum.approve", p.Quorum.Approve),
		checkPositive("quorum.override", p.Quorum.Override),
		checkPositive("quorum.signalers", p.Quorum.Signalers),
		checkPositive("max_step_ms", p.MaxStepMS),
		checkLen("ledger_keys", len(p.LedgerKeys), 0, MaxList),
		refuseIf(p.Recovery != nil && p.Recovery.Kind() != '{', "recovery", "not an object"), p.Predecessor.check(), p.Rollout.check())
}

func (w *Windows) check() error {
	return first(
		checkPositive("windows.decide_ms", w.DecideMS),
		checkPositive("windows.answer_ms", w.AnswerMS),
		checkPositive("windows.member_ms", w.MemberMS),
		checkPositive("windows.deadline_max_ms", w.DeadlineMaxMS),
		checkPositive("windows.cooldown_ms", w.CooldownMS),
		checkPositive("windows.since_max_ms", w.SinceMaxMS),
		checkPositive("windows.bundle_max_age_ms", w.BundleMaxAgeMS),
		checkPositive("windows.iat_ms", w.IatMS))
}

func (l *Limits) check() error {
	err := first(l.Incident.check("limits.incident"), l.Signaler.check("limits.signaler"),
		l.Victim.check("limits.victim"), checkPositive("limits.window_ms", l.WindowMS))
	if f := l.Fence; err == nil && f != nil {
		err = first(f.Incident.check("limits.fence.incident"), f.Signaler.check("limits.fence.signaler"),
			f.Victim.check("limits.fence.victim"))
	}
	return err
}

func (r *Reach) check(field string) error {
	return first(checkCount(field+".members", r.Members), checkCount(field+".agents", r.Agents), checkCount(field+".domains", r.Domains))
}

func (c *Cap) check(field string) error {
	return first(checkCount(field+".members", c.Members), checkCount(field+".agents", c.Agents),
		checkCount(field+".domains", c.Domains), checkCount(field+".fenced_ms", c.FencedMS))
}

func checkRoles(field string, roles []Role) error {
	return first(
		each(field, roles, func(role *Role) error { return checkOneOf("", *role, Roles()...) }),
		distinct(field, roles, "", func(role *Role) Role { return *role }))
}

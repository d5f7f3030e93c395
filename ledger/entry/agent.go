package entry

// Span is how far an agent's checkpoints reach back: over one workflow, or over all workflows of
// the agent at once. The span of an agent never changes (SCO-2).
type Span string

// The spans of a checkpoint.
const (
	SpanWorkflow Span = "workflow"
	SpanAgent    Span = "agent"
)

// AgentOp is the operation of an agent entry on a key of a principal.
type AgentOp string

// The operations on a key.
const (
	Enrol  AgentOp = "enrol"  // the key counts from here on
	Rotate AgentOp = "rotate" // the key replaces all others of the principal
	Revoke AgentOp = "revoke" // the key no longer counts
)

// Agent enrols, rotates or revokes a key of a principal (TRU-2, TRU-4).
type Agent struct {
	Header
	Principal        Principal    `json:"principal"`
	Op               AgentOp      `json:"op"`
	Key              PublicKey    `json:"key"`
	Roles            []Role       `json:"roles"`
	Domain           string       `json:"domain"` // who answers for the principal: a team, a company
	Span             Span         `json:"span"`
	CompromisedSince *Compromised `json:"compromised_since,omitempty"` // only with revoke
	Capabilities     []string     `json:"capabilities,omitempty"`
}

// Compromised is the index from which on a revoked key is not trusted.
type Compromised struct {
	Index uint64 `json:"index"`
}

// Kind implements [Body].
func (*Agent) Kind() Kind { return KindAgent }

func (a *Agent) check() error {
	return first(
		checkName("principal", string(a.Principal)),
		checkOneOf("op", a.Op, Enrol, Rotate, Revoke),
		refuseIf(a.Key.IsZero(), "key", "missing"),
		checkLen("roles", len(a.Roles), 1, len(Roles())),
		checkRoles("roles", a.Roles),
		checkName("domain", a.Domain),
		checkOneOf("span", a.Span, SpanWorkflow, SpanAgent),
		refuseIf(a.CompromisedSince != nil && a.Op != Revoke, "compromised_since", "only a revocation may carry it"),
		checkLen("capabilities", len(a.Capabilities), 0, MaxList),
		each("capabilities", a.Capabilities, func(capability *string) error { return checkWord("", *capability) }))
}

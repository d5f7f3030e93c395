package entry

// Dep is the strength of an execution's dependency on a parent.
type Dep string

// The dependencies. Damage spreads to the child over a hard dependency (SCO-1). A soft dependency
// asks for a review of the child.
const (
	Hard Dep = "hard"
	Soft Dep = "soft"
)

// Effect is the effect of an execution outside the log, declared before the execution acts.
type Effect string

// The effects. Automatic decisions treat an undeclared effect as irrevocable (EXE-3).
const (
	EffectNone        Effect = "none"
	EffectReversible  Effect = "reversible"
	EffectCompensable Effect = "compensable"
	EffectIrrevocable Effect = "irrevocable"
	EffectUndeclared  Effect = "undeclared"
)

// Progress is how far an execution has come. It only advances (EXE-1).
type Progress string

// The steps of progress; the last three are final.
const (
	Planned   Progress = "planned"
	Started   Progress = "started"
	Confirmed Progress = "confirmed"
	Failed    Progress = "failed"
	Cancelled Progress = "cancelled"
)

// Final reports whether no further progress is possible.
func (p Progress) Final() bool { return p == Confirmed || p == Failed || p == Cancelled }

// Execution is one step of an agent: a tool call, a model call or a compensation. Its first entry
// declares parents and effect. Later entries only advance the progress.
type Execution struct {
	Header
	Exec           string       `json:"exec"` // local id
	Parents        []Parent     `json:"parents"`
	Effect         Effect       `json:"effect"`
	Progress       Progress     `json:"progress"`
	IdempotencyKey Digest       `json:"idempotency_key,omitempty"` // digest; compensable, irrevocable, undeclared
	Task           Ref          `json:"task,omitempty"`
	Checkpoint     Ref          `json:"checkpoint,omitempty"` // from which it started
	Comp           Digest       `json:"comp,omitempty"`       // digest of the compensation handle
	Compensates    *Compensates `json:"compensates,omitempty"`
	InpHash        Digest       `json:"inp_hash,omitempty"`
	OutHash        Digest       `json:"out_hash,omitempty"`
	CostMicroUSD   *int64       `json:"cost_micro_usd,omitempty"`
	LatencyMS      *int64       `json:"latency_ms,omitempty"`
}

// Parent is a dependency on an execution whose first entry is already in the log.
type Parent struct {
	Exec Ref `json:"exec"`
	Dep  Dep `json:"dep"`
}

// Compensates names the incident and the member that a compensation undoes.
type Compensates struct {
	Incident uint64 `json:"incident"`
	Decision LogRef `json:"decision"`
	Exec     Ref    `json:"exec"`
}

// Kind implements [Body].
func (*Execution) Kind() Kind { return KindExecution }

// Ref returns the reference to the execution.
func (x *Execution) Ref() Ref { return NewRef(x.Iss, x.Exec) }

func (x *Execution) check() error {
	err := first(
		checkName("exec", x.Exec),
		checkLen("parents", len(x.Parents), 0, MaxParents),
		checkOneOf("effect", x.Effect, EffectNone, EffectReversible, EffectCompensable, EffectIrrevocable, EffectUndeclared),
		checkOneOf("progress", x.Progress, Planned, Started, Confirmed, Failed, Cancelled),
		x.checkIdempotencyKey(),
		optional("task", x.Task, checkRef),
		optional("checkpoint", x.Checkpoint, checkRef),
		optional("comp", x.Comp, checkDigest),
		optional("inp_hash", x.InpHash, checkDigest),
		optional("out_hash", x.OutHash, checkDigest),
		checkOptionalCount("cost_micro_usd", x.CostMicroUSD),
		checkOptionalCount("latency_ms", x.LatencyMS),
		x.checkParents())
	if err == nil && x.Compensates != nil {
		return first(checkRef("compensates.exec", x.Compensates.Exec),
			refuseIf(len(x.Parents) > 0, "parents", "a compensation has none"))
	}
	return err
}

func (x *Execution) checkIdempotencyKey() error {
	needed := x.Effect == EffectCompensable || x.Effect == EffectIrrevocable || x.Effect == EffectUndeclared
	if needed && x.IdempotencyKey == "" {
		return malformed("idempotency_key", "missing: the effect is %s", x.Effect)
	}
	return optional("idempotency_key", x.IdempotencyKey, checkDigest)
}

func (x *Execution) checkParents() error {
	return first(
		each("parents", x.Parents, func(p *Parent) error {
			return first(checkRef("exec", p.Exec), checkOneOf("dep", p.Dep, Hard, Soft))
		}),
		distinct("parents", x.Parents, "exec", func(p *Parent) Ref { return p.Exec }))
}

// Checkpoint is a restore point of an agent: the state after an execution of the agent's line, or
// before all executions of the line.
type Checkpoint struct {
	Header
	Checkpoint string `json:"checkpoint"`          // local id
	After      *Ref   `json:"after"`               // last execution covered; null: none
	Digest     Digest `json:"digest"`              // of the state
	ExpiresAt  int64  `json:"expires_at,omitzero"` // Unix milliseconds; 0: never
	Loc        string `json:"loc,omitempty"`       // where the state lies; never fetched
}

// Kind implements [Body].
func (*Checkpoint) Kind() Kind { return KindCheckpoint }

func (c *Checkpoint) check() error {
	err := first(
		checkName("checkpoint", c.Checkpoint),
		checkDigest("digest", c.Digest),
		checkCount("expires_at", c.ExpiresAt),
		refuseIf(len(c.Loc) > maxURI, "loc", "%d bytes, the limit is %d", len(c.Loc), maxURI))
	if err == nil && c.After != nil {
		return checkRef("after", *c.After)
	}
	return err
}

func checkOptionalCount(field string, n *int64) error {
	if n == nil {
		return nil
	}
	return checkCount(field, *n)
}

// checkWithin checks an optional number against its bounds.
func checkWithin(field string, n *int64, least, most int64) error {
	return refuseIf(n != nil && (*n < least || *n > most), field, "%d, want %d to %d", valueOf(n), least, most)
}

func valueOf(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

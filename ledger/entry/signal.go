package entry

// Standing is the reason why a signaler may report a failure of a subject.
type Standing string

// The standings. The first three need a declared edge or the execution itself. The last two are
// roles.
const (
	StandingExecutor   Standing = "executor"
	StandingUpstream   Standing = "upstream"
	StandingDownstream Standing = "downstream"
	StandingMonitor    Standing = "monitor"
	StandingOperator   Standing = "operator"
)

// Effects is the knowledge about the effects of a failed attempt.
type Effects string

// What a failure may have left behind.
const (
	EffectsNone     Effects = "none"
	EffectsPartial  Effects = "partial"
	EffectsComplete Effects = "complete"
	EffectsUnknown  Effects = "unknown"
)

// ReplaySafety says whether a second attempt is safe.
type ReplaySafety string

// The answers to whether a replay is safe.
const (
	ReplaySafe    ReplaySafety = "safe"
	ReplayUnsafe  ReplaySafety = "unsafe"
	ReplayUnknown ReplaySafety = "unknown"
)

// Severity orders signals for people.
type Severity string

// The severities.
const (
	SeverityInfo     Severity = "info"
	SeverityWarning  Severity = "warning"
	SeverityError    Severity = "error"
	SeverityCritical Severity = "critical"
)

// Signal reports a failure of an execution or a task.
type Signal struct {
	Header
	Subject       Ref          `json:"subject"` // execution or task
	Class         string       `json:"class"`   // of the failure taxonomy; unknown ones are accepted (SIG-2)
	Code          string       `json:"code"`
	Standing      Standing     `json:"standing"`
	Effects       Effects      `json:"effects"`
	ReplaySafety  ReplaySafety `json:"replay_safety"`
	ObservedAt    int64        `json:"observed_at"`
	Since         Ref          `json:"since,omitempty"` // first execution that is in doubt
	LastKnownGood Ref          `json:"last_known_good,omitempty"`
	Evidence      []Evidence   `json:"evidence,omitempty"`
	RetryAfterMS  *int64       `json:"retry_after_ms,omitempty"`
	Severity      Severity     `json:"severity,omitempty"`
	Attempt       *int64       `json:"attempt,omitempty"`
	Supersedes    *LogRef      `json:"supersedes,omitempty"`
	Detail        string       `json:"detail,omitempty"` // redacted, untrusted
}

// Kind implements [Body].
func (*Signal) Kind() Kind { return KindSignal }

func (s *Signal) check() error {
	return first(
		checkRef("subject", s.Subject),
		checkWord("class", s.Class),
		checkWord("code", s.Code),
		checkOneOf("standing", s.Standing, StandingExecutor, StandingUpstream, StandingDownstream, StandingMonitor, StandingOperator),
		checkOneOf("effects", s.Effects, EffectsNone, EffectsPartial, EffectsComplete, EffectsUnknown),
		checkOneOf("replay_safety", s.ReplaySafety, ReplaySafe, ReplayUnsafe, ReplayUnknown),
		checkPositive("observed_at", s.ObservedAt),
		optional("since", s.Since, checkRef),
		optional("last_known_good", s.LastKnownGood, checkRef),
		checkEvidence(s.Evidence),
		checkOptionalCount("retry_after_ms", s.RetryAfterMS),
		optional("severity", s.Severity, checkSeverity),
		checkOptionalCount("attempt", s.Attempt),
		checkText("detail", s.Detail))
}

// Effective returns the class and code of the signal on which a reader must act (SIG-2).
func (s *Signal) Effective() (class, code string) {
	return Effective(s.Class, s.Code, len(s.Evidence) > 0)
}

func checkSeverity(field string, s Severity) error {
	return checkOneOf(field, s, SeverityInfo, SeverityWarning, SeverityError, SeverityCritical)
}

// StandingOf returns the standing of an issuer about which nothing more is known: executor for the
// agent's own executions, monitor for all others.
func StandingOf(issuer Principal, subject Ref) Standing {
	if owner, _ := subject.Split(); owner == issuer {
		return StandingExecutor
	}
	return StandingMonitor
}

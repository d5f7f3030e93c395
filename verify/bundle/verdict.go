package bundle

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// Verdict is the result of [Bundle.Check].
type Verdict struct {
	// Next is the state to store before any other action. If head, chain and signatures hold, it
	// has their news, for example a revocation, even if the decision is refused. Otherwise it is
	// the state before.
	Next Accepted
	// Confirmed says that the head was shown by more than the ledger alone, by a
	// witness quorum or a second source. If not, this is the first contact:
	// nothing is to be undone until [Accepted.Confirm].
	Confirmed bool
	// Entries are those of the bundle, in its order, once they are proven to stand
	// in the log of its head, also if the decision is refused. That is less than
	// that their issuers signed them.
	Entries []entry.Registered

	// Of a bundle with a decision:
	Incident   uint64
	Decision   entry.LogRef
	Act        entry.Act
	Epoch      int64
	ExpiresAt  int64 // Unix milliseconds: no member is started from then on
	DeadlineAt int64 // Unix milliseconds
	// Whole says that the bundle proves that it leaves nothing out (ABS-1 to ABS-4).
	Whole    bool
	Commands []Command

	Checked    []Passed
	NotChecked []string
	Warnings   []string
}

// RequireWhole refuses a verdict on a decision whose bundle does not prove that it leaves
// nothing out, for whoever wants that whatever the policy says. The error is a [*RuleError].
func (v *Verdict) RequireWhole() error {
	if v.Decision.Index == 0 || v.Whole {
		return nil
	}
	return broken(stepDecision, ruleTail, "index", "%w: a proof that nothing is left out is wanted", ErrMissing)
}

// Command tells the agent how to undo a member.
type Command struct {
	entry.Member
	Effect entry.Effect // as the agent declared it
	Wid    entry.WorkflowID
	// Line is the workflow of the member's line, empty where that goes through all
	// workflows of the agent (SCO-2).
	Line   entry.WorkflowID
	Digest entry.Digest // with restore: of the state to go back to
	Chain  []ChainStep  // from the seed to this member
	// Standing are, with a restore that is released, the members of the line
	// whose effects stand (AGT-5): the agent loads them before it works on.
	// Ascending by index.
	Standing []entry.Ref
	// Released says that no shown member comes first. Otherwise Waits has the members that come
	// first.
	Released bool
	Waits    []entry.Ref
	// Result is the member's outcome in the log, at Outcome, if it has one: it
	// is not to be started (AGT-4). What an override withheld has that entry.
	Result  entry.Result
	Outcome uint64
	// Refused says why the member is to be answered `refused` and nothing done.
	// If it is [ErrMissing], another bundle may be complete: ask again first.
	Refused *RuleError
}

// String returns a line such as "worker#draft: restore to worker#c0, released (SCO-3: entry
// 12 from 25)".
func (c *Command) String() string {
	text := fmt.Sprintf("%s: %s", c.Exec, c.Method)
	if c.Checkpoint != "" {
		text += " to " + string(c.Checkpoint)
	}
	switch {
	case c.Refused != nil:
		return text + ", REFUSED: " + c.Refused.Error()
	case c.Result != "":
		text += ", has the outcome " + string(c.Result)
	case c.Released:
		text += ", released"
	default:
		text += ", waits for " + joinRefs(c.Waits)
	}
	if len(c.Standing) > 0 {
		text += "; what stands: " + joinRefs(c.Standing)
	}
	var chain []string
	for _, step := range c.Chain {
		chain = append(chain, step.String())
	}
	return text + " (" + strings.Join(chain, ", ") + ")"
}

func joinRefs(refs []entry.Ref) string {
	var texts []string
	for _, ref := range refs {
		texts = append(texts, string(ref))
	}
	return strings.Join(texts, ", ")
}

// Summary returns the verdict in a few words. err is the error of [Bundle.Check].
func (v *Verdict) Summary(err error) string {
	refused := v.refused()
	switch {
	case len(refused) > 0:
		return fmt.Sprintf("%d OF %d MEMBERS REFUSED", len(refused), len(v.Commands))
	case err != nil:
		return "REFUSED"
	}
	return string(verify.Verified)
}

// CheckMembers returns a [*MembersError] if members are refused.
func (v *Verdict) CheckMembers() error {
	refused := v.refused()
	if len(refused) == 0 {
		return nil
	}
	return &MembersError{Refused: refused, Members: len(v.Commands)}
}

func (v *Verdict) refused() (refused []*Command) {
	for i := range v.Commands {
		if v.Commands[i].Refused != nil {
			refused = append(refused, &v.Commands[i])
		}
	}
	return refused
}

// MembersError reports that a bundle holds, but not for every member.
type MembersError struct {
	Refused []*Command // at least one
	Members int        // how many members of the agent the bundle has
}

// Error names the first refused member and says what happens to the others. Where evidence
// is missing, another bundle may have it.
func (e *MembersError) Error() string {
	then := "the agent answers them `refused`, and undoes the others"
	if slices.ContainsFunc(e.Refused, func(c *Command) bool { return errors.Is(c.Refused, ErrMissing) }) {
		then = "evidence is missing: fetch the bundle again, or elsewhere"
	}
	return fmt.Sprintf("%d of %d members refused, first %s: %v (%s)", len(e.Refused), e.Members, e.Refused[0].Exec, e.Refused[0].Refused, then)
}

// Unwrap returns the rule that the first refused member breaks.
func (e *MembersError) Unwrap() error { return e.Refused[0].Refused }

// ErrMissing reports evidence that a bundle should hold and does not.
var ErrMissing = errors.New("missing in the bundle")

// Passed is a rule that held.
type Passed struct {
	Step   string `json:"step"` // AGT-1, AGT-2 or AGT-3
	Rule   string `json:"rule"`
	Count  int    `json:"count"` // number of checked heads, entries or members
	Detail string `json:"detail"`
}

// String returns a line such as "AGT-2 INC-5 (2): distinct approvers …".
func (p Passed) String() string {
	return fmt.Sprintf("%s (%d): %s", ruleName(p.Step, p.Rule), p.Count, p.Detail)
}

// RuleError reports the rule of the protocol that a bundle, or a member in it,
// breaks.
type RuleError struct {
	Step  string // AGT-1, AGT-2 or AGT-3
	Rule  string // the one that failed; the step itself if it has no other name
	What  string // such as "entry 31"
	Cause error
	// Heads are two signed heads that no proof reconciles. They convict the ledger if Cause is a
	// [*verify.ForkError]. Otherwise the proof failed, which nobody signs: whoever carried the
	// bundle may have altered the proof.
	Heads []string
	// Proven says that the signed rollback set and entries of the log refuse the member, whoever
	// carried the bundle. Otherwise the bundle may lack an entry, or its steps, which nobody
	// signs, may have been altered on the way.
	Proven bool
}

// Error implements error. Whoever reads it has had something verified, and it
// begins as the errors of recoveryledger/verify do.
func (e *RuleError) Error() string {
	return fmt.Sprintf("verify: %s: %s: %v", ruleName(e.Step, e.Rule), e.What, e.Cause)
}

// Unwrap returns the cause.
func (e *RuleError) Unwrap() error { return e.Cause }

func ruleName(step, rule string) string {
	if step == rule {
		return step
	}
	return step + " " + rule
}

// The steps of [Bundle.Check].
const (
	stepHead     = "AGT-1"
	stepDecision = "AGT-2"
	stepMembers  = "AGT-3"
)

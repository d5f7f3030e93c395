package entry

import "github.com/go-json-experiment/json/jsontext"

// RolloutOp is what a rollout entry does.
type RolloutOp string

// The operations of a rollout. A promotion is none of them: it is a policy entry, see [Promotion].
const (
	RolloutStart   RolloutOp = "start"   // begins a rollout
	RolloutAdvance RolloutOp = "advance" // changes stage or share
	RolloutWaive   RolloutOp = "waive"   // an approver promotes without a report
	RolloutAbort   RolloutOp = "abort"   // ends a rollout: the baseline decides again
)

// RolloutOps returns all operations.
func RolloutOps() []RolloutOp {
	return []RolloutOp{RolloutStart, RolloutAdvance, RolloutWaive, RolloutAbort}
}

// Stage is how far the candidate of a rollout decides.
type Stage string

// The stages. A candidate that decides every case is the policy in force, and no stage.
const (
	StageShadow Stage = "shadow" // it decides beside the baseline, and nothing is done
	StageCanary Stage = "canary" // it decides its share of the cases
)

// ShareMax bounds the share of a canary in ‰: the candidate decides no more cases than the
// baseline, which the policy's authority signed.
const ShareMax = 500

// Gate is what arms are compared in.
type Gate string

// The gates of a rollout.
const (
	GateRecovered Gate = "recovered" // cases that recovered
	GateUnsafe    Gate = "unsafe"    // recoveries of cases that the rules leave to people
	GateEscalated Gate = "escalated" // cases that a person has to decide
	GateCost      Gate = "cost"      // cost of a case
	GateLatency   Gate = "latency"   // time of a case
	GateDeadline  Gate = "deadline"  // the rollout's own deadline; each rollout has it, and none lists it
)

// RolloutGates returns the gates that a rollout may list.
func RolloutGates() []Gate {
	return []Gate{GateRecovered, GateUnsafe, GateEscalated, GateCost, GateLatency}
}

// Rollout moves the rollout of a candidate policy (ROL-1 to ROL-6).
type Rollout struct {
	Header
	Rollout       string        `json:"rollout"` // its id in the ledger
	Op            RolloutOp     `json:"op"`
	Reason        string        `json:"reason"`
	Start         *RolloutTerms `json:"start,omitempty"`         // with start
	Stage         Stage         `json:"stage,omitempty"`         // with start and advance
	SharePermille int64         `json:"share_permille,omitzero"` // of a canary, in ‰; of a shadow absent
	Gate          Gate          `json:"gate,omitempty"`          // of an abort: the gate that fell
}

// RolloutTerms are what a rollout begins with, and never changes.
type RolloutTerms struct {
	CandidateDigest Digest         `json:"candidate_digest"` // of Candidate in RFC 8785 form
	BaselineDigest  Digest         `json:"baseline_digest"`  // of the rules in force
	Candidate       jsontext.Value `json:"candidate"`        // rules of recovery, as in a policy
	Salt            string         `json:"salt"`             // of the draw of arms
	Gates           []Gate         `json:"gates"`
	TolerancePPM    int64          `json:"tolerance_ppm"` // of cost and latency
	CasesMin        int64          `json:"cases_min"`     // pairs of cases below which no gate falls but unsafe
	DeadlineAt      int64          `json:"deadline_at"`   // Unix milliseconds; then the rollout is aborted
}

// Promotion stands in the policy entry whose rules of recovery were the candidate of a rollout. It
// ends the rollout.
type Promotion struct {
	Rollout string `json:"rollout"`
	Report  Digest `json:"report,omitempty"` // of a closed run that says promote; absent: a quorum waived report and canary
}

// Kind implements [Body].
func (*Rollout) Kind() Kind { return KindRollout }

func (r *Rollout) check() error {
	staged := r.Op == RolloutStart || r.Op == RolloutAdvance
	err := first(checkName("rollout", r.Rollout), checkOneOf("op", r.Op, RolloutOps()...), checkReason(r.Reason),
		refuseIf((r.Start != nil) != (r.Op == RolloutStart), "start", "it stands with op start, and with no other"),
		refuseIf((r.Stage != "") != staged, "stage", "it stands with op start and advance, and with no other"),
		optional("stage", string(r.Stage), func(field, stage string) error {
			return checkOneOf(field, Stage(stage), StageShadow, StageCanary)
		}),
		r.checkShare(),
		refuseIf(r.Gate != "" && r.Op != RolloutAbort, "gate", "only an abort names a gate"),
		optional("gate", string(r.Gate), func(field, gate string) error {
			return checkOneOf(field, Gate(gate), append(RolloutGates(), GateDeadline)...)
		}))
	if err != nil || r.Start == nil {
		return err
	}
	return inside("start", r.Start.check())
}

func (r *Rollout) checkShare() error {
	if r.Stage != StageCanary {
		return refuseIf(r.SharePermille != 0, "share_permille", "it stands with stage canary, and with no other")
	}
	if r.SharePermille > ShareMax {
		return malformed("share_permille", "%d, want 1 to %d", r.SharePermille, ShareMax).
			remedy("promote a candidate that is to decide more cases than the baseline")
	}
	return refuseIf(r.SharePermille < 1, "share_permille", "%d, want 1 to %d", r.SharePermille, ShareMax)
}

func (t *RolloutTerms) check() error {
	return first(checkDigest("candidate_digest", t.CandidateDigest), checkDigest("baseline_digest", t.BaselineDigest),
		refuseIf(t.Candidate.Kind() != '{', "candidate", "not an object"), checkName("salt", t.Salt),
		checkLen("gates", len(t.Gates), 1, len(RolloutGates())),
		each("gates", t.Gates, func(g *Gate) error { return checkOneOf("", *g, RolloutGates()...) }),
		distinct("gates", t.Gates, "", func(g *Gate) Gate { return *g }),
		checkCount("tolerance_ppm", t.TolerancePPM), checkPositive("cases_min", t.CasesMin), checkPositive("deadline_at", t.DeadlineAt))
}

func (p *Promotion) check() error {
	if p == nil {
		return nil
	}
	return first(checkName("rollout.rollout", p.Rollout), optional("rollout.report", string(p.Report), checkDigestText))
}

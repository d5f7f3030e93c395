// Package rollout is the part of the fold that rolls a candidate policy out: which rollout is under
// way, which arm decides a case, and how a rollout may move (ROL-1 to ROL-6). The state follows
// from the log alone. Package coord checks signatures and roles, and calls this package for the
// rest.
package rollout

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// How a rollout ended, in [api.EndedRollout].
const (
	Promoted = "promoted"
	Aborted  = "aborted"
)

// Fold is the state of rollouts, as of the last applied entry. The zero value is that of the empty
// log. It is not safe for concurrent use.
type Fold struct {
	current *Rollout
	ended   []api.EndedRollout
	reports []report
}

// Rollout is a rollout under way. Do not change it.
type Rollout struct {
	Name          string
	Wid           entry.WorkflowID
	Terms         entry.RolloutTerms
	Stage         entry.Stage
	SharePermille int64             // of a canary; 0 in a shadow
	Started       uint64            // index of the entry that began it
	StartedAt     int64             // Unix milliseconds
	Moved         uint64            // index of its newest entry
	By            entry.Principal   // who began it
	Waivers       []entry.Principal // approvers who promote without a report, in the order of the log
	Evidence      Evidence

	seen  seen     // cases that count in Evidence
	open  Open     // cases under way
	never []string // classes whose cases must not recover by themselves; from Terms
}

// report is the newest report of a closed run that compares two policies.
type report struct {
	policy, baseline, digest entry.Digest
	promotes                 bool
}

// Law is what the policy in force says.
type Law struct {
	Recovery jsontext.Value // its rules of recovery; nil: the built-in rules
	Approve  int64          // quorum.approve
}

// LawOf returns what a policy says; nil: the log is empty, and nothing is said.
func LawOf(p *entry.Policy) Law {
	if p == nil {
		return Law{}
	}
	return Law{Recovery: p.Recovery, Approve: p.Quorum.Approve}
}

// Current returns the rollout that is under way, or nil.
func (f *Fold) Current() *Rollout { return f.current }

// History returns the rollouts that ended, the oldest first.
func (f *Fold) History() []api.EndedRollout { return f.ended }

// Begun returns the index of the entry that began a rollout. ok is false if none has the name: each
// rollout has one of its own (ROL-1).
func (f *Fold) Begun(name string) (index uint64, ok bool) {
	if f.underWay(name) {
		return f.current.Started, true
	}
	i := slices.IndexFunc(f.ended, func(e api.EndedRollout) bool { return e.Rollout == name })
	if i < 0 {
		return 0, false
	}
	return f.ended[i].Started, true
}

// Draw returns the place of a case below a thousand: SHA-256(salt ‖ case), its first 64 bits as a
// share of 2^64 (ROL-5).
func Draw(salt, id string) int64 {
	sum := sha256.Sum256([]byte(salt + id))
	place, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:]), 1000)
	return int64(place)
}

// Decides reports whether the candidate decides a case, from the last applied entry on. Without a
// canary it decides none (ROL-5).
func (f *Fold) Decides(id string) bool {
	r := f.current
	return r != nil && r.Stage == entry.StageCanary && Draw(r.Terms.Salt, id) < r.SharePermille
}

// DigestOf returns the digest of rules of recovery: SHA-256 over their RFC 8785 form. Rules that
// have no such form have no digest.
func DigestOf(rules jsontext.Value) entry.Digest {
	canonical := slices.Clone(rules)
	if err := canonical.Canonicalize(); err != nil {
		return ""
	}
	return entry.DigestOf(canonical)
}

// BaselineOf returns the digest of the rules in force, which are the baseline of a rollout that
// begins. ok is false if the policy in force has no rules: then no rollout may begin (ROL-2).
func BaselineOf(inForce jsontext.Value) (digest entry.Digest, ok bool) {
	if inForce == nil {
		return "", false
	}
	return DigestOf(inForce), true
}

// thresholds returns the gates of rules in RFC 8785 form; nil if there are none.
func thresholds(rules jsontext.Value) jsontext.Value {
	var of struct {
		Thresholds jsontext.Value `json:"thresholds"`
	}
	if json.Unmarshal(rules, &of) != nil || of.Thresholds == nil || of.Thresholds.Canonicalize() != nil {
		return nil
	}
	return of.Thresholds
}

// notUnderWay refuses a step of a rollout that ended, or that nobody began.
func notUnderWay(name string) *entry.Refusal {
	return entry.Refuse(entry.StateConflict, "rollout", "%s is not under way (ROL-1)", name).
		WithRemedy("arl rollout status shows which rollout is, arl rollout history which ended")
}

// Admit checks a rollout entry at an instant (Unix milliseconds) against the state, which it leaves
// as it is. The error is a [*entry.Refusal].
func (f *Fold) Admit(r *entry.Rollout, roles []entry.Role, law Law, at int64) error {
	if r.Op == entry.RolloutStart {
		return f.admitStart(r, law, at)
	}
	now := f.current
	if now == nil || now.Name != r.Rollout {
		return notUnderWay(r.Rollout)
	}
	if r.Wid != now.Wid {
		return entry.Refuse(entry.StateConflict, "wid", "%s, and the rollout began in workflow %s (ROL-1)", r.Wid, now.Wid)
	}
	switch r.Op {
	case entry.RolloutAdvance:
		return now.admitAdvance(r)
	case entry.RolloutWaive:
		return now.admitWaiver(r)
	}
	return now.admitAbort(r, roles, at)
}

func (f *Fold) admitStart(r *entry.Rollout, law Law, at int64) error {
	refuse := func(field, format string, args ...any) *entry.Refusal {
		return entry.Refuse(entry.StateConflict, field, format, args...)
	}
	terms := r.Start
	baseline, ruled := BaselineOf(law.Recovery)
	switch {
	case f.current != nil:
		return refuse("rollout", "rollout %s is under way, and there is one at a time (ROL-1)", f.current.Name).
			WithRemedy("promote or abort it first")
	case slices.ContainsFunc(f.ended, func(e api.EndedRollout) bool { return e.Rollout == r.Rollout }):
		return refuse("rollout", "%s was a rollout before (ROL-1)", r.Rollout).WithRemedy("give each rollout an id of its own")
	case !ruled:
		return refuse("start.baseline_digest", "the policy in force has no rules of recovery, so that the built-in rules of each program decide (ROL-2)").
			WithRemedy("put the rules into the policy first: arl policy show --default, then arl policy apply")
	case terms.BaselineDigest != baseline:
		return refuse("start.baseline_digest", "%s, and the rules in force have the digest %s (ROL-2)", terms.BaselineDigest, baseline).
			WithRemedy("begin again: the policy has changed meanwhile")
	case terms.CandidateDigest != DigestOf(terms.Candidate):
		return refuse("start.candidate_digest", "the candidate has another digest (ROL-2)").WithRemedy("name the digest that arl policy hash prints")
	case terms.CandidateDigest == terms.BaselineDigest:
		return refuse("start.candidate_digest", "the candidate is the baseline (ROL-2)").WithRemedy("name a candidate that differs")
	case !bytes.Equal(thresholds(terms.Candidate), thresholds(law.Recovery)):
		return refuse("start.candidate", "its thresholds differ from those of the rules in force: a candidate does not set the gates that it has to pass (ROL-3)").
			WithRemedy("keep the thresholds in the candidate, and change them in a policy of their own")
	case terms.DeadlineAt <= at:
		return refuse("start.deadline_at", "%d is over (ROL-2)", terms.DeadlineAt)
	}
	return nil
}

func (r *Rollout) admitAdvance(to *entry.Rollout) error {
	switch {
	case to.Stage == entry.StageShadow && r.Stage == entry.StageCanary:
		return entry.Refuse(entry.StateConflict, "stage", "a canary does not become a shadow again (ROL-1)").WithRemedy("abort the rollout, and begin another")
	case to.Stage == r.Stage && to.SharePermille <= r.SharePermille:
		return entry.Refuse(entry.StateConflict, "share_permille", "the share is %d ‰ already, and only grows (ROL-1)", r.SharePermille).
			WithRemedy("abort the rollout, and begin another")
	}
	return nil
}

func (r *Rollout) admitWaiver(w *entry.Rollout) error {
	switch {
	case w.Iss == r.By:
		return entry.Refuse(entry.StateConflict, "iss", "%s began the rollout (ROL-4)", w.Iss).WithRemedy("let another approver waive the report")
	case slices.Contains(r.Waivers, w.Iss):
		return entry.Refuse(entry.StateConflict, "iss", "%s has waived the report already (ROL-4)", w.Iss)
	}
	return nil
}

func (r *Rollout) admitAbort(a *entry.Rollout, roles []entry.Role, at int64) error {
	person := slices.Contains(roles, entry.RoleOperator) || slices.Contains(roles, entry.RoleApprover)
	switch {
	case a.Gate == "" && !person:
		return entry.Refuse(entry.StateConflict, "gate", "a coordinator aborts for a gate that fell, and names it (ROL-6)")
	case a.Gate != "" && a.Gate != r.fallen(at):
		return entry.Refuse(entry.StateConflict, "gate", "%s has not fallen (ROL-6)", a.Gate).WithRemedy("name no gate")
	}
	return nil
}

// fallen returns the gate that has fallen at an instant; empty: none has.
func (r *Rollout) fallen(at int64) entry.Gate {
	if r.Evidence.Fell != "" {
		return r.Evidence.Fell
	}
	if at >= r.Terms.DeadlineAt {
		return entry.GateDeadline
	}
	return ""
}

// AdmitPolicy checks a policy entry against the rollout under way (ROL-4). law is the policy that
// it replaces. The error is a [*entry.Refusal].
func (f *Fold) AdmitPolicy(p *entry.Policy, law Law) error {
	now := f.current
	switch {
	case p.Rollout != nil && (now == nil || p.Rollout.Rollout != now.Name):
		return notUnderWay(p.Rollout.Rollout)
	case now == nil:
		return nil
	case p.Rollout == nil && DigestOf(p.Recovery) == DigestOf(law.Recovery):
		return nil // the rules stay
	case p.Rollout == nil:
		return entry.Refuse(entry.StateConflict, "recovery", "rollout %s is under way, and the rules stay until it ends (ROL-4)", now.Name).
			WithRemedy("promote or abort the rollout first")
	case DigestOf(p.Recovery) != now.Terms.CandidateDigest:
		return entry.Refuse(entry.StateConflict, "recovery", "not the candidate %s (ROL-4)", now.Terms.CandidateDigest).
			WithRemedy("promote exactly what the rollout began with")
	}
	var lacks []*entry.Refusal
	if p.Rollout.Report == "" {
		lacks = now.lacksWaivers(law)
	} else {
		lacks = f.lacksReport(p.Rollout.Report)
	}
	if len(lacks) > 0 {
		return lacks[0]
	}
	return nil
}

// Promotion returns what a policy that promotes a rollout names: the newest report, or no report if
// approvers waived report and canary (ROL-4). law is the policy in force. If [Fold.AdmitPolicy]
// takes neither, there is no promotion, and lacks is all that is against both.
func (f *Fold) Promotion(name string, law Law) (p *entry.Promotion, lacks []*entry.Refusal) {
	if f.current == nil || f.current.Name != name {
		return nil, []*entry.Refusal{notUnderWay(name)}
	}
	newest, _ := f.report()
	if lacks = f.lacksReport(newest); len(lacks) == 0 {
		return &entry.Promotion{Rollout: name, Report: newest}, nil
	}
	waivers := f.current.lacksWaivers(law)
	if len(waivers) == 0 {
		return &entry.Promotion{Rollout: name}, nil
	}
	return nil, append(lacks, waivers...)
}

// lacksReport says what is against a promotion by a report. An empty digest names no report.
func (f *Fold) lacksReport(digest entry.Digest) []*entry.Refusal {
	refuse := func(format string, args ...any) *entry.Refusal {
		return entry.Refuse(entry.StateConflict, "rollout.report", format, args...)
	}
	all := f.current.lacksEvidence()
	switch newest := f.reportOf(f.current.Terms.CandidateDigest, f.current.Terms.BaselineDigest); {
	case newest == nil:
		all = append(all, refuse("the log has no report that compares the candidate with the baseline (ROL-4)").
			WithRemedy("arl recover --policy CANDIDATE --baseline REPORT --ledger … registers one"))
	case newest.digest != digest:
		all = append(all, refuse("the newest report of candidate and baseline is %s (ROL-4)", newest.digest))
	case !newest.promotes:
		all = append(all, refuse("the newest report of candidate and baseline does not say promote (ROL-4)").WithRemedy("abort the rollout"))
	}
	return all
}

// lacksEvidence says why the canary does not support a promotion that nobody waived. A report is
// about recorded cases; what a canary did in production counts as much. A canary that has decided
// fewer cases than its terms ask for was not watched.
func (r *Rollout) lacksEvidence() (all []*entry.Refusal) {
	refuse := func(remedy, format string, args ...any) {
		all = append(all, entry.Refuse(entry.StateConflict, "rollout.rollout", format, args...).WithRemedy(remedy))
	}
	const more = "let the canary decide more cases, or have approvers waive it: arl rollout promote --waive"
	e, in, unknown := &r.Evidence, "", ""
	if e.FellIn != "" {
		in = " in " + e.FellIn
	}
	if e.Canary.Unknown > 0 {
		unknown = fmt.Sprintf(" and %d that are no evidence of it alone", e.Canary.Unknown)
	}
	if e.Fell != "" {
		refuse("abort the rollout", "the gate %s of %s has fallen%s (ROL-4)", e.Fell, r.Name, in)
	}
	switch {
	case r.Stage != entry.StageCanary:
		refuse(more, "%s is a shadow, and its candidate has decided none of the %d cases that its terms ask for (ROL-4)", r.Name, r.Terms.CasesMin)
	case e.Canary.Cases < r.Terms.CasesMin:
		refuse(more, "the canary of %s has decided %d cases%s, and its terms ask for %d (ROL-4)", r.Name, e.Canary.Cases, unknown, r.Terms.CasesMin)
	}
	return all
}

// lacksWaivers says what is against a promotion without report and canary.
func (r *Rollout) lacksWaivers(law Law) []*entry.Refusal {
	have := int64(len(r.Waivers))
	if have >= law.Approve {
		return nil
	}
	return []*entry.Refusal{entry.Refuse(entry.StateConflict, "rollout.report",
		"a promotion without report and canary needs waivers of approvers, and has %d of %d (ROL-4)", have, law.Approve).
		WithRemedy("have approvers waive both: arl rollout promote --waive")}
}

func (f *Fold) reportOf(policy, baseline entry.Digest) *report {
	if i := slices.IndexFunc(f.reports, func(r report) bool { return r.policy == policy && r.baseline == baseline }); i >= 0 {
		return &f.reports[i]
	}
	return nil
}

// report returns the newest report of the log that compares the candidate under way with its
// baseline, and whether the report says promote. The digest is empty if there is none.
func (f *Fold) report() (digest entry.Digest, promotes bool) {
	if f.current == nil {
		return "", false
	}
	if r := f.reportOf(f.current.Terms.CandidateDigest, f.current.Terms.BaselineDigest); r != nil {
		return r.digest, r.promotes
	}
	return "", false
}

// Apply takes up a rollout entry that was admitted. at is its registered_at.
func (f *Fold) Apply(r *entry.Rollout, index uint64, at int64) {
	if r.Op == entry.RolloutStart {
		f.current = &Rollout{Name: r.Rollout, Wid: r.Wid, Terms: *r.Start, Stage: r.Stage, SharePermille: r.SharePermille,
			Started: index, StartedAt: at, Moved: index, By: r.Iss, Evidence: newEvidence(r.Start), never: limitsOf(r.Start.Candidate).Never}
		return
	}
	next := f.current
	next.Moved = index
	switch r.Op {
	case entry.RolloutAdvance:
		next.Stage, next.SharePermille = r.Stage, r.SharePermille
	case entry.RolloutWaive:
		next.Waivers = slices.Concat(next.Waivers, []entry.Principal{r.Iss})
	case entry.RolloutAbort:
		f.end(api.EndedRollout{Ended: index, EndedAt: at, Outcome: Aborted, Gate: r.Gate})
	}
}

// ApplyPolicy takes up a policy entry that was admitted.
func (f *Fold) ApplyPolicy(p *entry.Policy, index uint64, at int64) {
	if p.Rollout != nil {
		f.end(api.EndedRollout{Ended: index, EndedAt: at, Outcome: Promoted, Report: p.Rollout.Report})
	}
}

// ApplyRun takes up a run entry that was admitted: the report of a closed run.
func (f *Fold) ApplyRun(r *entry.Run) {
	if r.Op == "open" || r.PolicyDigest == "" || r.BaselineDigest == "" {
		return
	}
	one := report{r.PolicyDigest, r.BaselineDigest, r.ReportDigest, r.Recommendation == "promote"}
	if known := f.reportOf(one.policy, one.baseline); known != nil {
		*known = one
		return
	}
	f.reports = append(f.reports, one)
}

func (f *Fold) end(e api.EndedRollout) {
	r := f.current
	e.Rollout, e.CandidateDigest, e.BaselineDigest, e.Started, e.StartedAt = r.Name, r.Terms.CandidateDigest, r.Terms.BaselineDigest, r.Started, r.StartedAt
	f.ended, f.current = append(f.ended, e), nil
}

// Next returns the abort that the coordinator is to write now (ROL-6), without jti, iss, aud and
// iat; nil: none is due. wake is the instant at which one is due if the log does not grow.
func (f *Fold) Next(now, never int64) (abort *entry.Rollout, wake int64) {
	r := f.current
	if r == nil {
		return nil, never
	}
	gate := r.fallen(now)
	if gate == "" {
		return nil, r.Terms.DeadlineAt
	}
	return &entry.Rollout{Header: entry.Header{V: 1, Wid: r.Wid}, Rollout: r.Name, Op: entry.RolloutAbort, Gate: gate, Reason: r.why(gate)}, never
}

func (r *Rollout) why(gate entry.Gate) string {
	e := &r.Evidence
	switch gate {
	case entry.GateDeadline:
		return "nobody promoted the candidate before the deadline"
	case entry.GateUnsafe:
		return fmt.Sprintf("the candidate recovered %d cases that the rules leave to people", e.Canary.Unsafe)
	}
	i := slices.IndexFunc(e.Gates, func(c Comparison) bool { return c.Gate == gate })
	w, in := &e.Gates[i].Watch, ""
	if j := slices.IndexFunc(e.Groups, func(g Group) bool { return g.String() == e.FellIn }); j >= 0 {
		if w, in = &e.Groups[j].Watch, " in "+e.FellIn; gate == entry.GateCost {
			w = &e.Groups[j].Cost
		}
	}
	return fmt.Sprintf("the gate %s fell%s: of %d pairs of cases the candidate was worse in %d and better in %d", gate, in, w.Pairs, w.Losses, w.Wins)
}

// Clone returns a copy that changes independently.
func (f *Fold) Clone() Fold {
	c := Fold{f.current, slices.Clone(f.ended), slices.Clone(f.reports)}
	if f.current != nil {
		now := *f.current
		now.Evidence, now.open = now.Evidence.clone(), now.open.clone()
		c.current = &now
	}
	return c
}

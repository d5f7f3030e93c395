package rollout

import (
	"slices"
	"strconv"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"recoveryledger/ledger/entry"
)

// tried is a rollout that a test moves as it likes: by steps, waivers, reports and cases.
type tried struct {
	Fold
	law     Law
	rules   jsontext.Value // of the candidate
	reports []entry.Digest // in the log, about whatever policies
	cases   int
}

// newTried begins a rollout in a shadow.
func newTried(t *rapid.T) *tried {
	baseline := jsontext.Value(`{"a":2,"thresholds":{"never_auto_recover":["access"]}}`)
	r := &tried{rules: jsontext.Value(`{"a":1,"thresholds":{"never_auto_recover":["access"]}}`)}
	r.law = Law{Recovery: baseline, Approve: rapid.Int64Range(1, 3).Draw(t, "approve")}
	r.admit(&entry.Rollout{Op: entry.RolloutStart, Stage: entry.StageShadow, Start: &entry.RolloutTerms{CandidateDigest: DigestOf(r.rules),
		BaselineDigest: DigestOf(baseline), Candidate: r.rules, Salt: "s", Gates: entry.RolloutGates(), CasesMin: rapid.Int64Range(1, 3).Draw(t, "cases_min"),
		DeadlineAt: 1000}}, "o")
	return r
}

// admit applies a step, if the fold takes it.
func (r *tried) admit(step *entry.Rollout, iss entry.Principal) {
	step.Rollout, step.Iss = "r", iss
	if r.Admit(step, []entry.Role{entry.RoleOperator}, r.law, 1) == nil {
		r.Apply(step, 1, 1)
	}
}

func (r *tried) widen(t *rapid.T) {
	r.admit(&entry.Rollout{Op: entry.RolloutAdvance, Stage: entry.StageCanary, SharePermille: rapid.Int64Range(1, entry.ShareMax).Draw(t, "share")}, "o")
}

func (r *tried) waive(t *rapid.T) {
	r.admit(&entry.Rollout{Op: entry.RolloutWaive}, rapid.SampledFrom([]entry.Principal{"o", "p1", "p2", "p3"}).Draw(t, "approver"))
}

// report closes a run that compares the candidate with the baseline, or with something else.
func (r *tried) report(t *rapid.T) {
	digest := entry.DigestOf([]byte(strconv.Itoa(len(r.reports))))
	run := &entry.Run{Op: "close", PolicyDigest: DigestOf(r.rules), BaselineDigest: DigestOf(r.law.Recovery), ReportDigest: digest}
	run.Recommendation = rapid.SampledFrom([]string{"promote", "reject"}).Draw(t, "recommendation")
	if rapid.Bool().Draw(t, "other") {
		run.BaselineDigest = run.PolicyDigest
	}
	r.ApplyRun(run)
	r.reports = append(r.reports, digest)
}

// end ends a case under the arm that decides it. One of ten is of a class that the rules leave to
// people.
func (r *tried) end(t *rapid.T) {
	a := &entry.Attempt{Policy: DigestOf(r.law.Recovery), Arm: entry.ArmControl}
	a.Case, a.Status, r.cases = strconv.Itoa(r.cases), entry.StatusRecovered, r.cases+1
	if r.Decides(a.Case) {
		a.Policy, a.Arm = DigestOf(r.rules), entry.ArmCanary
	}
	if rapid.IntRange(0, 9).Draw(t, "unsafe") == 9 {
		a.Rungs = []entry.Rung{{Class: "access", Code: "denied"}}
	}
	r.Observe(a)
}

// promotes returns the promotions that the fold takes in a policy with the rules of the candidate.
func (r *tried) promotes() (taken []entry.Promotion) {
	for _, report := range append([]entry.Digest{""}, r.reports...) {
		p := entry.Promotion{Rollout: "r", Report: report}
		if r.AdmitPolicy(&entry.Policy{Recovery: r.rules, Rollout: &p}, r.law) == nil {
			taken = append(taken, p)
		}
	}
	return taken
}

// check compares what is offered with what the fold takes.
func (r *tried) check(t *rapid.T) {
	taken := r.promotes()
	offered, lacks := r.Promotion("r", r.law)
	missing := r.View(1, r.law).Current.Missing
	switch {
	case offered == nil && len(taken) > 0:
		t.Fatalf("nothing is offered, and the fold takes %+v: %v", taken, lacks)
	case offered != nil && !slices.Contains(taken, *offered):
		t.Fatalf("%+v is offered, and the fold takes %+v", *offered, taken)
	case (offered == nil) != (len(lacks) > 0) || (offered == nil) != (len(missing) > 0):
		t.Fatalf("offered %+v, lacks %v, missing %q", offered, lacks, missing)
	}
	for i, why := range lacks {
		if missing[i] != why.Detail {
			t.Errorf("missing %q, want %q", missing, lacks)
		}
	}
	if other, why := r.Promotion("other", r.law); other != nil || len(why) != 1 || why[0].Field != "rollout" {
		t.Errorf("of another rollout: %+v, %v", other, why)
	}
}

// TestPromotionOffered: a promotion is offered exactly if the fold takes the policy entry that
// carries it, and nothing is missing exactly then (ROL-4). Rollouts are moved at random.
func TestPromotionOffered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newTried(t)
		if r.Current() == nil {
			t.Fatal("the rollout did not begin")
		}
		t.Repeat(map[string]func(*rapid.T){"": r.check, "widen": r.widen, "waive": r.waive, "report": r.report, "end": r.end})
	})
}

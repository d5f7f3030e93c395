package metrics

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"recoveryledger/coord"
	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// origin is the origin of the logs of the tests.
const origin = "ledger.example/many"

// attempts are metrics with a state that attempts are counted under.
func attempts() (*Metrics, *coord.State) {
	m, state := New(), coord.NewState(origin)
	genesis := entry.Genesis(origin)
	state.Apply(&entry.Entry{Kind: genesis.Kind(), Header: entry.HeaderOf(genesis), Body: genesis}, 0, 0)
	return m, state
}

// TestFailuresBeginAtZero: each failure that the taxonomy knows has its series from the start. A
// rate over a series that appears with its first value would miss that value.
func TestFailuresBeginAtZero(t *testing.T) {
	text := shown(t, New().Handler())
	for _, class := range entry.Classes() {
		for _, code := range append(entry.Codes(class), other) {
			for _, source := range []string{"signal", "task", "attempt"} {
				if want := fmt.Sprintf("arl_failures_total{class=%q,code=%q,source=%q} 0\n", class, code, source); !strings.Contains(text, want) {
					t.Errorf("no %s", want)
				}
			}
		}
	}
}

// TestShadowIsNotCounted: the metrics count what an arm did about a case. What the candidate of a
// shadow decided beside is among the decisions alone.
func TestShadowIsNotCounted(t *testing.T) {
	m, state := attempts()
	inForce := recovery.Default().Hash()
	for _, arm := range []entry.Arm{entry.ArmShadow, entry.ArmControl, ""} {
		m.follower.take(state, &entry.Registered{Entry: &entry.Entry{Body: &entry.Attempt{Arm: arm, Policy: inForce,
			AttemptCase: entry.AttemptCase{Case: "one", Status: entry.StatusEscalated, CostMicroUSD: new(int64(7)),
				Rungs: []entry.Rung{{Class: "transient", Code: "timeout", Strategy: "escalate", Result: "ok", CostMicroUSD: new(int64(7)), Tokens: new(int64(5))}}}}}})
	}
	text := shown(t, m.Handler())
	for _, want := range []string{`arl_recovery_cases_total{arm="control",status="escalated"} 1`, `arl_recovery_cases_total{arm="shadow",status="escalated"} 0`,
		`arl_recovery_steps_total{result="ok",strategy="escalate"} 2`, `arl_failures_total{class="transient",code="timeout",source="attempt"} 2`,
		`arl_cost_micro_usd_total{source="attempt"} 14`, `arl_tokens_total{arm="control"} 5`, `arl_tokens_total{arm="none"} 5`, `arl_tokens_total{arm="shadow"} 0`,
		`arl_recovery_decisions_total{arm="shadow",policy="` + string(inForce) + `",strategy="escalate"} 1`,
		`arl_recovery_decisions_total{arm="none",policy="` + string(inForce) + `",strategy="escalate"} 1`} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

// TestOnceForEachSource: a failure, a step, a decision and a cost count once, though the router and
// the agent log what they decide, and the agent logs it again with its result. The last attempt's
// cost is in the entry of the claim and in its snapshot.
func TestOnceForEachSource(t *testing.T) {
	m, state := attempts()
	take := func(index uint64, body entry.Body) {
		e := &entry.Entry{Kind: body.Kind(), Header: entry.HeaderOf(body), Body: body}
		state.Apply(e, index, 0)
		m.follower.take(state, &entry.Registered{Entry: e, Index: index})
	}
	const task = entry.Ref("operator#report")
	to := map[string]entry.TaskState{entry.TaskAssign: entry.TaskAssigned, entry.TaskStart: entry.TaskInProgress, entry.TaskFail: entry.TaskFailed}
	moves := func(index uint64, op string, epoch int64, snapshot *entry.Snapshot) {
		take(index, &entry.Task{Header: entry.Header{Iss: "operator", Wid: "w"}, Task: task, Op: op, To: to[op], Agent: "ann", Epoch: epoch, Type: "report",
			MaxRetries: new(int64(5)), LeaseMS: new(int64(60000)), Snapshot: snapshot})
	}
	rung := func(strategy, result string, cost int64) entry.Rung {
		r := entry.Rung{Attempt: 1, Class: "transient", Code: "timeout", Rule: "r", Strategy: strategy, Result: result}
		if cost > 0 {
			r.CostMicroUSD = &cost
		}
		return r
	}
	tried := func(index uint64, status entry.CaseStatus, cost *int64, rungs ...entry.Rung) {
		take(index, &entry.Attempt{Header: entry.Header{Iss: "ann", Wid: "w"}, Agent: "ann", Task: task, Policy: recovery.Default().Hash(),
			AttemptCase: entry.AttemptCase{Case: "report", Status: status, CostMicroUSD: cost, Rungs: rungs}})
	}
	moves(1, entry.TaskCreate, 0, nil)
	moves(2, entry.TaskAssign, 1, nil)
	moves(3, entry.TaskStart, 1, nil)
	tried(4, entry.StatusPassedOn, nil, rung("retry", "decided", 0))
	tried(5, entry.StatusPassedOn, new(int64(12)), rung("retry", "failed", 7), rung("fail_reassign", "decided", 0))
	failed := &entry.Snapshot{Class: "transient", Code: "timeout", CostMicroUSD: 7}
	moves(6, entry.TaskFail, 1, failed)
	tried(7, entry.StatusPassedOn, nil, rung("fail_reassign", "decided", 0)) // the router
	moves(8, entry.TaskAssign, 2, nil)
	moves(9, entry.TaskStart, 2, nil)
	moves(10, entry.TaskFail, 2, failed) // of an agent that logs no attempts
	text := shown(t, m.Handler())
	policy := string(recovery.Default().Hash())
	for _, want := range []string{`arl_failures_total{class="transient",code="timeout",source="attempt"} 1`, `arl_failures_total{class="transient",code="timeout",source="task"} 2`,
		`arl_recovery_steps_total{result="failed",strategy="retry"} 1`, `arl_recovery_steps_total{result="failed",strategy="fail_reassign"} 0`,
		`arl_recovery_decisions_total{arm="none",policy="` + policy + `",strategy="retry"} 1`,
		`arl_recovery_decisions_total{arm="none",policy="` + policy + `",strategy="fail_reassign"} 2`, // of the agent, and of the router
		`arl_cost_micro_usd_total{source="attempt"} 12`, `arl_cost_micro_usd_total{source="task"} 7`} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if len(m.follower.stated) != 0 {
		t.Errorf("%v is remembered of claims that are over", m.follower.stated)
	}
}

// TestForbiddenByAnEarlierEntry: a case that recovered is forbidden by any entry about it. Another
// issuer's case of the same id is another case.
func TestForbiddenByAnEarlierEntry(t *testing.T) {
	m, state := attempts()
	says := func(by entry.Principal, class string, status entry.CaseStatus) {
		m.follower.take(state, &entry.Registered{Entry: &entry.Entry{Body: &entry.Attempt{Header: entry.Header{Iss: by}, AttemptCase: entry.AttemptCase{
			Case: "one", Status: status, Rungs: []entry.Rung{{Class: class, Code: "denied", Strategy: "retry", Result: "ok"}}}}}})
	}
	says("ann", "access", entry.StatusPassedOn)
	says("ann", "tool", entry.StatusPassedOn)
	says("bob", "tool", entry.StatusRecovered)
	for _, want := range []string{"0", "1", "1"} {
		if text := shown(t, m.Handler()); !strings.Contains(text, `arl_invariant_violations_total{invariant="forbidden_recovery"} `+want+"\n") {
			t.Errorf("not %s: %s", want, text)
		}
		says("ann", "tool", entry.StatusRecovered)
	}
}

// TestPoliciesAreBounded: digests that an agent made up are other, and the newest eight digests of
// the log have series.
func TestPoliciesAreBounded(t *testing.T) {
	m, state := attempts()
	decides := func(digest entry.Digest) {
		m.follower.take(state, &entry.Registered{Entry: &entry.Entry{Body: &entry.Attempt{Policy: digest, AttemptCase: entry.AttemptCase{
			Case: "one", Status: entry.StatusEscalated, Rungs: []entry.Rung{{Class: "tool", Code: "error", Strategy: "escalate", Result: "ok"}}}}}})
	}
	const madeUp = 100
	for i := range madeUp {
		decides(entry.DigestOf([]byte{byte(i)}))
	}
	decides("")
	decides(recovery.Default().Hash())
	var newest []entry.Digest
	for i := range policiesMax + 2 {
		digest := entry.DigestOf([]byte{'r', byte(i)})
		terms := &entry.RolloutTerms{CandidateDigest: digest, BaselineDigest: recovery.Default().Hash(), Gates: entry.RolloutGates()}
		state.Rollouts().Apply(&entry.Rollout{Op: entry.RolloutStart, Start: terms, Stage: entry.StageShadow}, uint64(i), 0)
		if i%2 == 0 {
			decides(digest)
		}
		state.Rollouts().Apply(&entry.Rollout{Op: entry.RolloutAbort}, uint64(i), 0)
		decides(digest) // what was under way ends under its own rules
		newest = append(newest, digest)
	}
	var series []string
	for line := range strings.Lines(shown(t, m.Handler())) {
		if strings.HasPrefix(line, "arl_recovery_decisions_total{") {
			series = append(series, strings.TrimSpace(line))
		}
	}
	if len(series) != policiesMax+1 {
		t.Errorf("%d series: %q", len(series), series)
	}
	for i, digest := range newest[2:] {
		if want := `arl_recovery_decisions_total{arm="none",policy="` + string(digest) + `",strategy="escalate"} ` + strconv.Itoa(2-i%2); !slices.Contains(series, want) {
			t.Errorf("no %s in %q", want, series)
		}
	}
	if want := `arl_recovery_decisions_total{arm="none",policy="other",strategy="escalate"} ` + strconv.Itoa(madeUp+1); !slices.Contains(series, want) {
		t.Errorf("no %s in %q", want, series)
	}
}

package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// TestShadowIsNotCounted: the metrics count what an arm did about a case, and not what the
// candidate of a shadow decided beside.
func TestShadowIsNotCounted(t *testing.T) {
	m, state := New(), coord.NewState(origin)
	genesis := coord.Genesis(origin)
	state.Apply(&entry.Entry{Kind: genesis.Kind(), Header: entry.HeaderOf(genesis), Body: genesis}, 0, 0)
	for _, arm := range []entry.Arm{entry.ArmShadow, entry.ArmControl} {
		m.follower.take(state, &entry.Registered{Entry: &entry.Entry{Body: &entry.Attempt{Arm: arm, AttemptCase: entry.AttemptCase{
			Case: "one", Status: entry.StatusEscalated, Rungs: []entry.Rung{{Class: "transient", Code: "timeout", Strategy: "escalate", Result: "ok", CostMicroUSD: new(int64(7))}}}}}})
	}
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{`arl_recovery_cases_total{status="escalated"} 1`, `arl_recovery_steps_total{result="ok",strategy="escalate"} 1`,
		`arl_failures_total{class="transient",code="timeout",source="attempt"} 1`, `arl_cost_micro_usd_total{source="attempt"} 7`} {
		if !strings.Contains(answer.Body.String(), want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}

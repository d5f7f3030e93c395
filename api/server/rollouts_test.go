package server_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/api"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/rollout"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
)

// rollsOut puts the built-in rules into the policy, and has an operator begin the rollout r1 of a
// candidate.
func (n *node) rollsOut(operator *keys.Signer) {
	n.t.Helper()
	own := n.follower()
	own.Recovery = recovery.Default().JSON()
	n.register(sign(n.t, n.authority, own))
	candidate := jsontext.Value(strings.Replace(string(recovery.Default().JSON()), `"attempts":6`, `"attempts":5`, 1))
	n.register(sign(n.t, operator, &entry.Rollout{Header: n.header("olga", "r1"), Rollout: "r1", Op: entry.RolloutStart, Stage: entry.StageCanary, SharePermille: 500, Reason: "test",
		Start: &entry.RolloutTerms{CandidateDigest: rollout.DigestOf(candidate), BaselineDigest: recovery.Default().Hash(), Candidate: candidate, Salt: "s",
			Gates: entry.RolloutGates(), CasesMin: 30, DeadlineAt: time.Now().Add(time.Hour + n.skew).UnixMilli()}}))
}

// abortOf ends the rollout r1.
func (n *node) abortOf(operator *keys.Signer) *entry.Entry {
	return sign(n.t, operator, &entry.Rollout{Header: n.header("olga", "r1"), Rollout: "r1", Op: entry.RolloutAbort, Reason: "test"})
}

// TestRollouts reads a rollout while it is under way, after an attempt of each arm, and once it is
// over.
func TestRollouts(t *testing.T) {
	n := start(t, nil)
	var all api.Rollouts
	read := func(path string, v any) {
		t.Helper()
		a := n.get(path)
		if a.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", path, a.StatusCode, a.body)
		}
		must(t, json.Unmarshal(a.body, v, json.RejectUnknownMembers(true)))
	}
	if read(api.PathRollouts, &all); all.Current != nil || len(all.History) > 0 || all.Size != n.log.Head().Size {
		t.Errorf("%+v", all)
	}
	operator := newSigner(t)
	n.register(n.enrol("olga", operator, entry.RoleOperator))
	n.rollsOut(operator)
	digest := recovery.Default().Hash()
	for _, arm := range []entry.Arm{entry.ArmControl, entry.ArmCanary} {
		id, policy := "", digest
		for i := 0; id == ""; i++ {
			if name := "case-" + string(rune('a'+i)); (rollout.Draw("s", name) < 500) == (arm == entry.ArmCanary) {
				id = name
			}
		}
		if arm == entry.ArmCanary {
			all = api.Rollouts{}
			read(api.PathRollouts, &all)
			policy = all.Current.CandidateDigest
		}
		n.register(sign(t, n.agent, &entry.Attempt{Header: n.header("agent-1", "w"), Agent: "agent-1", Policy: policy, Arm: arm,
			AttemptCase: entry.AttemptCase{Case: id, Status: entry.StatusRecovered, Rungs: []entry.Rung{}}}))
	}
	var one api.OneRollout
	read(api.PathRollouts+"/r1", &one)
	now := one.Current
	if now == nil || now.Canary.Recovered != 1 || now.Control.Recovered != 1 || now.Compared[0].Missing != 29 || now.By != "olga" {
		t.Fatalf("%+v", one)
	}
	want := []string{"the canary of r1 has decided 1 cases, and its terms ask for 30 (ROL-4)", "the log has no report that compares the candidate with the baseline (ROL-4)",
		"a promotion without report and canary needs waivers of approvers, and has 0 of 1 (ROL-4)"}
	if !slices.Equal(now.Missing, want) {
		t.Errorf("missing %q, want %q", now.Missing, want)
	}
	n.register(n.abortOf(operator))
	one, all = api.OneRollout{}, api.Rollouts{}
	read(api.PathRollouts+"/r1", &one)
	read(api.PathRollouts, &all)
	if one.Current != nil || one.Ended == nil || one.Ended.Outcome != "aborted" || all.Current != nil || len(all.History) != 1 {
		t.Errorf("%+v %+v", one, all)
	}
	n.problem(n.get(api.PathRollouts+"/r2"), entry.NotFound, http.StatusNotFound)
}

package worker

import (
	"slices"
	"strings"
	"testing"

	"recoveryledger/api/client"
	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/redact"
	"recoveryledger/verify"
)

// TestRulesThatDoNotCompile: under such a policy the worker goes by the built-in rules, as the
// coordinator does that gave it the task.
func TestRulesThatDoNotCompile(t *testing.T) {
	w := &Worker{}
	if err := w.obey(&entry.Policy{Recovery: []byte(`{"rules":[]}`)}); err != nil || w.arms.Rules.Hash() != recovery.Default().Hash() {
		t.Errorf("%v, rules %v", err, w.arms.Rules)
	}
}

// TestNoArmWithoutTheLedger: if the ledger does not answer, the rules known so far decide, for no
// arm, because a rollout may have ended. The rules of an arm that has decided stay.
func TestNoArmWithoutTheLedger(t *testing.T) {
	c, err := client.New("http://127.0.0.1:1", verify.Root{}, &client.Config{Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	other, err := recovery.Load("policy.yaml", []byte(strings.Replace(string(recovery.DefaultDocument()), "attempts: 6", "attempts: 5", 1)))
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	var asked []*recovery.Policy // by which rules strategies were looked for
	w := &Worker{Config: &Config{Client: c}, Say: func(line string) { said = append(said, line) }}
	w.Command.Redact = redact.New(nil)
	w.Strategies = func(p *recovery.Policy) ([]recovery.RecoveryStrategy, error) {
		asked = append(asked, p)
		return nil, nil
	}
	canary := recovery.Arms{Rules: other, Arm: entry.ArmCanary}
	known := recovery.Default()
	w.arms = arms{Arms: canary, inForce: known}
	if err := w.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.arms.Arms != (recovery.Arms{Rules: known}) || !slices.Equal(asked, []*recovery.Policy{known}) {
		t.Errorf("arm %q, beside %v, strategies for %v", w.arms.Arm, w.arms.Beside, asked)
	}
	if len(said) != 1 || !strings.Contains(said[0], "the policy known so far decides") {
		t.Errorf("said %q", said)
	}
	w.arms.Arms = canary
	w.decided(&recovery.History{}, 0)
	if err := w.follow(t.Context()); err != nil || w.arms.Arms != canary || len(asked) != 1 {
		t.Errorf("an arm that has decided: %q, %v", w.arms.Arm, err)
	}
}

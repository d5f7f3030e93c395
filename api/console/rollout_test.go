package console_test

import (
	"strings"
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/testlog"
	"recoveryledger/testdata/webpage"
)

// TestRollouts shows that no rollout is under way, one that is, and one that is over.
func TestRollouts(t *testing.T) {
	l := foldlog.New(t)
	policy := entry.Genesis(testlog.Origin, entry.AuthorityKey{Principal: "root", Key: l.Key("root").Public})
	_, previous := l.State.Chain().Policy()
	policy.Previous, policy.Recovery = &previous, recovery.Default().JSON()
	l.Put("root", policy)
	shows := func(texts ...string) {
		t.Helper()
		_, body := get(t, pages(t, l, ""), "/rollouts")
		webpage.Check(t, "/rollouts", body)
		for _, text := range texts {
			if !strings.Contains(body, text) {
				t.Errorf("no %q in %s", text, body)
			}
		}
	}
	shows("No rollout is under way.")
	tried(l, "r1")
	shows("<bdi>r1</bdi>", ": shadow</h2>", "No evidence</th>", "<td>candidate</td>"+strings.Repeat("<td>0</td>", 5),
		"<li>the log has no report that compares the candidate with the baseline (ROL-4)</li><li>a promotion without report and canary needs waivers "+
			"of approvers, and has 0 of 1 (ROL-4)</li>", "<td>recovered</td><td>0</td><td>30</td>")
	l.Put("o", &entry.Rollout{Rollout: "r1", Op: entry.RolloutAbort, Reason: "test"})
	shows("No rollout is under way.", "<td>aborted</td>")
}

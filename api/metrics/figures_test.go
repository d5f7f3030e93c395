package metrics_test

import (
	"strings"
	"testing"
	"time"

	"recoveryledger/api/metrics"
	"recoveryledger/api/words"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
)

// TestFind: the figures are those that were counted, and nothing is said of what did not happen.
func TestFind(t *testing.T) {
	m := metrics.New()
	if f := m.Find(); f.State != words.FindingOK || f.Detail != "since the start 0 entries in 0 commits" {
		t.Errorf("at the start: %+v", f)
	}
	m.Commit(ledger.Commit{Entries: []*entry.Entry{{Kind: entry.KindSignal}}, Took: time.Millisecond})
	for range 99 {
		m.Submitted("registered", 3*time.Millisecond)
	}
	m.Submitted("registered", time.Hour)
	m.Refused(string(entry.Stale), "iat")
	f := m.Find()
	if !strings.HasPrefix(f.Detail, "since the start 1 entry in 1 commit; 99 of 100 submissions answered within 3ms; refused: 1 stale") {
		t.Errorf("%+v", f)
	}
	m.Submitted("registered", time.Hour)
	if f := m.Find(); !strings.Contains(f.Detail, "within more than ") {
		t.Errorf("%+v", f)
	}
}

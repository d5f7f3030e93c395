package metrics

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// shown returns the metrics as they are read.
func shown(t *testing.T, h http.Handler) string {
	t.Helper()
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return answer.Body.String()
}

// TestKeyThatIsAway shows a key from its first failure on, and no longer once it signs.
func TestKeyThatIsAway(t *testing.T) {
	m := New()
	m.KeyUsed("ledger", time.Millisecond, errors.New("denied"))
	m.KeyUsed("ledger", 20*time.Millisecond, errors.New("denied"))
	text := shown(t, m.Handler())
	if strings.Contains(text, `arl_key_away_seconds{key="ledger"} 0`+"\n") || !strings.Contains(text, `arl_key_away_seconds{key="coordinator"} 0`+"\n") ||
		!strings.Contains(text, `arl_key_failures_total{key="ledger"} 2`) || !strings.Contains(text, `arl_key_seconds_bucket{key="ledger",le="0.003"} 1`) {
		t.Error(text)
	}
	m.KeyUsed("engine", time.Millisecond, errors.New("denied"))
	if text := shown(t, m.Handler()); strings.Contains(text, `arl_key_away_seconds{key="engine"} 0`+"\n") || !strings.Contains(text, `arl_key_failures_total{key="engine"} 1`) {
		t.Error(text)
	}
	m.KeyUsed("ledger", time.Millisecond, nil)
	if text := shown(t, m.Handler()); !strings.Contains(text, `arl_key_away_seconds{key="ledger"} 0`+"\n") || !strings.Contains(text, `arl_key_seconds_count{key="ledger"} 3`) {
		t.Error(text)
	}
}

// TestChecksAndNotifications shows the last check of each kind, the last backup, how late each
// endpoint is, and what is published.
func TestChecksAndNotifications(t *testing.T) {
	m := New()
	m.Checks(func(check string) *Checked {
		if check == "audit" {
			return nil
		}
		return &Checked{At: 1_800_000_000_000, Sound: true, Entries: 7}
	})
	m.Backup(func() *Checked { return &Checked{At: 1_900_000_000_000, Sound: true, Entries: 6} })
	m.Notifications(func() map[string]time.Duration { return map[string]time.Duration{"people": 90 * time.Second} })
	m.Publishing(func() (uint64, time.Duration) { return 5, 400 * time.Second })
	text := shown(t, m.Handler())
	for _, sample := range []string{`arl_published_size 5`, `arl_published_late_seconds 400`, `arl_checked_timestamp_seconds{check="fsck"} 1.8e+09`, `arl_checked_sound{check="fsck"} 1`, `arl_checked_entries{check="fsck"} 7`,
		`arl_checked_timestamp_seconds{check="audit"} 0`, `arl_checked_sound{check="audit"} 0`, `arl_notifications_late_seconds{endpoint="people"} 90`,
		`arl_backup_timestamp_seconds 1.9e+09`, `arl_backup_entries 6`} {
		if !strings.Contains(text, sample+"\n") {
			t.Errorf("no sample %s in %s", sample, text)
		}
	}
}

// TestFinal shows the metrics as they were when they were taken, and counts the reads before.
func TestFinal(t *testing.T) {
	m := New()
	shown(t, m.Handler())
	m.Violated(Forked)
	last := m.Final()
	m.Violated(Forked)
	if text := shown(t, last); !strings.Contains(text, `arl_invariant_violations_total{invariant="forked"} 1`+"\n") || m.Reads() != 1 {
		t.Errorf("%d reads: %s", m.Reads(), text)
	}
}

package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"recoveryledger/api/metrics"
	"recoveryledger/api/words"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
)

// now is when the tests read metrics.
var now = time.Unix(1_800_000_000, 0)

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
	m.Refused(string(entry.Stale))
	f := m.Find()
	if !strings.HasPrefix(f.Detail, "since the start 1 entry in 1 commit; 99 of 100 submissions answered within 3ms; refused: 1 stale") {
		t.Errorf("%+v", f)
	}
	m.Submitted("registered", time.Hour)
	slow := "; more than 1 of 100 submissions took longer than 10s; "
	if f := m.Find(); !strings.Contains(f.Detail, slow) {
		t.Errorf("%+v", f)
	}
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if found, err := metrics.Read(answer.Body.Bytes(), now); err != nil || !strings.Contains(found[len(found)-1].Detail, slow) {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestRead: a reader of the metrics is told what the process itself tells, and of what is missing.
func TestRead(t *testing.T) {
	m := metrics.New()
	m.Disk(t.TempDir(), 256<<20)
	m.Commit(ledger.Commit{Entries: []*entry.Entry{{Kind: entry.KindSignal}}, Took: time.Millisecond})
	m.Submitted("registered", 3*time.Millisecond)
	m.Refused(string(entry.Stale))
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	found, err := metrics.Read(answer.Body.Bytes(), now)
	if err != nil || len(found) != 3 {
		t.Fatalf("%+v, %v", found, err)
	}
	if found[2] != m.Find() {
		t.Errorf("read is %+v, told is %+v", found[2], m.Find())
	}
	if !strings.Contains(found[0].Detail, "MiB free of which 256 MiB are the reserve") || found[1].State != words.FindingWarn {
		t.Errorf("%+v", found)
	}
	found, err = metrics.Read([]byte("# TYPE arl_log_size gauge\narl_log_size 60\n# TYPE arl_anchor_lag_entries gauge\narl_anchor_lag_entries 3\n"+
		"# TYPE arl_refusals_total counter\narl_refusals_total 7\narl_refusals_total{problem=\"stale\",more=\"x\"} 7\n"), now)
	if err != nil || found[1].Detail != "size 57, 3 entries behind the log" || found[0].State != words.FindingWarn || strings.Contains(found[2].Detail, "refused") {
		t.Errorf("%+v, %v", found, err)
	}
	found, err = metrics.Read([]byte("# TYPE arl_notifications_late_seconds gauge\narl_notifications_late_seconds{endpoint=\"pager\"} 327.4\n"+
		"arl_notifications_late_seconds{endpoint=\"chat\"} 9\narl_notifications_late_seconds{endpoint=\"\"} 0\n"), now)
	if err != nil || len(found) != 4 || found[3].State != words.FindingWarn || found[3].Detail != "pager is 5m27s late" {
		t.Errorf("a late endpoint: %+v, %v", found, err)
	}
	found, err = metrics.Read([]byte("# TYPE arl_notifications_late_seconds gauge\narl_notifications_late_seconds{endpoint=\"chat\"} 9\n"), now)
	if err != nil || len(found) != 4 || found[3].State != words.FindingOK {
		t.Errorf("endpoints in time: %+v, %v", found, err)
	}
	found, err = metrics.Read([]byte("# TYPE arl_published_late_seconds gauge\narl_published_late_seconds 327.4\n"), now)
	if err != nil || len(found) != 4 || found[3].State != words.FindingWarn || found[3].Detail != "the place of --publish is 5m27s late" {
		t.Errorf("a late place: %+v, %v", found, err)
	}
	found, err = metrics.Read([]byte("# TYPE arl_published_size gauge\narl_published_size 9\n# TYPE arl_published_late_seconds gauge\narl_published_late_seconds 2\n"), now)
	if err != nil || len(found) != 4 || found[3].State != words.FindingOK || found[3].Detail != "size 9 is published" {
		t.Errorf("a place in time: %+v, %v", found, err)
	}
	for made, want := range map[string]words.Finding{
		"1799999940":    {Check: "backup", State: words.FindingOK, Detail: "made 1m0s ago, with size 7"},
		"1.8000001e+09": {Check: "backup", State: words.FindingOK, Detail: "made 0s ago, with size 7"},
		"1.7998e+09":    {Check: "backup", State: words.FindingWarn, Detail: "made 55h33m20s ago, with size 7"},
	} {
		found, err = metrics.Read([]byte("# TYPE arl_backup_timestamp_seconds gauge\narl_backup_timestamp_seconds "+made+"\n"+
			"# TYPE arl_backup_entries gauge\narl_backup_entries 7\n"), now)
		if err != nil || len(found) != 4 || found[3].Remedy == "" != (want.State == words.FindingOK) {
			t.Fatalf("a backup of %s: %+v, %v", made, found, err)
		}
		if found[3].Remedy = ""; found[3] != want {
			t.Errorf("a backup of %s: %+v, want %+v", made, found[3], want)
		}
	}
	if _, err := metrics.Read([]byte("<html>"), now); err == nil {
		t.Error("a page counts as metrics")
	}
}

// FuzzRead reads what a server that lies may send as its metrics.
func FuzzRead(f *testing.F) {
	f.Add([]byte("# TYPE arl_submission_seconds histogram\narl_submission_seconds_bucket{le=\"NaN\"} -1\narl_submission_seconds_count 1e300\n"))
	f.Add([]byte("arl_refusals_total{problem=\"\\n\"} +Inf\narl_disk_free_bytes NaN\narl_anchor_lag_entries -Inf\n"))
	f.Add([]byte("# TYPE arl_backup_timestamp_seconds gauge\narl_backup_timestamp_seconds 1e10\narl_backup_entries NaN\n"))
	f.Add([]byte("arl_published_size NaN\narl_published_late_seconds +Inf\n"))
	f.Add([]byte("arl_notifications_late_seconds{endpoint=\"e\"} +Inf\narl_notifications_late_seconds{endpoint=\"f\"} NaN\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if found, err := metrics.Read(text, now); (err == nil) != (len(found) >= 3) {
			t.Errorf("%+v, %v", found, err)
		}
	})
}

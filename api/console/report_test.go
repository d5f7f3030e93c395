package console_test

import (
	"net/http"
	"testing"

	"recoveryledger/api/report"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
)

// TestReport downloads the page about an incident, in the words of [report.Report].
func TestReport(t *testing.T) {
	l := foldlog.New(t)
	id := chain(l)
	c := pages(t, l, "")
	facts, _ := report.Gather(l.State, id, l.Head(len(l.Leaves)), "ledger.example/test", l.At)
	var entries []entry.Registered
	for _, index := range facts.Indexes() {
		entries = append(entries, l.Entries[index])
	}
	path := "/incidents/" + decimal(id)
	if status, body := get(t, c, path+"/report.md"); status != http.StatusOK || body != facts.Report(entries).Markdown() {
		t.Errorf("%d %s", status, body)
	}
	for _, bad := range []string{"/incidents/0/report.md", "/incidents/x/report.md"} {
		if status, _ := get(t, c, bad); status != http.StatusNotFound && status != http.StatusBadRequest {
			t.Errorf("%s: %d", bad, status)
		}
	}
}

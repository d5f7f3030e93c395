package server_test

import (
	"fmt"
	"net/http"
	"testing"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// TestASavedAnswerIsAllThatAVerifierNeeds saves what writing and reading answer,
// with links and without, and verifies it against the root alone.
func TestASavedAnswerIsAllThatAVerifierNeeds(t *testing.T) {
	n := start(t, nil)
	e := n.good()
	verified := func(a *answer) verify.Report {
		t.Helper()
		var m verify.Material
		must(t, m.Add("answer", a.body))
		return n.verify(m)
	}
	created := n.postTo("/v1/entries?links=true", api.MediaJSON, e.AppendEnvelope(nil))
	again := n.postTo("/v1/entries?links=true", api.MediaJSON, e.AppendEnvelope(nil))
	read := n.get(created.Header.Get("Location") + "/receipt?links=true")
	for name, a := range map[string]struct {
		*answer
		status int
	}{"created": {created, http.StatusCreated}, "again": {again, http.StatusOK}, "read": {read, http.StatusOK}} {
		report := verified(a.answer)
		if a.StatusCode != a.status || a.Header.Get("Content-Type") != api.MediaNDJSON || len(report.Missing) > 0 || len(report.Entries) < 3 || len(report.Heads) != 1 {
			t.Errorf("%s: status %d, missing %q, %d entries under %d heads", name, a.StatusCode, report.Missing, len(report.Entries), len(report.Heads))
		}
		for _, e := range report.Entries {
			if !e.Signed {
				t.Errorf("%s: the signature of entry %d was not checked", name, e.Index)
			}
		}
	}
	if report := verified(n.get("/v1/entries/0/receipt?links=true")); len(report.Missing) > 0 || report.Entries[0].Index != 0 {
		t.Errorf("the genesis: missing %q", report.Missing)
	}
	// Without links whose entry it is stays open, and is said to.
	plain := n.post(api.MediaJSON, e.AppendEnvelope(nil))
	if report := verified(plain); len(report.Missing) != 1 || report.Missing[0].Step != verify.StepSigner {
		t.Errorf("without links: missing %q", report.Missing)
	}
	n.problem(n.postTo("/v1/entries?links=true", api.MediaNDJSON, batchOf(n.good())), entry.Malformed, http.StatusBadRequest)
	n.problem(n.postTo("/v1/entries?links=perhaps", api.MediaJSON, e.AppendEnvelope(nil)), entry.Malformed, http.StatusBadRequest)
	n.problem(n.get("/v1/entries/0/receipt?link=true"), entry.Malformed, http.StatusBadRequest)
}

// TestOneFormOfProofs gives a verifier what the ledger answers as it is: two tree
// heads and the proof between them, a page of entries, a history.
func TestOneFormOfProofs(t *testing.T) {
	n := start(t, nil)
	older := n.post(api.MediaJSON, n.good().AppendEnvelope(nil))
	newer := n.post(api.MediaJSON, n.good().AppendEnvelope(nil))
	var m verify.Material
	must(t, m.Add("older", older.body))
	must(t, m.Add("newer", newer.body))
	sizes := [2]uint64{m.Receipts[0].Index + 1, m.Receipts[1].Index + 1}
	proof := n.get(fmt.Sprintf("/v1/consistency/%d/%d", sizes[0], sizes[1]))
	must(t, m.Add("proof", proof.body))
	report := n.verify(m)
	if got := report.Checked[1]; got.Step != verify.StepConsistency || got.Count != 2 {
		t.Errorf("checked %s, want two heads that are of one log", got)
	}
	for _, path := range []string{"/v1/entries", "/v1/agents/agent-1/history"} {
		var m verify.Material
		must(t, m.Add(path, n.get(path).body))
		if report := n.verify(m); len(report.Heads) != 1 || path == "/v1/entries" && (len(report.Missing) > 0 || len(report.Entries) != int(sizes[1])) {
			t.Errorf("%s: %d entries, missing %q", path, len(report.Entries), report.Missing)
		}
	}
}

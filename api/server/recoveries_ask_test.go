package server_test

import (
	"fmt"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// givenUp is a case of desk that escalates.
const givenUp = `{"v":1,"id":"one","agent":"desk","steps":[{"id":"s","agent":"desk","effect":"none","outcome":"failed","failure":{"class":"access","code":"denied"}}]}`

// asked returns the tasks of the log about cases.
func (n *node) asked() (all []*entry.Task) {
	n.t.Helper()
	for index := range n.log.Head().Size {
		e, err := n.log.Entry(index)
		must(n.t, err)
		if b, ok := e.Body.(*entry.Task); ok && b.About != nil {
			all = append(all, b)
		}
	}
	return all
}

// TestEscalatedCasesAsk: a case that escalates waits for people, once, with the entry of its
// attempt. So do the cases of a batch. What is not recorded, or recovers, asks nobody.
func TestEscalatedCasesAsk(t *testing.T) {
	n := start(t, nil)
	key := newSigner(t)
	n.register(n.enrol("engine-1", key, entry.RoleEngine))
	n.engineOf(key, 1000, nil)
	said := func(path, body string, want api.Recorded) {
		t.Helper()
		if got := n.recovered(n.recover(path, api.MediaJSON, body)).Recorded; got != want {
			t.Errorf("recorded %+v, want %+v", got, want)
		}
	}
	said("?record=false", givenUp, api.Recorded{Reason: api.NotWanted})
	said("", oneCase, api.Recorded{Cases: 1, Entries: 1})
	if asked := n.asked(); len(asked) != 0 {
		t.Fatalf("asked %+v", asked[0])
	}
	said("", givenUp, api.Recorded{Cases: 1, Entries: 1, Asked: 1})
	said("", givenUp, api.Recorded{Cases: 1, Known: 1})
	said("", strings.Replace(givenUp, `"effect":"none"`, `"effect":"none","latency_ms":7`, 1), api.Recorded{Cases: 1, Entries: 1}) // the same failure of the same case
	var batch strings.Builder
	for i := range 300 {
		batch.WriteString(strings.Replace(givenUp, `"id":"one"`, fmt.Sprintf(`"id":"many-%d"`, i), 1) + "\n")
	}
	lines := recoveryLines(t, n.recover("/batch", api.MediaNDJSON, batch.String()))
	if got := lines[300].End.Recorded; got.Cases != 300 || got.Asked != 300 || got.Reason != "" {
		t.Errorf("batch: %+v", got)
	}
	asked, attempts := n.asked(), map[string]bool{}
	for _, a := range n.attemptsFrom(0) {
		for c := range a.Cases() {
			attempts[a.JTI+" "+c.Case] = true
		}
	}
	if len(asked) != 301 {
		t.Fatalf("%d questions", len(asked))
	}
	for _, q := range asked {
		if !attempts[q.About.Attempt+" "+q.About.Case] || q.About.Agent != "desk" || q.Iss != "engine-1" {
			t.Errorf("%+v cites no attempt entry of the case", q.About)
		}
	}
	page := value[api.Escalations](n, "/v1/escalations?limit=1000")
	if len(page.Escalations) != 301 || page.Escalations[300].About == nil || page.Escalations[300].About.Case != "one" ||
		page.Escalations[300].State != string(entry.TaskCreated) || !strings.HasPrefix(page.Escalations[300].Question, "escalate: rule (access.denied): ") {
		t.Errorf("%d wait for people: %+v", len(page.Escalations), page.Escalations[len(page.Escalations)-1])
	}
}

package server_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/api/certificate"
	"recoveryledger/api/server"
	"recoveryledger/coord/recovery/question"
	"recoveryledger/ledger/entry"
)

// violated is a case of agent-1 that the built-in rules quarantine.
const violated = `{"v":1,"id":"one","agent":"agent-1","steps":[{"id":"STEP","effect":"none","outcome":"failed","failure":{"class":"safety","code":"violation","effects":"none"}}]}`

// TestQuarantineBecomesASignal: with the role monitor, what the server decides about a step of the
// log is a failure signal, and asks nobody beside. The same case again is the same signal. A client
// without a certificate has nothing signalled.
func TestQuarantineBecomesASignal(t *testing.T) {
	n := start(t, nil)
	key := newSigner(t)
	n.register(n.enrol("engine-1", key, entry.RoleEngine, entry.RoleMonitor))
	n.engineOf(key, 1000, nil)
	h := newHouse(t)
	files, err := certificate.Load(h.file("server.pem"), h.file("server.key"), h.file("ca.pem"))
	must(t, err)
	address, _ := n.serve(func(c *server.Config) { c.TLS = files })
	trusted := h.client()
	said := func(client *http.Client, url, step string) api.Recorded {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+api.PathRecoveries, strings.NewReader(strings.Replace(violated, "STEP", step, 1)))
		must(t, err)
		request.Header.Set("Content-Type", api.MediaJSON)
		response, err := client.Do(request)
		must(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		must(t, err)
		return n.recovered(&answer{response, text}).Recorded
	}
	x := n.execution()
	n.register(sign(t, n.agent, x))
	for i, want := range []api.Recorded{{Cases: 1, Entries: 1, Enacted: 1}, {Cases: 1, Known: 1, Enacted: 1}} {
		if got := said(trusted, "https://"+address, x.Exec); got != want {
			t.Errorf("request %d: %+v, want %+v", i, got, want)
		}
	}
	var signals []*entry.Signal
	for index := range n.log.Head().Size {
		e, err := n.log.Entry(index)
		must(t, err)
		if s, ok := e.Body.(*entry.Signal); ok {
			signals = append(signals, s)
		}
	}
	if len(signals) != 1 || signals[0].Subject != x.Ref() || signals[0].Iss != "engine-1" || signals[0].Standing != entry.StandingMonitor ||
		len(signals[0].Evidence) != 0 || signals[0].Wid != x.Wid || len(n.asked()) != 0 {
		t.Errorf("%d signals: %+v; asked %v", len(signals), signals, n.asked())
	}
	other := n.execution()
	n.register(sign(t, n.agent, other))
	for i, c := range []struct {
		client         *http.Client
		url, step, why string
	}{
		{http.DefaultClient, n.url, other.Exec, "the client has no certificate"},
		{trusted, "https://" + address, "elsewhere", "the log has no execution agent-1#elsewhere"},
	} {
		body := said(c.client, c.url, c.step)
		if asked := n.asked(); body.Asked != 1 || body.Enacted != 0 || len(asked) != i+1 || !strings.Contains(asked[i].Reason, c.why) {
			t.Errorf("%s: %+v: %+v", c.why, body, asked)
		}
	}
}

// TestQuestionsLeftOut: the answer says about how many cases there is one question alone. The list
// of what waits has every question, page by page.
func TestQuestionsLeftOut(t *testing.T) {
	n := start(t, nil)
	key := newSigner(t)
	n.register(n.enrol("engine-1", key, entry.RoleEngine))
	n.engineOf(key, 10_000, nil)
	var batch strings.Builder
	const more = 7
	for i := range question.Max + more {
		batch.WriteString(strings.Replace(givenUp, `"id":"one"`, fmt.Sprintf(`"id":"many-%d"`, i), 1) + "\n")
	}
	lines := recoveryLines(t, n.recover("/batch", api.MediaNDJSON, batch.String()))
	if got := lines[len(lines)-1].End.Recorded; got.Asked != question.Max || got.Unasked != more {
		t.Errorf("%+v", got)
	}
	listed := 0
	for path := "/v1/escalations?limit=300"; path != ""; {
		page := value[api.Escalations](n, path)
		listed, path = listed+len(page.Escalations), page.Next
	}
	if listed != question.Max+1 {
		t.Errorf("%d questions are listed", listed)
	}
}

package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// incident registers an execution, a signal about it by agent-1, and the
// coordinator's decision, and returns the signal's index.
func (n *node) incident(act entry.Act, verdict string) uint64 {
	n.t.Helper()
	x := execution("agent-1")
	x.Progress = entry.Failed
	s := &entry.Signal{Header: header("agent-1", "flow-1"), Subject: x.Ref(), Class: "tool", Code: "error", Standing: entry.StandingExecutor,
		Effects: entry.EffectsNone, ReplaySafety: entry.ReplayUnknown, ObservedAt: time.Now().UnixMilli()}
	n.add(sign(n.t, n.agent, x), sign(n.t, n.agent, s))
	id := n.log.Head().Size - 1
	state := coord.NewState(origin)
	for e, err := range n.log.Entries(n.t.Context(), 0, id+1) {
		must(n.t, err)
		state.Apply(e.Entry, e.Index, e.At)
	}
	o := coord.Order{Incident: id, Act: act, Reason: "test"}
	if verdict != "" {
		o.Signals = []entry.Disposition{{Index: id, Disposition: verdict}}
	}
	d, err := state.Draft(o, n.log.Now())
	must(n.t, err)
	h := header("judge", d.Wid)
	d.JTI, d.Iss, d.Iat = h.JTI, h.Iss, h.Iat
	n.add(sign(n.t, n.authority, d))
	return id
}

// judged is a node whose authority's key has no other roles; so its judge gets a
// key of his own.
func judged(t *testing.T) *node {
	t.Helper()
	n := start(t)
	judge := newSigner(t)
	a := n.agentEntry("judge", judge, entry.Enrol)
	body, _ := a.Body.(*entry.Agent)
	body.Roles = []entry.Role{entry.RoleCoordinator, entry.RoleApprover}
	n.add(sign(t, n.authority, body))
	n.authority = judge
	return n
}

// What a server says of incidents is passed on, from page to page.
func TestIncidents(t *testing.T) {
	n := judged(t)
	ids := []uint64{n.incident(entry.ActAuthorize, ""), n.incident(entry.ActDeny, "unfounded"), n.incident(entry.ActEscalate, "")}
	c := n.client(nil)
	var got []uint64
	for incident, err := range c.Incidents(t.Context(), client.IncidentQuery{Agent: "agent-1", Page: 1}) {
		must(t, err)
		got = append(got, incident.ID)
	}
	if len(got) != 3 || got[0] != ids[2] || got[2] != ids[0] {
		t.Fatalf("%v, want %v backwards", got, ids)
	}
	denied, err := c.Incident(t.Context(), ids[1])
	must(t, err)
	plan, err := c.Plan(t.Context(), ids[0])
	must(t, err)
	if denied.State != "DISMISSED" || plan.Decision != ids[0]+1 || len(plan.Members) != 1 {
		t.Fatalf("%+v, %+v", denied, plan)
	}
	n.tamper("/v1/incidents/", func(body []byte) []byte {
		return bytes.Replace(body, []byte(`"method":"none"`), []byte(`"method":"cancel"`), 1)
	})
	if _, err := c.Plan(t.Context(), ids[0]); !errors.Is(err, client.ErrMalformed) {
		t.Fatalf("a member that is not of the scope: %v", err)
	}
	paged := pathOfPlan(ids[0])
	for next, want := range map[string]error{paged + "?limit=1": nil, paged: client.ErrMalformed, "/v1/entries?limit=1": client.ErrMalformed,
		pathOfPlan(ids[2]) + "?limit=1": client.ErrMalformed} {
		n.pass(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != paged || r.URL.RawQuery != "" {
				n.handler.ServeHTTP(w, r)
				return
			}
			first := *plan
			first.Members, first.Next = nil, next
			w.Header().Set("Content-Type", api.MediaJSON)
			must(t, json.MarshalWrite(w, &first))
		})
		if got, err := c.Plan(t.Context(), ids[0]); !errors.Is(err, want) || err == nil && len(got.Members) != 1 {
			t.Errorf("goes on at %s: %v", next, err)
		}
	}
	n.pass(n.handler.ServeHTTP)
	count := 0
	for _, err := range c.Workflow(t.Context(), "flow-1") {
		must(t, err)
		count++
	}
	if count != 3 {
		t.Fatalf("%d executions", count)
	}
	if _, err := c.Incident(t.Context(), 1); err == nil {
		t.Fatal("an incident that is none")
	}
}

// A history is recounted from proven entries; one that its entries do not give is
// refused, whatever was changed.
func TestHistory(t *testing.T) {
	n := judged(t)
	for _, verdict := range []string{"unfounded", "confirmed", "inconclusive"} {
		n.incident(entry.ActDeny, verdict)
	}
	h, err := n.client(nil).History(t.Context(), "agent-1")
	must(t, err)
	if h.Judged != 3 || h.Confirmed != 1 || h.Unfounded != 1 || len(h.Signals) != 3 {
		t.Fatalf("%+v", h)
	}
	for _, lie := range []struct{ old, new string }{
		{`"confirmed":1`, `"confirmed":2`}, {`"unfounded":1`, `"unfounded":0`}, {`"judged":3`, `"judged":2`}, {`"corrections":0`, `"corrections":1`},
		{`"disposition":"unfounded"`, `"disposition":"confirmed"`}, {`"principal":"agent-1"`, `"principal":"agent-2"`},
		{`"standing":"executor"`, `"standing":"monitor"`},
	} {
		changed := false
		n.tamper("/v1/agents/", func(body []byte) []byte {
			other := bytes.Replace(body, []byte(lie.old), []byte(lie.new), 1)
			changed = changed || !bytes.Equal(body, other)
			return other
		})
		if _, err := n.client(nil).History(t.Context(), "agent-1"); !errors.Is(err, client.ErrMalformed) || !changed {
			t.Errorf("%s for %s (%v): %v", lie.new, lie.old, changed, err)
		}
	}
}

func pathOfPlan(id uint64) string { return fmt.Sprintf("/v1/incidents/%d/plan", id) }

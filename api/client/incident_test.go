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
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
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
	o := coord.Order{Incident: id, Act: act, Reason: "test"}
	if verdict != "" {
		o.Signals = []entry.Disposition{{Index: id, Disposition: verdict}}
		if verdict == entry.Corroborated {
			o.Signals[0].Domains, o.Signals[0].Independent = []string{"test"}, true
		}
	}
	n.decide(o)
	return id
}

// state is what follows from the log.
func (n *node) state() *coord.State {
	n.t.Helper()
	state := coord.NewState(origin)
	for e, err := range n.log.Entries(n.t.Context(), 0, n.log.Head().Size) {
		must(n.t, err)
		state.Apply(e.Entry, e.Index, e.RegisteredAt)
	}
	return state
}

// decide registers a decision of the judge.
func (n *node) decide(o coord.Order) entry.LogRef {
	n.t.Helper()
	d, err := n.state().Draft(o, n.log.Now())
	must(n.t, err)
	h := header("judge", d.Wid)
	d.JTI, d.Iss, d.Iat = h.JTI, h.Iss, h.Iat
	return n.put(n.authority, d)
}

// put registers an entry and returns where it stands.
func (n *node) put(signer *keys.Signer, body entry.Body) entry.LogRef {
	n.t.Helper()
	e := sign(n.t, signer, body)
	n.add(e)
	logged, err := n.log.Entry(n.log.Head().Size - 1)
	must(n.t, err)
	return entry.LogRef{Index: logged.Index, LeafHash: e.LeafHash(logged.RegisteredAt)}
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
	ids := []uint64{n.incident(entry.ActAuthorize, ""), n.incident(entry.ActDeny, "dismissed"), n.incident(entry.ActEscalate, "")}
	c := n.client(nil)
	var got []uint64
	for incident, err := range c.Incidents(t.Context(), api.IncidentQuery{Agent: "agent-1", Limit: 1}) {
		must(t, err)
		got = append(got, incident.ID)
	}
	if len(got) != 3 || got[0] != ids[2] || got[2] != ids[0] {
		t.Fatalf("%v, want %v backwards", got, ids)
	}
	for domain, want := range map[string]int{"test": 3, "none": 0} {
		count := 0
		for _, err := range c.Incidents(t.Context(), api.IncidentQuery{Domain: domain, Limit: 2}) {
			must(t, err)
			count++
		}
		if count != want {
			t.Errorf("domain %s: %d incidents", domain, count)
		}
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
	for next, want := range map[string]error{paged + "?before=99&limit=1": nil, paged: client.ErrMalformed, paged + "?limit=1": client.ErrMalformed,
		"/v1/entries?before=99&limit=1": client.ErrMalformed, pathOfPlan(ids[2]) + "?before=99": client.ErrMalformed} {
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

// What waits for people, the reasons of a member, and the counts of principals are passed on; other
// answers than those that were asked for are refused.
func TestAsked(t *testing.T) {
	n := judged(t)
	n.incident(entry.ActAuthorize, "")
	id := n.incident(entry.ActEscalate, "")
	c := n.client(nil)
	var waiting []api.Escalation
	for e, err := range c.Escalations(t.Context()) {
		must(t, err)
		waiting = append(waiting, *e)
	}
	if len(waiting) != 1 || waiting[0].Index != id || waiting[0].Waits.For != api.ForApprovals {
		t.Errorf("waiting for people: %+v", waiting)
	}
	v, err := c.Incident(t.Context(), id)
	must(t, err)
	subject := v.Signals[0].Subject
	why, err := c.Why(t.Context(), id, subject)
	must(t, err)
	if len(why.Chain) != 1 || why.Chain[0].Exec != subject || v.Next == nil || v.Waits.String() != v.WaitsFor {
		t.Errorf("%+v of %+v", why, v)
	}
	counts, err := c.AgentCounts(t.Context(), "")
	must(t, err)
	if got := counts["agent-1"]; got.Memberships != 1 || got.Last == 0 {
		t.Errorf("counts %+v", counts)
	}
	n.tamper("/v1/", func(body []byte) []byte {
		body = bytes.Replace(body, []byte(`"exec":"`+string(subject)), []byte(`"exec":"other#exec`), 1)
		return bytes.Replace(body, []byte(`"agents":[`), []byte(`"agents":[{"principal":"zz","domain":"","span":"workflow","roles":[],"capabilities":[],"enrolled":1,"keys":[],"counts":{"corroborated":0,"dismissed":0,"memberships":0}},`), 1)
	})
	if _, err := c.Why(t.Context(), id, subject); !errors.Is(err, client.ErrMalformed) {
		t.Errorf("the reasons of another execution: %v", err)
	}
	if _, err := c.AgentCounts(t.Context(), ""); !errors.Is(err, client.ErrMalformed) {
		t.Errorf("principals out of order: %v", err)
	}
}

// A list that goes on for ever is not followed: every page begins below the one
// before.
func TestListsEnd(t *testing.T) {
	n := judged(t)
	n.incident(entry.ActEscalate, "")
	for prefix, read := range map[string]func(*client.Client) error{
		"/v1/incidents": func(c *client.Client) (err error) {
			for _, err = range c.Incidents(t.Context(), api.IncidentQuery{}) {
			}
			return err
		},
		"/v1/escalations": func(c *client.Client) (err error) {
			for _, err = range c.Escalations(t.Context()) {
			}
			return err
		},
		"/v1/workflows/flow-1/graph": func(c *client.Client) (err error) {
			for _, err = range c.Workflow(t.Context(), "flow-1") {
			}
			return err
		},
		"/v1/agents/agent-1/history": func(c *client.Client) error {
			_, err := c.History(t.Context(), "agent-1")
			return err
		},
	} {
		asked := 0
		n.tamper(prefix, func(body []byte) []byte {
			asked++
			return fmt.Appendf(bytes.TrimSuffix(bytes.TrimSpace(body), []byte("}")), `,"next":"%s?before=%d"}`, prefix, 90+asked%2)
		})
		if err := read(n.client(nil)); !errors.Is(err, client.ErrMalformed) || asked > 3 {
			t.Errorf("%s: %d pages, %v", prefix, asked, err)
		}
	}
}

// corrected registers an incident about agent-1 that was closed, and an outcome
// by which it corrected itself then.
func (n *node) corrected() {
	n.t.Helper()
	paid := execution("agent-1")
	paid.Effect, paid.IdempotencyKey = entry.EffectCompensable, "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	for _, progress := range []entry.Progress{entry.Started, entry.Confirmed} {
		paid.Header, paid.Progress = header("agent-1", "flow-1"), progress
		n.add(sign(n.t, n.agent, paid))
	}
	n.add(sign(n.t, n.agent, &entry.Signal{Header: header("agent-1", "flow-1"), Subject: paid.Ref(), Class: "tool", Code: "error",
		Standing: entry.StandingExecutor, Effects: entry.EffectsComplete, ReplaySafety: entry.ReplayUnknown, ObservedAt: n.log.Now()}))
	id := n.log.Head().Size - 1
	d := n.decide(coord.Order{Incident: id, Act: entry.ActAuthorize, Reason: "test"})
	first := &entry.Outcome{Header: header("agent-1", "flow-1"), Incident: id, Decision: d, Exec: paid.Ref(), Result: entry.Refused, Residual: "it",
		ObservedAt: n.log.Now()}
	was := n.put(n.agent, first)
	r, err := n.state().DraftRecord(id)
	must(n.t, err)
	r.Header = header("judge", r.Wid)
	n.put(n.authority, r)
	second := *first
	second.Header, second.Result, second.Supersedes = header("agent-1", "flow-1"), entry.ResultFailed, &was
	n.put(n.agent, &second)
}

// A history is recounted from proven entries; one that its entries do not give is
// refused, whatever was changed: each count, each member of each line, and a line
// that is there twice.
func TestHistory(t *testing.T) {
	n := judged(t)
	for _, verdict := range []string{entry.Dismissed, entry.Corroborated, entry.Inconclusive} {
		n.incident(entry.ActDeny, verdict)
	}
	n.incident(entry.ActAuthorize, "")
	n.corrected()
	h, err := n.client(nil).History(t.Context(), "agent-1")
	must(t, err)
	if h.Judged != 4 || h.Corroborated != 1 || h.Independent != 1 || h.SelfReported != 1 || h.Dismissed != 1 || h.Corrections != 1 ||
		len(h.Signals) != 5 || len(h.Memberships) != 2 || len(h.Outcomes) != 2 {
		t.Fatalf("%+v", h)
	}
	for name, lie := range historyLies() {
		t.Run(name, func(t *testing.T) {
			n.t = t
			n.tamper("/v1/agents/", func(body []byte) []byte {
				var h api.History
				must(t, json.Unmarshal(body, &h))
				lie(&h)
				other, err := json.Marshal(&h)
				must(t, err)
				if bytes.Equal(other, body) {
					t.Error("nothing was changed")
				}
				return other
			})
			_, err := n.client(nil).History(t.Context(), "agent-1")
			if _, unproven := errors.AsType[*verify.StepError](err); !errors.Is(err, client.ErrMalformed) && !unproven {
				t.Error(err)
			}
		})
	}
	n.t = t
	n.tamper("/v1/agents/", func(body []byte) []byte {
		return bytes.Replace(body, []byte(`"signal_limit":1200`), []byte(`"signal_limit":9999`), 1)
	})
	if h, err := n.client(nil).History(t.Context(), "agent-1"); err != nil || h.SignalLimit != 3600*2/6 {
		t.Errorf("%v, %+v", err, h)
	}
}

// A part of a history is held to its entries as the whole is, and begins where
// the part before ended.
func TestHistoryAfter(t *testing.T) {
	n := judged(t)
	n.incident(entry.ActDeny, entry.Dismissed)
	c := n.client(nil)
	first, err := c.HistoryAfter(t.Context(), "agent-1", 0)
	must(t, err)
	n.incident(entry.ActDeny, entry.Corroborated)
	second, err := c.HistoryAfter(t.Context(), "agent-1", first.Cursor)
	must(t, err)
	if len(first.Signals) == 0 || len(second.Signals) != 1 || second.Cursor <= first.Cursor || second.Signals[0].Index <= first.Signals[0].Index {
		t.Fatalf("first %+v, second %+v", first, second)
	}
	for name, change := range map[string]func(h *api.History){
		"signal by another": func(h *api.History) { h.Signals[0].Issuer = "agent-2" },
		"other verdict":     func(h *api.History) { h.Signals[0].Disposition = entry.SelfReported },
		"cursor goes back":  func(h *api.History) { h.Cursor = 0 },
		"of another":        func(h *api.History) { h.Principal = "agent-2" },
	} {
		n.tamper("/v1/agents/", func(body []byte) []byte {
			var h api.History
			must(t, json.Unmarshal(body, &h))
			change(&h)
			other, err := json.Marshal(&h)
			must(t, err)
			return other
		})
		if _, err := n.client(nil).HistoryAfter(t.Context(), "agent-1", first.Cursor); !errors.Is(err, client.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// historyLies are what a server may say of agent-1, whose incidents are, the
// newest first: closed and corrected, authorized, inconclusive,
// corroborated, dismissed.
func historyLies() map[string]func(*api.History) {
	return map[string]func(*api.History){
		"one more corroborated":  func(h *api.History) { h.Corroborated++ },
		"one more independent":   func(h *api.History) { h.Independent++ },
		"its own word confirmed": func(h *api.History) { h.SelfReported, h.Corroborated = 0, 2 },
		"its own word counted":   func(h *api.History) { h.SelfReported-- },
		"other domains":          func(h *api.History) { h.Signals[3].Domains = []string{"elsewhere"} },
		"dependent":              func(h *api.History) { h.Signals[3].Independent = false },
		"one less dismissed":     func(h *api.History) { h.Dismissed-- },
		"one less judged":        func(h *api.History) { h.Judged-- },
		"one more correction":    func(h *api.History) { h.Corrections++ },
		"another's":              func(h *api.History) { h.Principal = "agent-2" },
		"signal by another":      func(h *api.History) { h.Signals[0].Issuer = "agent-2" },
		"signal about another":   func(h *api.History) { h.Signals[0].Subject += "x" },
		"signal with standing":   func(h *api.History) { h.Signals[0].Standing = entry.StandingMonitor },
		"signal with evidence":   func(h *api.History) { h.Signals[0].Evidence = true },
		"signal at another time": func(h *api.History) { h.Signals[0].At++ },
		"signal elsewhere":       func(h *api.History) { h.Signals[0].Index-- },
		"signal of an incident":  func(h *api.History) { h.Signals[0].Incident = h.Signals[0].Index + 1 },
		"verdict changed":        func(h *api.History) { h.Signals[4].Disposition = entry.SelfReported },
		"verdict made up": func(h *api.History) {
			h.Signals[1].Disposition, h.Signals[1].Disposed = entry.SelfReported, h.Signals[0].Disposed
		},
		"verdict kept back":       func(h *api.History) { h.Signals[4].Disposition, h.Signals[4].Disposed = "", 0 },
		"verdict by another":      func(h *api.History) { h.Signals[4].Disposed = h.Signals[3].Disposed },
		"signal twice":            func(h *api.History) { h.Signals = append(h.Signals, h.Signals[0]) },
		"membership of another":   func(h *api.History) { h.Memberships[0].Exec = "agent-2#x" },
		"membership elsewhere":    func(h *api.History) { h.Memberships[0].Incident = h.Memberships[1].Incident },
		"membership by no plan":   func(h *api.History) { h.Memberships[0].Decision = h.Signals[0].Index },
		"membership undone":       func(h *api.History) { h.Memberships[0].Result = entry.Compensated },
		"membership without end":  func(h *api.History) { h.Memberships[0].Result, h.Memberships[0].Own = "", false },
		"membership by others":    func(h *api.History) { h.Memberships[0].Own = false },
		"membership of its own":   func(h *api.History) { h.Memberships[1].Own = true },
		"membership withheld":     func(h *api.History) { h.Memberships[1].Result = entry.Withheld },
		"membership twice":        func(h *api.History) { h.Memberships = append(h.Memberships, h.Memberships[0]) },
		"outcome about another":   func(h *api.History) { h.Outcomes[0].Exec += "x" },
		"outcome with a result":   func(h *api.History) { h.Outcomes[0].Result = entry.Compensated },
		"outcome of an incident":  func(h *api.History) { h.Outcomes[0].Incident++ },
		"outcome elsewhere":       func(h *api.History) { h.Outcomes[0].Index-- },
		"outcome twice":           func(h *api.History) { h.Outcomes = append(h.Outcomes, h.Outcomes[0]) },
		"correction made up":      func(h *api.History) { h.Outcomes[0].Correction, h.Corrections = true, 2 },
		"correction hushed up":    func(h *api.History) { h.Outcomes[1].Correction, h.Corrections = false, 0 },
		"corrected, not the last": func(h *api.History) { h.Outcomes[0].Correction, h.Outcomes[1].Correction = true, false },
		"entry left out":          func(h *api.History) { h.Entries = h.Entries[1:] },
		"entry changed":           func(h *api.History) { h.Entries[0].RegisteredAt++ },
		"entry without proof":     func(h *api.History) { h.Entries[0].Proof = nil },
	}
}

// What the log takes while the pages of a history are read is no lie.
func TestHistoryWhileTheLogGrows(t *testing.T) {
	n := judged(t)
	n.incident(entry.ActDeny, entry.Corroborated)
	n.incident(entry.ActContain, "")
	last := n.log.Head().Size - 2
	pages := 0
	n.pass(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/agents/agent-1/history" {
			if q := r.URL.Query(); q.Get("before") == "" {
				q.Set("limit", "1")
				r.URL.RawQuery = q.Encode()
			}
			if pages++; pages == 2 {
				n.decide(coord.Order{Incident: last, Act: entry.ActDeny, Reason: "test", Signals: []entry.Disposition{{Index: last, Disposition: "dismissed"}}})
			}
		}
		n.handler.ServeHTTP(w, r)
	})
	h, err := n.client(nil).History(t.Context(), "agent-1")
	must(t, err)
	if pages != 4 || h.Judged != 2 || h.Dismissed != 1 {
		t.Fatalf("%d pages, %+v", pages, h)
	}
}

func pathOfPlan(id uint64) string { return fmt.Sprintf("/v1/incidents/%d/plan", id) }

package server_test

import (
	"bufio"
	"fmt"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// A signal over HTTP leads to an authorize, outcomes to the record: the coordinator
// writes both, and every step can be read.
func TestIncidentRunsByItself(t *testing.T) {
	c := newPanel(t, nil)
	c.pipeline()
	c.coordinator()
	id := c.signals("agent-1", entry.StandingExecutor, "agent-1#make")
	path := fmt.Sprintf("/v1/incidents/%d", id)
	c.until(id, entry.IncidentAuthorized)
	authorized := value[api.Incident](c.node, path)
	if d := authorized.Decision; authorized.State != "AUTHORIZED" || d == nil || d.Members != 4 || len(d.Tally) != 1 || d.Tally[entry.NotExecuted] != 3 {
		t.Fatalf("%+v", authorized)
	}
	plan := value[api.Plan](c.node, path+"/plan")
	if plan.Decision != authorized.Decision.Ref.Index || plan.Asks != nil || len(plan.Members) != 4 || plan.Members[1].Method != entry.MethodCompensate ||
		!plan.Members[1].Released || plan.Members[1].Result != "" || plan.Members[0].Result != entry.NotExecuted || plan.Members[0].Rule != "dependent" {
		t.Fatalf("%+v", plan)
	}
	checkSet(t, plan)
	for _, target := range []string{path, path + "/plan", "/v1/workflows/flow-1/graph"} {
		if a := c.refetch(target); a.StatusCode != http.StatusNotModified || len(a.body) > 0 {
			t.Errorf("%s again: %s", target, a.Status)
		}
	}
	was := c.get(path).Header.Get("ETag")
	c.put(c.outcome("agent-2", id, "agent-2#pay", entry.ResultFailed))
	c.until(id, entry.IncidentFailed)
	if is := c.get(path).Header.Get("ETag"); is == was {
		t.Error("a closed incident has the tag of an open one")
	}
	d := readDocument(t, c.node)
	for described, target := range map[string]string{"/v1/incidents": "/v1/incidents", "/v1/incidents/{id}": path, "/v1/incidents/{id}/plan": path + "/plan",
		"/v1/agents/{id}/history": "/v1/agents/agent-2/history", "/v1/workflows/{wid}/graph": "/v1/workflows/flow-1/graph"} {
		d.check(described, c.get(target))
	}
	d.check("/v1/incidents/{id}/plan", c.get(path+"/plan?preview=true"))
	closed := value[api.Incident](c.node, path)
	if closed.State != "FAILED" || closed.Recorded == 0 || closed.Signals[0].Disposition != entry.SelfReported || closed.Signals[0].Disposed != closed.Recorded {
		t.Fatalf("%+v", closed)
	}
	for sample, want := range map[string]string{`arl_incidents{state="FAILED"}`: "1", `arl_incidents{state="NO_EFFECTS"}`: "0", "arl_incidents_unacknowledged": "0"} {
		if got := c.metric(sample); got != want {
			t.Errorf("%s %s, want %s", sample, got, want)
		}
	}
}

// newSilence is a panel with an incident and a proposal about it, which has a millisecond for its
// answer.
func newSilence(t *testing.T) (c *panel, id, proposal uint64) {
	t.Helper()
	c = newPanel(t, nil)
	hasty := c.follower()
	hasty.Windows.AnswerMS = 1
	c.put(hasty)
	c.pipeline()
	id = c.signals("agent-1", entry.StandingExecutor, "agent-1#make")
	c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize}))
	return c, id, c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActEscalate})).Index
}

// An amend that nobody answered in time is in the view, the list and the metric, until
// an operator takes note. The view is as it is described, and its entity tag changes.
func TestUnansweredAmend(t *testing.T) {
	c, id, proposal := newSilence(t)
	for c.view(id).Lapsed == nil { // a millisecond
		runtime.Gosched()
	}
	path, d := fmt.Sprintf("/v1/incidents/%d", id), readDocument(t, c.node)
	shows := func(acknowledged uint64, count string, listed int) string {
		t.Helper()
		a := c.get(path)
		d.check("/v1/incidents/{id}", a)
		if l := value[api.Incident](c.node, path).Lapsed; l == nil || l.Proposal != proposal || l.At == 0 || l.Acknowledged != acknowledged {
			t.Errorf("%+v", l)
		}
		if got := c.metric("arl_incidents_unacknowledged"); got != count {
			t.Errorf("%s are counted, want %s", got, count)
		}
		if list := value[api.Incidents](c.node, "/v1/incidents?state=unacknowledged").Incidents; len(list) != listed {
			t.Errorf("%+v", list)
		}
		return a.Header.Get("ETag")
	}
	was := shows(0, "1", 1)
	noted := c.put(c.draft("olga", coord.Order{Incident: id, Act: entry.ActDeny})).Index
	if is := shows(noted, "0", 0); is == was {
		t.Error("the tag is as before")
	}
}

// The pages of a plan are its members, each once, whoever asks at the same time;
// each page names the scope of all.
func TestPlanPages(t *testing.T) {
	c := newPanel(t, nil)
	c.pipeline()
	id := c.signals("agent-1", entry.StandingExecutor, "agent-1#read")
	path := fmt.Sprintf("/v1/incidents/%d/plan", id)
	whole := value[api.Plan](c.node, path)
	if len(whole.Members) != 5 || whole.Next != "" {
		t.Fatalf("%+v", whole)
	}
	for _, query := range []string{"?limit=2", "?limit=2&preview=true", "?limit=5", "?limit=1000"} {
		paged := value[api.Plan](c.node, path+query)
		for paged.Next != "" {
			page := value[api.Plan](c.node, paged.Next)
			if page.RollbackSet != whole.RollbackSet || len(page.Members) == 0 {
				t.Fatalf("%s: %+v", paged.Next, page)
			}
			paged.Members, paged.Next = append(paged.Members, page.Members...), page.Next
		}
		if !reflect.DeepEqual(paged.Members, whole.Members) {
			t.Errorf("%s: %d members", query, len(paged.Members))
		}
	}
	left := value[api.Plan](c.node, fmt.Sprintf("%s?limit=1&preview=true&dismissed=%d", path, id))
	if len(left.Members) != 0 || left.Next != "" {
		t.Errorf("%+v", left)
	}
	for _, stranger := range []uint64{id - 1, id + 1, 99} {
		p := c.problem(c.get(fmt.Sprintf("%s?preview=true&dismissed=%d,%d", path, id, stranger)), entry.Malformed, http.StatusBadRequest)
		if p.Field != "dismissed" {
			t.Errorf("%+v", p)
		}
	}
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if a := c.get(fmt.Sprintf("%s?before=%d", path, whole.Members[i%5].Index)); a.StatusCode != http.StatusOK {
				t.Errorf("at the same time: %s", a.Status)
			}
		})
	}
	all.Wait()
	for _, bad := range []string{"?limit=0", "?limit=1001", "?before=x"} {
		if a := c.get(path + bad); a.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", bad, a.Status)
		}
	}
}

// checkSet computes the root over a plan's members, as anyone can.
func checkSet(t *testing.T, p *api.Plan) {
	t.Helper()
	var leaves []merkle.Hash
	for _, m := range p.Set() {
		leaves = append(leaves, merkle.HashLeaf(m.AppendJSON(nil)))
	}
	if head := merkle.HeadOf(leaves); head != p.RollbackSet {
		t.Fatalf("rollback set %+v, the members give %+v", p.RollbackSet, head)
	}
}

// Where people must decide, the coordinator proposes; their approvals make it
// authorize exactly what they approved.
func TestIncidentWithPeople(t *testing.T) {
	c := newPanel(t, nil)
	p := c.follower()
	p.Quorum.Approve = 2
	c.register(sign(t, c.authority, p))
	spent := c.did("agent-1", "spend", entry.EffectIrrevocable)
	c.coordinator()
	id := c.signals("agent-1", entry.StandingExecutor, spent)
	path := fmt.Sprintf("/v1/incidents/%d", id)
	c.until(id, entry.IncidentEscalated)
	preview := value[api.Plan](c.node, path+"/plan")
	if preview.Decision != 0 || preview.Asks == nil || preview.Asks.Problem != entry.ScopeExceedsPolicy || preview.Members[0].Method != entry.MethodResidual ||
		preview.Counters[0].Whose != "incident" || preview.Counters[0].Members != 1 || preview.Counters[0].Limit.Members != 100 {
		t.Fatalf("%+v", preview)
	}
	if left := value[api.Plan](c.node, fmt.Sprintf("%s/plan?preview=true&dismissed=%d", path, id)); len(left.Members) != 0 {
		t.Fatalf("%+v", left)
	}
	c.put(c.approval("ann", id, "approve"))
	waiting := value[api.Incident](c.node, path)
	if waiting.State != "ESCALATED" || len(waiting.Proposal.Approve) != 1 || waiting.Proposal.Quorum != 2 || waiting.Proposal.RollbackSet != preview.RollbackSet {
		t.Fatalf("%+v", waiting)
	}
	c.put(c.approval("ben", id, "approve"))
	c.until(id, entry.IncidentAuthorized)
	c.put(c.outcome("agent-1", id, spent, entry.ResultIrrevocable))
	c.until(id, entry.IncidentFailed)
}

// The list of incidents comes in pages, newest first, filtered.
func TestIncidentList(t *testing.T) {
	c := newPanel(t, nil)
	var ids []uint64
	for i := range 5 {
		agent := entry.Principal(fmt.Sprintf("agent-%d", 1+i%2))
		ids = append(ids, c.signals(agent, entry.StandingExecutor, c.did(agent, fmt.Sprintf("x%d", i), entry.EffectNone)))
	}
	deny := c.draft("ann", coord.Order{Incident: ids[0], Act: entry.ActDeny})
	c.put(deny)
	watcher := newSigner(t)
	enrolment := c.enrolment("watcher", watcher, entry.RoleMonitor)
	enrolment.Domain = "other"
	c.register(sign(t, c.authority, enrolment))
	c.signers["watcher"] = watcher
	c.signals("watcher", entry.StandingMonitor, "agent-1#x2")
	c.signals("watcher", entry.StandingMonitor, "agent-1#x4")
	for query, want := range map[string][]int{
		"": {4, 3, 2, 1, 0}, "?limit=2": {4, 3, 2, 1, 0}, "?agent=agent-2": {3, 1}, "?agent=agent-2&limit=1": {3, 1}, "?agent=nobody": nil,
		"?state=open": {4, 3, 2, 1}, "?state=closed": {0}, "?state=DISMISSED": {0}, "?state=REPORTED&limit=1": {4, 3, 2, 1},
		"?workflow=flow-1": {4, 3, 2, 1, 0}, "?workflow=flow-2": nil, "?agent=ann": {0},
		"?domain=test": {4, 3, 2, 1, 0}, "?domain=test&limit=2": {4, 3, 2, 1, 0}, "?domain=other": {4, 2}, "?domain=other&limit=1": {4, 2},
		"?domain=other&state=closed": nil, "?domain=other&agent=agent-2": nil, "?domain=other&agent=agent-1": {4, 2}, "?domain=none": nil,
	} {
		var got []int
		for path := "/v1/incidents" + query; path != ""; {
			page := value[api.Incidents](c.node, path)
			for _, incident := range page.Incidents {
				for i, id := range ids {
					if id == incident.ID {
						got = append(got, i)
					}
				}
			}
			path = page.Next
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	for _, query := range []string{"?limit=0", "?limit=1001", "?state=lost", "?before=x", "?sate=open"} {
		c.problem(c.get("/v1/incidents"+query), entry.Malformed, http.StatusBadRequest)
	}
	for path, want := range map[string]entry.Problem{
		"/v1/incidents/0": entry.NotFound, "/v1/incidents/-1": entry.Malformed, "/v1/incidents/3/plan?dismissed=3": entry.Malformed,
		"/v1/incidents/3/plan?preview=true&dismissed=3,": entry.Malformed, "/v1/workflows/flow-7/graph": entry.NotFound,
	} {
		c.problem(c.get(path), want, map[entry.Problem]int{entry.NotFound: 404, entry.Malformed: 400}[want])
	}
}

// A history names entries and brings each of them with a proof that leads to its
// tree head.
func TestAgentHistory(t *testing.T) {
	c := newPanel(t, nil)
	c.pipeline()
	id := c.signals("agent-1", entry.StandingExecutor, "agent-1#make")
	c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize}))
	c.put(c.outcome("agent-2", id, "agent-2#pay", entry.Withheld))
	c.put(c.drawnRecord(id))
	corrected := c.outcome("agent-2", id, "agent-2#pay", entry.ResultFailed)
	c.coord.Read(func(s *coord.State) {
		plan, _ := s.PlanInForce(id, c.log.Now())
		corrected.Supersedes = &entry.LogRef{Index: plan.Members[1].ResultAt, LeafHash: c.leaf(plan.Members[1].ResultAt)}
	})
	c.put(corrected)
	other := c.signals("agent-2", entry.StandingExecutor, c.did("agent-2", "late", entry.EffectNone))
	h := value[api.History](c.node, "/v1/agents/agent-2/history?limit=1")
	if len(h.Signals) != 1 || h.Signals[0].Index != other || len(h.Memberships) != 0 || h.Corrections != 1 || h.Next == "" {
		t.Fatalf("%+v", h)
	}
	h = value[api.History](c.node, h.Next)
	if len(h.Signals) != 0 || len(h.Memberships) != 2 || len(h.Outcomes) != 2 || h.Outcomes[0].Correction || !h.Outcomes[1].Correction || h.Next != "" {
		t.Fatalf("%+v", h)
	}
	head, err := c.root().Head([]byte(h.Head))
	must(t, err)
	proven := map[uint64]bool{0: true}
	for _, item := range h.Entries {
		receipt, err := item.Receipt(h.Head)
		must(t, err)
		must(t, merkle.CheckInclusion(item.Index, merkle.HashLeaf(receipt.Leaf), head, item.Proof))
		proven[item.Index] = true
	}
	for _, m := range h.Memberships {
		if !proven[m.Decision] || !proven[m.ResultAt] || m.Result == "" {
			t.Errorf("%+v is not proven", m)
		}
	}
	judged := value[api.History](c.node, "/v1/agents/agent-1/history")
	if judged.Judged != 1 || judged.SelfReported != 1 || judged.Signals[0].Disposition != entry.SelfReported || judged.SignalLimit != 3600 {
		t.Fatalf("%+v", judged)
	}
}

// A reader that goes on from the cursor of a history sees each incident again
// when something in it changes, however old it is, and nothing else.
func TestAgentHistoryForward(t *testing.T) {
	c := newPanel(t, nil)
	c.pipeline()
	const path = "/v1/agents/agent-2/history?"
	seen := func(after uint64, limit int) (h *api.History, incidents []uint64) {
		h = value[api.History](c.node, fmt.Sprintf("%safter=%d&limit=%d", path, after, limit))
		for _, m := range h.Memberships {
			incidents = append(incidents, m.Incident)
		}
		for _, s := range h.Signals {
			incidents = append(incidents, s.Incident)
		}
		return h, slices.Compact(incidents)
	}
	old := c.signals("agent-1", entry.StandingExecutor, "agent-1#make")
	c.put(c.draft("coordinator", coord.Order{Incident: old, Act: entry.ActAuthorize}))
	young := c.signals("agent-2", entry.StandingExecutor, c.did("agent-2", "late", entry.EffectNone))
	h, got := seen(0, 10)
	if !slices.Equal(got, []uint64{old, young}) || h.Cursor != young || h.Next != "" {
		t.Fatalf("from the beginning: %v, cursor %d, next %q", got, h.Cursor, h.Next)
	}
	first, got := seen(0, 1)
	if !slices.Equal(got, []uint64{old}) || first.Next == "" {
		t.Fatalf("a page of one: %v, next %q", got, first.Next)
	}
	if second := value[api.History](c.node, first.Next); len(second.Signals) != 1 || second.Signals[0].Incident != young || second.Cursor != young {
		t.Fatalf("the next page: %+v", second)
	}
	if h, got = seen(h.Cursor, 10); len(got) != 0 || h.Cursor != young {
		t.Fatalf("nothing new: %v, cursor %d", got, h.Cursor)
	}
	c.put(c.outcome("agent-2", old, "agent-2#pay", entry.Withheld))
	if h, got = seen(h.Cursor, 10); !slices.Equal(got, []uint64{old}) || len(h.Outcomes) != 1 || h.Cursor != h.Outcomes[0].Index {
		t.Fatalf("an old incident changed: %v, cursor %d, %+v", got, h.Cursor, h.Outcomes)
	}
	for _, query := range []string{"after=1&before=2", "after=x", "after=01"} {
		if a := c.get(path + query); a.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", query, a.Status)
		}
	}
}

// leaf returns the leaf hash of an entry.
func (c *panel) leaf(index uint64) merkle.Hash {
	c.t.Helper()
	logged, err := c.log.Entry(index)
	must(c.t, err)
	return logged.LeafHash()
}

// The graph of a workflow has its executions with their dependencies, in pages.
func TestWorkflowGraph(t *testing.T) {
	c := newPanel(t, nil)
	c.pipeline()
	var got []string
	for path := "/v1/workflows/flow-1/graph?limit=2"; path != ""; {
		page := value[api.Graph](c.node, path)
		for _, x := range page.Executions {
			for _, parent := range x.Parents {
				got = append(got, string(parent.Exec)+" → "+string(x.Exec))
			}
		}
		path = page.Next
	}
	if want := "agent-1#make → agent-3#look,agent-2#build → agent-2#pay,agent-1#make → agent-2#build,agent-1#read → agent-1#make"; strings.Join(got, ",") != want {
		t.Fatalf("%v", got)
	}
}

// Events of one incident alone, whatever else is registered, resumed by index.
func TestIncidentEvents(t *testing.T) {
	c := newPanel(t, nil)
	c.pipeline()
	c.coordinator()
	id := c.signals("agent-1", entry.StandingExecutor, "agent-1#make")
	c.until(id, entry.IncidentAuthorized)
	request := c.request(http.MethodGet, fmt.Sprintf("/v1/events?incident=%d", id), "", nil)
	request.Header.Set("Last-Event-ID", fmt.Sprint(id))
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	c.register(c.good(), c.good())
	c.put(c.outcome("agent-2", id, "agent-2#pay", entry.ResultFailed))
	var kinds []entry.Kind
	var head string
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for event := ""; len(kinds) < 3 && lines.Scan(); {
		field, data, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case field == "event":
			event = data
		case field == "data" && event == api.EventHead:
			var announced api.HeadEvent
			must(t, json.Unmarshal([]byte(data), &announced))
			head = announced.Head
		case field == "data":
			var item api.Item
			must(t, json.Unmarshal([]byte(data), &item))
			receipt, err := item.Receipt(head)
			must(t, err)
			e, _, err := entry.DecodeLeaf(receipt.Leaf)
			must(t, err)
			kinds = append(kinds, e.Kind)
		}
	}
	if fmt.Sprint(kinds) != "[decision outcome record]" {
		t.Fatalf("%v", kinds)
	}
	c.problem(c.get("/v1/events?incident=x"), entry.Malformed, http.StatusBadRequest)
	c.problem(c.get("/v1/events?kind=rumour"), entry.Malformed, http.StatusBadRequest)
}

// An incident that waits while others may build on it says so, with the reason;
// and so do its preview and the metric.
func TestNotFenced(t *testing.T) {
	c := newPanel(t, nil)
	c.pipeline()
	id := c.signals("agent-1", entry.StandingExecutor, "agent-1#make")
	incident, plan := fmt.Sprintf("/v1/incidents/%d", id), fmt.Sprintf("/v1/incidents/%d/plan?preview=true", id)
	shown := func(why, unfenceable, count string, members int) {
		t.Helper()
		i, p := value[api.Incident](c.node, incident), value[api.Plan](c.node, plan)
		fenced := 0
		for _, m := range p.Members {
			if m.Fenced {
				fenced++
			}
		}
		if i.NotFenced != why || p.NotFenced != unfenceable || fenced != members {
			t.Errorf("%q, preview %q, %d members are fenced", i.NotFenced, p.NotFenced, fenced)
		}
		if got := c.metric("arl_incidents_not_fenced"); got != count {
			t.Errorf("%s incidents are not fenced, want %s", got, count)
		}
	}
	shown("no decision has fenced anything yet", "", "1", 0)
	c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActContain}))
	shown("", "", "0", 4)
	c.put(c.draft("ann", coord.Order{Incident: id, Act: entry.ActDeny}))
	shown("", "", "0", 0)

	p, fence := c.follower(), entry.DefaultFence()
	fence.Incident.Agents = 2
	p.Limits.Fence = &fence
	c.register(sign(t, c.authority, p))
	id = c.signals("agent-1", entry.StandingExecutor, "agent-1#make")
	incident, plan = fmt.Sprintf("/v1/incidents/%d", id), fmt.Sprintf("/v1/incidents/%d/plan?preview=true", id)
	c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActEscalate}))
	const why = "3 agents of the incident, a fence may have 2 (limits.fence.incident.agents)"
	shown(why, why, "1", 0)
	counted := slices.IndexFunc(value[api.Plan](c.node, plan).Counters, func(k api.Counter) bool {
		return k.For == "fence" && k.Whose == "incident" && k.Agents == 3 && k.Limit.Agents == 2
	})
	if counted < 0 {
		t.Error("the preview does not count what a fence would have")
	}
}

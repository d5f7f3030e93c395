package server_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/api/server"
	"recoveryledger/coord/coordinator"
	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/testdata/coordlog"
)

const (
	leasePath  = "/v1/tasks/{id}/lease"
	leasesPath = "/v1/leases"
)

// renewRaw posts anything as a renewal.
func (n *node) renewRaw(path, mediaType string, body []byte) *answer {
	n.t.Helper()
	return n.do(n.request(http.MethodPost, path, mediaType, body))
}

// crew is a panel with tasks.
type crew struct{ *panel }

func newCrew(t *testing.T) crew {
	t.Helper()
	return crew{newPanel(t, nil)}
}

// create registers a task of olga's.
func (c crew) create(id string, change func(*entry.Task)) entry.Ref {
	c.t.Helper()
	b := &entry.Task{Header: c.header("olga", "flow-1"), Task: entry.NewRef("olga", id), Op: entry.TaskCreate, From: entry.TaskCreated, To: entry.TaskCreated, Reason: "new"}
	if change != nil {
		change(b)
	}
	c.put(b)
	return b.Task
}

func taskPath(ref entry.Ref) string {
	return "/v1/tasks/" + strings.ReplaceAll(string(ref), "#", "%23")
}

func (c crew) task(ref entry.Ref) *api.Task {
	c.t.Helper()
	task := value[api.Task](c.node, taskPath(ref))
	return task
}

// move returns the entry that moves a task on.
func (c crew) move(iss entry.Principal, ref entry.Ref, op string, agent entry.Principal) *entry.Task {
	c.t.Helper()
	b, ok := c.task(ref).Move(op, agent, "test")
	if !ok {
		c.t.Fatalf("no %s of %+v", op, c.task(ref))
	}
	wid := b.Wid
	b.Header = c.header(iss, wid)
	return b
}

// renewal returns a signed renewal of the lease that a task has now.
func (c crew) renewal(iss entry.Principal, task *api.Task, change func(*entry.Renewal)) *entry.SignedRenewal {
	c.t.Helper()
	r := &entry.Renewal{Aud: origin, Iss: iss, Leases: []entry.Lease{{Task: task.Task, Epoch: task.Epoch}}, Session: "none", Seq: 1}
	if task.Lease != nil {
		r.Session, r.Seq = task.Lease.Session, task.Lease.Seq+1
	}
	if change != nil {
		change(r)
	}
	signed, err := c.signers[iss].SignRenewal(r)
	must(c.t, err)
	return signed
}

func (c crew) renew(r *entry.SignedRenewal) *answer {
	c.t.Helper()
	body, err := entry.EncodeRenewal(r)
	must(c.t, err)
	return c.renewRaw(taskPath(r.Leases[0].Task)+"/lease", api.MediaJSON, body)
}

func (c crew) renewAll(r *entry.SignedRenewal) *answer {
	c.t.Helper()
	body, err := entry.EncodeRenewal(r)
	must(c.t, err)
	return c.renewRaw(leasesPath, api.MediaJSON, body)
}

// Tasks are listed newest first, by state, agent and workflow, on pages of every
// size; what is said of one follows its entries, and its tag changes with it.
func TestTasks(t *testing.T) {
	c := newCrew(t)
	one := c.create("one", func(b *entry.Task) { b.Type = "cook" })
	two := c.create("two", nil)
	three := c.create("three", func(b *entry.Task) { b.Wid = "flow-2" })
	c.put(c.move("coordinator", one, entry.TaskAssign, "agent-1"))
	c.put(c.move("coordinator", three, entry.TaskAssign, "agent-2"))
	c.put(c.move("agent-2", three, entry.TaskBlock, ""))
	list := func(query string) (found []entry.Ref) {
		t.Helper()
		for path := "/v1/tasks?limit=1" + query; path != ""; {
			page := value[api.Tasks](c.node, path)
			for _, task := range page.Tasks {
				found = append(found, task.Task)
			}
			path = page.Next
		}
		return found
	}
	for query, want := range map[string][]entry.Ref{
		"": {three, two, one}, "&state=CREATED": {two}, "&state=open": {three, two, one}, "&state=closed": nil, "&state=operator": {three, two},
		"&agent=agent-1": {one}, "&workflow=flow-2": {three}, "&agent=agent-1&workflow=flow-2": nil,
	} {
		if got := list(query); strings.Join(texts(got), " ") != strings.Join(texts(want), " ") {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	task := c.task(one)
	if task.State != entry.TaskAssigned || task.Agent != "agent-1" || task.Epoch != 1 || task.MaxRetries != 1 || task.LeaseMS != 90_000 ||
		task.Lease == nil || task.Lease.RenewMS != 30_000 || task.Reason != "test" || task.Type != "cook" {
		t.Errorf("%+v, lease %+v", task, task.Lease)
	}
	if question := c.task(three); question.Waits != api.WaitsOperator || question.Lease != nil {
		t.Errorf("%+v", question)
	}
	if a := c.refetch(taskPath(three)); a.StatusCode != http.StatusNotModified {
		t.Errorf("again: %s", a.Status)
	}
	for sample, want := range map[string]string{`arl_tasks{state="ASSIGNED"}`: "1", `arl_tasks{state="BLOCKED"}`: "1", "arl_leases": "1",
		"arl_task_retries_total": "0", "arl_leases_lost_total": "0"} {
		if got := c.metric(sample); got != want {
			t.Errorf("%s %s, want %s", sample, got, want)
		}
	}
}

func texts(refs []entry.Ref) (list []string) {
	for _, ref := range refs {
		list = append(list, string(ref))
	}
	return list
}

// A lease is renewed by who holds the task, once with each seq; what is wrong is a
// problem and changes nothing.
func TestRenewals(t *testing.T) {
	c := newCrew(t)
	ref := c.create("one", nil)
	c.problem(c.renew(c.renewal("agent-1", &api.Task{Task: ref, Epoch: 1}, nil)), entry.StaleEpoch, http.StatusConflict)
	c.put(c.move("coordinator", ref, entry.TaskAssign, "agent-1"))
	task := c.task(ref)
	good := c.renewal("agent-1", task, nil)
	if a := c.renew(good); a.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", a.Status, a.body)
	}
	task = c.task(ref)
	for _, p := range []struct {
		name    string
		renewal *entry.SignedRenewal
		problem entry.Problem
		status  int
	}{
		{"the same again", good, entry.StateConflict, 409},
		{"unknown task", c.renewal("agent-1", &api.Task{Task: "olga#none", Epoch: 1}, nil), entry.NotFound, 404},
		{"foreign lease", c.renewal("agent-2", task, nil), entry.NoStanding, 403},
		{"wrong epoch", c.renewal("agent-1", task, func(r *entry.Renewal) { r.Leases[0].Epoch = 2 }), entry.StaleEpoch, 409},
		{"another session", c.renewal("agent-1", task, func(r *entry.Renewal) { r.Session = "old" }), entry.StateConflict, 409},
		{"another ledger", c.renewal("agent-1", task, func(r *entry.Renewal) { r.Aud = "ledger.example/other" }), entry.WrongAudience, 403},
		{"an operator", c.renewal("olga", task, nil), entry.UnauthorizedRole, 403},
	} {
		before, size := c.task(ref).Lease.Seq, c.log.Head().Size
		c.problem(c.renew(p.renewal), p.problem, p.status)
		if c.task(ref).Lease.Seq != before || c.log.Head().Size != size {
			t.Errorf("%s: the lease has changed", p.name)
		}
	}
}

// Leases that an agent holds are renewed by one request; each is answered by itself,
// with the lease or the problem, which the metrics count. What is wrong with the
// whole is a problem, and changes nothing.
func TestRenewalsTogether(t *testing.T) {
	var log lockedBuffer
	c := crew{newPanel(t, func(c *server.Config) { c.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })}
	one, two, foreign, free := c.create("one", nil), c.create("two", nil), c.create("foreign", nil), c.create("free", nil)
	for ref, agent := range map[entry.Ref]entry.Principal{one: "agent-1", two: "agent-1", foreign: "agent-2"} {
		c.put(c.move("coordinator", ref, entry.TaskAssign, agent))
	}
	all := func(change func(*entry.Renewal)) *entry.SignedRenewal {
		t.Helper()
		return c.renewal("agent-1", c.task(one), func(r *entry.Renewal) {
			r.Leases = nil
			for _, ref := range []entry.Ref{two, foreign, one, free, "olga#none"} {
				r.Leases = append(r.Leases, entry.Lease{Epoch: 1, Task: ref})
			}
			if change != nil {
				change(r)
			}
		})
	}
	sent := all(nil)
	var answer api.Renewed
	must(t, json.Unmarshal(c.renewAll(sent).body, &answer))
	got := answer.Leases
	want := []string{"", "no-standing iss", "", "stale-epoch leases[3].epoch", "not-found leases[4].task"}
	for i := range want {
		switch p := got[i].Problem; {
		case want[i] == "" && (got[i].Lease == nil || got[i].Lease.Task != sent.Leases[i].Task || got[i].Lease.Seq != 1 || p != nil):
			t.Errorf("lease %d: %+v", i, got[i])
		case want[i] != "" && (p == nil || string(p.Name())+" "+p.Field != want[i] || p.RequestID() == ""):
			t.Errorf("lease %d: %+v", i, p)
		}
	}
	if stale := c.metric(`arl_refusals_total{problem="stale-epoch"}`); len(got) != len(want) || c.task(foreign).Lease.Seq != 0 || stale != "1" {
		t.Errorf("%d leases, %+v, stale epochs counted: %s", len(got), c.task(foreign).Lease, stale)
	}
	if told := log.records(t, "refused"); len(told) != 3 || told[0]["problem"] != "no-standing" || told[0]["request"] != got[4].Problem.RequestID() {
		t.Errorf("%v", told)
	}
	forged := all(nil)
	forged.Sig[0] ^= 1
	c.problem(c.renewAll(forged), entry.BadSignature, http.StatusBadRequest)
	c.problem(c.renewAll(all(func(r *entry.Renewal) { r.Aud = "ledger.example/other" })), entry.WrongAudience, http.StatusForbidden)
	mixed := all(nil)
	mixed.Iss = "agent-2"
	c.problem(c.renewAll(mixed), entry.UnknownIssuer, http.StatusUnauthorized)
	c.problem(c.renewRaw(leasesPath, api.MediaJSON, []byte("{}")), entry.Malformed, http.StatusBadRequest)
	c.problem(c.renewRaw(leasesPath+"?x=1", api.MediaJSON, nil), entry.Malformed, http.StatusBadRequest)
	c.problem(c.renewRaw(leasesPath, api.MediaJSON, bytes.Repeat([]byte{' '}, entry.MaxRenewal+1)), entry.TooLarge, http.StatusRequestEntityTooLarge)
	if a := c.renewRaw(leasesPath, api.MediaNDJSON, nil); a.StatusCode != http.StatusUnsupportedMediaType {
		t.Error(a.Status)
	}
	body, err := entry.EncodeRenewal(all(nil))
	must(t, err)
	if p := c.problem(c.renewRaw(taskPath(two)+"/lease", api.MediaJSON, body), entry.Malformed, http.StatusBadRequest); p.Field != "leases" {
		t.Errorf("%+v", p)
	}
	if task := c.task(one); task.Lease.Seq != 1 {
		t.Errorf("%+v", task.Lease)
	}
}

// What an entry of a task may not say is a problem, and the task stays as it is.
func TestTaskProblems(t *testing.T) {
	c := newCrew(t)
	ref := c.create("one", nil)
	c.put(c.move("coordinator", ref, entry.TaskAssign, "agent-1"))
	raw := func(iss entry.Principal, change string, to string) []byte {
		t.Helper()
		b := &entry.Task{Header: c.header(iss, "flow-1"), Task: "olga#two", Op: entry.TaskCreate, From: entry.TaskCreated, To: entry.TaskCreated, Reason: "new"}
		retries := int64(1)
		b.MaxRetries = &retries
		e, err := entry.New(b)
		must(t, err)
		return envelope(t, c.signers[iss], entry.KindTask, strings.Replace(string(e.Payload()), change, to, 1))
	}
	body := func(b *entry.Task, change func(*entry.Task)) []byte {
		change(b)
		return c.by(b).AppendEnvelope(nil)
	}
	for _, p := range []struct {
		name    string
		send    []byte
		problem entry.Problem
		status  int
		field   string
	}{
		{"negative max_retries", raw("olga", `"max_retries":1`, `"max_retries":-1`), entry.Malformed, 400, "max_retries"},
		{"huge max_retries", raw("olga", `"max_retries":1`, `"max_retries":101`), entry.Malformed, 400, "max_retries"},
		{"unknown task", body(c.move("agent-1", ref, entry.TaskStart, ""), func(b *entry.Task) { b.Task = "olga#none" }), entry.UnknownSubject, 422, "task"},
		{"foreign holder", body(c.move("agent-2", ref, entry.TaskStart, ""), func(b *entry.Task) { b.Agent = "" }), entry.NoStanding, 403, "iss"},
		{"wrong epoch", body(c.move("agent-1", ref, entry.TaskStart, ""), func(b *entry.Task) { b.Epoch = 2 }), entry.StaleEpoch, 409, "epoch"},
		{"another role", body(c.move("agent-1", ref, entry.TaskCancel, ""), func(*entry.Task) {}), entry.UnauthorizedRole, 403, "iss"},
		{"loss before its time", body(c.move("coordinator", ref, entry.TaskFail, ""), func(*entry.Task) {}), entry.StateConflict, 409, "op"},
	} {
		before := c.get(taskPath(ref)).Header.Get("ETag") != ""
		size := c.log.Head().Size
		if got := c.problem(c.post(api.MediaJSON, p.send), p.problem, p.status); got.Field != p.field {
			t.Errorf("%s: field %q, want %q", p.name, got.Field, p.field)
		}
		if c.log.Head().Size != size || !before || c.task(ref).State != entry.TaskAssigned {
			t.Errorf("%s: something has changed", p.name)
		}
	}
}

// envelope signs payload bytes that no entry would be made of.
func envelope(t *testing.T, signer *keys.Signer, kind entry.Kind, payload string) []byte {
	t.Helper()
	good, err := entry.New(&entry.Execution{Header: entry.Header{V: 1, JTI: "00000000-0000-0000-0000-000000000001", Iss: "x", Aud: origin, Iat: 1, Wid: "w"},
		Exec: "x", Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Planned})
	must(t, err)
	must(t, signer.Sign(good)) // the payload is refused before its signature is looked at
	text := string(good.AppendEnvelope(nil))
	_, rest, _ := strings.Cut(text, `","payloadType":"`)
	_, seal, _ := strings.Cut(rest, `","signatures"`)
	return []byte(`{"payload":"` + base64.StdEncoding.EncodeToString([]byte(payload)) + `","payloadType":"` + kind.PayloadType() + `","signatures"` + seal)
}

// A lease that nobody renews is lost: the coordinator says so in the log, the
// metrics count it, and its holder is refused from then on.
func TestLostLease(t *testing.T) {
	c := newCrew(t)
	term := int64(entry.MinLeaseMS)
	ref := c.create("one", func(b *entry.Task) { b.LeaseMS = &term })
	c.put(c.move("coordinator", ref, entry.TaskAssign, "agent-1"))
	held := c.task(ref)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	coordinator := &coordinator.Coordinator{Replica: c.coord, Log: coordlog.Log{Log: c.log}, Principal: "coordinator", Seal: c.signers["coordinator"].Sign}
	size := c.log.Head().Size
	go func() { done <- coordinator.Run(ctx) }()
	must(t, c.log.Wait(t.Context(), size+1))
	cancel()
	must(t, <-done)
	if task := c.task(ref); task.State != entry.TaskFailed || task.Lease != nil || task.Reason != "the lease was lost" {
		t.Fatalf("%+v", task)
	}
	size = c.log.Head().Size
	c.problem(c.renew(c.renewal("agent-1", held, nil)), entry.StateConflict, http.StatusConflict)
	if lost := c.metric("arl_leases_lost_total"); lost != "1" {
		t.Errorf("%s leases lost", lost)
	}
	late := &entry.Execution{Header: c.header("agent-1", "flow-1"), Exec: "late", Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Planned, Task: ref}
	c.problem(c.post(api.MediaJSON, c.by(late).AppendEnvelope(nil)), entry.StaleEpoch, http.StatusConflict)
	if now := c.log.Head().Size; now != size || c.task(ref).State != entry.TaskFailed {
		t.Errorf("%d entries instead of %d, and the task is %s", now, size, c.task(ref).State)
	}
}

// What the policy wants done about a task that failed is told with it: whom it
// waits for, by which strategy and rule, and how it has ended before. A release
// begins anew.
func TestTaskRecovery(t *testing.T) {
	c := newCrew(t)
	rules, err := recovery.Load("rules.yaml", []byte(strings.Replace(string(recovery.DefaultDocument()), "  rules:\n", `  rules:
    - id: kitchen
      when: class == "crash" && task_type == "cook"
      ladder:
        - { strategy: fail_reassign, backoff: { base_ms: 600000, factor: 1, max_ms: 600000 } }
        - { strategy: escalate }
      remediation: ask the cook
`, 1)))
	must(t, err)
	policy := c.follower()
	policy.Recovery = rules.JSON()
	c.put(policy)
	ref := c.create("one", func(b *entry.Task) {
		three := int64(3)
		b.Type, b.MaxRetries = "cook", &three
	})
	fail := func(agent entry.Principal, id string, op string) *api.Task {
		t.Helper()
		c.put(c.move(map[string]entry.Principal{entry.TaskAssign: "coordinator", entry.TaskReassign: "olga", entry.TaskRelease: "olga"}[op], ref, op, agent))
		x := &entry.Execution{Header: c.header(agent, "flow-1"), Exec: id, Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Failed, Task: ref}
		c.put(x)
		over := c.move("coordinator", ref, entry.TaskFail, "")
		over.Snapshot = &entry.Snapshot{Exec: x.Ref(), Agent: agent, Status: "failed", StartedAt: 1, TakenAt: 1, Class: "crash", Code: "oom", ContextDigest: someDigest}
		c.put(over)
		return c.task(ref)
	}
	listed := func(state string) int { return len(value[api.Tasks](c.node, "/v1/tasks?state="+state).Tasks) }
	task := fail("agent-1", "x", entry.TaskAssign)
	if !task.Unassignable || task.Waits != api.WaitsOperator || listed("operator") != 1 || task.GivenBy != entry.TaskReassign ||
		*task.Reassign != (api.Reassignment{Except: "agent-1", Obstacle: api.ObstacleUnassignable}) {
		t.Errorf("no agent can do it: %+v, %+v", task, task.Reassign)
	}
	cook := c.enrolment("cook", newSigner(t), entry.RoleAgent)
	cook.Capabilities = []string{"cook"}
	c.register(sign(t, c.authority, cook))
	task = c.task(ref)
	if r := task.Recovery; r == nil || r.Strategy != "fail_reassign" || r.Rule != "kitchen[0]" || r.Reason != "ladder" || r.Due != task.ChangedAt+600_000 ||
		r.Remediation != "ask the cook" || !r.Another || task.Unassignable || len(task.Candidates) != 1 || task.Waits != api.WaitsCoordinator || listed("operator") != 0 {
		t.Errorf("%+v, %+v", task, r)
	}
	if *task.Reassign != (api.Reassignment{Agent: "cook", Except: "agent-1"}) {
		t.Errorf("%+v", task.Reassign)
	}
	for _, one := range value[api.Tasks](c.node, "/v1/tasks").Tasks {
		if one.Reassign != nil {
			t.Errorf("in a list: %+v", one.Reassign)
		}
	}
	if len(task.Failures) != 1 || task.Failures[0].Class != "crash" || task.Failures[0].Code != "oom" || task.Failures[0].Checkpoint {
		t.Errorf("failures %+v", task.Failures)
	}
	policy = c.follower()
	policy.Recovery = []byte(strings.Replace(string(rules.JSON()), `"id":"kitchen","ladder":[{"backoff":{"base_ms":600000,"factor":1,"max_ms":600000},"strategy":"fail_reassign"},`,
		`"id":"kitchen","ladder":[{"strategy":"quarantine"},`, 1))
	c.put(policy)
	if task = c.task(ref); task.Recovery.Strategy != "quarantine" || task.Recovery.Another || task.Waits != api.WaitsOperator || listed("operator") != 1 {
		t.Errorf("%+v, %+v", task, task.Recovery)
	}
	if task = fail("agent-2", "y", entry.TaskReassign); len(task.Failures) != 2 || task.Recovery.Strategy != "quarantine" {
		t.Errorf("%+v, %+v", task, task.Recovery)
	}
	fail("agent-1", "z", entry.TaskReassign)
	if task = fail("agent-2", "last", entry.TaskReassign); task.RetryCount != 3 || task.Recovery != nil || task.Waits != api.WaitsOperator {
		t.Errorf("no retry is left: %+v, %+v", task, task.Recovery)
	}
	if task = fail("agent-1", "released", entry.TaskRelease); len(task.Failures) != 1 {
		t.Errorf("after a release: %+v", task.Failures)
	}
}

// tasks meets what tasks and leases answer.
func (d *document) tasks(n *node) {
	d.t.Helper()
	c := crew{&panel{node: n, signers: map[entry.Principal]*keys.Signer{"agent-1": n.agent, "olga": newSigner(d.t), "coordinator": newSigner(d.t), "nobody": newSigner(d.t)}}}
	n.register(n.enrol("olga", c.signers["olga"], entry.RoleOperator), n.enrol("coordinator", c.signers["coordinator"], entry.RoleCoordinator))
	ref := c.create("one", nil)
	c.put(c.move("coordinator", ref, entry.TaskAssign, "agent-1"))
	d.check("/v1/tasks", n.get("/v1/tasks"))
	d.check("/v1/tasks/{id}", n.get(taskPath(ref)))
	blocked := c.create("two", nil)
	d.check("/v1/tasks/{id}", n.refetch(taskPath(blocked)))
	task := c.task(ref)
	forged := c.renewal("agent-1", task, nil)
	forged.Sig[0] ^= 1
	for _, r := range []*entry.SignedRenewal{
		c.renewal("agent-1", task, nil), forged, c.renewal("nobody", task, nil), c.renewal("olga", task, nil),
		c.renewal("agent-1", &api.Task{Task: "olga#none", Epoch: 1}, nil), c.renewal("agent-1", task, func(r *entry.Renewal) { r.Leases[0].Epoch = 9 }),
	} {
		d.check(leasePath, c.renew(r))
		d.check(leasesPath, c.renewAll(r))
	}
	d.check(leasesPath, n.renewRaw(leasesPath, "text/plain", nil))
	d.check(leasesPath, n.renewRaw(leasesPath, api.MediaJSON, []byte("{}")))
	d.check(leasesPath, n.renewRaw(leasesPath, api.MediaJSON, bytes.Repeat([]byte{' '}, entry.MaxRenewal+1)))
	d.check(leasesPath, c.renewAll(c.renewal("agent-1", task, func(r *entry.Renewal) { r.Aud = "ledger.example/other" })))
	d.check(leasePath, n.renewRaw(taskPath(ref)+"/lease", "text/plain", nil))
	d.check(leasePath, n.renewRaw(taskPath(ref)+"/lease", api.MediaJSON, []byte("{}")))
	d.check(leasePath, n.renewRaw(taskPath(ref)+"/lease", api.MediaJSON, bytes.Repeat([]byte{' '}, entry.MaxRenewal+1)))
	other, err := entry.EncodeRenewal(c.renewal("agent-1", task, nil))
	must(d.t, err)
	d.check(leasePath, n.renewRaw("/v1/tasks/olga%23two/lease", api.MediaJSON, other))
}

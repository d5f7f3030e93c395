package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/api"
	"recoveryledger/api/metrics"
	"recoveryledger/api/server"
	"recoveryledger/coord"
	"recoveryledger/coord/recovery"
	"recoveryledger/ledger"
	"recoveryledger/ledger/complete"
	"recoveryledger/ledger/entry"
)

// elsewhere are the metrics that tests of processes provoke: the file of the test, and what it
// asserts.
var elsewhere = map[string][2]string{
	"arl_snapshots_damaged_total":        {"../../cmd/arl/damage_process_test.go", `"arl_snapshots_damaged_total 1"`},
	invariantSeries(metrics.Forked):      {"../../cmd/arl/fork_process_test.go", "m.shows(`arl_invariant_violations_total{invariant=\"forked\"} 1`)"},
	invariantSeries(metrics.Diverged):    {"../../cmd/arl/cell/fault_process_test.go", "`arl_invariant_violations_total{invariant=\"diverged\"} 1`"},
	invariantSeries(metrics.Lost):        {"../../cmd/arl/damage_process_test.go", `m.unreadable(middle.Index, "lost")`},
	invariantSeries(metrics.CorruptRead): {"../../cmd/arl/damage_process_test.go", `m.unreadable(middle.Index, "corrupt_read")`},
	"arl_backup_timestamp_seconds":       {"../../testdata/scripts/drill_backup-old.txtar", `metric arl_backup_timestamp_seconds !0`},
	"arl_backup_entries":                 {"../../testdata/scripts/drill_backup-old.txtar", `metric arl_backup_entries 5`},
	"arl_checked_timestamp_seconds":      {"../../testdata/scripts/drill_capacity.txtar", `metric 'arl_checked_timestamp_seconds{check="audit"}' !0`},
	"arl_checked_sound":                  {"../../testdata/scripts/drill_capacity.txtar", `metric 'arl_checked_sound{check="fsck"}' 1`},
	"arl_checked_entries":                {"../../testdata/scripts/drill_capacity.txtar", `metric 'arl_checked_entries{check="fsck"}' 4`},
	"arl_rollouts_aborted_total":         {"../../testdata/scripts/drill_rollout-wrong.txtar", `metric 'arl_rollouts_aborted_total{gate="unsafe"}' 1`},
	"arl_disk_read_only":                 {"../../testdata/scripts/drill_disk-read-only.txtar", "metric arl_disk_read_only 1"},
	"arl_cluster_paused":                 {"../../cmd/arl/cell/full_linux_test.go", `"arl_cluster_paused 1"`},
	"arl_cluster_etcd_bytes":             {"../../cmd/arl/cell/full_linux_test.go", `"arl_cluster_etcd_bytes"`},
	"arl_cluster_etcd_used_bytes":        {"../../cmd/arl/cell/full_linux_test.go", `"arl_cluster_etcd_used_bytes"`},
	"arl_cluster_etcd_quota_bytes":       {"../../cmd/arl/cell/full_linux_test.go", `"arl_cluster_etcd_quota_bytes"`},
	"arl_published_size":                 {"../../testdata/scripts/drill_publishing-late.txtar", `metric arl_published_size 4`},
	"arl_published_late_seconds":         {"../../testdata/scripts/drill_publishing-late.txtar", `metric arl_published_late_seconds >1`},
	"arl_key_seconds":                    {"../../testdata/scripts/drill_key-away.txtar", `metric 'arl_key_seconds_count{key="ledger"}' !0`},
	"arl_key_failures_total":             {"../../testdata/scripts/drill_key-away.txtar", `metric 'arl_key_failures_total{key="ledger"}' !0`},
	"arl_key_away_seconds":               {"../../testdata/scripts/drill_key-away.txtar", `metric 'arl_key_away_seconds{key="coordinator"}' !0`},
	"arl_clients_gone_total":             {"gone_linux_test.go", `n.metric("arl_clients_gone_total"); got != strconv.Itoa(gone)`},
	"arl_notifications_late_seconds":     {"../../testdata/scripts/drill_notifications-late.txtar", `metric 'arl_notifications_late_seconds{endpoint="people"}' !0`},
}

// invariantSeries returns the name of the series of an invariant.
func invariantSeries(i metrics.Invariant) string {
	return `arl_invariant_violations_total{invariant="` + string(i) + `"}`
}

// provoked takes the names of metrics, and the series of invariants, that have a value other than
// 0.
type provoked map[string]bool

// read reads the metrics of a node.
func (p provoked) read(n *node) {
	n.t.Helper()
	p.take(string(n.get("/metrics").body))
}

// of reads metrics that a test has at hand.
func (p provoked) of(m *metrics.Metrics) {
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	p.take(answer.Body.String())
}

// take takes the metrics in a text.
func (p provoked) take(text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		sample, zero := strings.CutSuffix(line, " 0")
		if strings.HasPrefix(line, "#") || zero {
			continue
		}
		name, _, _ := strings.Cut(sample, "{")
		name, _, _ = strings.Cut(name, " ")
		name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_count"), "_sum"), "_bucket")
		p[name] = true
		if name == "arl_invariant_violations_total" {
			p[sample[:strings.LastIndexByte(sample, ' ')]] = true
		}
	}
}

// until reads the metrics of a node until a sample has another value than 0.
func (p provoked) until(n *node, sample string) {
	n.t.Helper()
	for value := n.metric(sample); value == "0" || value == ""; value = n.metric(sample) {
		runtime.Gosched()
	}
	name, _, _ := strings.Cut(sample, "{")
	p[name] = true // it may be 0 again
	p.read(n)
}

// TestEveryMetricIsProvoked makes happen what each metric of the catalogue counts.
func TestEveryMetricIsProvoked(t *testing.T) {
	seen := provoked{}
	for name, provoke := range map[string]func(*testing.T, provoked){
		"incident": provokeIncident, "tasks": provokeTasks, "attempts": provokeAttempts, "refusals": provokeRefusals,
		"witnesses": provokeWitnesses, "process": provokeProcess, "index": provokeIndex, "connections": provokeConnections,
		"silence": provokeSilence, "lease": provokeLease, "clients": provokeClients, "queue": provokeQueue, "cluster": provokeCluster,
	} {
		t.Run(name, func(t *testing.T) { provoke(t, seen) })
	}
	want := []string{invariantSeries(metrics.CorruptRead)}
	for _, m := range metrics.Catalogue() {
		want = append(want, m.Name)
	}
	for _, i := range []metrics.Invariant{metrics.Lost, metrics.Forked, metrics.Diverged, metrics.Forged, metrics.Equivocated, metrics.ExecutedTwice, metrics.BeyondLimits, metrics.ForbiddenRecovery} {
		want = append(want, invariantSeries(i))
	}
	for _, name := range want {
		if seen[name] {
			continue
		}
		test, known := elsewhere[name]
		if !known {
			t.Errorf("no test provokes %s", name)
			continue
		}
		content, err := os.ReadFile(filepath.FromSlash(test[0]))
		must(t, err)
		if !strings.Contains(string(content), test[1]) {
			t.Errorf("%s does not assert %s", test[0], test[1])
		}
	}
}

// provokeIncident takes an incident from its signal by a contain, a proposal and approvals to the
// record, and dismisses another one.
func provokeIncident(t *testing.T, seen provoked) {
	t.Helper()
	c := newPanel(t, nil)
	c.pipeline()
	id := c.signals("agent-1", entry.StandingExecutor, "agent-1#make")
	seen.until(c.node, "arl_incidents_not_fenced")
	c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActContain}))
	c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActEscalate}))
	seen.until(c.node, "arl_approvals_oldest_seconds")
	c.put(c.approval("ann", id, "approve"))
	c.put(c.approval("ben", id, "approve"))
	c.coordinator()
	c.until(id, entry.IncidentAuthorized)
	c.put(c.outcome("agent-2", id, "agent-2#pay", entry.ResultFailed))
	c.until(id, entry.IncidentFailed)
	seen.read(c.node)
}

// provokeTasks has an agent claim a task, crash, and claim the task again.
func provokeTasks(t *testing.T, seen provoked) {
	t.Helper()
	c := newCrew(t)
	ref := c.create("one", nil)
	c.put(c.move("coordinator", ref, entry.TaskAssign, "agent-1"))
	c.put(c.move("agent-1", ref, entry.TaskStart, ""))
	seen.read(c.node)
	work := &entry.Execution{Header: c.header("agent-1", "flow-1"), Exec: "x", Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Failed, Task: ref}
	c.put(work)
	crashed := c.move("coordinator", ref, entry.TaskFail, "")
	crashed.Snapshot = &entry.Snapshot{Exec: "agent-1#x", Agent: "agent-1", CostMicroUSD: 1200, Status: "crashed", StartedAt: 1, TakenAt: 2, Class: "crash", Code: "oom", ContextDigest: someDigest}
	c.put(crashed)
	c.put(c.move("coordinator", ref, entry.TaskAssign, "agent-2"))
	seen.read(c.node)
	if n := c.metric("arl_tasks_unassignable"); n != "0" {
		t.Errorf("%s tasks that no agent can get, want 0", n)
	}
	c.create("two", func(b *entry.Task) { b.Type = "nobody-can" })
	seen.until(c.node, "arl_tasks_unassignable")
}

// provokeSilence lets the time of a proposal pass without an answer.
func provokeSilence(t *testing.T, seen provoked) {
	t.Helper()
	c, _, _ := newSilence(t)
	seen.until(c.node, "arl_incidents_unacknowledged")
}

// provokeLease has an agent hold a task and renew its lease never.
func provokeLease(t *testing.T, seen provoked) {
	t.Helper()
	c := newCrew(t)
	term := int64(entry.MinLeaseMS)
	ref := c.create("one", func(b *entry.Task) { b.LeaseMS = &term })
	c.put(c.move("coordinator", ref, entry.TaskAssign, "agent-1"))
	c.coordinator()
	seen.until(c.node, "arl_leases_lost_total")
}

// provokeAttempts records a case that recovered, though the policy forbids that.
func provokeAttempts(t *testing.T, seen provoked) {
	t.Helper()
	n := start(t, nil)
	never := recovery.Default().Thresholds().NeverAutoRecover[0]
	class, code, _ := strings.Cut(never, ".")
	cost := int64(700)
	engine := newSigner(t)
	n.register(n.enrol("engine-1", engine, entry.RoleEngine))
	run := &entry.Run{Header: n.header("engine-1", "flow-1"), Run: "run-1", Op: "open", ConfigDigest: someDigest, ScenarioDigest: someDigest, Engine: "test"}
	attempt := &entry.Attempt{Header: n.header("engine-1", "flow-1"), Run: "run-1", Policy: recovery.Default().Hash(),
		AttemptCase: entry.AttemptCase{Case: "case-1", Status: "auto_recovered", TraceDigest: someDigest,
			Rungs: []entry.Rung{{Attempt: 1, Class: class, Code: code, Rule: "r", Strategy: "retry", Result: "ok", CostMicroUSD: &cost, Tokens: &cost, Reason: "test"}}}}
	attempt.JTI = entry.AttemptJTI("run-1", "case-1")
	n.register(sign(t, engine, run), sign(t, engine, attempt))
	seen.read(n)
}

// provokeRefusals has entries refused: a forgery, a second payload under one id, an execution under
// a second key, a decision beyond what the coordinator may decide alone.
func provokeRefusals(t *testing.T, seen provoked) {
	t.Helper()
	c := newCourt(t)
	x := c.taken("agent-1", c.agent)
	c.conflict(other(t, c.agent, x, "other"))
	forged := c.good()
	forged.Seal(forged.KeyID, make([]byte, 64))
	for range 200 { // until the client's lane is narrow
		c.problem(c.post(api.MediaJSON, forged.AppendEnvelope(nil)), entry.BadSignature, http.StatusBadRequest)
	}
	seen.read(c.node)
	p := newPanel(t, nil)
	p.pipeline()
	paid := p.did("agent-1", "pay", entry.EffectIrrevocable)
	p.named(paid, "flow-1", "second", "1")
	p.named(paid, "flow-2", "third", "2") // another workflow is wrong, too
	late := p.did("agent-1", "draft", entry.EffectNone)
	p.named(late, "flow-1", "late", "2") // it had no key before
	id := p.signals("agent-1", entry.StandingExecutor, paid)
	alone := p.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize})
	p.problem(p.post(api.MediaJSON, p.by(alone).AppendEnvelope(nil)), entry.ScopeExceedsPolicy, http.StatusForbidden)
	seen.read(p.node)
	p.coordinator()
	p.until(id, entry.IncidentEscalated)
	if got := p.metric(`arl_escalations_total{reason="irrevocable"}`); got != "1" {
		t.Errorf("%q escalations of an effect that cannot be undone", got)
	}
}

// named logs an execution again under an idempotency key, which the ledger refuses, and wants as
// many executions counted that have two keys.
func (c *panel) named(of entry.Ref, wid entry.WorkflowID, key, want string) {
	c.t.Helper()
	agent, exec := of.Split()
	effect := entry.EffectIrrevocable
	if key == "late" {
		effect = entry.EffectNone
	}
	again := &entry.Execution{Header: c.header(agent, wid), Exec: exec, Parents: []entry.Parent{}, Effect: effect,
		Progress: entry.Failed, IdempotencyKey: entry.DigestOf([]byte(key))}
	c.problem(c.post(api.MediaJSON, c.by(again).AppendEnvelope(nil)), entry.StateConflict, http.StatusConflict)
	if n := c.metric(invariantSeries(metrics.ExecutedTwice)); n != want {
		c.t.Errorf("%s of %s: %s executions with two keys counted, want %s", key, wid, n, want)
	}
}

// provokeWitnesses has two witnesses cosign and one fail, with an index that lags.
func provokeWitnesses(t *testing.T, seen provoked) {
	t.Helper()
	w := watch(t, newIndexedPanel(t), 20*time.Second, 0)
	w.down[2].Store(true)
	w.name()
	w.get("/v1/entries/1/receipt?witnessed=true&wait=20000")
	w.pipeline()
	seen.until(w.node, "arl_witnesses_failing")
	seen.until(w.node, "arl_witnessed_age_seconds")
	seen.until(w.node, "arl_index_size")
}

// provokeIndex has an index read an index entry with a root that is not its own.
func provokeIndex(t *testing.T, seen provoked) {
	t.Helper()
	var index *complete.Index
	c := newPanel(t, func(cfg *server.Config) {
		index = complete.New("index", complete.Config{Log: indexed{cfg.Log}, HeadAt: cfg.Log.HeadAt, FS: vfs.NewMem(),
			Submit: func(context.Context, *entry.LogIndex) error { return errors.New("not now") }})
		cfg.Index = index
	})
	wrong := &entry.LogIndex{Header: c.header("coordinator", ""), Algorithm: entry.IndexAlgorithm, Size: c.log.Head().Size, Subjects: 1}
	wrong.JTI = entry.IndexJTI(origin, wrong.Size)
	c.put(wrong)
	if _, found := errors.AsType[*complete.RootError](index.Run(t.Context())); !found {
		t.Fatal("the index goes on")
	}
	seen.read(c.node)
}

// provokeProcess has a ledger on a real disk, whose anchor is older than the log, and whose wall
// clock steps.
func provokeProcess(t *testing.T, seen provoked) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "old.anchor")
	m := metrics.New()
	n := newNodeAt(t, vfs.Default, filepath.Join(dir, "db"), 0, func(c *server.Config) { c.Metrics = m })
	n.metrics.Store(m)
	n.register(n.genesis())
	for { // the anchor follows the commit
		content, err := os.ReadFile(filepath.Join(dir, "db.anchor"))
		must(t, err)
		must(t, os.WriteFile(path, content, 0o600))
		if head, err := ledger.Anchored(path, origin); err == nil && head.Size == 1 {
			break
		}
	}
	m.Disk(dir, 1<<20)
	m.Build("test", "none")
	m.Anchor(path, n.log, origin)
	n.register(n.enrol("agent-9", newSigner(t), entry.RoleAgent))
	seen.until(n, "arl_anchor_lag_seconds")
	n.clock.Store(int64(time.Second)) // as far as is believed
	seen.until(n, "arl_clock_offset_seconds")
}

// provokeConnections opens more connections than the server takes.
func provokeConnections(t *testing.T, seen provoked) {
	t.Helper()
	n := start(t, nil)
	m := metrics.New()
	address, _ := n.serve(func(c *server.Config) { c.Connections, c.Metrics = 2, m })
	const request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	first := dial(t, address, request)
	_, err := first.ReadString('\n')
	must(t, err)
	if _, err := dial(t, address, request).ReadString('\n'); err == nil {
		t.Fatal("a connection over the bound was taken")
	}
	seen.of(m)
}

// provokeClients has a client wait for news.
func provokeClients(t *testing.T, seen provoked) {
	t.Helper()
	n := start(t, nil)
	m := metrics.New()
	address, _ := n.serve(func(c *server.Config) { c.Metrics = m })
	dial(t, address, fmt.Sprintf("GET /v1/agents/agent-1/commands?wait=25000&from=%d HTTP/1.1\r\nHost: localhost\r\n\r\n", n.log.Head().Size))
	for !seen["arl_event_streams"] {
		seen.of(m)
	}
}

// provokeQueue has many submitters at once.
func provokeQueue(t *testing.T, seen provoked) {
	t.Helper()
	n := start(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for ctx.Err() == nil {
				if _, err := n.log.Submit(t.Context(), n.good()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	seen.until(n, "arl_queue_depth")
	cancel()
	all.Wait()
}

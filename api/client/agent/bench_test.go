package agent_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"recoveryledger/api/client/agent"
	"recoveryledger/ledger/entry"
)

// BenchmarkSignalToHook measures the time from an accepted signal to the agent's
// hook: the coordinator decides, the agent hears of it by long poll, fetches,
// verifies and stores, and notes that it starts. The incident has 100 members,
// ten of them the agent's, whose line goes back.
func BenchmarkSignalToHook(b *testing.B) {
	n := newNode(b)
	n.write("root", &entry.Agent{Principal: "source", Op: entry.Enrol, Key: n.signer("source").Public(), Roles: []entry.Role{entry.RoleAgent}, Domain: "d",
		Span: entry.SpanWorkflow})
	store, err := agent.OpenDir(b.TempDir())
	must(b, err)
	must(b, agent.Init(store, n.root, "worker", time.Now().UnixMilli()))
	s := &agent.Server{Client: n.client(), Agent: "worker"}
	head, err := n.client().Head(b.Context())
	must(b, err)
	reached := make(chan time.Time, 1)
	a, err := agent.Open(&agent.Config{Root: n.root, Agent: "worker", Secret: make([]byte, 16), Sign: n.signer("worker").Sign, NewID: uuid.NewString,
		Ledger: s, Log: s, Second: &agent.Mirror{Client: n.client(), Head: func(context.Context) (string, error) { return head.Note, nil }},
		Store: store, Hooks: agent.Hooks{Restore: func(_ context.Context, c *agent.Call) (*agent.Report, error) {
			reached <- time.Now()
			return &agent.Report{Status: agent.Done, Digest: c.Digest}, nil
		}}}, time.Now().UnixMilli())
	must(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- agent.Run(ctx, a, s) }()
	var times []time.Duration
	for i := 0; b.Loop(); i++ {
		incident := n.hundred(i)
		began := time.Now()
		times = append(times, (<-reached).Sub(began))
		must(b, n.closed(ctx, incident))
	}
	cancel()
	must(b, <-done)
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "ms-p99")
}

// hundred registers a hundred executions in a workflow of their own, and a signal
// about the first.
func (n *node) hundred(i int) (incident uint64) {
	n.tb.Helper()
	wid := entry.WorkflowID(fmt.Sprintf("flow-%d", i))
	put := func(iss entry.Principal, body entry.Body) uint64 {
		entry.HeaderOf(body).Wid = wid
		return n.write(iss, body)
	}
	id := func(k int) string { return fmt.Sprintf("x-%d-%d", i, k) }
	put("worker", &entry.Checkpoint{Checkpoint: id(0), Digest: zero})
	for k := range 100 {
		iss, x := entry.Principal("source"), &entry.Execution{Exec: id(k), Effect: entry.EffectNone, Progress: entry.Confirmed, Parents: []entry.Parent{}}
		if k > 0 {
			x.Parents = append(x.Parents, entry.Parent{Exec: entry.NewRef("source", id(0)), Dep: entry.Hard})
		}
		if k >= 90 {
			iss, x.Effect, x.Progress = "worker", entry.EffectReversible, entry.Started
			put(iss, x)
			x.Progress = entry.Confirmed
		}
		put(iss, x)
	}
	return put("source", &entry.Signal{Subject: entry.NewRef("source", id(0)), Class: "output", Code: "ungrounded", Standing: entry.StandingExecutor,
		Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown, ObservedAt: time.Now().UnixMilli()})
}

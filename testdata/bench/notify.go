package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"time"

	"recoveryledger/api/notify"
	"recoveryledger/ledger/entry"
)

// signalToNotification measures the time from sending a signal, whose incident people must decide,
// to the request at an endpoint that people are asked: through the ledger on the disk, the
// coordinator and the notifier.
func signalToNotification(ctx context.Context, b *bench) error {
	dir := filepath.Join(b.dir, "notify")
	c, err := openCourt(ctx, dir, func(p *entry.Policy) { p.Quotas.SignalsPerHour = 1_000_000 })
	if err != nil {
		return err
	}
	if c.keys["approver"], err = newSigner(); err != nil {
		return err
	}
	if err := c.put(ctx, "authority", "", &entry.Agent{Principal: "approver", Op: entry.Enrol, Key: c.keys["approver"].Public(),
		Roles: []entry.Role{entry.RoleApprover}, Domain: "bench", Span: entry.SpanWorkflow}); err != nil {
		return err
	}
	came := make(chan struct{}, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		came <- struct{}{}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer web.Close()
	secret := filepath.Join(b.dir, "secret")
	if err := os.WriteFile(secret, []byte("whsec_"+base64.StdEncoding.EncodeToString(make([]byte, 32))), 0o600); err != nil {
		return err
	}
	n, err := notify.New(&notify.Config{File: &notify.File{Endpoints: []notify.Endpoint{{Name: "pager", URL: web.URL, Secret: secret}}},
		Dir: filepath.Join(b.dir, "cursors"), Origin: origin, Log: c.Log, Replica: c.replica}, c.Size())
	if err != nil {
		return err
	}
	telling, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- n.Run(telling) }()
	var took []float64
	for start := time.Now(); time.Since(start) < 4*b.time; {
		elapsed, err := c.notified(ctx, len(took), came)
		if err != nil {
			return err
		}
		took = append(took, elapsed.Seconds()*1e3)
	}
	cancel()
	if err := errors.Join(<-done, c.end()); err != nil {
		return err
	}
	slices.Sort(took)
	b.print(row{name: "signal to notification of those who decide, p99", value: percentile(took, 99), unit: "ms", target: 100, atMost: true,
		detail: fmt.Sprintf("p50 %.2f ms, %d incidents", percentile(took, 50), len(took))})
	return os.RemoveAll(dir)
}

// notified makes the n-th incident that waits for people, and times it.
func (c *court) notified(ctx context.Context, n int, came <-chan struct{}) (time.Duration, error) {
	wid, id := entry.WorkflowID(fmt.Sprintf("n-%d", n)), fmt.Sprintf("sent-%d", n)
	for _, progress := range []entry.Progress{entry.Planned, entry.Started, entry.Confirmed} {
		if err := c.put(ctx, agentName(0), wid, &entry.Execution{Exec: id, Effect: entry.EffectIrrevocable, Progress: progress,
			Parents: []entry.Parent{}, IdempotencyKey: entry.DigestOf(id)}); err != nil {
			return 0, err
		}
	}
	signal, err := c.signed(agentName(0), wid, complaint(entry.NewRef(agentName(0), id), entry.StandingExecutor))
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if answer, err := c.Submit(ctx, signal); err != nil || answer.Refused != nil {
		return 0, fmt.Errorf("signal: %v, %w", answer, err)
	}
	select {
	case <-came:
		return time.Since(began), nil
	case <-time.After(time.Minute):
		return 0, errors.New("no notification came within a minute")
	}
}

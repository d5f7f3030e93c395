package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"recoveryledger/api/server"
	"recoveryledger/coord"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/testdata/coordlog"
)

// court is a ledger whose coordinator decides, as that of `arl serve` does.
type court struct {
	*ledgerUnderTest
	keys map[entry.Principal]*keys.Signer
	end  func() error
}

// openCourt opens a ledger under a policy that change has changed.
func openCourt(ctx context.Context, dir string, change func(*entry.Policy)) (*court, error) {
	t, err := openLedger(ctx, dir)
	if err != nil {
		return nil, err
	}
	key, err := newSigner()
	if err != nil {
		return nil, err
	}
	c := &court{t, map[entry.Principal]*keys.Signer{"authority": t.authority, "coordinator": key}, nil}
	for i, agent := range t.agents {
		c.keys[agentName(i)] = agent
	}
	p := entry.Genesis(origin, entry.AuthorityKey{Principal: "authority", Key: t.authority.Public()})
	change(p)
	_, inForce := t.replica.View().Chain.Policy()
	p.Previous = &inForce
	if err := c.put(ctx, "authority", "", p, &entry.Agent{Principal: "coordinator", Op: entry.Enrol, Key: key.Public(),
		Roles: []entry.Role{entry.RoleCoordinator}, Domain: "bench", Span: entry.SpanWorkflow}); err != nil {
		return nil, err
	}
	decides := &coordinator.Coordinator{Replica: t.replica, Log: coordlog.Log{Log: t.Log}, Principal: "coordinator", Seal: key.Sign}
	running, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- decides.Run(running) }()
	c.end = func() error {
		cancel()
		return errors.Join(<-done, t.stop())
	}
	return c, nil
}

// signed returns an entry of a principal.
func (c *court) signed(iss entry.Principal, wid entry.WorkflowID, body entry.Body) (*entry.Entry, error) {
	*entry.HeaderOf(body) = entry.Header{V: 1, JTI: uuid.NewString(), Iss: iss, Aud: origin, Iat: time.Now().Unix(), Wid: wid}
	e, err := entry.New(body)
	if err != nil {
		return nil, err
	}
	return e, c.keys[iss].Sign(e)
}

// put registers entries of a principal as one batch.
func (c *court) put(ctx context.Context, iss entry.Principal, wid entry.WorkflowID, bodies ...entry.Body) error {
	var batch []*entry.Entry
	for _, body := range bodies {
		e, err := c.signed(iss, wid, body)
		if err != nil {
			return err
		}
		batch = append(batch, e)
	}
	answer, err := c.Submit(ctx, batch...)
	if err == nil && answer.Refused != nil {
		return answer.Refused
	}
	return err
}

// finished returns an execution without effects that has come to its end.
func finished(id string, parents ...entry.Ref) *entry.Execution {
	x := &entry.Execution{Exec: id, Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Confirmed}
	for _, parent := range parents {
		x.Parents = append(x.Parents, entry.Parent{Exec: parent, Dep: entry.Hard})
	}
	return x
}

func complaint(subject entry.Ref, standing entry.Standing) *entry.Signal {
	return &entry.Signal{Subject: subject, Class: "tool", Code: "error", Standing: standing, Effects: entry.EffectsUnknown,
		ReplaySafety: entry.ReplayUnknown, ObservedAt: time.Now().UnixMilli()}
}

// authorizeHundred measures the time from sending a signal to the durable
// authorize of its incident, which has 100 members of 16 agents.
func authorizeHundred(ctx context.Context, b *bench) error {
	dir := filepath.Join(b.dir, "authorize")
	c, err := openCourt(ctx, dir, func(p *entry.Policy) {
		p.Quotas.SignalsPerHour = 1_000_000
		p.Limits.Incident.Agents = agents
		p.Limits.Signaler = entry.Cap{Members: 1 << 40, Agents: agents, Domains: 1, FencedMS: 1 << 40}
		p.Limits.Victim = p.Limits.Signaler
	})
	if err != nil {
		return err
	}
	var took []float64
	for start := time.Now(); time.Since(start) < 4*b.time; {
		elapsed, err := c.authorize(ctx, len(took))
		if err != nil {
			return err
		}
		took = append(took, elapsed.Seconds()*1e3)
	}
	if err := c.end(); err != nil {
		return err
	}
	slices.Sort(took)
	b.print(row{name: "signal to durable authorize, 100 members, p99", value: percentile(took, 99), unit: "ms", target: 15, atMost: true,
		detail: fmt.Sprintf("p50 %.2f ms, %d incidents", percentile(took, 50), len(took))})
	return os.RemoveAll(dir)
}

// authorize makes the n-th incident and times it.
func (c *court) authorize(ctx context.Context, n int) (time.Duration, error) {
	wid, seed := entry.WorkflowID(fmt.Sprintf("w-%d", n)), entry.NewRef(agentName(0), fmt.Sprintf("seed-%d", n))
	batch := make([]*entry.Entry, 100)
	for i := range batch {
		x := finished(fmt.Sprintf("x-%d-%d", n, i), seed)
		if i == 0 {
			x = finished(fmt.Sprintf("seed-%d", n))
		}
		var err error
		if batch[i], err = c.signed(agentName(i%agents), wid, x); err != nil {
			return 0, err
		}
	}
	if answer, err := c.Submit(ctx, batch...); err != nil || answer.Refused != nil {
		return 0, fmt.Errorf("members: %v, %w", answer, err)
	}
	signal, err := c.signed(agentName(0), wid, complaint(seed, entry.StandingExecutor))
	if err != nil {
		return 0, err
	}
	began := time.Now()
	answer, err := c.Submit(ctx, signal)
	if err != nil || answer.Refused != nil {
		return 0, fmt.Errorf("signal: %v, %w", answer, err)
	}
	index := answer.Registered[0].Index
	if err := c.Wait(ctx, index+2); err != nil {
		return 0, err
	}
	elapsed := time.Since(began)
	decision, err := c.Entry(index + 1)
	if err != nil {
		return 0, err
	}
	if d, ok := decision.Body.(*entry.Decision); !ok || d.Act != entry.ActAuthorize || d.RollbackSet.Size != 100 {
		return 0, fmt.Errorf("entry %d is not the authorize of 100 members", index+1)
	}
	return elapsed, c.Wait(ctx, index+3) // its record
}

// percentile returns a percentile of sorted values.
func percentile(sorted []float64, p int) float64 {
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}

// timedLoop is closedLoop that returns the sorted times of its steps in
// microseconds.
func timedLoop(workers int, duration time.Duration, next func() []byte, add func([]byte) error) ([]float64, error) {
	var mu sync.Mutex
	var times []float64
	_, _, err := closedLoop(workers, duration, next, func(envelope []byte) error {
		before := time.Now()
		err := add(envelope)
		elapsed := float64(time.Since(before).Nanoseconds()) / 1e3
		mu.Lock()
		times = append(times, elapsed)
		mu.Unlock()
		return err
	})
	slices.Sort(times)
	return times, err
}

// backgroundSnapshots compares the p99 of appends to a ledger that takes
// snapshots, eight times as often as it would, so that a run has several, with
// that of one that takes none.
func backgroundSnapshots(ctx context.Context, b *bench) error {
	const entries, submitters, often = 30_000, 8, 1 << 13
	var snapshots int
	side := func(every uint64) func(string) (float64, error) {
		return func(dir string) (float64, error) {
			t, err := openLedgerWith(ctx, dir, settings{snapshotEvery: every})
			if err != nil {
				return 0, err
			}
			for size := 0; size < entries; size += 1000 {
				if err := t.submitUnsigned(ctx, size, 1000); err != nil {
					return 0, err
				}
			}
			next, err := t.envelopesFrom(entries, int(3*b.time.Seconds()*poolRate/2))
			if err != nil {
				return 0, err
			}
			before := t.Head().Size
			if every == often {
				snapshots = 0
			}
			times, err := timedLoop(submitters, 3*b.time, next, func(envelope []byte) error { return t.submit(ctx, envelope) })
			if err != nil {
				return 0, err
			}
			for size := before; every == often && size < t.Head().Size; size += max(often, size/4) {
				snapshots++
			}
			return percentile(times, 99), t.stop()
		}
	}
	with, without, err := b.turns(side(often), side(1<<40))
	if err != nil {
		return err
	}
	b.print(row{name: "appends while snapshots are written, 8 submitters, p99", value: with / without, unit: "× without", target: 1.2, atMost: true,
		detail: fmt.Sprintf("%.0f and %.0f µs, on top of %d entries, about %d snapshots", with, without, entries, snapshots)})
	return nil
}

// falseSignals compares the p99 of other agents' requests over HTTP while one
// agent sends 100,000 false signals, as fast as it can, with that while it is
// silent.
func falseSignals(ctx context.Context, b *bench) error {
	const honest, liars, subjects, signals = 8, 32, 500, 100_000
	dir := filepath.Join(b.dir, "flood")
	c, err := openCourt(ctx, dir, func(p *entry.Policy) { p.Quotas.SignalsPerHour = 200 })
	if err != nil {
		return err
	}
	flood, err := c.lies(ctx, subjects, signals)
	if err != nil {
		return err
	}
	post, stop, err := c.serve(ctx, honest+liars)
	if err != nil {
		return err
	}
	var p99 [2][]float64
	var sent atomic.Int64
	for round := 0; round < b.rounds || sent.Load() < signals; round++ {
		for side := range p99 {
			next, err := c.envelopesFrom(int(time.Now().UnixNano()&(1<<40-1)), int(b.time.Seconds()*poolRate/4))
			if err != nil {
				return err
			}
			var lying sync.WaitGroup
			deadline := time.Now().Add(b.time)
			for range side * liars {
				lying.Go(func() {
					for time.Now().Before(deadline) {
						_ = post(flood[int(sent.Add(1))%len(flood)]) // most are refused
					}
				})
			}
			times, err := timedLoop(honest, b.time, next, post)
			lying.Wait()
			if err != nil {
				return err
			}
			p99[side] = append(p99[side], percentile(times, 99))
		}
	}
	incidents := 0
	c.replica.Read(func(s *coord.State) { incidents = len(s.Incidents(0, 1<<20, c.Now())) })
	if err := errors.Join(stop(), c.end()); err != nil {
		return err
	}
	alone, flooded := median(p99[0]), median(p99[1])
	b.print(row{name: "others' requests while one agent sends false signals, p99", value: flooded / alone, unit: "× without", target: 2, atMost: true,
		detail: fmt.Sprintf("%.0f and %.0f µs, %d signals sent, %d incidents", flooded, alone, sent.Load(), incidents)})
	return os.RemoveAll(dir)
}

// lies makes an agent that builds on the work of another, and signed signals of
// it about that work.
func (c *court) lies(ctx context.Context, subjects, n int) ([][]byte, error) {
	victim, liar := agentName(0), agentName(1)
	for i := range subjects {
		if err := c.put(ctx, victim, "w", finished(fmt.Sprintf("good-%d", i))); err != nil {
			return nil, err
		}
		if err := c.put(ctx, liar, "w", finished(fmt.Sprintf("used-%d", i), entry.NewRef(victim, fmt.Sprintf("good-%d", i)))); err != nil {
			return nil, err
		}
	}
	envelopes := make([][]byte, n)
	for i := range envelopes {
		e, err := c.signed(liar, "w", complaint(entry.NewRef(victim, fmt.Sprintf("good-%d", i%subjects)), entry.StandingDownstream))
		if err != nil {
			return nil, err
		}
		envelopes[i] = e.AppendEnvelope(nil)
	}
	return envelopes, nil
}

// serve serves the ledger over HTTP and returns a client of so many connections.
func (c *court) serve(ctx context.Context, connections int) (post func([]byte) error, stop func() error, err error) {
	s, err := server.New(&server.Config{Origin: origin, VerifierKeys: c.ledgerUnderTest.keys.VerifierKeys[:], Log: c.Log, Replica: c.replica, Rate: -1})
	if err != nil {
		return nil, nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- s.Run(ctx, listener) }()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, DisableCompression: true}}
	url := "http://" + listener.Addr().String() + "/v1/entries"
	post = func(body []byte) error {
		response, err := client.Post(url, "application/json", bytes.NewReader(body))
		if err != nil {
			return err
		}
		answer, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode >= 300 {
			err = fmt.Errorf("%s: %s", response.Status, answer)
		}
		return errors.Join(err, response.Body.Close())
	}
	return post, func() error {
		cancel()
		client.CloseIdleConnections()
		return <-served
	}, nil
}

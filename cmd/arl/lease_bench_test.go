//go:build linux

package main_test

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
)

// BenchmarkLeases is what 10,000 leases at the default term cost arl serve, over
// HTTP on loopback: 625 agents hold 16 each, as many as the router gives to one,
// each with a key and a kept connection of its own, and renew each lease every
// 30 s: together, all that an agent holds in one request, or each in one of its own.
// An operation is ten seconds of that, after a round of renewals; only the
// processor time of the server's process counts. A bare Echo handler that decodes
// the same JSON shows how much of the latter is HTTP.
func BenchmarkLeases(b *testing.B) {
	ledger := func(each int) func(*testing.B) {
		return func(b *testing.B) {
			b.Helper()
			m := newMachine(b)
			m.start()
			renewed(b, m, m.holders(), each)
			m.stop()
		}
	}
	b.Run("together", ledger(leasesEach))
	b.Run("alone", ledger(1))
	b.Run("echo", func(b *testing.B) {
		ledger := newMachine(b)
		ledger.start()
		holders := ledger.holders()
		ledger.stop()
		m := newMachine(b)
		m.process = exec.Command("bare")
		stdout, err := m.process.StdoutPipe()
		m.must(err)
		m.must(m.process.Start())
		m.url, err = bufio.NewReader(stdout).ReadString('\n')
		m.must(err)
		for _, h := range holders {
			h.m.url = strings.TrimSpace(m.url)
		}
		renewed(b, m, holders, 1)
	})
}

// The leases, and how often each is renewed.
const (
	leaseAgents, leasesEach = 625, 16
	leasePeriod             = 30 * time.Second
)

// renewed measures a server while all leases are renewed in turn, so many in one
// request.
func renewed(b *testing.B, m *machine, holders []*holder, each int) {
	b.Helper()
	for first := 0; first < leasesEach; first += each {
		for _, h := range holders {
			h.renew(first, each, 1)
		}
	}
	requests := leaseAgents * leasesEach / each // in a period
	var cpu, wall time.Duration
	sent := 0
	for b.Loop() {
		before, began, tick := m.processorTime(), time.Now(), time.NewTicker(leasePeriod/time.Duration(requests))
		var under sync.WaitGroup
		for ; time.Since(began) < 10*time.Second; sent++ {
			<-tick.C
			turn := sent // neighbours in time are of different agents
			under.Go(func() {
				holders[turn%leaseAgents].renew(turn%requests/leaseAgents*each, each, int64(2+turn/requests))
			})
		}
		tick.Stop()
		under.Wait()
		cpu, wall = cpu+m.processorTime()-before, wall+time.Since(began)
	}
	b.ReportMetric(100*float64(cpu)/float64(wall), "%core")
	b.ReportMetric(5, "%core-target")
	b.ReportMetric(float64(sent*each)/wall.Seconds(), "renewals/s")
}

// holder is an agent that holds tasks.
type holder struct {
	m       *machine
	name    entry.Principal
	key     *keys.Signer
	tasks   []entry.Ref
	session string
	client  http.Client
}

// holders enrols agents, and gives each its tasks.
func (m *machine) holders() (all []*holder) {
	m.t.Helper()
	found, err := filepath.Glob(filepath.Join(m.home, "keys", "*", "operator.key"))
	m.must(err)
	operator, err := keys.Load(found[0], nil)
	m.must(err)
	for i := range leaseAgents {
		h := &holder{m: m, name: entry.Principal(fmt.Sprintf("holder-%d", i)), client: http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}}
		_, private, err := ed25519.GenerateKey(rand.Reader)
		m.must(err)
		h.key, err = keys.NewSigner(private)
		m.must(err)
		batch := m.seal(operator, &entry.Agent{Header: m.header("operator", ""), Principal: h.name, Op: entry.Enrol, Key: h.key.Public(),
			Roles: []entry.Role{entry.RoleAgent}, Domain: "test", Span: entry.SpanWorkflow})
		for n := range leasesEach {
			task := entry.NewRef("operator", fmt.Sprintf("%d-%d", i, n))
			b, _ := entry.TaskStanding{State: entry.TaskCreated}.Move(entry.TaskReassign, h.name, false)
			b.Header, b.Task, b.Reason = m.header("operator", "w"), task, "measured"
			batch = append(append(batch, '\n'), m.seal(operator, &entry.Task{Header: m.header("operator", "w"), Task: task, Op: entry.TaskCreate,
				From: entry.TaskCreated, To: entry.TaskCreated, Reason: "measured"})...)
			batch = append(append(batch, '\n'), m.seal(operator, &b)...)
			h.tasks = append(h.tasks, task)
		}
		h.send("/v1/entries", api.MediaNDJSON, batch)
		all = append(all, h)
	}
	var task api.Task
	m.get("/v1/tasks/"+url.PathEscape(string(all[0].tasks[0])), &task)
	for _, h := range all {
		h.session = task.Lease.Session
	}
	return all
}

// renew renews so many leases of the agent, from the first on.
func (h *holder) renew(first, count int, seq int64) {
	h.m.t.Helper()
	r, path := &entry.Renewal{Aud: h.m.origin, Iss: h.name, Seq: seq, Session: h.session}, "/v1/leases"
	for _, task := range h.tasks[first : first+count] {
		r.Leases = append(r.Leases, entry.Lease{Epoch: 1, Task: task})
	}
	if count == 1 {
		path = "/v1/tasks/" + url.PathEscape(string(h.tasks[first])) + "/lease"
	}
	signed, err := h.key.SignRenewal(r)
	h.m.must(err)
	body, err := entry.EncodeRenewal(signed)
	h.m.must(err)
	h.send(path, api.MediaJSON, body)
}

// send posts on the agent's connection what must not be refused.
func (h *holder) send(path, mediaType string, body []byte) {
	h.m.t.Helper()
	response, err := h.client.Post(h.m.url+path, mediaType, bytes.NewReader(body))
	h.m.must(err)
	answer, err := io.ReadAll(response.Body)
	h.m.must(errors.Join(err, response.Body.Close()))
	if response.StatusCode != http.StatusOK || strings.Contains(string(answer), `"problem"`) {
		h.m.t.Errorf("POST %s: %d %.400s", path, response.StatusCode, answer)
	}
}

// processorTime is what the process has used of processors, by its own clock.
func (m *machine) processorTime() time.Duration {
	m.t.Helper()
	var used unix.Timespec
	m.must(unix.ClockGettime(int32(^m.process.Process.Pid)<<3|2, &used)) // of the process, as clock_getcpuclockid(3) makes it
	return time.Duration(used.Nano())
}

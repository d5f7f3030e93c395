//go:build unix

package main_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/testdata/budget"
)

// told collects what an endpoint takes: the first messages in their order, and each again.
type told struct {
	mu     sync.Mutex
	bodies map[string]string // by id
	order  []string          // subjects, as they came first
	again  int
	wrong  string
	came   chan int // number of different messages
}

// ServeHTTP takes a message.
func (s *told) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	var message struct{ ID, Subject string }
	err = json.Unmarshal(body, &message)
	s.mu.Lock()
	defer s.mu.Unlock()
	before, seen := s.bodies[message.ID]
	switch {
	case err != nil || message.ID != q.Header.Get("webhook-id"):
		s.wrong = string(body)
	case seen && before != string(body):
		s.wrong = before + " is now " + string(body)
	case seen:
		s.again++
	default:
		s.bodies[message.ID] = string(body)
		s.order = append(s.order, message.Subject)
		select {
		case s.came <- len(s.order):
		default:
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

// await waits for a number of different messages.
func (s *told) await(t *testing.T, want int) {
	t.Helper()
	late := time.After(2 * time.Minute)
	for {
		s.mu.Lock()
		n := len(s.order)
		s.mu.Unlock()
		if n >= want {
			return
		}
		select {
		case <-s.came:
		case <-late:
			t.Fatalf("%d messages of %d", n, want)
		}
	}
}

// TestChaosNotifications kills the ledger in the middle of 10,000 notifications, twice. Each comes,
// in the order of the log; what comes twice is the same, under the same id.
func TestChaosNotifications(t *testing.T) {
	t.Parallel()
	total := budget.Budget{Short: 600, Usual: 10_000, Chaos: 10_000}.Now()
	sink := &told{bodies: map[string]string{}, came: make(chan int, 1)}
	server := httptest.NewServer(sink)
	defer server.Close()
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	file := filepath.Join(dir, "notify.yaml")
	for name, content := range map[string]string{
		secret: "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("s"), 32)) + "\n",
		file:   fmt.Sprintf("endpoints:\n  - {name: pager, url: %q, secret: %q}\n", server.URL, secret),
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := newMachine(t, "--notify", file)
	m.start()
	m.tasks(total)
	for _, part := range []int{total * 3 / 10, total * 6 / 10} {
		sink.await(t, part)
		m.kill()
		m.start()
	}
	sink.await(t, total)
	m.stop()
	if sink.wrong != "" {
		t.Errorf("a message: %s", sink.wrong)
	}
	for i, subject := range sink.order {
		if want := fmt.Sprintf("task/operator#t%d", i); subject != want {
			t.Fatalf("message %d is about %s, want %s", i, subject, want)
		}
	}
	if len(sink.order) != total {
		t.Errorf("%d messages about %d tasks", len(sink.order), total)
	}
	t.Logf("%d messages came twice", sink.again)
}

// task returns a new task that waits for an operator, as a signed entry of the operator.
func (m *machine) task(operator *keys.Signer, name string) []byte {
	m.t.Helper()
	retries, lease := int64(1), int64(60_000)
	return m.seal(operator, &entry.Task{Header: m.header("operator", "w"), Task: entry.NewRef("operator", name), Op: "create",
		From: entry.TaskCreated, To: entry.TaskCreated, Reason: "new", MaxRetries: &retries, LeaseMS: &lease})
}

// tasks makes tasks that wait for an operator, in batches.
func (m *machine) tasks(total int) {
	m.t.Helper()
	operator := m.operator()
	const batch = 500
	for from := 0; from < total; from += batch {
		var lines bytes.Buffer
		for i := from; i < min(from+batch, total); i++ {
			lines.Write(m.task(operator, fmt.Sprint("t", i)))
			lines.WriteByte('\n')
		}
		response, err := http.Post(m.url+"/v1/entries", "application/x-ndjson", &lines)
		m.must(err)
		answer, err := io.ReadAll(response.Body)
		m.must(err)
		m.must(response.Body.Close())
		if response.StatusCode != http.StatusOK || bytes.Contains(answer, []byte("urn:agent-recovery:problem")) {
			m.t.Fatalf("%d %s", response.StatusCode, answer)
		}
	}
}

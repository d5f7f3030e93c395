//go:build unix

package main_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// collector takes the traces of a server, as they are sent.
type collector struct {
	mu   sync.Mutex
	sent bytes.Buffer
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent.Write(body)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// planted are secrets by where a run of an agent says them.
var planted = map[string]string{
	"the environment":       "hunter2-of-the-environment",
	"an argument":           "hunter2-of-an-argument",
	"standard output":       "hunter2-of-standard-output",
	"the last words":        "hunter2-of-the-last-words",
	"a mail address":        "ann.of.the.bank@example.org",
	"a key":                 "AKIAIOSFODNN7EXAMPLE",
	"a bearer":              "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJlLW9mLWFubg",
	"a card":                "4111111111111111",
	"a quote":               "the patient told us that she had been there since last summer",
	"the status":            "hunter2ofthestatus",
	"a checkpoint":          "hunter2-of-a-checkpoint",
	"the words of a probe":  "hunter2-of-the-words-of-a-probe",
	"the answer of a probe": "hunter2-of-the-answer-of-a-probe",
	"a strategy":            "hunter2-of-a-strategy",
	"the run's directory":   "hunter2-of-the-directory",
	"a reason":              "hunter2-of-a-reason",
	"a detail":              "hunter2-of-a-detail",
	"a header":              "hunter2-of-a-header",
	"a query":               "hunter2-of-a-query",
	"a refused body":        "hunter2-of-a-refused-body",
}

// TestRunKeepsSecrets plants a secret wherever an agent, its strategies, its probe
// and people can say one, and searches every byte of what is written and answered:
// the log, the API, the metrics, the server's own log, its traces.
func TestRunKeepsSecrets(t *testing.T) {
	spans := new(collector)
	site := httptest.NewServer(spans)
	defer site.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", site.URL)
	m := triaged(t, "--traces", "--verbose")
	dir := t.TempDir()
	write := func(name, text string) {
		m.must(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
	}
	write("strategies.yaml", "triage: [./triage]\n")
	write("triage", fmt.Sprintf("#!/bin/sh\necho password=%s >&2; exit 1", planted["a strategy"]))
	write("probe", fmt.Sprintf("#!/bin/sh\necho token=%s >&2; echo %s", planted["the words of a probe"], planted["the answer of a probe"]))
	write("state.json", planted["a checkpoint"])
	run := func(id, script string) {
		task, holder := m.given(id, "--max-retries", "0")
		cmd, said := m.command([]string{"OPENAI_API_KEY=" + planted["the environment"]}, "run", "--once", "--task", task, "--key", filepath.Join(m.home, string(holder)+".key"),
			"--strategies", filepath.Join(dir, "strategies.yaml"), "--probe", filepath.Join(dir, "probe"), "--", "sh", "-c", script, "agent", "--token="+planted["an argument"], dir)
		if code := exitOf(cmd.Run()); code != 7 && code != 74 {
			t.Fatalf("%s: exit code %d: %s", id, code, said)
		}
	}
	for i, words := range []string{
		"login with password=" + planted["the last words"] + " of " + planted["a mail address"] + " failed", "refused: Authorization: Bearer " + planted["a bearer"],
		"key " + planted["a key"] + " and " + planted["the environment"], "card " + planted["a card"] + " declined", `she said "` + planted["a quote"] + `"`, "called with token=" + planted["an argument"],
	} {
		run(fmt.Sprintf("words-%d", i), fmt.Sprintf("echo %s; \"$ARL_PROGRAM\" work progress --status %s; \"$ARL_PROGRAM\" work checkpoint $2/state.json; \"$ARL_PROGRAM\" work begin pay --effect irrevocable; echo '%s' >&2; exit 1",
			planted["standard output"], planted["the status"], words))
	}
	run("directory", fmt.Sprintf(`echo '{"secret=%s' > "$ARL_RUN_DIR/step-pay.json"; exit 1`, planted["the run's directory"]))
	m.arl("task", "create", "reasons", "--type", "nobody", "--reason", "use password="+planted["a reason"])
	m.arl("task", "cancel", "operator#reasons", "--yes", "--reason", "wrong password="+planted["a reason"])
	subject := entriesOf[entry.Execution](m, entry.KindExecution, "--task", "operator#words-0")[0]
	m.arl("signal", "submit", "--subject", string(subject.Ref()), "--class", "tool", "--code", "error", "--standing", "operator", "--effects", "none",
		"--detail", "password="+planted["a detail"])
	m.ask()

	keys := map[string]string{"the agent's secret": filepath.Join(m.home, "one.key.secret"), "the agent's key": filepath.Join(m.home, "one.key")}
	secrets := []string{}
	for _, file := range keys {
		text, err := os.ReadFile(file)
		m.must(err)
		secrets = append(secrets, strings.TrimSpace(string(text)))
	}
	for _, secret := range planted {
		secrets = append(secrets, secret)
	}
	m.secretFree(secrets...)
	log := &m.stderr
	m.stop() // with the last of its traces
	spans.mu.Lock()
	defer spans.mu.Unlock()
	if !bytes.Contains(spans.sent.Bytes(), []byte("POST /v1/entries")) || !strings.Contains(log.String(), "path=/v1/entries ") {
		t.Errorf("%d bytes of traces and %d of a log do not tell of requests: %.2000s", spans.sent.Len(), len(log.String()), log)
	}
	for where, secret := range planted {
		if bytes.Contains(spans.sent.Bytes(), []byte(secret)) {
			t.Errorf("that of %s is in the traces", where)
		}
		if strings.Contains(log.String(), secret) {
			t.Errorf("that of %s is in the server's log", where)
		}
	}
}

// ask sends requests with secrets in what no route takes.
func (m *machine) ask() {
	m.t.Helper()
	for _, path := range []string{"/v1/tasks?api_key=" + planted["a query"], "/v1/entries?token=" + planted["a query"], "/nowhere?token=" + planted["a query"]} {
		request, err := http.NewRequestWithContext(m.t.Context(), http.MethodGet, m.url+path, nil)
		m.must(err)
		request.Header.Set("Authorization", "Bearer "+planted["a header"])
		request.Header.Set("Cookie", "session="+planted["a header"])
		response, err := http.DefaultClient.Do(request)
		m.must(err)
		m.must(response.Body.Close())
	}
	for _, path := range []string{"/v1/entries", "/v1/recoveries", "/v1/leases", "/v1/tasks/operator%23reasons/lease"} {
		response, err := http.Post(m.url+path, api.MediaJSON, strings.NewReader(`{"password":"`+planted["a refused body"]+`","`+planted["a refused body"]+`":1}`))
		m.must(err)
		m.must(response.Body.Close())
	}
}

// secretFree searches every byte of the log, the answers about tasks and the
// metrics for secrets.
func (m *machine) secretFree(secrets ...string) {
	m.t.Helper()
	written := map[string]string{"log": m.arl("entry", "list", "--output", "json")}
	for _, path := range []string{"/metrics", "/v1/tasks", "/v1/incidents", "/v1/entries?limit=100", "/v1/agents", "/v1/log", "/openapi.json"} {
		response, err := http.Get(m.url + path)
		m.must(err)
		var body bytes.Buffer
		_, err = body.ReadFrom(response.Body)
		m.must(err)
		m.must(response.Body.Close())
		written[path] = body.String()
	}
	written["server"] = m.stderr.String()
	files, err := filepath.Glob(filepath.Join(m.data, "*"))
	m.must(err)
	for _, file := range files {
		_ = filepath.WalkDir(file, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				if text, err := os.ReadFile(path); err == nil {
					written[path] = string(text)
				}
			}
			return nil
		})
	}
	for where, text := range written {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				m.t.Errorf("%q is in %s", secret, where)
			}
		}
	}
}

//go:build unix

package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"recoveryledger/testdata/bucket"
)

// TestServePublishes: a ledger publishes to a bucket while it runs, and arl audits the log from
// there alone. A ledger that lost entries finds the published head, and does not start.
func TestServePublishes(t *testing.T) {
	store := bucket.NewStore()
	heads := make(chan struct{}, 1<<16)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		store.ServeHTTP(w, r)
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/checkpoint") {
			heads <- struct{}{}
		}
	}))
	defer web.Close()
	for name, value := range bucket.Variables(web.URL) {
		t.Setenv(name, value)
	}
	m := newMachine(t, "--publish", "s3://"+bucket.Name+"/mine", "--publish-every", "20ms")
	m.start()
	m.enrol()
	m.stop()
	early := filepath.Join(filepath.Dir(m.data), "early")
	m.copy(m.data, early)
	m.start()
	m.bulk(300)
	for size := 0; size < 300; {
		<-heads
		size = m.publishedAt(web.URL + "/" + bucket.Name + "/mine")
	}
	m.arl("log", "audit", "--url", web.URL+"/"+bucket.Name+"/mine")
	m.stop()
	public := filepath.Join(filepath.Dir(m.data), "public")
	m.arl("log", "export", "--data", m.data, "--to", "file://"+public)
	files := httptest.NewServer(http.FileServer(http.Dir(public)))
	defer files.Close()
	m.arl("log", "audit", "--url", files.URL)

	m.must(os.RemoveAll(m.data))
	m.must(os.Rename(early, m.data))
	m.must(os.Remove(m.data + ".anchor"))
	m.home = filepath.Join(filepath.Dir(m.data), "another") // which has accepted no head
	cmd, said := m.command(nil, "serve", "--data", m.data, "--listen", "127.0.0.1:0", "--accept-anchor", "--publish", "s3://"+bucket.Name+"/mine")
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 10 || !strings.Contains(said.String(), "is published under the ledger's signature") {
		t.Errorf("an older copy starts: %v\n%s", err, said)
	}
}

// publishedAt returns the size of the tree head at a URL.
func (m *machine) publishedAt(url string) int {
	m.t.Helper()
	response, err := http.Get(url + "/checkpoint")
	m.must(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	m.must(err)
	lines := strings.Split(string(body), "\n")
	if len(lines) < 3 {
		return 0
	}
	size, err := strconv.Atoi(lines[1])
	m.must(err)
	return size
}

// TestAPublishedFork has a ledger sign a second history, and publishes the tree head of the first
// one in the place of its own. The ledger ends: the counter of forks is shown, and an endpoint is
// told.
func TestAPublishedFork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	public, notify, told := filepath.Join(dir, "public"), filepath.Join(dir, "notify.yaml"), filepath.Join(dir, "told")
	m := newMachine(t)
	m.must(os.WriteFile(notify, []byte("endpoints:\n  - {name: hook, exec: [sh, -c, cat >> "+told+"]}\n"), 0o600))
	m.start()
	m.enrol()
	m.stop()
	twin := filepath.Join(dir, "twin")
	m.copy(m.data, twin)
	m.copy(m.data+".anchor", twin+".anchor")
	publish := func(args ...string) (checkpoint []byte) {
		m.args = append([]string{"--publish", "file://" + public, "--publish-every", "20ms"}, args...)
		m.start()
		status, body, err := m.post(m.execution())
		if err != nil || status != http.StatusCreated {
			t.Fatalf("%d %s %v", status, body, err)
		}
		var receipt struct{ Index int }
		m.must(json.Unmarshal(body, &receipt))
		for end := time.Now().Add(time.Minute); len(checkpoint) == 0; time.Sleep(time.Millisecond) {
			found, err := os.ReadFile(filepath.Join(public, "checkpoint"))
			if err == nil && strings.Contains(string(found), fmt.Sprintf("\n%d\n", receipt.Index+1)) {
				checkpoint = found
			}
			if time.Now().After(end) {
				t.Fatalf("size %d is not published: %s %v", receipt.Index+1, found, err)
			}
		}
		return checkpoint
	}
	first := publish()
	m.stop()
	m.must(os.RemoveAll(public))
	m.data = twin
	publish("--home", filepath.Join(dir, "elsewhere"), "--notify", notify)
	m.counts(`arl_invariant_violations_total{invariant="forked"} 0`)
	other := filepath.Join(dir, "checkpoint")
	m.must(os.WriteFile(other, first, 0o600))
	m.must(os.Rename(other, filepath.Join(public, "checkpoint")))
	m.halts()
	content, err := os.ReadFile(told)
	if err != nil || !strings.Contains(string(content), "agent-recovery.log.fork") || !strings.Contains(m.stderr.String(), "the ledger forked") {
		t.Errorf("told %s, %v\n%s", content, err, m.stderr.String())
	}
}

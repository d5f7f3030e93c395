//go:build unix

package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/damage"
	"recoveryledger/verify"
)

// bulk submits new executions as one batch.
func (m *machine) bulk(n int) {
	m.t.Helper()
	var batch bytes.Buffer
	for range n {
		batch.Write(append(m.execution(), '\n'))
	}
	response, err := http.Post(m.url+"/v1/entries", "application/x-ndjson", &batch)
	m.must(err)
	_, err = io.Copy(io.Discard, response.Body)
	m.must(err)
	m.must(response.Body.Close())
	if response.StatusCode/100 != 2 {
		m.t.Fatalf("batch: %s", response.Status)
	}
}

// TestADamagedSnapshotIsBuiltAgain flips a bit in the stored snapshot of the state
// of a real ledger: it starts, says so, counts it, and leaves nothing of the
// damage behind.
func TestADamagedSnapshotIsBuiltAgain(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.enrol()
	for range 3 {
		m.bulk(3000)
	}
	status, body, err := m.post(m.execution())
	m.must(err)
	var last verify.Receipt
	if status != http.StatusCreated || json.Unmarshal(body, &last) != nil {
		t.Fatalf("status %d: %s", status, body)
	}
	m.stop()
	hash := merkle.HashLeaf(last.Leaf) // stands in no full tile: it is in the snapshot alone
	m.must(damage.Flip(m.data, hash[8:24]))
	m.start()
	m.counts("arl_snapshots_damaged_total 1")
	m.ready()
	m.checkAcknowledged([]acknowledged{{receipt: last}}, rand.New(rand.NewPCG(1, 1)))
	m.stop()
	said := m.stderr.String()
	if !strings.Contains(said, "builds the state again from the log") {
		t.Errorf("it says:\n%s", said)
	}
	checkBrief(t, said)
	fsck, out := m.command(nil, "log", "fsck", "--data", m.data)
	if err := fsck.Run(); err != nil || !strings.Contains(out.String(), "sound") {
		t.Errorf("fsck: %v\n%s", err, out)
	}
}

// counts wants a line in the metrics.
func (m *machine) counts(line string) {
	m.t.Helper()
	if !m.shows(line) {
		m.t.Errorf("the metrics lack %q", line)
	}
}

// shows reports whether a line is in the metrics.
func (m *machine) shows(line string) bool {
	m.t.Helper()
	return strings.Contains(m.metrics(), "\n"+line+"\n")
}

// metrics returns the metrics; empty: nobody answers.
func (m *machine) metrics() string {
	m.t.Helper()
	client := &http.Client{Timeout: 10 * time.Second} // nobody answers at the socket of an ended service
	response, err := client.Get(m.url + "/metrics")
	if err != nil {
		return "" // between a halt and the last word nobody listens
	}
	metrics, err := io.ReadAll(response.Body)
	m.must(errors.Join(err, response.Body.Close()))
	return string(metrics)
}

// TestADamagedEntryIsCounted flips a bit in an entry that a starting ledger does not read: the
// ledger starts, answers the reader of the entry with an error, and counts what it read. The same
// for an entry that is not in the database any more, once the bit is right again. An endpoint of
// --notify that was not told of the entry yet, a publisher and an index read it, too: that is
// counted, though nobody asks.
func TestADamagedEntryIsCounted(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.enrol()
	m.bulk(3000) // a starting ledger reads the first entries, and those behind its snapshot
	status, body, err := m.post(m.task(m.operator(), "middle"))
	m.must(err)
	var middle verify.Receipt
	if status != http.StatusCreated || json.Unmarshal(body, &middle) != nil {
		t.Fatalf("status %d: %s", status, body)
	}
	e, _, err := entry.DecodeLeaf(middle.Leaf)
	m.must(err)
	for range 3 {
		m.bulk(3000)
	}
	m.stop()
	m.start() // what the write-ahead log had is in tables from now on
	m.stop()
	bits := bytes.Clone(e.Sig[8:24])
	m.must(damage.Flip(m.data, bits))
	m.unreadable(middle.Index, "corrupt_read")
	bits[0] ^= 1
	m.must(damage.Flip(m.data, bits))
	m.must(damage.Lose(m.data, e.Sig))
	m.unreadable(middle.Index, "lost")
	file := filepath.Join(t.TempDir(), "notify.yaml")
	m.must(os.WriteFile(file, []byte("endpoints:\n  - {name: pager, exec: [\"true\"]}\n"), 0o600))
	m.must(os.MkdirAll(filepath.Join(m.data, "notify"), 0o700))
	m.must(os.WriteFile(filepath.Join(m.data, "notify", "pager.json"), []byte(`{"index":0,"files":{}}`), 0o600))
	m.meets("lost", "--notify", file)
	m.meets("lost", "--publish", "file://"+t.TempDir())
	m.meets("lost", "--index")
}

// meets starts the ledger with a follower of its log that begins at the first entry, and wants the
// violation of the invariant counted, though no client reads.
func (m *machine) meets(invariant string, follower ...string) {
	m.t.Helper()
	args := m.args
	m.args = append(slices.Clip(args), follower...)
	m.start()
	defer func() { m.stop(); m.args = args }()
	counter := `arl_invariant_violations_total{invariant="` + invariant + `"} `
	for deadline := time.Now().Add(time.Minute); ; {
		text := m.metrics()
		if strings.Contains(text, counter) && !strings.Contains(text, counter+"0\n") {
			return
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("%q: no %s is counted\n%s", follower, invariant, m.stderr.String())
		}
	}
}

// unreadable starts the ledger, reads an entry that it cannot answer, and wants the violation of
// the invariant counted.
func (m *machine) unreadable(index uint64, invariant string) {
	m.t.Helper()
	m.start()
	defer m.stop()
	m.counts(`arl_invariant_violations_total{invariant="` + invariant + `"} 0`)
	response, err := http.Get(fmt.Sprintf("%s/v1/entries/%d", m.url, index))
	m.must(err)
	m.must(response.Body.Close())
	if response.StatusCode != http.StatusInternalServerError {
		m.t.Errorf("the entry: %s", response.Status)
	}
	m.counts(`arl_invariant_violations_total{invariant="` + invariant + `"} 1`)
}

// ready asks until the ledger says that it takes entries.
func (m *machine) ready() {
	m.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		response, err := http.Get(m.url + "/readyz")
		m.must(err)
		m.must(response.Body.Close())
		switch {
		case response.StatusCode == http.StatusOK:
			return
		case response.StatusCode != http.StatusServiceUnavailable || time.Now().After(deadline):
			m.t.Fatalf("readyz: %s", response.Status)
		}
	}
}

// TestADamagedDatabaseIsNamed removes, cuts and changes each file of a stopped
// ledger's database in turn, and puts a directory in its place. The ledger starts and
// stops as ever, or ends with the exit code of a damaged log, and says in a few lines what
// is wrong and what to do.
func TestADamagedDatabaseIsNamed(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.enrol()
	m.bulk(600)
	m.stop()
	m.start()
	m.bulk(10)
	m.kill() // what came last is in the write-ahead log
	database, sound := filepath.Join(m.data, "db"), filepath.Join(t.TempDir(), "sound")
	m.must(os.CopyFS(sound, os.DirFS(database)))
	anchor, err := os.ReadFile(m.data + ".anchor")
	m.must(err)
	var paths []string
	m.must(fs.WalkDir(os.DirFS(m.data), "db", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != "LOCK" && d.Name() != "BALLAST" {
			paths = append(paths, path)
		}
		return err
	}))
	ends := map[int]int{}
	for _, path := range append(paths, "../data.anchor") {
		path = filepath.Join(m.data, path)
		for what, damage := range map[string]func(content []byte) []byte{
			"removed":     nil,
			"a directory": nil,
			"cut":         func(content []byte) []byte { return content[:len(content)/2] },
			"changed":     func(content []byte) []byte { content[len(content)/2] ^= 4; return content },
		} {
			m.must(os.RemoveAll(database))
			m.must(os.RemoveAll(m.data + ".anchor"))
			m.must(os.CopyFS(database, os.DirFS(sound)))
			m.must(os.WriteFile(m.data+".anchor", anchor, 0o600))
			content, err := os.ReadFile(path)
			m.must(err)
			switch {
			case damage == nil:
				m.must(os.Remove(path))
				if what == "a directory" {
					m.must(os.Mkdir(path, 0o700))
				}
			case len(content) == 0:
				continue // a marker is nothing but its name
			default:
				m.must(os.WriteFile(path, damage(content), 0o600))
			}
			code, said := m.startAndStop()
			ends[code]++
			name := fmt.Sprintf("%s %s", filepath.Base(path), what)
			if code != 0 && code != 10 {
				t.Errorf("%s: exit code %d\n%s", name, code, said)
			}
			if code == 10 && !strings.Contains(said, "restore") {
				t.Errorf("%s: no remedy\n%s", name, said)
			}
			if lines := strings.Count(said, "\n"); lines > 8 {
				t.Errorf("%s: %d lines\n%s", name, lines, said)
			}
			checkBrief(t, said)
		}
	}
	t.Log(ends)
	if ends[0] < 5 || ends[10] < 10 {
		t.Errorf("%v", ends)
	}
}

// startAndStop starts the ledger, stops it when it has started, and returns its
// exit code and what it said.
func (m *machine) startAndStop() (code int, said string) {
	m.t.Helper()
	cmd, stderr := m.command(nil, "serve", "--data", m.data, "--listen", "127.0.0.1:0", "--output", "json")
	cmd.Stdout = nil
	stdout, err := cmd.StdoutPipe()
	m.must(err)
	m.must(cmd.Start())
	if _, err := bufio.NewReader(stdout).ReadBytes('\n'); err == nil {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	}
	_ = cmd.Wait() // its exit code says it
	return cmd.ProcessState.ExitCode(), stderr.String()
}

// checkBrief holds what a process said to be written for people.
func checkBrief(t *testing.T, said string) {
	t.Helper()
	for line := range strings.Lines(said) {
		if len(line) > 800 || strings.Contains(line, "stack trace") || strings.Contains(line, "detail carrier") || strings.Contains(line, "goroutine ") {
			t.Errorf("it says %s", line)
		}
	}
}

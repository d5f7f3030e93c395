//go:build unix

package cell_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"recoveryledger/testdata/budget"
)

// doors is what a node has for people and readers who do not ask a node: an endpoint, which is told
// of tasks, and a directory for published files.
type doors struct {
	m    *machine
	made int // tasks
	web  *httptest.Server
}

// newDoors writes the file for --notify, and serves the directory for --publish.
func (m *machine) newDoors() *doors {
	m.t.Helper()
	d := &doors{m: m, web: httptest.NewServer(http.FileServer(http.Dir(m.Path("public"))))}
	m.t.Cleanup(d.web.Close)
	must(m.t, os.Mkdir(m.Path("public"), 0o700))
	must(m.t, os.WriteFile(m.Path("notify.yaml"), fmt.Appendf(nil, "endpoints:\n  - {name: hook, exec: [sh, -c, cat >> %s; echo >> %[1]s]}\n", m.Path("told")), 0o600))
	return d
}

// told returns the tasks that the endpoint was told of, each once, in the order of the messages.
func (d *doors) told() (subjects []string) {
	d.m.t.Helper()
	content, err := os.ReadFile(d.m.Path("told"))
	if err != nil && !os.IsNotExist(err) {
		d.m.t.Fatal(err)
	}
	ids := map[string]bool{}
	for line := range bytes.Lines(content) {
		var message struct{ ID, Subject string }
		if json.Unmarshal(line, &message) == nil && !ids[message.ID] { // the end of the file may be half a message
			ids[message.ID] = true
			subjects = append(subjects, message.Subject)
		}
	}
	return subjects
}

// works makes some tasks through a node. It waits until the endpoint was told of all that were ever
// made, in their order, and until the published files have the newest entry.
func (d *doors) works(tasks int, by *node) {
	d.m.t.Helper()
	d.makes(tasks, by)
	wanted := []string{}
	for i := range d.made {
		wanted = append(wanted, fmt.Sprint("task/operator#t", i))
	}
	_, body := by.get("/v1/log")
	var log struct{ Size uint64 }
	must(d.m.t, json.Unmarshal([]byte(body), &log))
	for began := time.Now(); ; time.Sleep(askEvery) {
		published := uint64(0)
		head, _ := os.ReadFile(d.m.Path("public/checkpoint")) // there may be none yet
		if lines := bytes.Split(head, []byte("\n")); len(lines) > 2 {
			_, _ = fmt.Sscan(string(lines[1]), &published)
		}
		told := d.told()
		if slices.Equal(told, wanted) && published >= log.Size {
			return
		}
		if time.Since(began) > time.Minute {
			d.m.t.Fatalf("told of %q, want %q; published %d of %d entries", told, wanted, published, log.Size)
		}
	}
}

// makes makes tasks that no agent can have.
func (d *doors) makes(tasks int, by *node) {
	d.m.t.Helper()
	for range tasks {
		d.m.arl("task", "create", fmt.Sprint("t", d.made), "--type", "fly", "--reason", "nobody can do it", "--url", by.url)
		d.made++
	}
}

// launch starts a node that the environment or the configuration file calls one, and waits until it
// serves.
func (m *machine) launch(data string) *node {
	m.t.Helper()
	n, serves := m.process(data)
	serves()
	return n
}

// TestDoorsMove loses the node that tells an endpoint and publishes files. As docs/cluster.md says,
// its cursors are copied to another node, which goes on: the endpoint is told of each task in the
// order of the log, and the published files become those of the whole log. Whether that node leads
// makes no difference. The first node has its settings from the environment, and the second one
// from the configuration file.
func TestDoorsMove(t *testing.T) {
	budget.Unraced(t, "one command after the other, on nodes as in TestOneThreeOne")
	m := newMachine(t)
	a, b, c := m.three()
	d := m.newDoors()
	settings := map[string]string{"cluster": "true", "notify": m.Path("notify.yaml"), "publish": "file://" + m.Path("public"), "publish-every": "20ms"}
	b.stop()
	for name, value := range settings {
		m.env = append(m.env, "ARL_SERVE_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"="+value)
	}
	b = m.launch("b")
	m.env = nil
	a.voters(3)
	d.works(3, a)
	b.kill()
	d.makes(3, a)
	c.stop() // the log waits: one node of three is left

	must(t, os.CopyFS(m.Path("c/notify"), os.DirFS(m.Path("b/notify"))))
	file := "serve:\n"
	for name, value := range settings {
		file += "  " + name + ": " + value + "\n"
	}
	must(t, os.WriteFile(m.Path("home/config.yaml"), []byte(file), 0o600))
	c = m.launch("c")
	d.works(1, a)
	for _, leader := range []string{"n3", "n1"} {
		m.arl("cluster", "lead", leader, "--data", "a")
		d.works(1, a)
	}
	m.arl("log", "audit", "--url", d.web.URL)
	if status, body := c.get("/readyz"); status != http.StatusOK {
		t.Errorf("c is not ready: %d %s", status, body)
	}
}

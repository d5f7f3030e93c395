//go:build unix

package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// TestAHiddenOverride has a ledger hide an override from an agent.
func TestAHiddenOverride(t *testing.T) {
	t.Parallel()
	testHidden(t, func(m *machine, incident uint64) {
		m.arl("incident", "override", strconv.FormatUint(incident, 10), "--reason", "it is needed after all", "--yes")
	})
}

// TestAHiddenRevocation has a ledger hide from an agent that the key of the coordinator,
// who authorized, was in wrong hands when the incident was opened.
func TestAHiddenRevocation(t *testing.T) {
	t.Parallel()
	testHidden(t, func(m *machine, incident uint64) {
		m.arl("agent", "revoke", "--principal", "coordinator", "--reason", "its key was stolen", "--compromised-since", strconv.FormatUint(incident, 10), "--yes")
	})
}

// testHidden has a ledger hide an entry that takes an authorization back: the ledger
// shows, under its newest head, all that it showed before that entry, with proofs that
// hold. An agent that demands the proof that nothing is left out obeys nothing. The same
// agent without that demand undoes what was stopped, which is what the proof is for.
func testHidden(t *testing.T, stop func(m *machine, incident uint64)) {
	t.Helper()
	m := newMachine(t, "--index")
	m.start()
	hostile, effect, listen := m.hides(stop)
	for _, demands := range []bool{true, false} {
		cmd, said := listen(map[bool][]string{true: {"--absences"}}[demands]...)
		over := func() bool { _, err := os.Stat(effect); return err == nil }
		if demands {
			over = func() bool { return strings.Contains(said.String(), "ABS-1") }
		}
		m.endsWhen(cmd, said, over)
		if _, err := os.Stat(effect); err == nil && demands {
			t.Fatalf("what was stopped was undone\n%s", said.String())
		}
	}
	hostile.Close()
}

// TestARequiredIndex has a ledger hide an override, where the policy says index.required: the
// ledger leaves the index out, and shows an older one. An agent that demands nothing by itself
// obeys neither, and arl verify refuses both.
func TestARequiredIndex(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "--index")
	file := filepath.Join(t.TempDir(), "policy.yaml")
	policy := m.arl("policy", "show", "--default") + "\nindex:\n  required: true\n"
	m.must(os.WriteFile(file, []byte(policy), 0o600))
	m.args = append(m.args, "--policy", file)
	m.start()
	hostile, effect, listen := m.hides(func(m *machine, incident uint64) {
		m.arl("incident", "override", strconv.FormatUint(incident, 10), "--reason", "it is needed after all", "--yes")
	})
	defer hostile.Close()
	for name, flags := range map[string][]string{"left out": nil, "behind": {"--absences"}} {
		cmd, said := listen(flags...)
		m.endsWhen(cmd, said, func() bool { return strings.Contains(said.String(), "ABS-1") })
		if _, err := os.Stat(effect); err == nil {
			t.Fatalf("%s: what was stopped was undone\n%s", name, said.String())
		}
		response, err := http.Get(hostile.URL + api.URL(api.PathBundle, nil, hostile.Config.Handler.(*hiding).incident) + "?agent=" + url.QueryEscape(string(processAgent)) +
			map[bool]string{true: "&absences=true"}[flags != nil])
		m.must(err)
		body, err := io.ReadAll(response.Body)
		m.must(errors.Join(err, response.Body.Close()))
		bundleFile := filepath.Join(t.TempDir(), "bundle.json")
		m.must(os.WriteFile(bundleFile, body, 0o600))
		verify, out := m.command(nil, "verify", bundleFile)
		if code := exitOf(verify.Run()); code != 5 || !strings.Contains(out.String(), "ABS-1") {
			t.Errorf("%s: exit code %d\n%s", name, code, out)
		}
	}
}

// endsWhen runs a command until something is so, and then ends it in order.
func (m *machine) endsWhen(cmd *exec.Cmd, said *spoken, over func() bool) {
	m.t.Helper()
	m.must(cmd.Start())
	for deadline := time.Now().Add(30 * time.Second); !over(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			m.t.Fatalf("arl %q\n%s", cmd.Args[1:], said.String())
		}
	}
	m.must(cmd.Process.Signal(syscall.SIGTERM))
	if code := exitOf(cmd.Wait()); code != 0 {
		m.t.Errorf("exit code %d: %s", code, said.String())
	}
}

// hides has the agent's work authorized to be undone, and stopped by what a hostile server then
// hides from the agent. listen makes arl agent listen against that server; its program writes the
// file effect.
func (m *machine) hides(stop func(m *machine, incident uint64)) (server *httptest.Server, effect string, listen func(flags ...string) (*exec.Cmd, *spoken)) {
	t := m.t
	t.Helper()
	m.enrol()
	work := t.TempDir()
	head := filepath.Join(work, "head")
	effect = filepath.Join(work, "effect")
	m.save("/checkpoint", head)
	if cmd, said := m.listen("--init"); exitOf(cmd.Run()) != 0 {
		t.Fatalf("init: %s", said)
	}
	m.write(&entry.Checkpoint{Header: m.header(processAgent, "w"), Checkpoint: "start", Digest: entry.Digest("sha256:" + strings.Repeat("1", 64))})
	for _, progress := range []entry.Progress{entry.Started, entry.Confirmed} {
		m.write(&entry.Execution{Header: m.header(processAgent, "w"), Exec: "x", Parents: []entry.Parent{}, Effect: entry.EffectReversible, Progress: progress})
	}
	m.write(&entry.Signal{Header: m.header(processAgent, "w"), Subject: entry.NewRef(processAgent, "x"), Class: "tool", Code: "error", Standing: entry.StandingExecutor,
		Effects: entry.EffectsComplete, ReplaySafety: entry.ReplayUnsafe, ObservedAt: time.Now().UnixMilli()})
	hostile := m.hide(m.authorized())
	stop(m, hostile.incident)
	hostile.honest.ErrorLog = log.New(io.Discard, "", 0) // an agent that ends breaks its requests off
	server = httptest.NewServer(hostile)
	undoes := "cat > /dev/null; echo undone >> " + effect + "; echo '{\"status\":\"done\"}'"
	return server, effect, func(flags ...string) (*exec.Cmd, *spoken) {
		args := append([]string{"--url", server.URL, "--confirm", head, "--hooks", "restore"}, flags...)
		cmd, _ := m.listen(append(args, "--exec", "sh", "--", "-c", undoes)...)
		said := new(spoken)
		cmd.Stdout, cmd.Stderr = said, said
		return cmd, said
	}
}

// write submits an entry of the agent.
func (m *machine) write(body entry.Body) {
	m.t.Helper()
	if status, answer, err := m.post(m.seal(m.agent, body)); err != nil || status != http.StatusCreated {
		m.t.Fatalf("submit: %d %s %v", status, answer, err)
	}
}

// authorized returns the incident that the coordinator has authorized.
func (m *machine) authorized() uint64 {
	m.t.Helper()
	var page api.Incidents
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		m.get("/v1/incidents?state=AUTHORIZED", &page)
		if len(page.Incidents) == 1 {
			return page.Incidents[0].ID
		}
		if time.Now().After(deadline) {
			m.t.Fatal("nothing was authorized")
		}
	}
}

// hiding is a ledger that goes on to show an agent what it showed before, under heads
// that cover what came since.
type hiding struct {
	m        *machine
	incident uint64
	before   map[string][]byte // answers, by path
	honest   *httputil.ReverseProxy
}

// hide begins to hide what comes from now on.
func (m *machine) hide(incident uint64) *hiding {
	m.t.Helper()
	upstream, err := url.Parse(m.url)
	m.must(err)
	h := &hiding{m: m, incident: incident, before: map[string][]byte{}, honest: httputil.NewSingleHostReverseProxy(upstream)}
	agent := url.QueryEscape(string(processAgent))
	for _, path := range []string{
		api.URL(api.PathCommands, nil, processAgent),
		api.URL(api.PathNews, nil, processAgent),
		api.URL(api.PathBundle, nil, incident) + "?agent=" + agent + "&absences=true",
	} {
		response, err := http.Get(m.url + path)
		m.must(err)
		var body bytes.Buffer
		_, err = body.ReadFrom(response.Body)
		m.must(err)
		m.must(response.Body.Close())
		if response.StatusCode != http.StatusOK {
			m.t.Fatalf("GET %s: %d %s", path, response.StatusCode, body.String())
		}
		path, _, _ = strings.Cut(path, "?")
		h.before[path] = body.Bytes()
	}
	return h
}

// ServeHTTP answers as the ledger does, but for what would show the hidden entry.
func (h *hiding) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	before, hidden := h.before[r.URL.EscapedPath()]
	if !hidden {
		h.honest.ServeHTTP(w, r)
		return
	}
	if b, err := bundle.Decode(before); err == nil {
		if !r.URL.Query().Has("absences") { // an older index proves nothing to whoever looks at it
			b.Entries = slices.DeleteFunc(b.Entries, func(leaf bundle.Leaf) bool { return b.Index != 0 && leaf.Index == b.Index })
			b.Index, b.Indexed = 0, verify.Indexed{}
		}
		if before, err = h.again(b, r.URL.Query().Get("from")); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	w.Header().Set("Content-Type", api.MediaJSON)
	_, _ = w.Write(before) // whoever does not take it has gone away
}

// again proves the entries of a bundle under the newest head.
func (h *hiding) again(b *bundle.Bundle, from string) ([]byte, error) {
	newest, err := h.receipt(0)
	if err != nil {
		return nil, err
	}
	head, err := h.m.root().Head([]byte(newest.Head))
	if err != nil {
		return nil, err
	}
	tree := new(merkle.Tree)
	for index := range head.Size {
		receipt, err := h.receipt(index)
		if err != nil {
			return nil, err
		}
		tree.Append(merkle.HashLeaf(receipt.Leaf))
	}
	if from == "" {
		from = "0"
	}
	if b.From, err = strconv.ParseUint(from, 10, 64); err != nil {
		return nil, err
	}
	var indexes []uint64
	for _, leaf := range b.Entries {
		indexes = append(indexes, leaf.Index)
	}
	b.Head = newest.Head
	if b.Inclusion, err = merkle.ProveInclusions(indexes, head.Size, tree.Node); err != nil {
		return nil, err
	}
	if b.Consistency, err = merkle.ProveConsistency(b.From, head.Size, tree.Node); err != nil {
		return nil, err
	}
	return b.Encode()
}

func (h *hiding) receipt(index uint64) (verify.Receipt, error) {
	response, err := http.Get(h.m.url + api.URL(api.PathReceipt, nil, index))
	if err != nil {
		return verify.Receipt{}, err
	}
	defer response.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil {
		return verify.Receipt{}, err
	}
	if response.StatusCode != http.StatusOK {
		return verify.Receipt{}, fmt.Errorf("receipt %d: %s", index, body.String())
	}
	return verify.DecodeReceipt(body.Bytes())
}

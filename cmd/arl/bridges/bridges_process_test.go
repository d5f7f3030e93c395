package bridges_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"recoveryledger/testdata/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// machine has the profiles of two ledgers, and runs commands.
type machine struct {
	t *testing.T
	program.Folder
}

// arl runs a command that ends with an exit code, and returns what it prints.
func (m *machine) arl(code int, args ...string) string {
	m.t.Helper()
	out, _ := m.Arl(code, args...)
	return out
}

// ledger is a running ledger with a profile of its origin's first part.
type ledger struct {
	*machine
	name, url string
	cmd       *exec.Cmd
}

// serve starts a ledger that decides at once what its policy lets it decide alone.
func (m *machine) serve(name string) *ledger {
	m.t.Helper()
	l := &ledger{machine: m, name: name}
	l.cmd = m.Command("serve", "--output", "json", "--data", name, "--origin", name+".example/log", "--listen", "127.0.0.1:0")
	l.cmd.Stderr = m.t.Output()
	out, err := l.cmd.StdoutPipe()
	must(m.t, err)
	must(m.t, l.cmd.Start())
	m.t.Cleanup(func() { _ = l.cmd.Process.Kill(); _ = l.cmd.Wait() }) // it may have ended
	var started struct{ URL, Profile string }
	must(m.t, json.NewDecoder(out).Decode(&started))
	l.url = started.URL
	return l
}

// on runs a command about the ledger.
func (l *ledger) on(args ...string) string {
	l.t.Helper()
	return l.arl(0, append(args, "--url", l.url)...)
}

// enrols enrols a principal with a new key.
func (l *ledger) enrols(principal, roles string) {
	l.t.Helper()
	l.arl(0, "key", "generate", "--out", principal+".key")
	l.on("agent", "enrol", "--principal", principal, "--key", principal+".key", "--domain", "d-"+principal, "--roles", roles)
}

// submit registers an entry.
func (l *ledger) submit(principal, kind, payload string) (index uint64) {
	l.t.Helper()
	must(l.t, os.WriteFile(l.Path("payload.json"), []byte(payload), 0o600))
	out := l.on("entry", "submit", "--kind", kind, "--key", principal+".key", "--payload", "payload.json", "--output", "json")
	var done struct{ Index uint64 }
	must(l.t, json.Unmarshal([]byte(strings.Split(out, "\n")[0]), &done))
	return done.Index
}

// get reads an answer of the API.
func (l *ledger) get(path string, into any) {
	l.t.Helper()
	response, err := http.Get(l.url + path)
	must(l.t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		l.t.Fatalf("GET %s: %s", path, response.Status)
	}
	must(l.t, json.NewDecoder(response.Body).Decode(into))
}

// foreign is the member that names an entry of this ledger as a parent.
func (l *ledger) foreign(exec string, index uint64) string {
	l.t.Helper()
	var found struct {
		LeafHash string `json:"leaf_hash"`
	}
	l.get(fmt.Sprintf("/v1/entries/%d", index), &found)
	return fmt.Sprintf(`{"origin":"%s.example/log","exec":%q,"index":%d,"leaf_hash":%q}`, l.name, exec, index, found.LeafHash)
}

// incidents waits until the ledger has as many incidents, and returns their states by what they
// were opened about.
func (l *ledger) incidents(count int) map[string]string {
	l.t.Helper()
	var list struct {
		Incidents []struct {
			State   string
			Signals []struct{ Subject string }
		}
	}
	l.get("/v1/incidents", &list)
	states := map[string]string{}
	for _, i := range list.Incidents {
		states[i.Signals[0].Subject] = i.State
	}
	if len(states) != count {
		l.t.Fatalf("%s has the incidents %v, want %d", l.name, states, count)
	}
	return states
}

// decided waits until an incident about a subject has a decision in force.
func (l *ledger) decided(subject string) {
	l.t.Helper()
	for state := ""; state == "" || state == "REPORTED" || state == "CONTAINED"; {
		var list struct {
			Incidents []struct {
				State   string
				Signals []struct{ Subject string }
			}
		}
		l.get("/v1/incidents", &list)
		for _, i := range list.Incidents {
			if i.Signals[0].Subject == subject {
				state = i.State
			}
		}
	}
}

// does has a principal do something that can be undone, and returns the index of its first entry.
func (l *ledger) does(principal, wid, exec, foreign string) (index uint64) {
	l.t.Helper()
	index = l.submit(principal, "execution", fmt.Sprintf(execution, wid, exec, "started", foreign))
	l.submit(principal, "execution", fmt.Sprintf(execution, wid, exec, "confirmed", foreign))
	return index
}

const execution = `{"wid":%q,"exec":%q,"parents":[],"effect":"reversible","progress":%q%s}`

// TestTwoLedgers rolls back in ledger ours what an execution of ledger theirs was built on. The
// bridge signals that one in theirs, which decides by its own rules, and no other execution. A
// bridge that starts again says nothing twice, and a false reference moves nobody.
func TestTwoLedgers(t *testing.T) {
	m := &machine{t, program.NewFolder(t)}
	ours, theirs := m.serve("ours"), m.serve("theirs")
	ours.enrols("planner", "agent")
	theirs.enrols("booker", "agent")
	theirs.enrols("bridge", "monitor")

	ours.submit("planner", "checkpoint", `{"wid":"w","checkpoint":"start","after":null,"digest":"sha256:1111111111111111111111111111111111111111111111111111111111111111"}`)
	plan := ours.does("planner", "w", "plan", "")
	other := ours.does("planner", "v", "other", "")
	named := func(members ...string) string { return `,"foreign":[` + strings.Join(members, ",") + `]` }
	theirs.submit("booker", "checkpoint", `{"wid":"trip","checkpoint":"start","after":null,"digest":"sha256:1111111111111111111111111111111111111111111111111111111111111111"}`)
	theirs.does("booker", "trip", "book", named(ours.foreign("planner#plan", plan)))
	theirs.does("booker", "trip2", "apart", named(ours.foreign("planner#other", other)))
	theirs.does("booker", "trip3", "liar", named(ours.foreign("planner#plan", other)))
	theirs.does("booker", "trip4", "alone", "")

	pinned := m.profile("ours.example/log")
	bridge := []string{"bridge", "--url", theirs.url, "--from", pinned, "--key", "bridge.key", "--bundles", "bundles", "--once", "--output", "json"}
	if out := m.arl(0, bridge...); out != "" {
		t.Errorf("nothing is rolled back, and the bridge says %s", out)
	}
	ours.on("signal", "submit", "--subject", "planner#plan", "--class", "output", "--code", "ungrounded", "--effects", "complete", "--replay-safety", "safe", "--key", "planner.key")
	ours.decided("planner#plan")
	theirs.incidents(0)

	var told []struct {
		Exec, Evidence, Problem string
		Signal                  uint64
	}
	for decoder := json.NewDecoder(strings.NewReader(m.arl(0, bridge...))); decoder.More(); {
		told = append(told, struct {
			Exec, Evidence, Problem string
			Signal                  uint64
		}{})
		must(t, decoder.Decode(&told[len(told)-1]))
	}
	if len(told) != 2 || told[0].Exec != "booker#book" || told[0].Problem != "" || told[1].Exec != "booker#liar" || !strings.Contains(told[1].Problem, "is not the entry") {
		t.Fatalf("the bridge says %+v", told)
	}
	theirs.incidents(1)
	theirs.decided("booker#book")
	if state := theirs.incidents(1)["booker#book"]; state != "AUTHORIZED" {
		t.Errorf("theirs decides %s", state)
	}
	evidence, err := os.ReadFile(m.Path("bundles/" + strings.ReplaceAll(told[0].Evidence, ":", "-") + ".bundle"))
	must(t, err)
	must(t, os.WriteFile(m.Path("shown.bundle"), evidence, 0o600))
	if out := m.arl(0, "verify", "shown.bundle", "--profile", pinned); !strings.Contains(out, "planner#plan") {
		t.Errorf("the evidence shows %s", out)
	}

	if out := m.arl(0, bridge...); strings.Contains(out, "booker#book") {
		t.Errorf("a bridge that starts again says %s", out)
	}
	theirs.does("booker", "trip5", "late", named(ours.foreign("planner#plan", plan)))
	if out := m.arl(0, bridge...); !strings.Contains(out, `"exec":"booker#late"`) || strings.Contains(out, "booker#book") {
		t.Errorf("of an execution that was built on what was undone before, the bridge says %s", out)
	}
	theirs.incidents(2)
}

// profile returns the name of the profile of an origin.
func (m *machine) profile(origin string) string {
	m.t.Helper()
	out := m.arl(0, "profile", "list", "--output", "json")
	for line := range strings.Lines(out) {
		var p struct{ Name, Origin string }
		if json.Unmarshal([]byte(line), &p) == nil && p.Origin == origin {
			return p.Name
		}
	}
	m.t.Fatalf("no profile of %s: %s", origin, out)
	return ""
}

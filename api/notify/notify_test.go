package notify_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/api/notify"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/rollout"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
)

// data is what a message says.
type data struct {
	Index, Incident           uint64
	Task, Says, Command, Look string
	Rollout                   string
}

func (g *got) data(t *testing.T) (d data) {
	t.Helper()
	must(t, json.Unmarshal(g.Data(), &d))
	return d
}

// TestTellsAnIncident follows an incident from the question to its end.
func TestTellsAnIncident(t *testing.T) {
	n, r := start(t), receive(t)
	n.notify(r.endpoint("pager"))
	id := n.incident("pay")
	first := r.taken(1)[0]
	d := first.data(t)
	if first.Type() != "agent-recovery.incident.escalated" || first.Subject() != fmt.Sprintf("incident/%d", id) || d.Index != id+1 || d.Incident != id ||
		d.Command != fmt.Sprintf("arl incident approve %d --reason REASON", id) || !first.Time().Equal(time.UnixMilli(n.made.Entries[id+1].RegisteredAt)) {
		t.Errorf("%s", first.body)
	}
	n.made.Put("p", &entry.Approval{Incident: id, Proposal: n.made.Incident(id).Proposal.Ref, Verdict: "approve", Exp: n.made.At/1000 + 3600, Reason: "seen"})
	step := func() {
		todo, _ := n.made.State.Next(n.made.At + 1000)
		n.made.Put("k", todo[0])
	}
	step()
	n.made.Outcome(id, "a#pay", entry.ResultIrrevocable)
	step()
	n.play()
	last := r.taken(2)[1]
	if d := last.data(t); last.Type() != "agent-recovery.incident.failed" || d.Command != fmt.Sprintf("arl incident report %d", id) || last.ID() == first.ID() {
		t.Errorf("%s", last.body)
	}
}

// TestTellsTasks tells of tasks that wait for an operator, and of one that no agent can get, from
// the beginning or since an agent entry took the capability away: each once.
func TestTellsTasks(t *testing.T) {
	n, r := start(t), receive(t)
	change := func(op entry.AgentOp, name entry.Principal, key string, capabilities ...string) {
		n.made.Put("root", &entry.Agent{Principal: name, Op: op, Key: testlog.NewKey(t, name, key).Public, Roles: []entry.Role{entry.RoleAgent}, Domain: "d",
			Span: entry.SpanWorkflow, Capabilities: capabilities})
		n.play()
	}
	change(entry.Enrol, "cook", "cook", "cook")
	change(entry.Enrol, "fryer", "fryer", "fry", "wash")
	change(entry.Enrol, "boiler", "boiler", "boil", "wash")
	n.notify(r.endpoint("pager"))
	retries := int64(1)
	create := func(id, kind string) {
		n.made.Put("o", &entry.Task{Task: entry.NewRef("o", id), Op: "create", From: entry.TaskCreated, To: entry.TaskCreated, Reason: "new", MaxRetries: &retries,
			LeaseMS: new(int64(60_000)), Type: kind})
		n.play()
	}
	create("bake", "bake")
	create("soup", "cook") // the cook can
	create("chips", "fry")
	create("eggs", "boil")
	create("dishes", "wash")
	create("any", "")
	r.taken(2) // before somebody can no more
	change(entry.Revoke, "cook", "cook", "cook")
	change(entry.Enrol, "fryer", "fryer-2", "wash") // it says all that the fryer can
	change(entry.Enrol, "fryer", "fryer-3", "wash")
	change(entry.Rotate, "boiler", "boiler-2", "wash")
	change(entry.Rotate, "boiler", "boiler-3", "wash")
	create("last", "")
	r.taken(6)
	if want := "task.unassignable task/o#bake, task.escalated task/o#any, task.unassignable task/o#soup, task.unassignable task/o#chips, " +
		"task.unassignable task/o#eggs, task.escalated task/o#last"; r.told() != want {
		t.Errorf("told %s, want %s", r.told(), want)
	}
	if d := r.seen[0].data(t); d.Command != "arl agent enrol --principal AGENT --key FILE --domain DOMAIN --capabilities 'bake'" || d.Look != "arl task show 'o#bake'" {
		t.Errorf("%+v", d)
	}
}

// TestTellsRollouts tells of a rollout that its deadline ended, and of one that a person ended. An
// endpoint of another workflow is told, too. No other step makes an event.
func TestTellsRollouts(t *testing.T) {
	n, r, other := start(t), receive(t), receive(t)
	rules := recovery.Default().JSON()
	genesis, at := n.made.State.Chain().Policy()
	policy := *genesis
	policy.Header, policy.Previous, policy.Recovery = entry.Header{}, &at, rules
	n.made.Put("root", &policy)
	n.play()
	away := other.endpoint("other")
	away.Workflows = []entry.WorkflowID{"other"}
	n.notify(r.endpoint("pager"), away)
	candidate := jsontext.Value(strings.Replace(string(rules), `"attempts":6`, `"attempts":5`, 1))
	begin := func(name string) {
		n.made.Put("o", &entry.Rollout{Rollout: name, Op: entry.RolloutStart, Stage: entry.StageCanary, SharePermille: 10, Reason: "fewer escalations",
			Start: &entry.RolloutTerms{CandidateDigest: rollout.DigestOf(candidate), BaselineDigest: recovery.Default().Hash(), Candidate: candidate, Salt: "s",
				Gates: entry.RolloutGates(), CasesMin: 30, DeadlineAt: n.made.At + 60_000}})
	}
	begin("r1")
	n.made.Put("o", &entry.Rollout{Rollout: "r1", Op: entry.RolloutAdvance, Stage: entry.StageCanary, SharePermille: 20, Reason: "more"})
	n.made.At += 60_000
	todo, _ := n.made.State.Next(n.made.At + 1000)
	late := n.made.Put("k", todo[0])
	begin("r2")
	n.made.Put("o", &entry.Rollout{Rollout: "r2", Op: entry.RolloutAbort, Reason: "it does harm"})
	n.play()
	for _, seen := range [][]got{r.taken(2), other.taken(2)} {
		first, second := seen[0].data(t), seen[1].data(t)
		if seen[0].Type() != "agent-recovery.rollout.aborted" || seen[0].Subject() != "rollout/r1" || first.Rollout != "r1" || first.Index != late ||
			!strings.Contains(first.Says, "by the gate deadline") || first.Command != "arl rollout history" || first.Look != "arl entry list --kind attempt" {
			t.Errorf("%s", seen[0].body)
		}
		if seen[1].Subject() != "rollout/r2" || !strings.Contains(second.Says, "Rollout r2 was aborted by o,") || !strings.HasSuffix(second.Says, ": it does harm") {
			t.Errorf("%s", seen[1].body)
		}
	}
}

// TestAtLeastOnce answers in every way that is no success. The same message comes again until it is
// taken, with the same id, and those behind it come after it.
func TestAtLeastOnce(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	for name, answer := range map[string]http.HandlerFunc{
		"500": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) },
		"404": http.NotFound,
		"redirect": func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, elsewhere.URL, http.StatusPermanentRedirect)
		},
		"slow": func(_ http.ResponseWriter, q *http.Request) {
			select {
			case <-q.Context().Done():
			case <-t.Context().Done():
			}
		},
		"cut off": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"later": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, r := start(t), receive(t)
			r.says(func(w http.ResponseWriter, q *http.Request) {
				defer func() { r.came <- struct{}{} }()
				answer(w, q)
			})
			n.notify(r.endpoint("pager"))
			first, second := n.incident("one"), n.incident("two")
			r.await("three attempts", func() bool { return r.tries >= 3 })
			r.says(nil)
			seen := r.taken(2)
			if seen[0].data(t).Incident != first || seen[1].data(t).Incident != second {
				t.Errorf("told %s", r.told())
			}
		})
	}
}

// TestWaitsAsLongAsAsked answers once that it takes messages a second later.
func TestWaitsAsLongAsAsked(t *testing.T) {
	n, r := start(t), receive(t)
	asked := make(chan time.Time, 1)
	r.says(func(w http.ResponseWriter, _ *http.Request) {
		asked <- time.Now()
		r.says(nil)
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	n.notify(r.endpoint("pager"))
	n.incident("one")
	r.await("the message at the second attempt", func() bool { return len(r.seen) == 1 && r.tries == 2 })
	if waited := time.Since(<-asked); waited < time.Second {
		t.Errorf("asked again after %v", waited)
	}
}

// TestADeadEndpointHoldsUpNobody stands beside one that never answers and one that nobody listens
// at.
func TestADeadEndpointHoldsUpNobody(t *testing.T) {
	n, dead, good := start(t), receive(t), receive(t)
	dead.says(func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })
	gone := httptest.NewServer(nil)
	gone.Close()
	nobody := good.endpoint("nobody")
	nobody.URL = gone.URL
	slow := dead.endpoint("dead")
	slow.TimeoutMS = new(int64(60_000))
	n.notify(slow, good.endpoint("good"), nobody)
	for i := range 20 {
		n.incident(fmt.Sprint("x", i))
	}
	good.taken(20)
}

// TestFilters tells endpoints of what they ask for, and of nothing else.
func TestFilters(t *testing.T) {
	n, ends, flows, all := start(t), receive(t), receive(t), receive(t)
	a, b := ends.endpoint("ends"), flows.endpoint("flows")
	a.Events, b.Workflows = []string{notify.Failed, notify.Equivocation}, []entry.WorkflowID{"other"}
	n.notify(a, b, all.endpoint("all"))
	n.incident("one")
	all.taken(1)
	var lines []byte
	for i, body := range []entry.Body{
		&entry.Checkpoint{Checkpoint: "c", Digest: entry.DigestOf("w")},
		&entry.Checkpoint{Header: entry.Header{Wid: "other"}, Checkpoint: "c", Digest: entry.DigestOf("other")},
		&entry.Agent{Principal: "a", Op: entry.Enrol, Key: n.made.Key("a").Public, Roles: []entry.Role{entry.RoleAgent}, Domain: "d", Span: entry.SpanWorkflow}, // of no workflow
	} {
		lines = fmt.Appendf(lines, `{"detail":"x","index":%d,"envelope":%s}`+"\n", i, n.made.Sign("a", body).AppendEnvelope(nil))
	}
	must(t, os.WriteFile(n.config().Evidence, lines, 0o600))
	for _, c := range []struct {
		r    *receiver
		want []uint64
	}{{ends, []uint64{0, 1, 2}}, {flows, []uint64{1, 2}}} {
		seen := c.r.taken(len(c.want))
		for i, index := range c.want {
			if seen[i].Type() != "agent-recovery.log.equivocation" || seen[i].data(t).Index != index {
				t.Errorf("told %s, want the equivocations of %v", seen[i].body, c.want)
			}
		}
	}
}

// TestGoesOnWhereItEnded stops the notifier between messages, and takes its place with another one.
// Each message comes, in the order of the log.
func TestGoesOnWhereItEnded(t *testing.T) {
	n, r := start(t), receive(t)
	n.incident("before") // a new endpoint is not told of it
	var want []string
	for i := range 5 {
		stop := n.notify(r.endpoint("pager"))
		want = append(want, fmt.Sprintf("incident.escalated incident/%d", n.incident(fmt.Sprint("x", i))))
		r.taken(i + 1)
		stop()
	}
	late := n.incident("nobody-runs")
	n.notify(r.endpoint("pager"))
	r.taken(6)
	want = append(want, fmt.Sprintf("incident.escalated incident/%d", late))
	if got := r.told(); got != strings.Join(want, ", ") {
		t.Errorf("told %s", got)
	}
}

// TestSentAgainUnderTheSameID loses the cursor behind a message, as a crash does.
func TestSentAgainUnderTheSameID(t *testing.T) {
	n, r := start(t), receive(t)
	stop := n.notify(r.endpoint("pager"))
	cursor := filepath.Join(n.dir, "pager.json")
	before, err := os.ReadFile(cursor)
	must(t, err)
	n.incident("one")
	r.taken(1)
	stop()
	must(t, os.WriteFile(cursor, before, 0o600))
	n.notify(r.endpoint("pager"))
	r.await("the message again", func() bool { return len(r.seen) == 1 && len(r.again) > 0 })
}

// TestADiskThatFailsEndsNoEndpoint takes the directory of the cursors away, as a full disk takes
// the room. The endpoint is told all the same, and is late until its cursor is kept again. Nothing
// comes twice.
func TestADiskThatFailsEndsNoEndpoint(t *testing.T) {
	n, r, said := start(t), receive(t), make(lines, 64)
	c := n.config(r.endpoint("pager"))
	c.Logger = slog.New(slog.NewTextHandler(said, nil))
	c.First, c.Most = time.Hour, time.Hour // between two attempts at a message
	w, stop := n.run(c)
	must(t, os.RemoveAll(n.dir))
	n.incident("one")
	said.await(t, "cannot be kept")
	n.incident("two")
	last := n.incident("three")
	r.taken(3)
	if late := w.Late()["pager"]; late <= 0 {
		t.Errorf("late by %v", late)
	}
	must(t, os.Mkdir(n.dir, 0o700))
	said.await(t, "is in time again")
	if late := w.Late()["pager"]; late != 0 {
		t.Errorf("late by %v", late)
	}
	n.incident("four")
	r.taken(4)
	stop()
	if len(r.again) != 0 {
		t.Errorf("again: %v", r.again)
	}
	var cursor struct{ Index uint64 }
	content, err := os.ReadFile(filepath.Join(n.dir, "pager.json"))
	must(t, err)
	if must(t, json.Unmarshal(content, &cursor)); cursor.Index <= last {
		t.Errorf("the cursor %s has not moved behind incident %d", content, last)
	}
}

// unreadable is a log that has an entry which cannot be read for a while.
type unreadable struct {
	*ledger.Log
	at atomic.Uint64 // index of the entry; 0: every entry can be read
}

// Entry implements [notify.Log].
func (u *unreadable) Entry(index uint64) (*entry.Registered, error) {
	if at := u.at.Load(); at != 0 && at == index {
		return nil, fmt.Errorf("%w: entry %d", ledger.ErrCorrupt, index)
	}
	return u.Log.Entry(index)
}

// TestAnEntryThatCannotBeReadEndsNoEndpoint has the log fail to read the decision of an incident.
// The endpoint is late, and is told of nothing behind that entry. When the entry can be read again,
// the endpoint is told of everything once, in the order of the log.
func TestAnEntryThatCannotBeReadEndsNoEndpoint(t *testing.T) {
	n, r, said := start(t), receive(t), make(lines, 64)
	log := &unreadable{Log: n.log}
	c := n.config(r.endpoint("pager"))
	c.Log, c.Logger = log, slog.New(slog.NewTextHandler(said, nil))
	var failures atomic.Int64
	c.Failed = func(err error) {
		if !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("failed with %v", err)
		}
		failures.Add(1)
	}
	w, stop := n.run(c)
	one := n.incident("one")
	r.taken(1)
	log.at.Store(n.log.Size() + 4) // behind three entries of the execution, and the signal
	two := n.incident("two")
	three := n.incident("three")
	said.await(t, "the log cannot be read for an endpoint")
	said.await(t, "attempt=4")
	if late := w.Late()["pager"]; late <= 0 {
		t.Errorf("late by %v", late)
	}
	if failures.Load() < 4 {
		t.Errorf("told of %d failures in four attempts", failures.Load())
	}
	if seen := r.taken(1); len(seen) != 1 {
		t.Errorf("told behind the entry: %s", r.told())
	}
	log.at.Store(0)
	r.taken(3)
	said.await(t, "is in time again")
	if late := w.Late()["pager"]; late != 0 {
		t.Errorf("late by %v", late)
	}
	stop()
	want := fmt.Sprintf("incident.escalated incident/%d, incident.escalated incident/%d, incident.escalated incident/%d", one, two, three)
	if got := r.told(); got != want || len(r.again) != 0 {
		t.Errorf("told %s, and again %v, want %s", got, r.again, want)
	}
}

// TestCursors reads what is no cursor, and one that an older copy of the log cannot have.
func TestCursors(t *testing.T) {
	n, r := start(t), receive(t)
	must(t, os.MkdirAll(n.dir, 0o700))
	path := filepath.Join(n.dir, "pager.json")
	for _, bad := range []string{"", "{", `{"index":-1,"files":{}}`, `{"index":1,"files":{},"more":1}`} {
		must(t, os.WriteFile(path, []byte(bad), 0o600))
		if _, err := notify.New(n.config(r.endpoint("pager")), 9); err == nil || !strings.Contains(err.Error(), "remove the file") {
			t.Errorf("%q is a cursor: %v", bad, err)
		}
	}
	must(t, os.WriteFile(path, []byte(`{"index":1000,"files":{"evidence":1000}}`), 0o600))
	n.notify(r.endpoint("pager"))
	n.incident("one")
	r.taken(1)
}

// TestPrograms gives messages to a program: it takes them, fails, prints without end, or does not
// end.
func TestPrograms(t *testing.T) {
	n, dir := start(t), t.TempDir()
	t.Setenv("ARL_PASSPHRASE", "opens the keys")
	script := filepath.Join(dir, "hook")
	must(t, os.WriteFile(script, []byte(`#!/bin/sh
tries=$(cat "$1/tries" 2>/dev/null || echo 0)
echo $((tries + 1)) > "$1/tries"
case $tries in
0) exit 1 ;;
1) yes ;;
2) sleep 60 ;;
esac
env > "$1/env"
cat > "$1/message.tmp" && mv "$1/message.tmp" "$1/message"
`), 0o755))
	n.notify(notify.Endpoint{Name: "hook", Exec: []string{script, dir}, TimeoutMS: new(int64(2000))})
	id := n.incident("one")
	var message []byte
	for late := time.Now().Add(3 * time.Second); message == nil; {
		message, _ = os.ReadFile(filepath.Join(dir, "message"))
		if time.Now().After(late) {
			t.Fatal("no message")
		}
	}
	if !strings.Contains(string(message), fmt.Sprintf(`"incident":%d`, id)) {
		t.Errorf("%s", message)
	}
	env, err := os.ReadFile(filepath.Join(dir, "env"))
	must(t, err)
	var of struct{ ID string }
	must(t, json.Unmarshal(message, &of))
	if strings.Contains(string(env), "ARL_") || !strings.Contains(string(env), "NOTIFICATION_ID="+of.ID+"\n") {
		t.Errorf("the environment of the program: %s", env)
	}
}

// TestForks keeps that a log contradicts itself for endpoints that are not reached at once.
func TestForks(t *testing.T) {
	n, r, late := start(t), receive(t), receive(t)
	late.says(http.NotFound)
	c := n.config(r.endpoint("pager"), late.endpoint("late"))
	w, err := notify.New(c, n.log.Size())
	must(t, err)
	must(t, os.WriteFile(filepath.Join(n.dir, "forks.ndjson"), []byte(`{"kind":"torn`), 0o600)) // a crash
	ctx, cancel := timeout(t)
	defer cancel()
	must(t, w.Forked(ctx, &notify.Contradiction{Kind: "fork", Detail: "two heads of size 9", Evidence: "/home/arl's/fork-1.json", At: n.made.At}))
	seen := r.taken(1)
	if d := seen[0].data(t); seen[0].Type() != "agent-recovery.log.fork" || !strings.Contains(d.Says, "two heads of size 9") ||
		!strings.Contains(d.Says, "/home/arl's/fork-1.json") || d.Command != `arl verify '/home/arl'\''s/fork-1.json'` {
		t.Errorf("%s", seen[0].body)
	}
	late.says(nil)
	closed := *c
	closed.Closed, closed.Log, closed.Replica = true, nil, nil // it cannot be opened the next time
	w, err = notify.New(&closed, 0)
	must(t, err)
	must(t, w.Forked(t.Context(), &notify.Contradiction{Kind: "fork", Detail: "two heads of size 9, still", At: n.made.At}))
	if seen := late.taken(2); seen[0].body != r.taken(2)[0].body || seen[1].data(t).Command != "arl verify FILE" {
		t.Errorf("%s, %s", seen[0].body, seen[1].body)
	}
	stop := n.notify(r.endpoint("pager"), late.endpoint("late"))
	n.incident("one")
	r.taken(3)
	stop()
	if len(r.seen) != 3 || r.seen[2].Type() != "agent-recovery.incident.escalated" {
		t.Errorf("told %s", r.told())
	}
}

// TestEquivocations tells of what the server keeps, from the beginning of the file, and not of half
// a line.
func TestEquivocations(t *testing.T) {
	n, r := start(t), receive(t)
	other := n.made.Sign("a", &entry.Checkpoint{Checkpoint: "c", Digest: entry.DigestOf("other")})
	line := fmt.Sprintf(`{"detail":"entry 3 has the id","index":3,"envelope":%s}`, other.AppendEnvelope(nil))
	path := n.config().Evidence
	must(t, os.WriteFile(path, []byte("not a line of it\n"+line+"\n"+line[:40]), 0o600))
	n.notify(r.endpoint("pager"))
	first := r.taken(1)[0]
	if d := first.data(t); first.Type() != "agent-recovery.log.equivocation" || d.Index != 3 || d.Command != "arl log evidence" || !strings.Contains(d.Says, "a signed another object") {
		t.Errorf("%s", first.body)
	}
	again := n.made.Sign("b", &entry.Checkpoint{Checkpoint: "c", Digest: entry.DigestOf("other")})
	must(t, os.WriteFile(path, fmt.Appendf(nil, "not a line of it\n%s\n"+`{"detail":"x","index":4,"envelope":%s}`+"\n", line, again.AppendEnvelope(nil)), 0o600))
	if second := r.taken(2)[1]; second.data(t).Index != 4 {
		t.Errorf("%s", second.body)
	}
}

package client_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/ledger/entry"
)

// TestTasks reads tasks over several pages, takes one and renews its lease; what a
// server says of another task or lease is malformed.
func TestTasks(t *testing.T) {
	n := start(t)
	operator, coordinator := n.staff("olga", entry.RoleOperator), n.staff("coord", entry.RoleCoordinator)
	for _, id := range []string{"one", "two", "three"} {
		n.put(operator, &entry.Task{Header: header("olga", "flow-1"), Task: entry.NewRef("olga", id), Op: entry.TaskCreate,
			From: entry.TaskCreated, To: entry.TaskCreated, Reason: "new"})
	}
	c := n.client(nil)
	var refs []string
	for task, err := range c.Tasks(t.Context(), api.TaskQuery{State: "CREATED", Workflow: "flow-1", Limit: 2}) {
		must(t, err)
		refs = append(refs, string(task.Task))
	}
	if got := strings.Join(refs, " "); got != "olga#three olga#two olga#one" {
		t.Fatalf("tasks %s", got)
	}
	task, err := c.Task(t.Context(), "olga#one")
	must(t, err)
	claim, ok := task.Move(entry.TaskAssign, "agent-1", "test")
	if !ok {
		t.Fatal("no claim of a new task")
	}
	claim.Header = header("coord", task.Wid)
	n.put(coordinator, claim)
	task, err = c.Task(t.Context(), "olga#one")
	must(t, err)
	renewal := func(seq int64) *entry.SignedRenewal {
		signed, err := n.agent.SignRenewal(&entry.Renewal{Aud: origin, Iss: "agent-1", Leases: []entry.Lease{{Task: task.Task, Epoch: task.Epoch}}, Session: task.Lease.Session, Seq: seq})
		must(t, err)
		return signed
	}
	if lease, err := c.Renew(t.Context(), renewal(1)); err != nil || lease.Seq != 1 || lease.TermMS != 90_000 {
		t.Fatalf("%+v, %v", lease, err)
	}
	_, err = c.Renew(t.Context(), renewal(1))
	if p, ok := errors.AsType[*api.Problem](err); !ok || p.Name() != entry.StateConflict || p.Field != "seq" {
		t.Fatalf("error %v", err)
	}
	if _, err := c.Task(t.Context(), "olga#none"); err == nil {
		t.Fatal("a task that is not there")
	}
	swap := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path, r.URL.RawPath = strings.Replace(r.URL.Path, "one", "two", 1), strings.Replace(r.URL.RawPath, "one", "two", 1)
		r.RequestURI = strings.Replace(r.RequestURI, "one", "two", 1)
		n.handler.ServeHTTP(w, r)
	})
	n.front.Store(&swap)
	if _, err := c.Task(t.Context(), "olga#one"); !errors.Is(err, client.ErrMalformed) {
		t.Errorf("another task: %v", err)
	}
}

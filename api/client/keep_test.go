package client_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/api/worker"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
)

// staff enrols who has a role, and returns the key.
func (n *node) staff(principal entry.Principal, role entry.Role) *keys.Signer {
	n.t.Helper()
	key := newSigner(n.t)
	n.add(sign(n.t, n.authority, &entry.Agent{Header: header("authority", ""), Principal: principal, Op: entry.Enrol, Key: key.Public(),
		Roles: []entry.Role{role}, Domain: "test", Span: entry.SpanWorkflow}))
	return key
}

// manned is a node with an operator and a coordinator, and tasks that agent-1 holds.
func manned(t *testing.T, tasks ...string) *node {
	t.Helper()
	n := start(t)
	operator, coordinator := n.staff("olga", entry.RoleOperator), n.staff("coord", entry.RoleCoordinator)
	term := int64(2 * entry.MinLeaseMS)
	for _, id := range tasks {
		n.put(operator, &entry.Task{Header: header("olga", "flow-1"), Task: entry.NewRef("olga", id), Op: entry.TaskCreate,
			From: entry.TaskCreated, To: entry.TaskCreated, Reason: "new", LeaseMS: &term})
		task, err := n.client(nil).Task(t.Context(), entry.NewRef("olga", id))
		must(t, err)
		given, _ := task.Move(entry.TaskAssign, "agent-1", "test")
		given.Header = header("coord", task.Wid)
		n.put(coordinator, given)
	}
	return n
}

// TestKeepOnLedger keeps three tasks of an agent on a real ledger until several
// requests have renewed all of them: none is lost.
func TestKeepOnLedger(t *testing.T) {
	tasks := []string{"one", "two", "three"}
	n := manned(t, tasks...)
	together := make(chan struct{}, 1000)
	n.pass(func(w http.ResponseWriter, r *http.Request) {
		n.handler.ServeHTTP(w, r)
		if r.URL.Path == "/v1/leases" {
			together <- struct{}{}
		}
	})
	config := &worker.Config{Client: n.client(nil), Origin: origin, Agent: "agent-1", Signer: n.agent}
	kept, end := context.WithCancelCause(t.Context())
	gone := make(chan struct{})
	for _, id := range tasks {
		c, err := worker.Wait(t.Context(), config, entry.NewRef("olga", id), true)
		must(t, err)
		go func() {
			c.Keep(kept, end)
			gone <- struct{}{}
		}()
	}
	for range 3 {
		<-together
	}
	if err := context.Cause(kept); err != nil {
		t.Error(err)
	}
	end(nil)
	for range tasks {
		<-gone
	}
	for _, id := range tasks {
		if task, err := config.Client.Task(t.Context(), entry.NewRef("olga", id)); err != nil || task.Lease == nil || task.Lease.Seq < 2 {
			t.Errorf("%s: %+v, %v", id, task, err)
		}
	}
}

// TestRenewAll renews leases of which one is not there; what a server says of others
// is malformed, and so is what says nothing of one, or two things.
func TestRenewAll(t *testing.T) {
	n := manned(t, "one", "two")
	c := n.client(nil)
	task, err := c.Task(t.Context(), "olga#one")
	must(t, err)
	renewal := &entry.Renewal{Aud: origin, Iss: "agent-1", Session: task.Lease.Session, Leases: []entry.Lease{
		{Task: "olga#two", Epoch: 1}, {Task: "olga#none", Epoch: 1}, {Task: "olga#one", Epoch: 1}}}
	renew := func() ([]api.RenewedLease, error) {
		renewal.Seq++
		signed, err := n.agent.SignRenewal(renewal)
		must(t, err)
		return c.RenewAll(t.Context(), signed)
	}
	all, err := renew()
	must(t, err)
	if all[0].Lease == nil || all[1].Problem == nil || all[1].Problem.Name() != entry.NotFound || all[2].Lease == nil || all[2].Lease.Task != "olga#one" {
		t.Errorf("%+v", all)
	}
	renewal.Aud = "ledger.example/other"
	if _, err := renew(); !refusedAs(err, entry.WrongAudience) {
		t.Error(err)
	}
	renewal.Aud = origin
	signed, err := n.agent.SignRenewal(renewal)
	must(t, err)
	if _, err := c.Renew(t.Context(), signed); err == nil {
		t.Error("three leases are renewed as one")
	}
	for name, change := range map[string]func(*[]api.RenewedLease){
		"fewer":   func(l *[]api.RenewedLease) { *l = (*l)[1:] },
		"more":    func(l *[]api.RenewedLease) { *l = append(*l, (*l)[0]) },
		"swapped": func(l *[]api.RenewedLease) { slices.Reverse(*l) },
		"nothing": func(l *[]api.RenewedLease) { (*l)[1] = api.RenewedLease{} },
		"both":    func(l *[]api.RenewedLease) { (*l)[1].Lease = (*l)[0].Lease },
		"old":     func(l *[]api.RenewedLease) { (*l)[0].Lease.Seq-- },
	} {
		n.tamper("/v1/leases", func(body []byte) []byte { return changed(t, body, func(r *api.Renewed) { change(&r.Leases) }) })
		if _, err := renew(); !errors.Is(err, client.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	n.tamper("/v1/leases", func([]byte) []byte { return []byte("[]") })
	if _, err := renew(); !errors.Is(err, client.ErrMalformed) {
		t.Errorf("no object: %v", err)
	}
}

func refusedAs(err error, want entry.Problem) bool {
	problem, ok := errors.AsType[*api.Problem](err)
	return ok && problem.Name() == want
}

// changed returns JSON with a change.
func changed[T any](t *testing.T, body []byte, change func(*T)) []byte {
	t.Helper()
	v := new(T)
	must(t, json.Unmarshal(body, v))
	change(v)
	body, err := json.Marshal(v)
	must(t, err)
	return body
}

package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/api"
	"recoveryledger/api/metrics"
	"recoveryledger/api/server"
	"recoveryledger/ledger"
	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// order is the order of a cluster of one node, in memory. The test says when the node leads.
type order struct {
	terms chan agreement.Term

	mu      sync.Mutex
	term    int64 // the newest
	batches [][]byte
	grown   chan struct{}
}

// Propose implements [agreement.Sequencer].
func (o *order) Propose(_ context.Context, t agreement.Term, seq uint64, batch []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t.ID != o.term || seq != uint64(len(o.batches))+1 {
		return agreement.ErrOvertaken
	}
	o.batches = append(o.batches, bytes.Clone(batch))
	close(o.grown)
	o.grown = make(chan struct{})
	return nil
}

// Batches implements [agreement.Sequencer].
func (o *order) Batches(ctx context.Context, seq uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for ctx.Err() == nil {
			o.mu.Lock()
			batches, grown := o.batches, o.grown
			o.mu.Unlock()
			if seq <= uint64(len(batches)) {
				if !yield(batches[seq-1], nil) {
					return
				}
				seq++
				continue
			}
			select {
			case <-grown:
			case <-ctx.Done():
			}
		}
	}
}

// Terms implements [agreement.Sequencer].
func (o *order) Terms(context.Context) <-chan agreement.Term { return o.terms }

// Confirm implements [agreement.Sequencer].
func (o *order) Confirm(_ context.Context, t agreement.Term) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t.ID != o.term {
		return agreement.ErrOvertaken
	}
	return nil
}

// Kept implements [agreement.Sequencer].
func (o *order) Kept(context.Context, uint64, merkle.Head) error { return nil }

// others stand for the other nodes. A nil error is their consent.
type others struct {
	forward      func(w http.ResponseWriter, r *http.Request) error
	reach        func() error
	fresh        func() (time.Time, error)
	ready, knows error
}

func (o *others) Forward(w http.ResponseWriter, r *http.Request) error { return o.forward(w, r) }
func (o *others) Reach(context.Context) error                          { return o.reach() }
func (o *others) Ready(context.Context) error                          { return o.ready }
func (o *others) Fresh(context.Context) (time.Time, error)             { return o.fresh() }
func (o *others) Cluster(context.Context) (*api.Cluster, error) {
	return &api.Cluster{Node: "n1", Leader: "n1", Members: []api.Member{
		{Name: "n1", URL: "http://127.0.0.1:1", Voter: true, Leader: true, Size: 3}, {Name: "n2", Lag: 2, Size: 1},
	}}, o.knows
}

// member is a node of a cluster whose other nodes the test plays.
type member struct {
	*node
	order  *order
	others *others
}

// leads and leadsNot are what the others say of this node.
func leads() (time.Time, error)    { return time.Now().Add(time.Minute), nil }
func leadsNot() (time.Time, error) { return time.Time{}, agreement.ErrNotLeading }

// newMember returns a node that leads.
func newMember(t *testing.T) *member {
	t.Helper()
	m := &member{
		order:  &order{terms: make(chan agreement.Term, 1), term: 1, grown: make(chan struct{})},
		others: &others{reach: func() error { return nil }, fresh: leads, forward: func(http.ResponseWriter, *http.Request) error { return errors.New("no leader") }},
		node:   &node{t: t},
	}
	m.metrics.Store(metrics.New())
	m.cluster = &ledger.Cluster{
		Member: agreement.Member{Sequencer: agreement.Observe(m.order, m.metrics.Load().Agreed), Secret: []byte("secret"), Incarnation: agreement.Incarnation{1}},
		Revert: func() ledger.Fold { return m.coord.Revert() },
	}
	m.open(vfs.NewMem(), "db", func(c *server.Config) { c.Peers, c.Cluster = m.others, m.others.Cluster })
	m.leads(1)
	m.found()
	return m
}

// leads begins a term, or ends it with 0.
func (m *member) leads(term int64) {
	m.t.Helper()
	m.order.mu.Lock()
	m.order.term = max(m.order.term, term)
	after := uint64(len(m.order.batches))
	m.order.mu.Unlock()
	m.order.terms <- agreement.Term{ID: term, After: after}
	for m.log.Leads() != (term != 0) {
		runtime.Gosched()
	}
}

// TestForward: a node that does not lead passes on what only the leader may answer, and answers
// the rest itself. Where nobody leads, the client hears that the ledger is not ready.
func TestForward(t *testing.T) {
	m := newMember(t)
	passed := ""
	m.others.forward = func(w http.ResponseWriter, r *http.Request) error {
		body, err := io.ReadAll(r.Body)
		passed = r.Method + " " + r.URL.Path + " " + string(body)
		w.WriteHeader(http.StatusTeapot)
		return err
	}
	if a := m.get("/v1/tasks"); a.StatusCode != http.StatusOK || passed != "" {
		t.Errorf("the leader: %s, passed %q", a.Status, passed)
	}
	m.leads(0)
	if a := m.post(api.MediaJSON, []byte("{}")); a.StatusCode != http.StatusTeapot || passed != "POST /v1/entries {}" {
		t.Errorf("a write: %s, passed %q", a.Status, passed)
	}
	if a := m.get("/v1/tasks"); a.StatusCode != http.StatusTeapot || !strings.HasPrefix(passed, "GET /v1/tasks") {
		t.Errorf("what only the leader knows: %s, passed %q", a.Status, passed)
	}
	passed = ""
	m.others.forward = func(http.ResponseWriter, *http.Request) error { m.leads(2); return agreement.ErrLeading }
	if a := m.get("/v1/tasks"); a.StatusCode != http.StatusOK {
		t.Errorf("the node leads meanwhile: %s", a.Status)
	}
	m.leads(0)
	if a := m.get("/v1/entries/0"); a.StatusCode != http.StatusOK || passed != "" {
		t.Errorf("a read: %s, passed %q", a.Status, passed)
	}
	m.others.forward = func(http.ResponseWriter, *http.Request) error { return errors.New("cut off") }
	p := m.problem(m.post(api.MediaJSON, []byte("{}")), entry.NotReady, http.StatusServiceUnavailable)
	if !strings.Contains(p.Remedy, "another one") || p.RetryAfterMS < 1000 {
		t.Errorf("cut off: %+v", p)
	}
	m.others.forward = func(http.ResponseWriter, *http.Request) error {
		return fmt.Errorf("%w: node c", agreement.ErrOvertaken)
	}
	if p = m.problem(m.post(api.MediaJSON, []byte("{}")), entry.NotReady, http.StatusServiceUnavailable); p.RetryAfterMS >= 1000 {
		t.Errorf("another node leads now: ask again in %d ms", p.RetryAfterMS)
	}
}

// TestNotFoundIsConfirmed: a node denies an entry only if the others do. What has come meanwhile is
// looked for again.
func TestNotFoundIsConfirmed(t *testing.T) {
	m := newMember(t)
	size := m.log.Size()
	beyond := api.URL(api.PathEntry, nil, size)
	m.problem(m.get(beyond), entry.NotFound, http.StatusNotFound)
	m.others.reach = func() error { return errors.New("cut off") }
	m.problem(m.get(beyond), entry.NotReady, http.StatusServiceUnavailable)
	m.problem(m.get("/v1/agents/nobody"), entry.NotReady, http.StatusServiceUnavailable)
	if a := m.get("/no/such/path"); a.StatusCode != http.StatusNotFound {
		t.Errorf("what is no path of the API: %s", a.Status)
	}
	m.others.reach = func() error { m.register(m.good()); return nil }
	if a := m.get(beyond); a.StatusCode != http.StatusOK || a.Header.Get(api.HeaderLogSize) == "" {
		t.Errorf("what came meanwhile: %s %s", a.Status, a.body)
	}
	olga := newSigner(t)
	m.register(m.enrol("olga", olga, entry.RoleOperator))
	lease := m.postTo("/v1/tasks/olga%23none/lease", api.MediaJSON, []byte("{}"))
	if lease.StatusCode == http.StatusNotFound {
		t.Errorf("a renewal is denied though the log has grown: %s", lease.body)
	}
}

// TestLeader: the leader says so as long as the others confirm it, and no other node does.
func TestLeader(t *testing.T) {
	m := newMember(t)
	if got := value[api.Status](m.node, "/leaderz"); got.Status != "leads" {
		t.Errorf("the leader: %+v", got)
	}
	if got := value[api.Cluster](m.node, "/v1/cluster"); got.Leader != "n1" || len(got.Members) != 2 || got.Members[0].Size != 3 {
		t.Errorf("the cluster: %+v", got)
	}
	readDocument(t, m.node).check("/v1/cluster", m.get("/v1/cluster"))
	m.others.fresh, m.others.knows = leadsNot, errors.New("etcd is away")
	m.problem(m.get("/leaderz"), entry.NotReady, http.StatusServiceUnavailable)
	m.problem(m.get("/v1/cluster"), entry.NotReady, http.StatusServiceUnavailable)
	m.problem(m.postTo("/v1/leases", api.MediaJSON, []byte("{}")), entry.NotReady, http.StatusServiceUnavailable)
	m.others.fresh = leads
	m.problem(m.postTo("/v1/leases", api.MediaJSON, []byte("{}")), entry.Malformed, http.StatusBadRequest)
	m.leads(0)
	m.problem(m.get("/leaderz"), entry.NotReady, http.StatusServiceUnavailable)
	if got := value[api.Status](m.node, "/readyz"); got.Status != "ready" {
		t.Errorf("a follower: %+v", got)
	}
	m.others.ready = errors.New("behind")
	m.problem(m.get("/readyz"), entry.NotReady, http.StatusServiceUnavailable)
}

// provokeCluster has a node lead, commit, and be overtaken, and another node that lags.
func provokeCluster(t *testing.T, seen provoked) {
	t.Helper()
	m := newMember(t)
	m.register(m.good())
	seen.until(m.node, "arl_cluster_leader")
	seen.until(m.node, `arl_cluster_lag_entries{node="n2"}`)
	seen.until(m.node, "arl_cluster_agreement_seconds_count")
	m.order.mu.Lock()
	m.order.term++ // another node leads, and this one has not heard of it
	m.order.mu.Unlock()
	m.problem(m.post(api.MediaJSON, m.good().AppendEnvelope(nil)), entry.NotReady, http.StatusServiceUnavailable)
	seen.until(m.node, "arl_cluster_overtaken_total")
	for m.metric("arl_cluster_leader") != "0" {
		runtime.Gosched()
	}
}

// describe meets what only a node of a cluster answers.
func (m *member) describe(d *document) {
	for _, path := range []string{"/v1/cluster", "/leaderz"} {
		d.check(path, m.get(path))
		m.others.fresh, m.others.knows = leadsNot, errors.New("etcd is away")
		d.check(path, m.get(path))
		m.others.fresh, m.others.knows = leads, nil
	}
}

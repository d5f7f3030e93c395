package server_test

import (
	"context"
	"net/http"
	"testing"

	"recoveryledger/api"
	"recoveryledger/api/server"
	"recoveryledger/coord"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger/complete"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/testdata/coordlog"
)

// refetch gets a path a second time, and says so.
func (n *node) refetch(path string) *answer {
	n.t.Helper()
	request := n.request(http.MethodGet, path, "", nil)
	request.Header.Set("If-None-Match", n.get(path).Header.Get("ETag"))
	return n.do(request)
}

// panel is a node with everybody who decides about incidents: a coordinator, two
// approvers, an operator; and with three agents.
type panel struct {
	*node
	signers map[entry.Principal]*keys.Signer
	index   *complete.Index // nil: none is kept
}

func newPanel(tb testing.TB, change func(*server.Config)) *panel {
	tb.Helper()
	c := &panel{node: start(tb, change), signers: map[entry.Principal]*keys.Signer{}}
	c.signers["authority"], c.signers["agent-1"], c.signers["monitor-1"] = c.authority, c.agent, c.monitor
	for principal, role := range map[entry.Principal]entry.Role{
		"coordinator": entry.RoleCoordinator, "ann": entry.RoleApprover, "ben": entry.RoleApprover, "olga": entry.RoleOperator,
		"agent-2": entry.RoleAgent, "agent-3": entry.RoleAgent,
	} {
		c.signers[principal] = newSigner(tb)
		c.register(c.enrol(principal, c.signers[principal], role))
	}
	return c
}

// newIndexedPanel is a panel whose ledger keeps an index.
func newIndexedPanel(tb testing.TB) *panel {
	tb.Helper()
	var c *panel
	var coordinator *keys.Signer // not looked up when it signs: tests change the map meanwhile
	_, index := indexedNode(tb, "", func(e *entry.Entry) error { return coordinator.Sign(e) }, func(change func(*server.Config)) *node {
		c = newPanel(tb, change)
		coordinator = c.signers["coordinator"]
		return c.node
	})
	c.index = index
	return c
}

// withAndWithout runs a test on a panel whose ledger keeps no index, and on one whose
// ledger keeps one.
func withAndWithout(t *testing.T, test func(t *testing.T, c *panel)) {
	t.Helper()
	t.Run("plain", func(t *testing.T) { test(t, newPanel(t, nil)) })
	t.Run("index", func(t *testing.T) { test(t, newIndexedPanel(t)) })
}

// by signs an entry with the key of its issuer.
func (c *panel) by(body entry.Body) *entry.Entry {
	c.t.Helper()
	return sign(c.t, c.signers[entry.HeaderOf(body).Iss], body)
}

// put registers an entry and returns where it stands.
func (c *panel) put(body entry.Body) entry.LogRef {
	c.t.Helper()
	e := c.by(body)
	r := c.receipt(c.post("application/json", e.AppendEnvelope(nil)), http.StatusCreated)
	logged, err := c.log.Entry(r.Index)
	must(c.t, err)
	return entry.LogRef{Index: r.Index, LeafHash: logged.LeafHash()}
}

// did registers an execution of an agent up to its confirmation.
func (c *panel) did(agent entry.Principal, id string, effect entry.Effect, parents ...entry.Ref) entry.Ref {
	c.t.Helper()
	x := &entry.Execution{Header: c.header(agent, "flow-1"), Exec: id, Parents: []entry.Parent{}, Effect: effect, Progress: entry.Planned}
	for _, parent := range parents {
		x.Parents = append(x.Parents, entry.Parent{Exec: parent, Dep: entry.Hard})
	}
	if effect != entry.EffectNone && effect != entry.EffectReversible {
		x.IdempotencyKey = someDigest
	}
	for _, progress := range []entry.Progress{entry.Planned, entry.Started, entry.Confirmed} {
		x.Header, x.Progress = c.header(agent, "flow-1"), progress
		c.put(x)
	}
	return x.Ref()
}

// pipeline registers a small flow across three agents: agent-1 reads and makes,
// agent-2 builds on it and pays, agent-3 looks at it.
func (c *panel) pipeline() {
	c.t.Helper()
	read := c.did("agent-1", "read", entry.EffectNone)
	made := c.did("agent-1", "make", entry.EffectNone, read)
	built := c.did("agent-2", "build", entry.EffectNone, made)
	c.did("agent-2", "pay", entry.EffectCompensable, built)
	c.did("agent-3", "look", entry.EffectNone, made)
}

// signals registers a signal and returns its index.
func (c *panel) signals(issuer entry.Principal, standing entry.Standing, subject entry.Ref) uint64 {
	c.t.Helper()
	s := c.signal(subject)
	s.Header, s.Standing = c.header(issuer, "flow-1"), standing
	return c.put(s).Index
}

// draft returns a decision as the committed state would have it.
func (c *panel) draft(issuer entry.Principal, o coord.Order) *entry.Decision {
	c.t.Helper()
	if o.Reason == "" {
		o.Reason = "test"
	}
	var d *entry.Decision
	var err error
	c.coord.Read(func(s *coord.State) { d, err = s.Draft(o, c.log.Now()) })
	must(c.t, err)
	h := c.header(issuer, d.Wid)
	d.JTI, d.Iss, d.Iat = h.JTI, issuer, h.Iat
	return d
}

// view returns an incident as the state has it.
func (c *panel) view(id uint64) (v api.Incident) {
	c.t.Helper()
	c.coord.Read(func(s *coord.State) { v, _ = s.Incident(id, c.log.Now()) })
	return v
}

// approval returns an approver's answer to the proposal that waits.
func (c *panel) approval(issuer entry.Principal, id uint64, verdict string) *entry.Approval {
	c.t.Helper()
	v := c.view(id)
	return &entry.Approval{Header: c.header(issuer, v.Wid), Incident: id, Proposal: v.Proposal.Ref, Verdict: verdict,
		Exp: c.header(issuer, "").Iat + 3600, Reason: "test"}
}

// outcome returns an agent's claim of what became of a member.
func (c *panel) outcome(issuer entry.Principal, id uint64, exec entry.Ref, result entry.Result) *entry.Outcome {
	c.t.Helper()
	v := c.view(id)
	o := &entry.Outcome{Header: c.header(issuer, v.Wid), Incident: id, Decision: v.Decision.Ref, Exec: exec, Result: result, ObservedAt: c.log.Now()}
	if result != entry.NotExecuted {
		o.Residual = "something"
	}
	return o
}

// coordinator runs the coordinator until the test ends, as arl serve does.
func (c *panel) coordinator() {
	c.t.Helper()
	coordinator := &coordinator.Coordinator{Replica: c.coord, Log: coordlog.Log{Log: c.log}, Principal: "coordinator", Seal: c.signers["coordinator"].Sign,
		Refused: func(body entry.Body, refusal *entry.Refusal) { c.t.Logf("refused: %T: %v", body, refusal) }}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- coordinator.Run(ctx) }()
	c.t.Cleanup(func() {
		cancel()
		must(c.t, <-done)
	})
}

// until waits for the log to grow until an incident is in the state.
func (c *panel) until(id uint64, want entry.IncidentState) api.Incident {
	c.t.Helper()
	for {
		var size uint64 // of the state: the head of the log may be newer
		var v api.Incident
		c.coord.Read(func(s *coord.State) {
			size = s.Size()
			v, _ = s.Incident(id, c.log.Now())
		})
		if v.State == want {
			return v
		}
		must(c.t, c.log.Wait(c.t.Context(), size+1))
	}
}

package agent_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"recoveryledger/api/client"
	"recoveryledger/api/client/agent"
	"recoveryledger/api/server"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/merkle"
	"recoveryledger/testdata/coordlog"
	"recoveryledger/verify"
)

// node is a real ledger on a memory disk with a coordinator that decides, behind a real
// server.
type node struct {
	tb      testing.TB
	log     *ledger.Log
	coord   *coordinator.Replica
	url     string
	root    verify.Root
	signers map[entry.Principal]*keys.Signer
}

func newNode(tb testing.TB) *node {
	tb.Helper()
	ledgerKeys, err := keys.GenerateLedger(tb.TempDir(), origin, nil)
	must(tb, err)
	verifier, err := keys.NewVerifier(0)
	must(tb, err)
	n := &node{tb: tb, coord: coordinator.New(origin, verifier.Check), signers: map[entry.Principal]*keys.Signer{}}
	opened := time.Now()
	n.log, err = ledger.Open("db", &ledger.Config{Origin: origin, Keys: []ledger.Key{{Signer: ledgerKeys.Signer, Verifier: ledgerKeys.Verifier, Cosigner: ledgerKeys.Cosigner}},
		FS: vfs.NewMem(), Fatal: func(err error) { panic(err) }, Now: time.Now, Uptime: func() time.Duration { return time.Since(opened) },
		NewFold: func() ledger.Fold { return n.coord.NewFold() }, Precheck: n.coord.Precheck, Committed: n.coord.Committed})
	must(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- n.log.Run(ctx) }()
	s, err := server.New(&server.Config{Origin: origin, VerifierKeys: ledgerKeys.VerifierKeys[:], Log: n.log, Replica: n.coord, Rate: -1})
	must(tb, err)
	web := httptest.NewServer(s.Handler())
	n.url = web.URL
	policy := entry.Genesis(origin, entry.AuthorityKey{Principal: "root", Key: n.signer("root").Public()})
	for _, c := range []*entry.Cap{&policy.Limits.Incident, &policy.Limits.Signaler, &policy.Limits.Victim} {
		c.Members, c.FencedMS = 1_000_000, 1<<40
	}
	policy.Quotas.SignalsPerHour = 100_000
	n.write("root", policy)
	n.write("root", &entry.Agent{Principal: "coordinator", Op: entry.Enrol, Key: n.signer("coordinator").Public(), Roles: []entry.Role{entry.RoleCoordinator},
		Domain: "d", Span: entry.SpanWorkflow})
	n.write("root", &entry.Agent{Principal: "worker", Op: entry.Enrol, Key: n.signer("worker").Public(), Roles: []entry.Role{entry.RoleAgent}, Domain: "d",
		Span: entry.SpanWorkflow})
	first, err := n.log.Receipt(0)
	must(tb, err)
	n.root = verify.Root{Origin: origin, LedgerKeys: ledgerKeys.VerifierKeys[:], Genesis: merkle.HashLeaf(first.Leaf), Signature: verifier.Check}
	coordinator := &coordinator.Coordinator{Replica: n.coord, Log: coordlog.Log{Log: n.log}, Principal: "coordinator", Seal: n.signer("coordinator").Sign}
	coordinatorCtx, stopCoordinator := context.WithCancel(ctx)
	go func() { done <- coordinator.Run(coordinatorCtx) }()
	tb.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		stopCoordinator()
		must(tb, <-done)
		cancel()
		must(tb, <-done)
		must(tb, n.log.Close())
	})
	return n
}

// signer returns the key of a principal, the same one in every process.
func (n *node) signer(name entry.Principal) *keys.Signer {
	n.tb.Helper()
	if n.signers[name] == nil {
		n.signers[name] = signerOf(name)
	}
	return n.signers[name]
}

func signerOf(name entry.Principal) *keys.Signer {
	signer, err := keys.NewSigner(ed25519.NewKeyFromSeed([]byte(fmt.Sprintf("%32s", name))))
	if err != nil {
		panic(err)
	}
	return signer
}

func (n *node) write(iss entry.Principal, body entry.Body) uint64 {
	n.tb.Helper()
	h := entry.HeaderOf(body)
	*h = entry.Header{V: 1, JTI: uuid.NewString(), Iss: iss, Aud: origin, Iat: time.Now().Unix(), Wid: h.Wid}
	if h.Wid == "" && body.Kind() != entry.KindPolicy && body.Kind() != entry.KindAgent {
		h.Wid = "flow"
	}
	e, err := entry.New(body)
	must(n.tb, err)
	must(n.tb, n.signer(iss).Sign(e))
	answer, err := n.log.Submit(n.tb.Context(), e)
	must(n.tb, err)
	if answer.Refused != nil {
		n.tb.Fatal(answer.Refused)
	}
	return answer.Registered[0].Index
}

// fails registers something compensable that the worker did and its signal, and
// returns the incident.
func (n *node) fails(id string) uint64 {
	n.tb.Helper()
	for _, progress := range []entry.Progress{entry.Started, entry.Confirmed} {
		n.write("worker", &entry.Execution{Exec: id, Effect: entry.EffectCompensable, Progress: progress, Parents: []entry.Parent{}, IdempotencyKey: zero})
	}
	return n.write("worker", &entry.Signal{Subject: entry.NewRef("worker", id), Class: "tool", Code: "error", Standing: entry.StandingExecutor,
		Effects: entry.EffectsComplete, ReplaySafety: entry.ReplayUnsafe, ObservedAt: time.Now().UnixMilli()})
}

// client returns a client under the pinned root.
func (n *node) client() *client.Client {
	n.tb.Helper()
	c, err := client.New(n.url, n.root, nil)
	must(n.tb, err)
	return c
}

// closed waits until an incident has its record.
func (n *node) closed(ctx context.Context, incident uint64) error {
	for e, err := range n.client().Events(ctx, incident) {
		if err != nil {
			return err
		}
		if r, ok := e.Body.(*entry.Record); ok && r.Incident == incident {
			return nil
		}
	}
	return ctx.Err()
}

// TestOverHTTP: agents on a real ledger, by real HTTP, from the signal to the
// record.
func TestOverHTTP(t *testing.T) {
	n := newNode(t)
	head, err := n.client().Head(t.Context())
	must(t, err)
	store, err := agent.OpenDir(t.TempDir())
	must(t, err)
	must(t, agent.Init(store, n.root, "worker", time.Now().UnixMilli()))
	world := newOutside()
	s := &agent.Server{Client: n.client(), Agent: "worker"}
	a, err := agent.Open(&agent.Config{Root: n.root, Agent: "worker", Secret: make([]byte, 16), Sign: n.signer("worker").Sign, NewID: uuid.NewString,
		Ledger: s, Log: s, Second: &agent.Mirror{Client: n.client(), Head: func(context.Context) (string, error) { return head.Note, nil }},
		Store: store, Hooks: world.hooks(bare)}, time.Now().UnixMilli())
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- agent.Run(ctx, a, s) }()
	for i := range 3 {
		must(t, n.closed(ctx, n.fails(fmt.Sprintf("x%d", i))))
	}
	cancel()
	must(t, <-done)
	if len(world.effects) != 6 || world.effects["compensate worker#x1"] != 1 {
		t.Errorf("%v", world.effects)
	}
	must(t, store.Close())
}

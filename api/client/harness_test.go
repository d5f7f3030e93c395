package client_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"recoveryledger/api/client"
	"recoveryledger/api/server"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

const origin = "ledger.example/test"

// node is a ledger on a memory disk behind a real server, which a test can put
// something in front of.
type node struct {
	t       testing.TB
	disk    *vfs.MemFS
	log     *ledger.Log
	handler http.Handler // of the honest server
	front   atomic.Pointer[http.HandlerFunc]
	url     string
	clock   atomic.Int64 // nanoseconds that the ledger is ahead of its time
	*identity
}

// identity is what two ledgers share that pretend to be one.
type identity struct {
	keys             *keys.Ledger
	next             *keys.Ledger // signs where a policy names it; nil: there is none
	authority, agent *keys.Signer
	genesis          *entry.Entry
}

func newIdentity(tb testing.TB) *identity {
	tb.Helper()
	ledgerKeys, err := keys.GenerateLedger(tb.TempDir(), origin, nil)
	must(tb, err)
	id := &identity{keys: ledgerKeys, authority: newSigner(tb), agent: newSigner(tb)}
	policy := entry.Genesis(origin, entry.AuthorityKey{Principal: "authority", Key: id.authority.Public()})
	policy.Header = header("authority", "")
	id.genesis = sign(tb, id.authority, policy)
	return id
}

// start returns a node with its genesis and an agent, agent-1.
func start(tb testing.TB) *node {
	tb.Helper()
	n := newIdentity(tb).start(tb, nil)
	n.add(n.enrol("agent-1", n.agent))
	return n
}

// start returns a node with its genesis alone. With a fold, the ledger admits
// what that does.
func (id *identity) start(tb testing.TB, fold func() ledger.Fold) *node {
	tb.Helper()
	n := id.open(tb, vfs.NewCrashableMem(), fold)
	n.add(id.genesis)
	return n
}

// copied returns a further node, on a copy of the disk of n: it has the log as it is now, is ready,
// and does not follow it.
func (n *node) copied() *node {
	n.t.Helper()
	further := n.open(n.t, n.disk.CrashClone(vfs.CrashCloneCfg{}), nil)
	for further.log.Ready() != nil { // it reads the dedup keys
		runtime.Gosched()
	}
	return further
}

// open returns a node with the log that is on a disk.
func (id *identity) open(tb testing.TB, disk *vfs.MemFS, fold func() ledger.Fold) *node {
	tb.Helper()
	verifier, err := keys.NewVerifier(0)
	must(tb, err)
	replica := coordinator.New(origin, verifier.Check)
	n := &node{t: tb, disk: disk, identity: id}
	opened := time.Now()
	cfg := &ledger.Config{
		Origin: origin, Keys: []ledger.Key{{Signer: id.keys.Signer, Verifier: id.keys.Verifier, Cosigner: id.keys.Cosigner}}, NewFold: fold,
		FS: disk, Fatal: func(err error) { panic(err) },
		Now:    func() time.Time { return time.Now().Add(time.Duration(n.clock.Load())) },
		Uptime: func() time.Duration { return time.Since(opened) + time.Duration(n.clock.Load()) },
	}
	if fold == nil {
		cfg.NewFold = func() ledger.Fold { return replica.NewFold() }
		cfg.Frozen = func() (ledger.Fold, uint64) { return replica.Frozen() }
		cfg.Precheck, cfg.Committed = replica.Precheck, replica.Committed
	}
	if id.next != nil {
		cfg.Keys = append(cfg.Keys, ledger.Key{Signer: id.next.Signer, Verifier: id.next.Verifier, Cosigner: id.next.Cosigner})
		cfg.Signs = id.signs
	}
	log, err := ledger.Open("db", cfg)
	must(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- log.Run(ctx) }()
	s, err := server.New(&server.Config{
		Origin: origin, VerifierKeys: id.keys.VerifierKeys[:], Log: log, Replica: replica, Rate: -1, ReachWait: 20 * time.Millisecond,
	})
	must(tb, err)
	n.log, n.handler = log, s.Handler()
	n.pass(n.handler.ServeHTTP)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*n.front.Load())(w, r) }))
	n.url = web.URL
	tb.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		cancel()
		must(tb, <-done)
		must(tb, log.Close())
	})
	return n
}

// pass puts a handler in front of the server.
func (n *node) pass(front http.HandlerFunc) { n.front.Store(&front) }

// tamper changes the body of every answer to paths that begin so.
func (n *node) tamper(prefix string, change func(body []byte) []byte) {
	n.pass(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, prefix) {
			n.handler.ServeHTTP(w, r)
			return
		}
		r.Header.Del("Accept-Encoding") // what is changed is the text
		honest := httptest.NewRecorder()
		n.handler.ServeHTTP(honest, r)
		w.Header().Set("Content-Type", honest.Header().Get("Content-Type"))
		w.WriteHeader(honest.Code)
		_, _ = w.Write(change(honest.Body.Bytes()))
	})
}

// add registers entries in process.
func (n *node) add(entries ...*entry.Entry) {
	n.t.Helper()
	answer, err := n.log.Submit(n.t.Context(), entries...)
	must(n.t, err)
	if answer.Refused != nil {
		n.t.Fatal(answer.Refused)
	}
}

func (n *node) root() verify.Root {
	n.t.Helper()
	first, err := n.log.Receipt(0)
	must(n.t, err)
	return verify.Root{Origin: origin, LedgerKeys: n.keys.VerifierKeys[:], Genesis: merkle.HashLeaf(first.Leaf)}
}

// client returns a client that does not wait for long.
func (n *node) client(c *client.Config) *client.Client {
	n.t.Helper()
	if c == nil {
		c = &client.Config{Attempts: 3}
	}
	made, err := client.New(n.url, n.root(), c)
	must(n.t, err)
	return made
}

func newSigner(tb testing.TB) *keys.Signer {
	tb.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	must(tb, err)
	signer, err := keys.NewSigner(private)
	must(tb, err)
	return signer
}

func header(issuer entry.Principal, wid entry.WorkflowID) entry.Header {
	return entry.Header{V: 1, JTI: uuid.NewString(), Iss: issuer, Aud: origin, Iat: time.Now().Unix(), Wid: wid}
}

func (n *node) enrol(principal entry.Principal, key *keys.Signer) *entry.Entry {
	return n.agentEntry(principal, key, entry.Enrol)
}

func (n *node) agentEntry(principal entry.Principal, key *keys.Signer, op entry.AgentOp) *entry.Entry {
	return sign(n.t, n.authority, &entry.Agent{Header: header("authority", ""), Principal: principal, Op: op, Key: key.Public(),
		Roles: []entry.Role{entry.RoleAgent}, Domain: "test", Span: entry.SpanWorkflow})
}

func execution(issuer entry.Principal) *entry.Execution {
	return &entry.Execution{Header: header(issuer, "flow-1"), Exec: uuid.NewString(), Parents: []entry.Parent{},
		Effect: entry.EffectNone, Progress: entry.Planned}
}

// good returns an entry that the ledger takes.
func (n *node) good() *entry.Entry { return sign(n.t, n.agent, execution("agent-1")) }

func (n *node) goods(count int) []*entry.Entry {
	list := make([]*entry.Entry, count)
	for i := range list {
		list[i] = n.good()
	}
	return list
}

func sign(tb testing.TB, signer *keys.Signer, body entry.Body) *entry.Entry {
	tb.Helper()
	e, err := entry.New(body)
	must(tb, err)
	must(tb, signer.Sign(e))
	return e
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func same(a, b *entry.Entry) bool { return bytes.Equal(a.PAE(), b.PAE()) }

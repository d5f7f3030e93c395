package server_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"recoveryledger/api"
	"recoveryledger/api/metrics"
	"recoveryledger/api/server"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger"
	"recoveryledger/ledger/complete"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/merkle"
	"recoveryledger/verify"
	"recoveryledger/verify/cose"
)

const origin = "ledger.example/test"

// node is a running ledger on a memory disk, with its coordinator and a server
// on loopback. Its genesis policy, an agent and a monitor are registered.
type node struct {
	t       testing.TB
	log     *ledger.Log
	coord   *coordinator.Replica
	keys    *keys.Ledger
	metrics atomic.Pointer[metrics.Metrics] // that commits are counted by
	disk    *disk
	clock   atomic.Int64  // nanoseconds that the wall clock is off
	skew    time.Duration // by which all lives in another time
	cfg     *server.Config
	url     string
	stopLog func()       // ends the order; reading goes on
	busy    atomic.Int64 // entries that come behind each index entry at once
	// followed is the index that commits are handed to.
	followed atomic.Pointer[complete.Index]
	// cluster makes the log that of a node of a cluster.
	cluster *ledger.Cluster
	// old has the log take what the fold admits, as a log of old may have it.
	old bool

	authority, agent, monitor *keys.Signer
}

// disk is a disk in memory with as much free space as the test says.
type disk struct {
	vfs.FS
	free atomic.Uint64
}

func (d *disk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: d.free.Load(), TotalBytes: 1 << 40}, nil
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// start returns a node whose server's configuration change may have changed.
func start(tb testing.TB, change func(*server.Config)) *node {
	tb.Helper()
	n := startEmpty(tb, change)
	n.found()
	return n
}

// found registers the genesis policy and the first keys.
func (n *node) found() {
	n.t.Helper()
	n.register(n.genesis(),
		n.enrol("agent-1", n.agent, entry.RoleAgent, entry.RoleEnroller), n.enrol("monitor-1", n.monitor, entry.RoleMonitor))
}

// startEmpty is start without any entry.
func startEmpty(tb testing.TB, change func(*server.Config)) *node {
	tb.Helper()
	d := &disk{FS: vfs.NewMem()}
	d.free.Store(1 << 39)
	n := newNode(tb, d, "db", change)
	n.disk = d
	return n
}

// newNode returns a node on a file system.
func newNode(tb testing.TB, fs vfs.FS, dir string, change func(*server.Config)) *node {
	tb.Helper()
	return newNodeAt(tb, fs, dir, 0, change)
}

// newNodeAt is newNode in another time.
func newNodeAt(tb testing.TB, fs vfs.FS, dir string, skew time.Duration, change func(*server.Config)) *node {
	tb.Helper()
	n := &node{t: tb, skew: skew}
	n.metrics.Store(metrics.New())
	return n.open(fs, dir, change)
}

// open opens the log, and serves it.
func (n *node) open(fs vfs.FS, dir string, change func(*server.Config)) *node {
	tb := n.t
	tb.Helper()
	n.startLog(fs, dir)
	n.authority, n.agent, n.monitor = newSigner(tb), newSigner(tb), newSigner(tb)
	n.cfg = &server.Config{
		Origin: origin, VerifierKeys: n.keys.VerifierKeys[:], Log: n.log, Replica: n.coord, Metrics: n.metrics.Load(), COSE: n.cose,
	}
	if change != nil {
		change(n.cfg)
	}
	s, err := server.New(n.cfg)
	must(tb, err)
	web := httptest.NewServer(s.Handler())
	tb.Cleanup(web.Close)
	n.url = web.URL
	return n
}

// cose makes the COSE receipt of an entry.
func (n *node) cose(index uint64) ([]byte, error) {
	receipt, err := n.log.Receipt(index)
	if err != nil {
		return nil, err
	}
	return cose.Encode(*receipt, n.log.Head().Head, n.keys.Signer)
}

func (n *node) startLog(fs vfs.FS, dir string) {
	n.t.Helper()
	verifier, err := keys.NewVerifier(0)
	must(n.t, err)
	n.coord = coordinator.New(origin, verifier.Check)
	n.keys, err = keys.GenerateLedger(n.t.TempDir(), origin, nil)
	must(n.t, err)
	precheck := n.coord.Precheck
	if n.old {
		precheck = nil
	}
	n.log, err = ledger.Open(dir, &ledger.Config{
		Origin: origin, Keys: []ledger.Key{{Signer: n.keys.Signer, Verifier: n.keys.Verifier, Cosigner: n.keys.Cosigner}},
		NewFold: func() ledger.Fold { return n.coord.NewFold() },
		Frozen:  func() (ledger.Fold, uint64) { return n.coord.Frozen() }, Precheck: precheck, Committed: n.coord.Committed,
		MaxStep: n.coord.MaxStep, Observe: n.observe, FS: fs,
		Now:   func() time.Time { return time.Now().Add(n.skew + time.Duration(n.clock.Load())) },
		Fatal: func(err error) { panic(err) }, Cluster: n.cluster,
	})
	must(n.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.log.Run(ctx) }()
	stopped := false
	n.stopLog = func() {
		if !stopped {
			stopped = true
			cancel()
			must(n.t, <-done)
		}
	}
	n.t.Cleanup(func() {
		n.stopLog()
		must(n.t, n.log.Close())
	})
}

// observe counts a commit, and hands its entries to the index, as arl serve does.
func (n *node) observe(c ledger.Commit) {
	n.metrics.Load().Commit(c)
	if index := n.followed.Load(); index != nil {
		index.Committed(c.Entries, c.Size)
	}
}

// again serves the same log by another server, which later requests go to.
func (n *node) again() *server.Server {
	n.t.Helper()
	cfg := *n.cfg
	cfg.Metrics = nil
	s, err := server.New(&cfg)
	must(n.t, err)
	web := httptest.NewServer(s.Handler())
	n.t.Cleanup(web.Close)
	n.url = web.URL
	return s
}

func newSigner(tb testing.TB) *keys.Signer {
	tb.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	must(tb, err)
	signer, err := keys.NewSigner(private)
	must(tb, err)
	return signer
}

func (n *node) header(issuer entry.Principal, wid entry.WorkflowID) entry.Header {
	return entry.Header{V: 1, JTI: uuid.NewString(), Iss: issuer, Aud: origin, Iat: time.Now().Add(n.skew).Unix(), Wid: wid}
}

func (n *node) policy() *entry.Policy {
	p := entry.Genesis(origin, entry.AuthorityKey{Principal: "authority", Key: n.authority.Public()})
	p.Header = n.header("authority", "")
	return p
}

func (n *node) genesis() *entry.Entry { return sign(n.t, n.authority, n.policy()) }

func (n *node) enrolment(principal entry.Principal, key *keys.Signer, roles ...entry.Role) *entry.Agent {
	return &entry.Agent{Header: n.header("authority", ""), Principal: principal, Op: entry.Enrol, Key: key.Public(),
		Roles: roles, Domain: "test", Span: entry.SpanWorkflow}
}

func (n *node) enrol(principal entry.Principal, key *keys.Signer, roles ...entry.Role) *entry.Entry {
	return sign(n.t, n.authority, n.enrolment(principal, key, roles...))
}

// execution returns a well-formed first entry of a new execution of agent-1.
func (n *node) execution() *entry.Execution {
	return &entry.Execution{Header: n.header("agent-1", "flow-1"), Exec: uuid.NewString(), Parents: []entry.Parent{},
		Effect: entry.EffectNone, Progress: entry.Planned}
}

func (n *node) signal(subject entry.Ref) *entry.Signal {
	return &entry.Signal{Header: n.header("agent-1", "flow-1"), Subject: subject, Class: "tool", Code: "timeout",
		Standing: entry.StandingExecutor, Effects: entry.EffectsNone, ReplaySafety: entry.ReplaySafe, ObservedAt: time.Now().UnixMilli()}
}

// good returns an entry that the ledger takes.
func (n *node) good() *entry.Entry { return sign(n.t, n.agent, n.execution()) }

func sign(tb testing.TB, signer *keys.Signer, body entry.Body) *entry.Entry {
	tb.Helper()
	e, err := entry.New(body)
	must(tb, err)
	must(tb, signer.Sign(e))
	return e
}

// register submits entries one by one and wants each to be taken.
func (n *node) register(entries ...*entry.Entry) {
	n.t.Helper()
	for _, e := range entries {
		n.receipt(n.post(api.MediaJSON, e.AppendEnvelope(nil)), http.StatusCreated)
	}
}

// answer is a whole answer.
type answer struct {
	*http.Response
	body []byte
}

func (n *node) do(request *http.Request) *answer {
	n.t.Helper()
	response, err := http.DefaultClient.Do(request)
	must(n.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(n.t, err)
	return &answer{response, body}
}

func (n *node) request(method, path, mediaType string, body []byte) *http.Request {
	n.t.Helper()
	request, err := http.NewRequestWithContext(n.t.Context(), method, n.url+path, bytes.NewReader(body))
	must(n.t, err)
	if mediaType != "" {
		request.Header.Set("Content-Type", mediaType)
	}
	return request
}

func (n *node) post(mediaType string, body []byte) *answer {
	n.t.Helper()
	return n.postTo("/v1/entries", mediaType, body)
}

func (n *node) postTo(path, mediaType string, body []byte) *answer {
	n.t.Helper()
	return n.do(n.request(http.MethodPost, path, mediaType, body))
}

func (n *node) get(path string) *answer {
	n.t.Helper()
	return n.do(n.request(http.MethodGet, path, "", nil))
}

// value gets a path and decodes its answer, every member of which must be known.
func value[T any](n *node, path string) *T {
	n.t.Helper()
	a := n.get(path)
	if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != api.MediaJSON {
		n.t.Fatalf("GET %s: %s %s: %s", path, a.Status, a.Header.Get("Content-Type"), a.body)
	}
	v := new(T)
	must(n.t, json.Unmarshal(a.body, v, json.RejectUnknownMembers(true)))
	return v
}

// receipt wants an answer with this status and a receipt in its exact form that
// verifies.
func (n *node) receipt(a *answer, status int) verify.Receipt {
	n.t.Helper()
	if a.StatusCode != status {
		n.t.Fatalf("status %s, want %d: %s", a.Status, status, a.body)
	}
	receipt, err := verify.DecodeReceipt(a.body)
	must(n.t, err)
	n.verify(verify.Material{Receipts: []verify.Receipt{receipt}})
	return receipt
}

func (n *node) root() verify.Root {
	n.t.Helper()
	first, err := n.log.Receipt(0)
	must(n.t, err)
	return verify.Root{Origin: origin, LedgerKeys: n.keys.VerifierKeys[:], Genesis: merkle.HashLeaf(first.Leaf)}
}

func (n *node) verify(m verify.Material) verify.Report {
	n.t.Helper()
	report, err := n.root().Verify(m)
	must(n.t, err)
	return report
}

// problem wants an answer that is a problem in full, of this type.
func (n *node) problem(a *answer, want entry.Problem, status int) api.Problem {
	n.t.Helper()
	var p api.Problem
	if got := a.Header.Get("Content-Type"); got != api.MediaProblem {
		n.t.Fatalf("content type %q: %s", got, a.body)
	}
	must(n.t, json.Unmarshal(a.body, &p, json.RejectUnknownMembers(true)))
	if p.Name() != want || p.Status != status || a.StatusCode != status {
		n.t.Fatalf("status %s, problem %+v, want %s with %d", a.Status, p, want, status)
	}
	if known, _ := api.Explain(string(want)); p.Title == "" || known.Title != "" && p.Title != known.Title || p.Detail == "" || p.Remedy == "" {
		n.t.Fatalf("problem says too little: %+v", p)
	}
	if id := a.Header.Get(api.HeaderRequestID); id == "" || p.RequestID() != id {
		n.t.Fatalf("instance %q, request id %q", p.Instance, id)
	}
	if p.Temporary() != (a.Header.Get("Retry-After") != "") {
		n.t.Fatalf("status %d with Retry-After %q", p.Status, a.Header.Get("Retry-After"))
	}
	return p
}

// metric returns the value of a sample in /metrics, as text; empty if there is
// none.
func (n *node) metric(sample string) string {
	n.t.Helper()
	for line := range strings.Lines(string(n.get("/metrics").body)) {
		if value, ok := strings.CutPrefix(line, sample+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

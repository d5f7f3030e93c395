package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
)

const (
	origin    = "ledger.example/bench"
	agents    = 16
	entrySize = 1024 // bytes of an envelope
)

// ledgerUnderTest is a ledger as `arl serve` wires it, with enrolled agents.
type ledgerUnderTest struct {
	*ledger.Log
	replica   *coordinator.Replica
	keys      *keys.Ledger
	agents    []*keys.Signer
	authority *keys.Signer
	member    bool // whether it is a node of a cluster
	stop      func() error
}

// openLedger makes a ledger in dir and enrols the agents.
func openLedger(ctx context.Context, dir string) (*ledgerUnderTest, error) {
	return openLedgerWith(ctx, dir, settings{})
}

func openLedgerWith(ctx context.Context, dir string, with settings) (*ledgerUnderTest, error) {
	if err := os.MkdirAll(filepath.Join(dir, "keys"), 0o700); err != nil {
		return nil, err
	}
	ledgerKeys, err := keys.GenerateLedger(filepath.Join(dir, "keys"), origin, nil)
	if err != nil {
		return nil, err
	}
	t, err := openWith(dir, ledgerKeys, with)
	if err != nil {
		return nil, err
	}
	t.run(ctx)
	return t, t.enrol(ctx)
}

// gcPercent is that of arl serve, for a single ledger or for a node of a cluster, unless GOGC says
// another one, as there.
func (t *ledgerUnderTest) gcPercent() int {
	if percent, err := strconv.Atoi(os.Getenv("GOGC")); err == nil {
		return percent
	}
	if t.member {
		return 100
	}
	return 25
}

// run runs the order until stop, with the Go runtime set as `arl serve` does.
func (t *ledgerUnderTest) run(ctx context.Context) {
	before := debug.SetGCPercent(t.gcPercent())
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- t.Run(ctx) }()
	t.stop = func() error {
		defer runtime.SetDefaultGOMAXPROCS()
		defer debug.SetGCPercent(before)
		cancel()
		if err := <-done; err != nil {
			return err
		}
		return t.Close()
	}
}

// open opens the ledger in dir as `arl serve` does.
func open(dir string, ledgerKeys *keys.Ledger) (*ledgerUnderTest, error) {
	return openWith(dir, ledgerKeys, settings{})
}

// settings are what a ledger is opened with beside what `arl serve` says.
type settings struct {
	snapshotEvery uint64        // distance between snapshots; 0: as shipped
	rebuild       bool          // no snapshot counts
	keyTakes      time.Duration // time of a signature by the ledger's key beyond its own

	cluster *ledger.Cluster // what makes the ledger a node of a cluster, without Revert; nil: it is none
}

// unread is a fold of another version, which does not know the form of the
// snapshots in the database.
type unread struct{ ledger.Fold }

// Restore implements [ledger.Fold].
func (unread) Restore(io.Reader) error { return errors.New("of another version") }

func openWith(dir string, ledgerKeys *keys.Ledger, with settings) (*ledgerUnderTest, error) {
	verifier, err := keys.NewVerifier(0)
	if err != nil {
		return nil, err
	}
	replica := coordinator.New(origin, verifier.Check)
	signer := ledgerKeys.Signer
	if with.keyTakes > 0 {
		signer = slowSigner{signer, with.keyTakes}
	}
	config := &ledger.Config{
		Origin: origin, Keys: []ledger.Key{{Signer: signer, Verifier: ledgerKeys.Verifier, Cosigner: ledgerKeys.Cosigner}},
		NewFold: func() ledger.Fold {
			if with.rebuild {
				return unread{replica.NewFold()}
			}
			return replica.NewFold()
		},
		Frozen: func() (ledger.Fold, uint64) { return replica.Frozen() },
		Precheck: func(e *entry.Entry) error {
			if e.SignatureChecked { // by [ledgerUnderTest.submitUnsigned]
				return nil
			}
			return replica.Precheck(e)
		},
		Committed:     replica.Committed,
		MaxStep:       replica.MaxStep,
		SnapshotEvery: with.snapshotEvery,
		Fatal:         func(err error) { log.Fatal(err) },
	}
	if with.cluster != nil {
		config.Cluster = with.cluster
		config.Cluster.Revert = func() ledger.Fold { return replica.Revert() }
	}
	l, err := ledger.Open(filepath.Join(dir, "db"), config)
	return &ledgerUnderTest{Log: l, replica: replica, keys: ledgerKeys, member: with.cluster != nil}, err
}

// reopenLedger opens a ledger that openLedger made and stop closed, to be left
// again by leave.
func reopenLedger(dir string, with settings) (*ledgerUnderTest, error) {
	ledgerKeys, err := keys.LoadLedger(filepath.Join(dir, "keys"), nil)
	if err != nil {
		return nil, err
	}
	return openWith(dir, ledgerKeys[0], with)
}

// leave closes a ledger in which nothing was registered.
func (t *ledgerUnderTest) leave() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // Close wants Run to have ended
	return errors.Join(t.Run(ctx), t.Close())
}

// submitMany registers n new entries from number first on as one batch, without
// waiting for proofs.
func (t *ledgerUnderTest) submitMany(ctx context.Context, first, n int) error {
	batch := make([]*entry.Entry, n)
	for i := range batch {
		envelope, err := t.envelope(first + i)
		if err != nil {
			return err
		}
		if batch[i], err = entry.Decode(envelope); err != nil {
			return err
		}
	}
	answer, err := t.Submit(ctx, batch...)
	if err != nil {
		return err
	}
	if answer.Refused != nil {
		return answer.Refused
	}
	return nil
}

// enrol writes the genesis policy and enrols the agents.
func (t *ledgerUnderTest) enrol(ctx context.Context) error {
	authority, err := newSigner()
	if err != nil {
		return err
	}
	t.authority = authority
	header := func() entry.Header {
		return entry.Header{V: 1, JTI: uuid.NewString(), Iss: "authority", Aud: origin, Iat: time.Now().Unix()}
	}
	policy := entry.Genesis(origin, entry.AuthorityKey{Principal: "authority", Key: authority.Public()})
	policy.Header = header()
	bodies := []entry.Body{policy}
	for i := range agents {
		agent, err := newSigner()
		if err != nil {
			return err
		}
		t.agents = append(t.agents, agent)
		bodies = append(bodies, &entry.Agent{Header: header(), Principal: agentName(i), Op: entry.Enrol, Key: agent.Public(),
			Roles: []entry.Role{entry.RoleAgent}, Domain: "bench", Span: entry.SpanWorkflow})
	}
	for _, body := range bodies {
		e, err := entry.New(body)
		if err != nil {
			return err
		}
		if err := authority.Sign(e); err != nil {
			return err
		}
		if answer, err := t.Submit(ctx, e); err != nil || answer.Refused != nil {
			return fmt.Errorf("enrol: %v, %v", answer, err)
		}
	}
	return nil
}

func newSigner() (*keys.Signer, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return keys.NewSigner(private)
}

func agentName(i int) entry.Principal {
	return entry.Principal(fmt.Sprintf("agent-%d@bench.example", i))
}

// submit takes an envelope the whole way: decode, check, order, commit, proof.
func (t *ledgerUnderTest) submit(ctx context.Context, envelope []byte) error {
	e, err := entry.Decode(envelope)
	if err != nil {
		return err
	}
	answer, err := t.Submit(ctx, e)
	if err != nil {
		return err
	}
	if answer.Refused != nil {
		return answer.Refused
	}
	_, err = answer.Proof(answer.Registered[0].Index)
	return err
}

// entry returns the n-th new entry, without signature: an execution of one of
// the agents, padded with random digits to the size of all entries here.
func (t *ledgerUnderTest) entry(n int) (*entry.Entry, error) {
	const payloadSize = 590
	payload := fmt.Appendf(nil, `{"aud":"%s","effect":"none","exec":"exec-%d","iat":%d,"inp_hash":"sha256:%s","iss":"%s","jti":"%s","latency_ms":%d,`+
		`"out_hash":"sha256:%s","parents":[],"progress":"confirmed","v":1,"wid":"workflow-%d","x_note":"`,
		origin, n, time.Now().Unix(), hex.EncodeToString(random(32)), agentName(n%agents), uuid.NewString(), n%1000, hex.EncodeToString(random(32)), n%977)
	payload = append(payload, pad(payloadSize-2-len(payload))...)
	return entry.NewRaw(entry.KindExecution, append(payload, `"}`...))
}

// envelope returns the n-th new entry, signed, as an agent sends it.
func (t *ledgerUnderTest) envelope(n int) ([]byte, error) {
	e, err := t.entry(n)
	if err != nil {
		return nil, err
	}
	if err := t.agents[n%agents].Sign(e); err != nil {
		return nil, err
	}
	envelope := e.AppendEnvelope(nil)
	for len(envelope) < entrySize {
		envelope = append(envelope, ' ')
	}
	return envelope, nil
}

// envelopes signs n entries beforehand and hands them out one by one, nil at the
// end.
func (t *ledgerUnderTest) envelopes(n int) (func() []byte, error) { return t.envelopesFrom(0, n) }

// envelopesFrom is envelopes from a number on. They stand in one array, and what
// making them has left is collected: by themselves, they would be work for the
// garbage collector in the run that they are for, which no server has.
func (t *ledgerUnderTest) envelopesFrom(first, n int) (func() []byte, error) {
	pool, ends := make([]byte, 0, n*entrySize), make([]int, 1, n+1)
	for i := range n {
		envelope, err := t.envelope(first + i)
		if err != nil {
			return nil, err
		}
		pool = append(pool, envelope...)
		ends = append(ends, len(pool))
	}
	runtime.GC()
	var next atomic.Int64
	return func() []byte {
		if i := next.Add(1) - 1; i < int64(n) {
			return pool[ends[i]:ends[i+1]:ends[i+1]]
		}
		return nil
	}, nil
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

// pad returns n random hexadecimal digits.
func pad(n int) string { return hex.EncodeToString(random((n + 1) / 2))[:n] }

package notify_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"recoveryledger/api/notify"
	"recoveryledger/coord"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/testdata/coordlog"
)

// live is a ledger on the disk with its coordinator, in the time of the machine.
type live struct {
	b       *testing.B
	log     *ledger.Log
	replica *coordinator.Replica
	signers map[entry.Principal]*keys.Signer
}

const liveOrigin = "ledger.example/live"

func goLive(b *testing.B) *live {
	b.Helper()
	l := &live{b: b, replica: coordinator.New(liveOrigin, nil), signers: map[entry.Principal]*keys.Signer{}}
	key, err := keys.GenerateLedger(b.TempDir(), liveOrigin, nil)
	must(b, err)
	l.log, err = ledger.Open(filepath.Join(b.TempDir(), "db"), &ledger.Config{
		Origin: liveOrigin, Keys: []ledger.Key{{Signer: key.Signer, Verifier: key.Verifier, Cosigner: key.Cosigner}},
		NewFold: func() ledger.Fold { return l.replica.NewFold() },
		Frozen:  func() (ledger.Fold, uint64) { return l.replica.Frozen() }, Precheck: l.replica.Precheck, Committed: l.replica.Committed,
		MaxStep: l.replica.MaxStep, Fatal: func(err error) { panic(err) },
	})
	must(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- l.log.Run(ctx) }()
	policy := coord.Genesis(liveOrigin, entry.AuthorityKey{Principal: "root", Key: l.signer("root").Public()})
	l.put("root", policy)
	for name, role := range map[entry.Principal]entry.Role{"a": entry.RoleAgent, "k": entry.RoleCoordinator, "p": entry.RoleApprover} {
		l.put("root", &entry.Agent{Principal: name, Op: entry.Enrol, Key: l.signer(name).Public(), Roles: []entry.Role{role}, Domain: "d", Span: entry.SpanWorkflow})
	}
	deciding, end := context.WithCancel(ctx)
	go func() {
		k := &coordinator.Coordinator{Replica: l.replica, Log: coordlog.Log{Log: l.log}, Principal: "k", Seal: l.signer("k").Sign}
		done <- k.Run(deciding)
	}()
	b.Cleanup(func() {
		end()
		first := <-done
		cancel()
		must(b, errors.Join(first, <-done, l.log.Close()))
	})
	return l
}

func (l *live) signer(name entry.Principal) *keys.Signer {
	if l.signers[name] == nil {
		_, private, err := ed25519.GenerateKey(nil)
		must(l.b, err)
		l.signers[name], err = keys.NewSigner(private)
		must(l.b, err)
	}
	return l.signers[name]
}

func (l *live) put(iss entry.Principal, body entry.Body) {
	l.b.Helper()
	h := entry.HeaderOf(body)
	h.V, h.JTI, h.Iss, h.Aud, h.Iat = 1, uuid.NewString(), iss, liveOrigin, time.Now().Unix()
	if k := body.Kind(); k != entry.KindPolicy && k != entry.KindAgent {
		h.Wid = "w"
	}
	e, err := entry.New(body)
	must(l.b, err)
	must(l.b, l.signer(iss).Sign(e))
	_, err = coordlog.Log{Log: l.log}.Submit(l.b.Context(), e)
	must(l.b, err)
}

// BenchmarkSignalToNotification measures from the submission of a signal to the request at an
// endpoint that people are asked: through the ledger on the disk, the coordinator and the notifier.
func BenchmarkSignalToNotification(b *testing.B) {
	l := goLive(b)
	came := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		came <- struct{}{}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	n, err := notify.New(&notify.Config{File: &notify.File{Endpoints: []notify.Endpoint{{Name: "pager", URL: server.URL, Secret: secretFile(b, secret)}}},
		Dir: b.TempDir(), Origin: liveOrigin, Log: l.log, Replica: l.replica}, l.log.Size())
	must(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	var took []time.Duration
	for b.Loop() {
		b.StopTimer()
		id := uuid.NewString()
		for _, progress := range []entry.Progress{entry.Planned, entry.Started, entry.Confirmed} {
			l.put("a", &entry.Execution{Exec: id, Effect: entry.EffectIrrevocable, Progress: progress, Parents: []entry.Parent{}, IdempotencyKey: entry.DigestOf(id)})
		}
		b.StartTimer()
		began := time.Now()
		l.put("a", &entry.Signal{Subject: entry.NewRef("a", id), Class: "tool", Code: "error", Standing: entry.StandingExecutor, Effects: entry.EffectsUnknown,
			ReplaySafety: entry.ReplayUnknown, ObservedAt: began.UnixMilli()})
		<-came
		took = append(took, time.Since(began))
	}
	cancel()
	must(b, <-done)
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

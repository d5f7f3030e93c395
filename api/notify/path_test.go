package notify_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"recoveryledger/api/notify"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/testdata/coordlog"
)

// live is a ledger on the disk with its coordinator, in the time of the machine.
type live struct {
	t       *testing.T
	log     *ledger.Log
	replica *coordinator.Replica
	signers map[entry.Principal]*keys.Signer
}

const liveOrigin = "ledger.example/live"

func goLive(t *testing.T) *live {
	t.Helper()
	l := &live{t: t, replica: coordinator.New(liveOrigin, nil), signers: map[entry.Principal]*keys.Signer{}}
	began := time.Now()
	key, err := keys.GenerateLedger(t.TempDir(), liveOrigin, nil)
	must(t, err)
	l.log, err = ledger.Open(filepath.Join(t.TempDir(), "db"), &ledger.Config{
		Origin: liveOrigin, Keys: []ledger.Key{{Signer: key.Signer, Verifier: key.Verifier, Cosigner: key.Cosigner}},
		NewFold: func() ledger.Fold { return l.replica.NewFold() },
		Frozen:  func() (ledger.Fold, uint64) { return l.replica.Frozen() }, Precheck: l.replica.Precheck, Committed: l.replica.Committed,
		MaxStep: l.replica.MaxStep, Fatal: func(err error) { panic(err) }, Uptime: func() time.Duration { return time.Since(began) },
	})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- l.log.Run(ctx) }()
	policy := entry.Genesis(liveOrigin, entry.AuthorityKey{Principal: "root", Key: l.signer("root").Public()})
	l.put("root", policy)
	for name, role := range map[entry.Principal]entry.Role{"a": entry.RoleAgent, "k": entry.RoleCoordinator, "p": entry.RoleApprover} {
		l.put("root", &entry.Agent{Principal: name, Op: entry.Enrol, Key: l.signer(name).Public(), Roles: []entry.Role{role}, Domain: "d", Span: entry.SpanWorkflow})
	}
	deciding, end := context.WithCancel(ctx)
	go func() {
		k := &coordinator.Coordinator{Replica: l.replica, Log: coordlog.Log{Log: l.log}, Principal: "k", Seal: l.signer("k").Sign}
		done <- k.Run(deciding)
	}()
	t.Cleanup(func() {
		end()
		first := <-done
		cancel()
		must(t, errors.Join(first, <-done, l.log.Close()))
	})
	return l
}

func (l *live) signer(name entry.Principal) *keys.Signer {
	if l.signers[name] == nil {
		_, private, err := ed25519.GenerateKey(nil)
		must(l.t, err)
		l.signers[name], err = keys.NewSigner(private)
		must(l.t, err)
	}
	return l.signers[name]
}

func (l *live) put(iss entry.Principal, body entry.Body) {
	l.t.Helper()
	h := entry.HeaderOf(body)
	h.V, h.JTI, h.Iss, h.Aud, h.Iat = 1, uuid.NewString(), iss, liveOrigin, time.Now().Unix()
	if k := body.Kind(); k != entry.KindPolicy && k != entry.KindAgent {
		h.Wid = "w"
	}
	e, err := entry.New(body)
	must(l.t, err)
	must(l.t, l.signer(iss).Sign(e))
	_, err = coordlog.Log{Log: l.log}.Submit(l.t.Context(), e)
	must(l.t, err)
}

// TestNoDelayBeforeANotification runs a ledger on the disk, its coordinator and a notifier under a
// fake clock, which moves when all of them wait for time to pass, and only then. So what passes
// from a signal to the request at an endpoint is what somebody waits without need: neither the work
// nor the disk counts. It is far below the goal, whenever the signal comes.
func TestNoDelayBeforeANotification(t *testing.T) {
	var came atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		came.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	server.Config.SetKeepAlivesEnabled(false) // an open connection would hold the clock
	synctest.Test(t, func(t *testing.T) {
		l := goLive(t)
		n, err := notify.New(&notify.Config{File: &notify.File{Endpoints: []notify.Endpoint{{Name: "pager", URL: server.URL, Secret: secretFile(t, secret)}}},
			Dir: t.TempDir(), Origin: liveOrigin, Log: l.log, Replica: l.replica}, l.log.Size())
		must(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- n.Run(ctx) }()
		for i := range int64(20) {
			time.Sleep(time.Duration(i) * 137 * time.Millisecond)
			id := uuid.NewString()
			for _, progress := range []entry.Progress{entry.Planned, entry.Started, entry.Confirmed} {
				l.put("a", &entry.Execution{Exec: id, Effect: entry.EffectIrrevocable, Progress: progress, Parents: []entry.Parent{}, IdempotencyKey: entry.DigestOf(id)})
			}
			began := time.Now()
			l.put("a", &entry.Signal{Subject: entry.NewRef("a", id), Class: "tool", Code: "error", Standing: entry.StandingExecutor, Effects: entry.EffectsUnknown,
				ReplaySafety: entry.ReplayUnknown, ObservedAt: began.UnixMilli()})
			for came.Load() <= i && time.Since(began) < time.Minute {
				time.Sleep(time.Millisecond)
			}
			if took := time.Since(began); took > 20*time.Millisecond {
				t.Errorf("signal %d: somebody waited %v", i, took)
			}
		}
		cancel()
		must(t, <-done)
	})
}

package server_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/api/metrics"
	"recoveryledger/api/server"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
)

// provocation is an envelope that is refused.
type provocation struct {
	desc   string
	send   func(n *node) []byte
	want   entry.Problem
	status int
	field  string
}

// changed returns an execution of agent-1 that change has spoilt, signed.
func changed(change func(*entry.Execution)) func(*node) []byte {
	return func(n *node) []byte {
		x := n.execution()
		change(x)
		return sign(n.t, n.agent, x).AppendEnvelope(nil)
	}
}

// raw returns an execution that no type would write.
func raw(change func(members map[string]any)) func(*node) []byte {
	return spoilt(func(n *node) entry.Body { return n.execution() }, change)
}

// spoilt returns an entry whose payload no type would write, with a signature of
// something else: it is refused before that is looked at.
func spoilt(body func(*node) entry.Body, change func(members map[string]any)) func(*node) []byte {
	return func(n *node) []byte {
		e := sign(n.t, n.agent, body(n))
		members := map[string]any{}
		must(n.t, json.Unmarshal(e.Payload(), &members))
		change(members)
		payload, err := json.Marshal(members)
		must(n.t, err)
		envelope, err := json.Marshal(api.Envelope{Payload: payload, PayloadType: e.Kind.PayloadType(),
			Signatures: []api.Signature{{KeyID: e.KeyID, Sig: e.Sig}}})
		must(n.t, err)
		return envelope
	}
}

func by(signer func(*node) *keys.Signer, body func(*node) entry.Body) func(*node) []byte {
	return func(n *node) []byte { return sign(n.t, signer(n), body(n)).AppendEnvelope(nil) }
}

func authority(n *node) *keys.Signer { return n.authority }
func agent(n *node) *keys.Signer     { return n.agent }
func monitor(n *node) *keys.Signer   { return n.monitor }

// envelopeProblems are refused by REG-1.
func envelopeProblems() []provocation {
	return []provocation{
		{"not JSON", func(*node) []byte { return []byte("{") }, entry.Malformed, 400, "envelope"},
		{"empty body", func(*node) []byte { return nil }, entry.Malformed, 400, "envelope"},
		{"unknown member of the envelope", func(n *node) []byte {
			return bytes.Replace(n.good().AppendEnvelope(nil), []byte("{"), []byte(`{"more":1,`), 1)
		}, entry.Malformed, 400, "more"},
		{"two signatures", func(n *node) []byte {
			e := api.NewEnvelope(n.good())
			e.Signatures = append(e.Signatures, e.Signatures[0])
			envelope, err := json.Marshal(e)
			must(n.t, err)
			return envelope
		}, entry.Malformed, 400, "signatures"},
		{"unknown kind", func(n *node) []byte {
			return bytes.Replace(n.good().AppendEnvelope(nil), []byte("recovery.execution"), []byte("recovery.rumour"), 1)
		}, entry.Malformed, 400, "payloadType"},
		{"line break in base64", func(n *node) []byte {
			return bytes.Replace(n.good().AppendEnvelope(nil), []byte(`"payload":"`), []byte(`"payload":"\n`), 1)
		}, entry.Malformed, 400, "payload"},
		{"missing member", raw(func(m map[string]any) { delete(m, "effect") }), entry.Malformed, 400, "effect"},
		{"wrong type", raw(func(m map[string]any) { m["latency_ms"] = "fast" }), entry.Malformed, 400, "latency_ms"},
		{"fraction", raw(func(m map[string]any) { m["latency_ms"] = 1.5 }), entry.Malformed, 400, "latency_ms"},
		{"unknown word", raw(func(m map[string]any) { m["effect"] = "large" }), entry.Malformed, 400, "effect"},
		{"bad jti", raw(func(m map[string]any) { m["jti"] = "1" }), entry.Malformed, 400, "jti"},
		{"another version", raw(func(m map[string]any) { m["v"] = 2 }), entry.Malformed, 400, "v"},
		{"unknown member in crit", raw(func(m map[string]any) { m["crit"] = []string{"spell"}; m["spell"] = 1 }), entry.Malformed, 400, "crit"},
		{"key of another algorithm", spoilt(func(n *node) entry.Body { return n.enrolment("agent-9", newSigner(n.t), entry.RoleAgent) },
			func(m map[string]any) { m["key"] = base64.StdEncoding.EncodeToString(x25519Key()) }), entry.UnsupportedAlg, 400, "key"},
		{"too large", func(n *node) []byte {
			return append(n.good().AppendEnvelope(nil), bytes.Repeat([]byte(" "), entry.MaxEnvelope)...)
		}, entry.TooLarge, 413, ""},
	}
}

// x25519Key is a SubjectPublicKeyInfo of a key that signs nothing (RFC 8410).
func x25519Key() []byte {
	return append([]byte{0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x6e, 0x03, 0x21, 0x00}, bytes.Repeat([]byte{9}, 32)...)
}

// rightProblems are refused by REG-3 to REG-7.
func rightProblems() []provocation {
	return []provocation{
		{"another ledger", changed(func(x *entry.Execution) { x.Aud = "other.example/log" }), entry.WrongAudience, 403, "aud"},
		{"key not enrolled", by(func(n *node) *keys.Signer { return newSigner(n.t) }, func(n *node) entry.Body { return n.execution() }),
			entry.UnknownIssuer, 401, "signatures[0].keyid"},
		{"key of another", changed(func(x *entry.Execution) { x.Iss = "agent-2" }), entry.UnknownIssuer, 401, "signatures[0].keyid"},
		{"key revoked", func(n *node) []byte {
			lost := newSigner(n.t)
			revoke := n.enrolment("agent-3", lost, entry.RoleAgent)
			revoke.Op = entry.Revoke
			n.register(n.enrol("agent-3", lost, entry.RoleAgent), sign(n.t, n.authority, revoke))
			x := n.execution()
			x.Iss = "agent-3"
			return sign(n.t, lost, x).AppendEnvelope(nil)
		}, entry.UnknownIssuer, 401, "signatures[0].keyid"},
		{"role does not allow the kind", by(monitor, func(n *node) entry.Body {
			x := n.execution()
			x.Iss = "monitor-1"
			return x
		}), entry.UnauthorizedRole, 403, "iss"},
		{"enroller grants a role", by(agent, func(n *node) entry.Body {
			a := n.enrolment("agent-4", newSigner(n.t), entry.RoleApprover)
			a.Iss = "agent-1"
			return a
		}), entry.UnauthorizedRole, 403, "iss"},
		{"policy not by the authority", by(agent, func(n *node) entry.Body {
			p := n.policy()
			p.Iss = "agent-1"
			return p
		}), entry.UnauthorizedRole, 403, "iss"},
		{"signature of other bytes", func(n *node) []byte {
			other := n.good()
			e := n.good()
			e.Seal(other.KeyID, other.Sig)
			return e.AppendEnvelope(nil)
		}, entry.BadSignature, 400, "signatures[0].sig"},
		{"too old", changed(func(x *entry.Execution) { x.Iat -= 301 }), entry.Stale, 422, "iat"},
		{"from the future", changed(func(x *entry.Execution) { x.Iat += 302 }), entry.Stale, 422, "iat"},
		{"quota of signals", func(n *node) []byte {
			n.tightenQuota()
			x := n.execution()
			n.register(sign(n.t, n.agent, x), sign(n.t, n.agent, n.signal(x.Ref())))
			return sign(n.t, n.agent, n.signal(x.Ref())).AppendEnvelope(nil)
		}, entry.RateLimited, 429, "iss"},
	}
}

// tightenQuota registers a policy that allows one signal an hour.
func (n *node) tightenQuota() {
	n.t.Helper()
	p := n.follower()
	p.Quotas.SignalsPerHour = 1
	n.register(sign(n.t, n.authority, p))
}

// stateProblems are refused by REG-2, REG-8 and REG-9.
func stateProblems() []provocation {
	return []provocation{
		{"id taken", func(n *node) []byte {
			x := n.execution()
			n.register(sign(n.t, n.agent, x))
			x.Exec = "another"
			return sign(n.t, n.agent, x).AppendEnvelope(nil)
		}, entry.IDConflict, 409, "jti"},
		{"parent not in the log", changed(func(x *entry.Execution) { x.Parents = []entry.Parent{{Exec: "agent-1#x", Dep: entry.Hard}} }),
			entry.UnknownSubject, 422, "parents[0].exec"},
		{"task not in the log", changed(func(x *entry.Execution) { x.Task = "operator#t" }), entry.UnknownSubject, 422, "task"},
		{"confirmed without started", changed(func(x *entry.Execution) {
			x.Effect, x.Progress = entry.EffectReversible, entry.Confirmed
		}), entry.StateConflict, 409, "progress"},
		{"effect changes", func(n *node) []byte {
			x := n.execution()
			n.register(sign(n.t, n.agent, x))
			x.Header, x.Effect, x.Progress = n.header("agent-1", "flow-1"), entry.EffectReversible, entry.Started
			return sign(n.t, n.agent, x).AppendEnvelope(nil)
		}, entry.StateConflict, 409, "effect"},
		{"checkpoint covers nothing known", by(agent, func(n *node) entry.Body {
			after := entry.Ref("agent-1#x")
			return &entry.Checkpoint{Header: n.header("agent-1", "flow-1"), Checkpoint: "c", After: &after, Digest: entry.Digest("sha256:" + strings.Repeat("0", 64))}
		}), entry.UnknownSubject, 422, "after"},
		{"checkpoint of what is not final", func(n *node) []byte {
			x := n.execution()
			n.register(sign(n.t, n.agent, x))
			after := x.Ref()
			return sign(n.t, n.agent, &entry.Checkpoint{Header: n.header("agent-1", "flow-1"), Checkpoint: "c", After: &after,
				Digest: entry.Digest("sha256:" + strings.Repeat("0", 64))}).AppendEnvelope(nil)
		}, entry.StateConflict, 409, "after"},
		{"signal about nothing known", by(agent, func(n *node) entry.Body { return n.signal("agent-1#x") }), entry.UnknownSubject, 422, "subject"},
		{"signal without standing", func(n *node) []byte {
			x := n.execution()
			stranger := newSigner(n.t)
			n.register(sign(n.t, n.agent, x), n.enrol("agent-5", stranger, entry.RoleAgent))
			s := n.signal(x.Ref())
			s.Iss, s.Standing = "agent-5", entry.StandingDownstream
			return sign(n.t, stranger, s).AppendEnvelope(nil)
		}, entry.NoStanding, 403, "standing"},
		{"key enrolled twice", by(authority, func(n *node) entry.Body { return n.enrolment("agent-6", n.agent, entry.RoleAgent) }),
			entry.StateConflict, 409, "key"},
		{"revocation of an unknown key", by(authority, func(n *node) entry.Body {
			a := n.enrolment("agent-7", newSigner(n.t), entry.RoleAgent)
			a.Op = entry.Revoke
			return a
		}), entry.UnknownSubject, 422, "key"},
		{"policy without predecessor", by(authority, func(n *node) entry.Body { return n.policy() }), entry.PolicySuperseded, 409, "previous"},
		{"policy with the wrong predecessor", by(authority, func(n *node) entry.Body {
			p := n.policy()
			p.Previous = &entry.LogRef{Index: 1, LeafHash: merkle.Hash{1}}
			return p
		}), entry.PolicySuperseded, 409, "previous"},
		{"task of somebody else", func(n *node) []byte {
			operator := newSigner(n.t)
			n.register(n.enrol("operator-1", operator, entry.RoleOperator))
			return sign(n.t, operator, &entry.Task{Header: n.header("operator-1", "flow-1"), Task: "operator-2#t", Op: "create",
				From: entry.TaskCreated, To: entry.TaskCreated, Reason: "r"}).AppendEnvelope(nil)
		}, entry.StateConflict, 409, "task"},
	}
}

// Every problem that the kinds of this version can provoke, over real HTTP:
// right status, type, field and remedy, nothing appended, counted, and the next
// good entry works.
func TestProblems(t *testing.T) {
	budget.Unraced(t, "one request after the other; TestScripts has the same routes at once")
	for _, list := range [][]provocation{envelopeProblems(), rightProblems(), stateProblems(),
		executionProblems(), checkpointProblems(), signalProblems(), agentProblems(), policyProblems()} {
		for _, c := range list {
			t.Run(c.desc, func(t *testing.T) {
				n := start(t, nil)
				body := c.send(n)
				size := n.log.Head().Size
				p := n.problem(n.post(api.MediaJSON, body), c.want, c.status)
				if p.Field != c.field {
					t.Fatalf("field %q, want %q: %s", p.Field, c.field, p.Detail)
				}
				if n.log.Head().Size != size {
					t.Fatal("something was appended")
				}
				if got := n.metric(`arl_refusals_total{problem="` + string(c.want) + `"}`); got != "1" {
					t.Fatalf("refusals counted: %q", got)
				}
				n.register(n.good())
			})
		}
	}
}

// An empty log takes nothing but a genesis policy that names its own signer.
func TestGenesisProblems(t *testing.T) {
	n := startEmpty(t, nil)
	n.problem(n.post(api.MediaJSON, n.good().AppendEnvelope(nil)), entry.UnknownIssuer, http.StatusUnauthorized)
	stranger := sign(t, n.agent, n.policy())
	n.problem(n.post(api.MediaJSON, stranger.AppendEnvelope(nil)), entry.UnknownIssuer, http.StatusUnauthorized)
	second := n.policy()
	second.Previous = &entry.LogRef{}
	n.problem(n.post(api.MediaJSON, sign(t, n.authority, second).AppendEnvelope(nil)), entry.StateConflict, http.StatusConflict)
	if n.log.Head().Size != 0 {
		t.Fatal("something was appended")
	}
	n.register(n.genesis())
}

// When the wall clock jumps the ledger is not ready, says why, and goes on when
// the clock is right.
func TestClockOff(t *testing.T) {
	n := start(t, nil)
	n.clock.Store(int64(10 * time.Minute))
	size := n.log.Head().Size
	n.problem(n.post(api.MediaJSON, n.good().AppendEnvelope(nil)), entry.NotReady, http.StatusServiceUnavailable)
	n.problem(n.post(api.MediaNDJSON, batchOf(n.good())), entry.NotReady, http.StatusServiceUnavailable)
	n.problem(n.get("/readyz"), entry.NotReady, http.StatusServiceUnavailable)
	if n.log.Head().Size != size || n.get("/healthz").StatusCode != http.StatusOK {
		t.Fatal("appended, or not healthy")
	}
	n.clock.Store(0)
	n.register(n.good())
	if status := value[api.Status](n, "/readyz"); status.Status != "ready" {
		t.Fatalf("status %q", status.Status)
	}
}

// TestReadyOnceTheLogIsSound asks for readiness while the ledger has not read its
// dedup keys yet: reading works, the ledger is not ready.
func TestReadyOnceTheLogIsSound(t *testing.T) {
	n := start(t, nil)
	idle, err := ledger.Open("idle", &ledger.Config{
		Origin: origin, Keys: []ledger.Key{{Signer: n.keys.Signer, Verifier: n.keys.Verifier, Cosigner: n.keys.Cosigner}},
		NewFold: func() ledger.Fold { return coordinator.New(origin, nil).NewFold() }, FS: vfs.NewMem(), Fatal: func(err error) { panic(err) },
	})
	must(t, err)
	cfg := *n.cfg
	cfg.Log, cfg.Metrics = idle, metrics.New()
	s, err := server.New(&cfg)
	must(t, err)
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	n.url = web.URL
	n.problem(n.get("/readyz"), entry.NotReady, http.StatusServiceUnavailable)
	if n.get("/healthz").StatusCode != http.StatusOK {
		t.Error("not healthy")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- idle.Run(ctx) }()
	for n.get("/readyz").StatusCode != http.StatusOK { // an empty log is read at once
		runtime.Gosched()
	}
	cancel()
	must(t, <-done)
	must(t, idle.Close())
}

// Without disk space entries are refused, reading goes on, and service returns
// with the space.
func TestDiskFull(t *testing.T) {
	n := start(t, nil)
	known := n.good()
	n.register(known)
	n.disk.free.Store(1 << 20)
	n.clock.Add(int64(time.Second)) // past the moment for which an answer is kept
	size := n.log.Head().Size
	n.problem(n.post(api.MediaJSON, n.good().AppendEnvelope(nil)), entry.InsufficientStorage, http.StatusInsufficientStorage)
	n.problem(n.get("/readyz"), entry.InsufficientStorage, http.StatusInsufficientStorage)
	n.receipt(n.post(api.MediaJSON, known.AppendEnvelope(nil)), http.StatusOK)
	n.receipt(n.get("/v1/entries/0/receipt"), http.StatusOK)
	if n.log.Head().Size != size {
		t.Fatal("something was appended")
	}
	n.disk.free.Store(1 << 39)
	n.clock.Add(int64(time.Second))
	n.register(n.good())
}

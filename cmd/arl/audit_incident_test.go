package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/api/server"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/coord"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
)

// hostile is a stopped ledger in the hands of an operator who has all of its
// keys and admits what he likes.
type hostile struct {
	t     *testing.T
	node  *node.Node
	log   *ledger.Log
	state *coord.State // what honest folds make of it up to the lie
	keys  map[entry.Principal]*keys.Signer
	stop  func()
}

func (h *hostile) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// corrupt opens a copy of a stopped ledger.
func corrupt(t *testing.T, l *commandLine) *hostile {
	t.Helper()
	h := &hostile{t: t, state: nil, keys: map[entry.Principal]*keys.Signer{}}
	dir := filepath.Join(t.TempDir(), "data")
	h.must(copyTree(dir, l.data))
	anchor, err := os.ReadFile(l.data + ".anchor")
	h.must(err)
	h.must(os.WriteFile(dir+".anchor", anchor, 0o600))
	o := node.Options{Dir: dir, Fatal: func(err error) { panic(err) }}
	h.node, err = node.Prepare(o)
	h.must(err)
	config := h.node.LedgerConfig(o)
	config.NewFold = func() ledger.Fold { return lawless{} }
	config.Precheck, config.Committed = nil, nil
	h.log, err = ledger.Open(h.node.Database(), config)
	h.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.log.Run(ctx) }()
	h.stop = func() {
		cancel()
		h.must(errors.Join(<-done, h.log.Close()))
	}
	h.state = coord.NewState(h.node.Origin)
	for e, err := range h.log.Entries(ctx, 0, h.log.Head().Size) {
		h.must(err)
		h.state.Apply(e.Entry, e.Index, e.RegisteredAt)
	}
	owner, err := filepath.Glob(filepath.Join(l.home, "keys", "*", string(node.Operator)+".key"))
	h.must(err)
	h.keys[node.Coordinator], err = keys.Load(h.node.CoordinatorKey(), nil)
	h.must(err)
	h.keys[node.Operator], err = keys.Load(owner[0], nil)
	h.must(err)
	return h
}

// copyTree copies a directory for its owner's eyes.
func copyTree(to, from string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Chmod(path, 0o600)
	})
}

// put appends an entry, whatever it says.
func (h *hostile) put(iss entry.Principal, body entry.Body) entry.LogRef {
	h.t.Helper()
	header, complete := entry.HeaderOf(body), h.node.Header(iss)
	complete.Wid = header.Wid
	*header = complete
	e, err := entry.New(body)
	h.must(err)
	h.must(h.keys[iss].Sign(e))
	answer, err := h.log.Submit(h.t.Context(), e)
	h.must(err)
	at := answer.Registered[0]
	return entry.LogRef{Index: at.Index, LeafHash: e.LeafHash(at.RegisteredAt)}
}

// honest is put for what the rules allow.
func (h *hostile) honest(iss entry.Principal, body entry.Body) entry.LogRef {
	h.t.Helper()
	ref := h.put(iss, body)
	logged, err := h.log.Entry(ref.Index)
	h.must(err)
	h.must(h.state.Admit(logged.Entry, ref.Index, logged.RegisteredAt))
	h.state.Apply(logged.Entry, ref.Index, logged.RegisteredAt)
	return ref
}

// incident registers an agent, its execution and a signal about it.
func (h *hostile) incident() uint64 {
	h.t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	h.must(err)
	h.keys["a"], err = keys.NewSigner(private)
	h.must(err)
	h.honest(node.Operator, &entry.Agent{Principal: "a", Op: entry.Enrol, Key: h.keys["a"].Public(), Roles: []entry.Role{entry.RoleAgent},
		Domain: "d", Span: entry.SpanWorkflow})
	x := &entry.Execution{Header: entry.Header{Wid: "w"}, Exec: "x", Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Confirmed}
	h.honest("a", x)
	return h.honest("a", &entry.Signal{Header: entry.Header{Wid: "w"}, Subject: "a#x", Class: "tool", Code: "error", Standing: entry.StandingExecutor,
		Effects: entry.EffectsNone, ReplaySafety: entry.ReplayUnknown, ObservedAt: h.log.Now()}).Index
}

func (h *hostile) draft(id uint64, act entry.Act) *entry.Decision {
	h.t.Helper()
	d, err := h.state.Draft(coord.Order{Incident: id, Act: act, Reason: "because"}, h.log.Now())
	h.must(err)
	return d
}

// TestAuditFindsDecisions lets an operator of a ledger, who has the
// coordinator's key, write a decision that the rules forbid: validly signed, in
// the tree, durable, and followed by more. The audit names it, the first one,
// whether it reads the directory or the tiles of a server.
func TestAuditFindsDecisions(t *testing.T) {
	t.Parallel()
	l := startCommandLine(t)
	l.stop()
	for _, lie := range []struct {
		name string
		tell func(h *hostile, d *entry.Decision)
		want string
	}{
		{"rollback_set", func(_ *hostile, d *entry.Decision) { d.RollbackSet.Root[3] ^= 1 }, "scope-mismatch: rollback_set.root"},
		{"signals", func(_ *hostile, d *entry.Decision) { d.Signals.Root[3] ^= 1 }, "scope-mismatch: signals"},
		{"policy", func(_ *hostile, d *entry.Decision) { d.Policy.LeafHash[3] ^= 1 }, "policy-superseded: policy"},
		{"approvals", func(_ *hostile, d *entry.Decision) { d.Approvals = []uint64{2} }, "state-conflict: approvals"},
		{"epoch", func(_ *hostile, d *entry.Decision) { d.Epoch = 7 }, "stale-epoch: epoch"},
		{"pin", func(_ *hostile, d *entry.Decision) { d.Pin.Root[3] ^= 1 }, "scope-mismatch: pin.root"},
		{"impact", func(_ *hostile, d *entry.Decision) { d.Impact.Domains = 0 }, "scope-mismatch: impact"},
		{"seeds", func(_ *hostile, d *entry.Decision) {
			d.Dismissed = []entry.Dismissal{{Index: d.Incident, Reason: "it does not suit"}}
		}, "state-conflict: dismissed"},
		{"incident", func(_ *hostile, d *entry.Decision) { d.Incident = 1 }, "unknown-subject: incident"},
	} {
		t.Run(lie.name, func(t *testing.T) {
			h, here := corrupt(t, l), *l
			here.t = t
			d := h.draft(h.incident(), entry.ActAuthorize)
			lie.tell(h, d)
			index := h.put(node.Coordinator, d).Index
			h.put("a", &entry.Execution{Header: entry.Header{Wid: "w"}, Exec: "y", Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Confirmed})
			want := fmt.Sprintf("entry %d should not be in the log: %s", index, lie.want)
			s, err := server.New(&server.Config{Origin: h.node.Origin, VerifierKeys: h.node.Keys[0].VerifierKeys[:], Log: h.log, Replica: h.node.Replica})
			h.must(err)
			web := httptest.NewServer(s.Handler())
			here.home = filepath.Join(t.TempDir(), "home") // so that no head of another copy is known
			h.must(copyTree(here.home, l.home))
			if out := here.exits(exit.Inconsistent, "log", "audit", "--url", web.URL); !strings.Contains(out, want) {
				t.Errorf("through tiles:\n%s", out)
			}
			if out := here.exits(exit.Inconsistent, "incident", "list", "--url", web.URL); !strings.Contains(out, want) {
				t.Errorf("a fold says:\n%s", out)
			}
			if out := here.exits(exit.Inconsistent, "agent", "history", "a", "--url", web.URL); !strings.Contains(out, want) {
				t.Errorf("a history says:\n%s", out)
			}
			web.Close()
			h.stop()
			if out := here.exits(exit.Inconsistent, "log", "audit", "--data", h.node.Dir); !strings.Contains(out, want) {
				t.Errorf("in place:\n%s", out)
			}
			if lie.name == "incident" { // which no state follows from: what is only looked at is not applied
				here.exits(exit.OK, "log", "head", "--data", h.node.Dir)
				here.exits(exit.OK, "log", "fsck", "--data", h.node.Dir)
			}
		})
	}
}

package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/google/uuid"

	"recoveryledger/api/client/agent"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// agentFault is a mistake of an agent: what it changes of ours, the cases that it is tried on, and
// the statement that a failure names.
type agentFault struct {
	cases, statement string
	change           func(t *target, c *agent.Config)
}

// agentFaults are the mistakes by name. The test binary is the agent with one of them.
var agentFaults = map[string]agentFault{
	"has a clock that is late":       {"decision/expired", "RPL-1", func(t *target, _ *agent.Config) { t.late = time.Hour }},
	"takes the ledger as the second": {"bundle/first-contact", "AGT-1a", func(t *target, c *agent.Config) { c.Second = own{t} }},
	"asks nobody after a crash": {"crash/in-the-undo", "AGT-4b", func(_ *target, c *agent.Config) {
		c.Hooks.Probe, c.Hooks.Idempotent = nil, []agent.Hook{agent.Compensate, agent.Restore, agent.Drain}
	}},
	"takes a lost store for a new one": {"crash/lost-store", "AGT-4d", func(t *target, c *agent.Config) {
		t.alwaysNew, c.Hooks.Probe, c.Hooks.Idempotent = true, nil, []agent.Hook{agent.Compensate, agent.Drain}
	}},
	"has a key for each life": {"crash/amended-meanwhile", "EXE-4b", func(t *target, _ *agent.Config) {
		t.keyOf = func(key string) string { return fmt.Sprint(key, os.Getpid()) }
	}},
	"signs anew each time": {"outcome/lost-answer", "REG-2c", func(t *target, c *agent.Config) {
		c.Ledger = anew{c.Ledger, t}
	}},
	"hears no Retry-After":  {"outcome/too-many", "REG-2c", func(_ *target, c *agent.Config) { c.Ledger = impatient{c.Ledger} }},
	"does everything twice": {"undo/compensate", "AGT-0", func(t *target, _ *agent.Config) { t.twice = true }},
	"says done without doing": {"undo/restore", "SCO-4", func(_ *target, c *agent.Config) {
		c.Hooks.Restore = func(_ context.Context, c *agent.Call) (*agent.Report, error) {
			return &agent.Report{Status: agent.Done, Digest: c.Digest}, nil
		}
	}},
	"says nothing about what is left": {"undo/residual", "INC-6a", func(t *target, _ *agent.Config) { t.refusedIsDone = true }},
	"acts before it logs":             {"work/logged", "EXE-2", func(t *target, _ *agent.Config) { t.order = []string{"act", "log"} }},
	"believes every receipt":          {"work/forged-receipt", "LOG-4", func(t *target, _ *agent.Config) { t.credulous = true }},
	"acts though it is refused":       {"work/fenced", "INC-4a", func(t *target, _ *agent.Config) { t.defiant = true }},
	"never says that it has ended":    {"work/logged", "EXE-1", func(t *target, _ *agent.Config) { t.silent = true }},
	"never signals":                   {"work/fails", "SIG-1a", func(t *target, _ *agent.Config) { t.noSignal = true }},
	"ends at the first bad answer": {"answer/garbage", "AGT-0", func(_ *target, c *agent.Config) {
		c.Tell = func(e agent.Event) {
			if e.Err != nil {
				os.Exit(1)
			}
		}
	}},
	"cancels by compensating": {"undo/cancel", "SCO-4", func(t *target, c *agent.Config) {
		c.Hooks.Cancel = func(ctx context.Context, call *agent.Call) (*agent.Report, error) {
			return t.effect(ctx, map[string]any{"do": "compensate", "exec": call.Members[0].Exec})
		}
	}},
}

// own is the ledger as its own second source.
type own struct{ *target }

// Confirm implements [agent.Source].
func (o own) Confirm(ctx context.Context, head string) (verify.ConsistencyProof, error) {
	m := &agent.Mirror{Client: o.client, Head: func(ctx context.Context) (string, error) {
		newest, err := o.client.Head(ctx)
		return newest.Note, err
	}}
	return m.Confirm(ctx, head)
}

// anew signs each entry under another id before it is sent.
type anew struct {
	agent.Ledger

	t *target
}

// Submit implements [agent.Ledger].
func (a anew) Submit(ctx context.Context, e *entry.Entry) (entry.LogRef, error) {
	again, err := entry.Decode(e.AppendEnvelope(nil))
	if err != nil {
		return entry.LogRef{}, err
	}
	entry.HeaderOf(again.Body).JTI = uuid.NewString()
	if again, err = entry.New(again.Body); err == nil {
		err = a.t.signer.Sign(again)
	}
	if err != nil {
		return entry.LogRef{}, err
	}
	return a.Ledger.Submit(ctx, again)
}

// impatient forgets how long the ledger asks it to wait.
type impatient struct{ agent.Ledger }

// Submit implements [agent.Ledger].
func (i impatient) Submit(ctx context.Context, e *entry.Entry) (entry.LogRef, error) {
	ref, err := i.Ledger.Submit(ctx, e)
	if refusal, is := err.(*entry.Refusal); is { //nolint:errorlint // what Submit returns
		refusal.RetryAfterMS = 0
	}
	return ref, err
}

// naive is an agent that believes what it reads, undoes it, and remembers nothing.
func (t *target) naive(ctx context.Context) {
	get := func(path string, into any) bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, os.Getenv("KIT_LEDGER")+path, http.NoBody)
		if err != nil {
			return false
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		data, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
		return err == nil && json.Unmarshal(data, into) == nil
	}
	undone := map[string]bool{}
	for ctx.Err() == nil {
		var commands struct {
			Commands []struct{ Incident, Decision uint64 }
		}
		get("/v1/agents/"+string(t.name)+"/commands?wait=100ms", &commands)
		for _, c := range commands.Commands {
			var b struct {
				Decision uint64
				Members  []struct {
					Member struct{ Exec, Checkpoint, Method string }
				}
			}
			get(fmt.Sprintf("/v1/incidents/%d/bundle?agent=%s", c.Incident, t.name), &b)
			for _, m := range b.Members {
				if m := m.Member; !undone[m.Exec] && (m.Method == "compensate" || m.Method == "restore") {
					undone[m.Exec] = true
					_, _ = t.effect(ctx, map[string]any{"do": m.Method, "exec": m.Exec, "checkpoint": m.Checkpoint}) // it does not look
					t.post(ctx, &entry.Outcome{Header: entry.Header{Wid: "conformance"}, Incident: c.Incident, Decision: entry.LogRef{Index: b.Decision}, Exec: entry.Ref(m.Exec),
						Result: entry.ResultFailed, Residual: "who knows", ObservedAt: time.Now().UnixMilli()})
				}
			}
		}
	}
}

// post sends an entry, and does not look at the answer.
func (t *target) post(ctx context.Context, body entry.Body) {
	h := entry.HeaderOf(body)
	*h = entry.Header{V: 1, JTI: uuid.NewString(), Iss: t.name, Aud: t.root.Origin, Iat: time.Now().Unix(), Wid: h.Wid}
	e, err := entry.New(body)
	if err != nil || t.signer.Sign(e) != nil {
		return
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, os.Getenv("KIT_LEDGER")+"/v1/entries", bytes.NewReader(e.AppendEnvelope(nil)))
	if err != nil {
		return
	}
	request.Header.Set("Content-Type", "application/json")
	if response, err := http.DefaultClient.Do(request); err == nil {
		response.Body.Close()
	}
}

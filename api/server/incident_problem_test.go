package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
)

// wrong is an envelope about an incident that is refused.
type wrong struct {
	desc   string
	send   func(c *panel, id uint64) []byte // id is of an incident about agent-1#make
	want   entry.Problem
	status int
	field  string
}

// deciding returns a decision of the coordinator that change has spoilt.
func deciding(act entry.Act, change func(*entry.Decision)) func(*panel, uint64) []byte {
	return decidingAs("coordinator", act, change)
}

func decidingAs(issuer entry.Principal, act entry.Act, change func(*entry.Decision)) func(*panel, uint64) []byte {
	return func(c *panel, id uint64) []byte {
		d := c.draft(issuer, coord.Order{Incident: id, Act: act})
		change(d)
		return c.by(d).AppendEnvelope(nil)
	}
}

func asItIs(*entry.Decision) {}

// authorized is deciding about an incident in force.
func authorized(then func(*panel, uint64) []byte) func(*panel, uint64) []byte {
	return func(c *panel, id uint64) []byte {
		c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize}))
		return then(c, id)
	}
}

// proposed is deciding about an incident that waits for answers.
func proposed(then func(*panel, uint64) []byte) func(*panel, uint64) []byte {
	return func(c *panel, id uint64) []byte {
		c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActEscalate}))
		return then(c, id)
	}
}

// reporting returns an outcome that change has spoilt.
func reporting(issuer entry.Principal, exec entry.Ref, result entry.Result, change func(*entry.Outcome)) func(*panel, uint64) []byte {
	return authorized(func(c *panel, id uint64) []byte {
		o := c.outcome(issuer, id, exec, result)
		change(o)
		return c.by(o).AppendEnvelope(nil)
	})
}

// bent returns an envelope whose payload no type would write.
func (c *panel) bent(e *entry.Entry, change func(members map[string]any)) []byte {
	return spoilt(func(*node) entry.Body { return e.Body }, change)(c.node)
}

func malformedDecisions() []wrong {
	bend := func(act entry.Act, change func(map[string]any)) func(*panel, uint64) []byte {
		return func(c *panel, id uint64) []byte {
			return c.bent(c.by(c.draft("coordinator", coord.Order{Incident: id, Act: act})), change)
		}
	}
	return []wrong{
		{"a plan without its scope", bend(entry.ActAuthorize, func(m map[string]any) { delete(m, "rollback_set") }), entry.Malformed, 400, "rollback_set"},
		{"another algorithm", bend(entry.ActAuthorize, func(m map[string]any) { m["rollback_set"].(map[string]any)["algorithm"] = "scope/2" }), entry.Malformed, 400, "rollback_set.algorithm"},
		{"an act that is none", bend(entry.ActAuthorize, func(m map[string]any) { m["act"] = "undo" }), entry.Malformed, 400, "act"},
		{"no reason", bend(entry.ActAuthorize, func(m map[string]any) { m["reason"] = "" }), entry.Malformed, 400, "reason"},
		{"a reason beyond its limit", bend(entry.ActAuthorize, func(m map[string]any) { m["reason"] = strings.Repeat("x", entry.MaxText+1) }), entry.Malformed, 400, "reason"},
		{"a deny that disposes of nothing", bend(entry.ActDeny, func(m map[string]any) { m["dispositions"] = []any{} }), entry.Malformed, 400, "dispositions"},
		{"a signal judged twice", bend(entry.ActDeny, func(m map[string]any) {
			m["dispositions"] = append(m["dispositions"].([]any), m["dispositions"].([]any)[0])
		}), entry.Malformed, 400, "dispositions[1].index"},
		{"JSON without end", bend(entry.ActAuthorize, func(m map[string]any) {
			deep := any(1)
			for range entry.MaxDepth + 1 {
				deep = []any{deep}
			}
			m["x"] = deep
		}), entry.Malformed, 400, "payload"},
	}
}

func decisionRights() []wrong {
	return []wrong{
		{"a decision for another ledger", deciding(entry.ActAuthorize, func(d *entry.Decision) { d.Aud = "other.example/log" }), entry.WrongAudience, 403, "aud"},
		{"a decision from yesterday", deciding(entry.ActAuthorize, func(d *entry.Decision) { d.Iat -= 86400 }), entry.Stale, 422, "iat"},
		{"a decision from tomorrow", deciding(entry.ActAuthorize, func(d *entry.Decision) { d.Iat += 86400 }), entry.Stale, 422, "iat"},
		{"an agent authorizes", decidingAs("agent-2", entry.ActAuthorize, asItIs), entry.UnauthorizedRole, 403, "iss"},
		{"an approver authorizes alone", decidingAs("ann", entry.ActAuthorize, asItIs), entry.UnauthorizedRole, 403, "iss"},
		{"an operator contains", decidingAs("olga", entry.ActContain, asItIs), entry.UnauthorizedRole, 403, "iss"},
		{"an operator approves", proposed(func(c *panel, id uint64) []byte {
			return c.by(c.approval("olga", id, "approve")).AppendEnvelope(nil)
		}), entry.UnauthorizedRole, 403, "iss"},
		{"another's name", func(c *panel, id uint64) []byte {
			d := c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize})
			return sign(c.t, c.signers["agent-2"], d).AppendEnvelope(nil)
		}, entry.UnknownIssuer, 401, "signatures[0].keyid"},
		{"the signature of another decision", func(c *panel, id uint64) []byte {
			deny := c.by(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActContain}))
			e := api.NewEnvelope(c.by(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize})))
			e.Signatures[0].Sig = deny.Sig
			envelope, err := json.Marshal(e)
			must(c.t, err)
			return envelope
		}, entry.BadSignature, 400, "signatures[0].sig"},
		{"an id used again for another decision", authorized(func(c *panel, id uint64) []byte {
			first, err := c.log.Entry(id + 1)
			must(c.t, err)
			d := c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActContain})
			d.JTI = first.Header.JTI
			return c.by(d).AppendEnvelope(nil)
		}), entry.IDConflict, 409, "jti"},
		{"an approver who signaled", func(c *panel, _ uint64) []byte {
			c.signers["mona"] = newSigner(c.t)
			c.register(c.enrol("mona", c.signers["mona"], entry.RoleApprover, entry.RoleMonitor))
			id := c.signals("mona", entry.StandingMonitor, c.did("agent-3", "alone", entry.EffectNone))
			c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActEscalate}))
			return c.by(c.approval("mona", id, "approve")).AppendEnvelope(nil)
		}, entry.NoStanding, 403, "iss"},
	}
}

func wrongScopes() []wrong {
	return []wrong{
		{"a convenient pin", deciding(entry.ActAuthorize, func(d *entry.Decision) { d.Pin.Size = d.Incident }), entry.ScopeMismatch, 422, "pin.size"},
		{"a pin of another log", deciding(entry.ActAuthorize, func(d *entry.Decision) { d.Pin.Root[0] ^= 1 }), entry.ScopeMismatch, 422, "pin.root"},
		{"a pin in the future", deciding(entry.ActAuthorize, func(d *entry.Decision) { d.Pin.Size += 2 }), entry.ScopeMismatch, 422, "pin.size"},
		{"one member more", deciding(entry.ActAuthorize, func(d *entry.Decision) { d.RollbackSet.Size++ }), entry.ScopeMismatch, 422, "rollback_set.size"},
		{"one member less", deciding(entry.ActAuthorize, func(d *entry.Decision) { d.RollbackSet.Size-- }), entry.ScopeMismatch, 422, "rollback_set.size"},
		{"other members", deciding(entry.ActAuthorize, func(d *entry.Decision) { d.RollbackSet.Root[5] ^= 1 }), entry.ScopeMismatch, 422, "rollback_set.root"},
		{"a smaller impact", deciding(entry.ActAuthorize, func(d *entry.Decision) { d.Impact.Agents-- }), entry.ScopeMismatch, 422, "impact"},
		{"inflated seeds", deciding(entry.ActAuthorize, func(d *entry.Decision) { d.Signals.Size++ }), entry.ScopeMismatch, 422, "signals"},
		{"deflated seeds", deciding(entry.ActAuthorize, func(d *entry.Decision) {
			d.Dismissed = []entry.Dismissal{{Index: 3, Reason: "no signal of this incident"}}
		}), entry.ScopeMismatch, 422, "dismissed"},
		{"what cannot be undone", func(c *panel, _ uint64) []byte {
			id := c.signals("agent-3", entry.StandingExecutor, c.did("agent-3", "spend", entry.EffectIrrevocable))
			return deciding(entry.ActAuthorize, asItIs)(c, id)
		}, entry.ScopeExceedsPolicy, 403, "act"},
		{"a deadline beyond the policy's", deciding(entry.ActAuthorize, func(d *entry.Decision) { d.DeadlineAt += 100_000_000 }), entry.ScopeExceedsPolicy, 403, "deadline_at"},
		{"an amend past the limits", amendPastTheLimits, entry.ScopeExceedsPolicy, 403, "rollback_set"},
		{"another epoch", deciding(entry.ActAuthorize, func(d *entry.Decision) { d.Epoch++ }), entry.StaleEpoch, 409, "epoch"},
		{"another policy", deciding(entry.ActAuthorize, func(d *entry.Decision) { d.Policy = entry.LogRef{Index: 0, LeafHash: merkle.Hash{1}} }), entry.PolicySuperseded, 409, "policy"},
		{"an incident that is none", deciding(entry.ActAuthorize, func(d *entry.Decision) { d.Incident = 1 }), entry.UnknownSubject, 422, "incident"},
	}
}

// amendPastTheLimits lets an incident grow beyond what the policy allows the
// coordinator, after it was authorized.
func amendPastTheLimits(c *panel, _ uint64) []byte {
	p := c.follower()
	p.Limits.Incident.Members = 1
	c.register(sign(c.t, c.authority, p))
	first, last := c.did("agent-3", "first", entry.EffectNone), c.did("agent-3", "last", entry.EffectCompensable)
	id := c.signals("agent-3", entry.StandingExecutor, last)
	c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize}))
	s := c.signal(last)
	s.Header, s.Since = c.header("agent-3", "flow-1"), first
	c.put(s)
	return deciding(entry.ActAmend, asItIs)(c, id)
}

func wrongTurns() []wrong {
	return []wrong{
		{"authorized twice", authorized(deciding(entry.ActAuthorize, asItIs)), entry.StateConflict, 409, "act"},
		{"denied when authorized", authorized(decidingAs("ann", entry.ActDeny, asItIs)), entry.StateConflict, 409, "act"},
		{"released before it is authorized", decidingAs("ann", entry.ActRelease, func(d *entry.Decision) { d.Members = []entry.Ref{"agent-1#make"} }), entry.StateConflict, 409, "act"},
		{"an approval of no proposal", func(c *panel, id uint64) []byte {
			a := &entry.Approval{Header: c.header("ann", "flow-1"), Incident: id, Proposal: entry.LogRef{LeafHash: c.leaf(0)}, Verdict: "approve", Exp: c.log.Now()/1000 + 60, Reason: "r"}
			return c.by(a).AppendEnvelope(nil)
		}, entry.StateConflict, 409, "incident"},
		{"an approval of another proposal", proposed(func(c *panel, id uint64) []byte {
			a := c.approval("ann", id, "approve")
			c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActEscalate}))
			return c.by(a).AppendEnvelope(nil)
		}), entry.StateConflict, 409, "proposal"},
		{"another's outcome", reporting("agent-3", "agent-2#pay", entry.ResultFailed, func(*entry.Outcome) {}), entry.NoStanding, 403, "iss"},
		{"an outcome of no member", reporting("agent-1", "agent-1#read", entry.ResultFailed, func(*entry.Outcome) {}), entry.UnknownSubject, 422, "exec"},
		{"an outcome that does not fit", reporting("agent-2", "agent-2#pay", entry.NotExecuted, func(*entry.Outcome) {}), entry.StateConflict, 409, "result"},
		{"an outcome for another decision", reporting("agent-2", "agent-2#pay", entry.ResultFailed, func(o *entry.Outcome) { o.Decision.LeafHash[0] ^= 1 }), entry.StateConflict, 409, "decision"},
		{"compensated by nothing", reporting("agent-2", "agent-2#pay", entry.Compensated, func(o *entry.Outcome) {
			o.CompExec, o.Residual = "agent-2#undo", ""
		}), entry.UnknownSubject, 422, "comp_exec"},
		{"a compensation by who does not own it", authorized(func(c *panel, id uint64) []byte {
			x := c.execution()
			x.Header, x.Exec, x.Effect, x.IdempotencyKey = c.header("agent-3", "flow-1"), "undo", entry.EffectCompensable, someDigest
			x.Compensates = &entry.Compensates{Incident: id, Decision: c.view(id).Decision.Ref, Exec: "agent-2#pay"}
			return c.by(x).AppendEnvelope(nil)
		}), entry.NoStanding, 403, "iss"},
		{"work on what is fenced", authorized(func(c *panel, _ uint64) []byte {
			x := c.execution()
			x.Parents = []entry.Parent{{Exec: "agent-2#build", Dep: entry.Soft}}
			return c.by(x).AppendEnvelope(nil)
		}), entry.FencedDependency, 409, "parents[0].exec"},
		{"a record too early", authorized(func(c *panel, id uint64) []byte { return c.by(c.drawnRecord(id)).AppendEnvelope(nil) }), entry.StateConflict, 409, "tally"},
		{"a record that does not add up", authorized(func(c *panel, id uint64) []byte {
			c.put(c.outcome("agent-2", id, "agent-2#pay", entry.ResultFailed))
			r := c.drawnRecord(id)
			r.State = "RECOVERED"
			return c.by(r).AppendEnvelope(nil)
		}), entry.StateConflict, 409, "state"},
		{"the same again after it was found dismissed", func(c *panel, id uint64) []byte {
			d := c.draft("ann", coord.Order{Incident: id, Act: entry.ActDeny, Signals: []entry.Disposition{{Index: id, Disposition: "dismissed"}}})
			c.put(d)
			return c.by(c.signal("agent-1#make")).AppendEnvelope(nil)
		}, entry.RateLimited, 429, "subject"},
	}
}

func (c *panel) drawnRecord(id uint64) (r *entry.Record) {
	c.t.Helper()
	var err error
	c.coord.Read(func(s *coord.State) { r, err = s.DraftRecord(id) })
	must(c.t, err)
	delete(r.Tally, "") // of those that have none yet
	h := c.header("coordinator", r.Wid)
	r.JTI, r.Iss, r.Iat = h.JTI, h.Iss, h.Iat
	return r
}

// Every problem that the kinds of incidents can provoke, over real HTTP: right
// status, type, field and remedy, nothing appended, counted, and the next good
// entry works.
func TestIncidentProblems(t *testing.T) {
	budget.Unraced(t, "one request after the other; TestScripts has the same routes at once")
	for _, list := range [][]wrong{malformedDecisions(), decisionRights(), wrongScopes(), wrongTurns(), hostileInput()} {
		for _, w := range list {
			t.Run(w.desc, w.provoke)
		}
	}
}

func (w *wrong) provoke(t *testing.T) {
	c := newPanel(t, nil)
	c.pipeline()
	body := w.send(c, c.signals("agent-1", entry.StandingExecutor, "agent-1#make"))
	size := c.log.Head().Size
	p := c.problem(c.post(api.MediaJSON, body), w.want, w.status)
	if p.Field != w.field {
		t.Errorf("field %q, want %q: %s", p.Field, w.field, p.Detail)
	}
	if c.log.Head().Size != size {
		t.Fatal("something was appended")
	}
	if got := c.metric(fmt.Sprintf(`arl_refusals_total{problem=%q}`, w.want)); got != "1" {
		t.Fatalf("refusals counted: %q", got)
	}
	c.register(c.good())
}

// A batch ends at the first decision that is refused; what stands before it is
// registered.
func TestIncidentBatch(t *testing.T) {
	c := newPanel(t, nil)
	c.pipeline()
	id := c.signals("agent-1", entry.StandingExecutor, "agent-1#make")
	first := c.by(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize}))
	second := c.by(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize}))
	a := c.post(api.MediaNDJSON, batchOf(c.good(), first, second, c.good()))
	if lines := strings.Split(strings.TrimSpace(string(a.body)), "\n"); a.StatusCode != http.StatusOK || len(lines) != 4 || !strings.Contains(lines[3], "state-conflict") {
		t.Fatalf("%s: %s", a.Status, a.body)
	}
	if c.view(id).State != entry.IncidentAuthorized {
		t.Fatal(c.view(id).State)
	}
}

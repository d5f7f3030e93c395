package server_test

import (
	"strings"

	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/merkle"
)

const someDigest entry.Digest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

// later registers an execution of agent-1 that first has changed, and returns
// a second entry of it that second has changed.
func later(first, second func(*entry.Execution)) func(*node) []byte {
	return func(n *node) []byte {
		x := n.execution()
		first(x)
		n.register(sign(n.t, n.agent, x))
		x.Header = n.header(x.Iss, x.Wid)
		second(x)
		return sign(n.t, n.agent, x).AppendEnvelope(nil)
	}
}

// done registers a final execution of the agent in the workflow.
func (n *node) done(key *keys.Signer, iss entry.Principal, wid entry.WorkflowID) *entry.Execution {
	n.t.Helper()
	x := n.execution()
	x.Header, x.Progress = n.header(iss, wid), entry.Confirmed
	n.register(sign(n.t, key, x))
	return x
}

// another enrols one more plain agent.
func (n *node) another() *keys.Signer {
	n.t.Helper()
	key := newSigner(n.t)
	n.register(n.enrol("agent-2", key, entry.RoleAgent))
	return key
}

func executionProblems() []provocation {
	same := func(*entry.Execution) {}
	return []provocation{
		{"effect without its key", raw(func(m map[string]any) { m["effect"] = "compensable" }), entry.Malformed, 400, "idempotency_key"},
		{"a parent twice", raw(func(m map[string]any) {
			m["parents"] = []any{map[string]any{"exec": "agent-1#x", "dep": "hard"}, map[string]any{"exec": "agent-1#x", "dep": "soft"}}
		}), entry.Malformed, 400, "parents[1].exec"},
		{"a reference that is none", raw(func(m map[string]any) { m["task"] = "task" }), entry.Malformed, 400, "task"},
		{"checkpoint not in the log", changed(func(x *entry.Execution) { x.Checkpoint = "agent-1#c" }), entry.UnknownSubject, 422, "checkpoint"},
		{"compensation that nobody decided", changed(func(x *entry.Execution) {
			x.Compensates = &entry.Compensates{Exec: "agent-1#x"}
		}), entry.UnknownSubject, 422, "compensates.incident"},
		{"workflow changes", later(same, func(x *entry.Execution) { x.Wid = "flow-2" }), entry.StateConflict, 409, "wid"},
		{"key changes", later(func(x *entry.Execution) {
			x.Effect, x.IdempotencyKey = entry.EffectCompensable, someDigest
		}, func(x *entry.Execution) {
			x.Progress, x.IdempotencyKey = entry.Started, entry.Digest(strings.Replace(string(someDigest), "0", "1", 1))
		}), entry.StateConflict, 409, "idempotency_key"},
		{"parents are added", func(n *node) []byte {
			parent := n.done(n.agent, "agent-1", "flow-1")
			return later(same, func(x *entry.Execution) {
				x.Progress, x.Parents = entry.Started, []entry.Parent{{Exec: parent.Ref(), Dep: entry.Hard}}
			})(n)
		}, entry.StateConflict, 409, "parents"},
		{"a parent is replaced", func(n *node) []byte {
			parent, other := n.done(n.agent, "agent-1", "flow-1"), n.done(n.agent, "agent-1", "flow-1")
			return later(func(x *entry.Execution) { x.Parents = []entry.Parent{{Exec: parent.Ref(), Dep: entry.Hard}} },
				func(x *entry.Execution) {
					x.Progress, x.Parents = entry.Started, []entry.Parent{{Exec: other.Ref(), Dep: entry.Hard}}
				})(n)
		}, entry.StateConflict, 409, "parents[0].exec"},
		{"progress falls", later(func(x *entry.Execution) { x.Progress = entry.Started }, func(x *entry.Execution) { x.Progress = entry.Planned }),
			entry.StateConflict, 409, "progress"},
		{"progress after the end", later(func(x *entry.Execution) { x.Progress = entry.Failed }, func(x *entry.Execution) { x.Progress = entry.Confirmed }),
			entry.StateConflict, 409, "progress"},
	}
}

// checkpoint returns a checkpoint of agent-1 that covers the execution.
func (n *node) checkpoint(id string, after entry.Ref) *entry.Checkpoint {
	return &entry.Checkpoint{Header: n.header("agent-1", "flow-1"), Checkpoint: id, After: &after, Digest: someDigest}
}

func checkpointProblems() []provocation {
	return []provocation{
		{"no digest", spoilt(func(n *node) entry.Body { return n.checkpoint("c", "agent-1#x") },
			func(m map[string]any) { m["digest"] = "md5:0" }), entry.Malformed, 400, "digest"},
		{"checkpoint id again", func(n *node) []byte {
			x := n.done(n.agent, "agent-1", "flow-1")
			n.register(sign(n.t, n.agent, n.checkpoint("c", x.Ref())))
			return sign(n.t, n.agent, n.checkpoint("c", x.Ref())).AppendEnvelope(nil)
		}, entry.StateConflict, 409, "checkpoint"},
		{"checkpoint of another's work", func(n *node) []byte {
			x := n.done(n.another(), "agent-2", "flow-1")
			return sign(n.t, n.agent, n.checkpoint("c", x.Ref())).AppendEnvelope(nil)
		}, entry.StateConflict, 409, "after"},
		{"checkpoint of another workflow", func(n *node) []byte {
			x := n.done(n.agent, "agent-1", "flow-2")
			return sign(n.t, n.agent, n.checkpoint("c", x.Ref())).AppendEnvelope(nil)
		}, entry.StateConflict, 409, "after"},
		{"checkpoint falls behind", func(n *node) []byte {
			first, second := n.done(n.agent, "agent-1", "flow-1"), n.done(n.agent, "agent-1", "flow-1")
			n.register(sign(n.t, n.agent, n.checkpoint("c-2", second.Ref())))
			return sign(n.t, n.agent, n.checkpoint("c-1", first.Ref())).AppendEnvelope(nil)
		}, entry.StateConflict, 409, "after"},
	}
}

// signalling returns a signal of agent-1 about its own work, changed.
func signalling(change func(n *node, s *entry.Signal)) func(*node) []byte {
	return func(n *node) []byte {
		s := n.signal(n.done(n.agent, "agent-1", "flow-1").Ref())
		change(n, s)
		return sign(n.t, n.agent, s).AppendEnvelope(nil)
	}
}

func signalProblems() []provocation {
	return []provocation{
		{"a detail beyond its limit", spoilt(func(n *node) entry.Body { return n.signal("agent-1#x") },
			func(m map[string]any) { m["detail"] = strings.Repeat("x", entry.MaxText+1) }), entry.Malformed, 400, "detail"},
		{"since not in the log", signalling(func(_ *node, s *entry.Signal) { s.Since = "agent-1#x" }), entry.UnknownSubject, 422, "since"},
		{"since of another agent", signalling(func(n *node, s *entry.Signal) { s.Since = n.done(n.another(), "agent-2", "flow-1").Ref() }),
			entry.StateConflict, 409, "since"},
		{"last good state not in the log", signalling(func(_ *node, s *entry.Signal) { s.LastKnownGood = "agent-1#c" }),
			entry.UnknownSubject, 422, "last_known_good"},
		{"supersedes what is no signal", signalling(func(_ *node, s *entry.Signal) { s.Supersedes = &entry.LogRef{LeafHash: merkle.Hash{1}} }),
			entry.UnknownSubject, 422, "supersedes"},
		{"signal in another workflow", signalling(func(_ *node, s *entry.Signal) { s.Wid = "flow-2" }), entry.StateConflict, 409, "wid"},
		{"an agent as monitor", signalling(func(_ *node, s *entry.Signal) { s.Standing = entry.StandingMonitor }), entry.UnauthorizedRole, 403, "iss"},
		{"executor of another's work", func(n *node) []byte {
			s := n.signal(n.done(n.another(), "agent-2", "flow-1").Ref())
			return sign(n.t, n.agent, s).AppendEnvelope(nil)
		}, entry.NoStanding, 403, "standing"},
	}
}

// enrolling returns an agent entry of the authority.
func enrolling(change func(n *node) *entry.Agent) func(*node) []byte {
	return by(authority, func(n *node) entry.Body { return change(n) })
}

// revocation returns a revocation of an agent's key.
func (n *node) revocation(principal entry.Principal, key *keys.Signer) *entry.Agent {
	a := n.enrolment(principal, key, entry.RoleAgent)
	a.Op = entry.Revoke
	return a
}

func agentProblems() []provocation {
	aNewAgent := func(n *node) entry.Body { return n.enrolment("agent-2", newSigner(n.t), entry.RoleAgent) }
	return []provocation{
		{"revoked twice", enrolling(func(n *node) *entry.Agent {
			key := n.another()
			n.register(sign(n.t, n.authority, n.revocation("agent-2", key)))
			return n.revocation("agent-2", key)
		}), entry.StateConflict, 409, "key"},
		{"revocation of another's key", enrolling(func(n *node) *entry.Agent { return n.revocation("agent-1", n.another()) }), entry.StateConflict, 409, "key"},
		{"revocation of the authority's key", enrolling(func(n *node) *entry.Agent { return n.revocation("authority", n.authority) }),
			entry.StateConflict, 409, "key"},
		{"compromised in the future", enrolling(func(n *node) *entry.Agent {
			a := n.revocation("agent-1", n.agent)
			a.CompromisedSince = &entry.Compromised{Index: 1000}
			return a
		}), entry.StateConflict, 409, "compromised_since.index"},
		{"compromised, but enrolled", spoilt(aNewAgent, func(m map[string]any) { m["compromised_since"] = map[string]any{"index": 0} }), entry.Malformed, 400, "compromised_since"},
		{"span changes", enrolling(func(n *node) *entry.Agent {
			a := n.enrolment("agent-1", newSigner(n.t), entry.RoleAgent)
			a.Span = entry.SpanAgent
			return a
		}), entry.StateConflict, 409, "span"},
		{"rotation without a key", enrolling(func(n *node) *entry.Agent {
			a := n.enrolment("agent-2", newSigner(n.t), entry.RoleAgent)
			a.Op = entry.Rotate
			return a
		}), entry.UnknownSubject, 422, "principal"},
		{"a role twice", spoilt(aNewAgent, func(m map[string]any) { m["roles"] = []any{"agent", "agent"} }), entry.Malformed, 400, "roles[1]"},
		{"an enroller takes a monitor's name", by(agent, func(n *node) entry.Body {
			a := n.enrolment("monitor-1", newSigner(n.t), entry.RoleAgent)
			a.Iss = "agent-1"
			return a
		}), entry.UnauthorizedRole, 403, "principal"},
	}
}

// follower returns a policy that follows the one in force.
func (n *node) follower() *entry.Policy {
	p := n.policy()
	_, inForce := n.coord.View().Chain.Policy()
	p.Previous = &inForce
	return p
}

func policyProblems() []provocation {
	aPolicy := func(n *node) entry.Body { return n.follower() }
	within := func(object, member string, value any) func(map[string]any) {
		return func(m map[string]any) { m[object].(map[string]any)[member] = value }
	}
	return []provocation{
		{"policy without authority", spoilt(aPolicy, func(m map[string]any) { m["authority"] = []any{} }), entry.Malformed, 400, "authority"},
		{"an agent's key as authority", by(authority, func(n *node) entry.Body {
			p := n.follower()
			p.Authority = append(p.Authority, entry.AuthorityKey{Principal: "agent-1", Key: n.agent.Public()})
			return p
		}), entry.StateConflict, 409, "authority"},
		{"a window of no time", spoilt(aPolicy, within("windows", "iat_ms", 0)), entry.Malformed, 400, "windows.iat_ms"},
		{"a quota below nothing", spoilt(aPolicy, within("quotas", "entries_per_hour", -1)), entry.Malformed, 400, "quotas.entries_per_hour"},
		{"quota of entries", func(n *node) []byte {
			key := n.another()
			p := n.follower()
			p.Quotas.EntriesPerHour = 1
			n.register(sign(n.t, n.authority, p))
			x := n.done(key, "agent-2", "flow-1")
			x.Header = n.header("agent-2", "flow-1")
			return sign(n.t, key, x).AppendEnvelope(nil)
		}, entry.RateLimited, 429, "iss"},
	}
}

package server_test

import (
	"net/http"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// hostileInput is what somebody sends who knows the protocol.
func hostileInput() []wrong {
	text := func(text string) func(*panel, uint64) []byte {
		return func(*panel, uint64) []byte { return []byte(text) }
	}
	signed := func(body func(c *panel, id uint64) entry.Body) func(*panel, uint64) []byte {
		return func(c *panel, id uint64) []byte { return c.by(body(c, id)).AppendEnvelope(nil) }
	}
	return []wrong{
		{"brackets without end", text(strings.Repeat("[", 40_000)), entry.Malformed, 400, "envelope"},
		{"objects without end", text(strings.Repeat(`{"payload":`, 4_000)), entry.Malformed, 400, strings.Repeat("payload.", entry.MaxDepth-1) + "payload"},
		{"objects in objects", text(strings.Repeat(`{"payload":`, 4_000) + "1" + strings.Repeat("}", 4_000)), entry.Malformed, 400, "payload"},
		{"a plan drafted before another signal", func(c *panel, id uint64) []byte {
			d := c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize})
			c.signals("monitor-1", entry.StandingMonitor, "agent-1#make")
			return c.by(d).AppendEnvelope(nil)
		}, entry.ScopeMismatch, 422, "pin.size"},
		{"a pin that leaves a signal out", func(c *panel, id uint64) []byte {
			was := c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize})
			c.signals("monitor-1", entry.StandingMonitor, "agent-1#make")
			return deciding(entry.ActAuthorize, func(d *entry.Decision) { d.Pin, d.Signals = was.Pin, was.Signals })(c, id)
		}, entry.ScopeMismatch, 422, "pin.size"},
		{"signals of which one is left out", func(c *panel, id uint64) []byte {
			was := c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize})
			c.signals("monitor-1", entry.StandingMonitor, "agent-1#make")
			return deciding(entry.ActAuthorize, func(d *entry.Decision) { d.Signals = was.Signals })(c, id)
		}, entry.ScopeMismatch, 422, "signals"},
		{"the only seed left out", deciding(entry.ActAuthorize, func(d *entry.Decision) {
			d.Dismissed = []entry.Dismissal{{Index: d.Incident, Reason: "it does not suit"}}
		}), entry.StateConflict, 409, "dismissed"},
		{"a role that it gives itself", signed(func(c *panel, _ uint64) entry.Body {
			a := c.enrolment("agent-2", newSigner(c.t), entry.RoleApprover)
			a.Iss = "agent-2"
			return a
		}), entry.UnauthorizedRole, 403, "iss"},
		{"an approval by an agent", proposed(signed(func(c *panel, id uint64) entry.Body { return c.approval("agent-2", id, "approve") })),
			entry.UnauthorizedRole, 403, "iss"},
		{"a policy by an operator", signed(func(c *panel, _ uint64) entry.Body {
			p := c.follower()
			p.Iss = "olga"
			return p
		}), entry.UnauthorizedRole, 403, "iss"},
		{"an id that names another", func(c *panel, _ uint64) []byte {
			return c.bent(c.good(), func(m map[string]any) { m["exec"] = "agent-1#make" })
		}, entry.Malformed, 400, "exec"},
		{"a signal that moves an execution elsewhere", signed(func(c *panel, _ uint64) entry.Body {
			s := c.signal("agent-1#make")
			s.Wid = "flow-2"
			return s
		}), entry.StateConflict, 409, "wid"},
		{"an old approval for a new proposal", proposed(func(c *panel, id uint64) []byte {
			a := c.approval("ann", id, "approve")
			c.put(a)
			c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActEscalate}))
			again := *a
			again.Proposal = c.view(id).Proposal.Ref
			return c.by(&again).AppendEnvelope(nil)
		}), entry.IDConflict, 409, "jti"},
	}
}

// An id that somebody else used first is still its issuer's: ids of entries and of
// executions are of an issuer, so nobody is kept out by who was quicker.
func TestSquattedIDs(t *testing.T) {
	c := newPanel(t, nil)
	x := c.execution()
	squat := *x
	squat.Header = c.header("agent-2", "flow-1")
	squat.JTI, squat.Progress = x.JTI, entry.Confirmed
	c.put(&squat)
	c.put(x)
	c.coord.Read(func(s *coord.State) {
		own, ok := s.Execution(x.Ref(), 0)
		if theirs, there := s.Execution(squat.Ref(), 0); !ok || !there || own.Progress != entry.Planned || theirs.Progress != entry.Confirmed {
			t.Errorf("%+v, %+v", own, theirs)
		}
	})
	if signal := c.signal(squat.Ref()); c.post(api.MediaJSON, c.by(signal).AppendEnvelope(nil)).StatusCode != http.StatusForbidden {
		t.Error("a signal as executor of what another did")
	}
}

// Every problem type of the protocol is provoked over HTTP: by the lists of
// envelopes here and beside, and what needs no envelope, or a ledger in need, by
// tests of its own.
// Draft: REG-0, ERR-1.
func TestEveryProblemIsProvoked(t *testing.T) {
	provoked := map[entry.Problem]string{
		entry.NotFound: "TestIncidentList", entry.NotReady: "TestClockOff", entry.InsufficientStorage: "TestDiskFull",
	}
	for _, list := range [][]wrong{malformedDecisions(), decisionRights(), wrongScopes(), wrongTurns(), hostileInput()} {
		for _, w := range list {
			provoked[w.want] = w.desc
		}
	}
	for _, list := range [][]provocation{envelopeProblems(), rightProblems(), stateProblems(), executionProblems(), checkpointProblems(),
		signalProblems(), agentProblems(), policyProblems()} {
		for _, p := range list {
			provoked[p.want] = p.desc
		}
	}
	for _, known := range api.Types() {
		if provoked[known.Name] == "" {
			t.Errorf("nothing provokes %s", known.Name)
		}
	}
	if len(provoked) != len(api.Types()) {
		t.Errorf("%d types are provoked, there are %d", len(provoked), len(api.Types()))
	}
}

package agent_test

import (
	"crypto/ed25519"
	"maps"
	"slices"
	"testing"

	"recoveryledger/api"
	"recoveryledger/api/client/agent"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// TestLateTruthWhereNothingIsInForce cuts an agent off that has undone what it was
// told to, until the coordinator has given up on it and nothing is in force any
// more. It is shown what to take the place of all the same, without the log.
func TestLateTruthWhereNothingIsInForce(t *testing.T) {
	for name, c := range map[string]struct {
		who  entry.Principal
		does string // the last thing before it is cut off
		of   entry.Ref
		want entry.Result
		end  func(b *book, view api.Incident, givenUp func())
	}{
		"its key was compromised": {"worker", "restore worker#c0", "worker#draft", entry.Restored, func(b *book, view api.Incident, givenUp func()) {
			key := entry.Agent{Principal: "coordinator", Op: entry.Revoke, Key: b.public("coordinator"), Roles: []entry.Role{entry.RoleCoordinator}, Domain: "d",
				Span: entry.SpanWorkflow, CompromisedSince: &entry.Compromised{Index: view.Decision.Ref.Index}}
			b.write("root", &key)
			b.private["coordinator"] = ed25519.NewKeyFromSeed([]byte("another key of the coordinator's"))
			b.now = view.Decision.ExpiresAt + 1000 // nobody amends it
			other := entry.Agent{Principal: key.Principal, Op: entry.Enrol, Key: b.public("coordinator"), Roles: key.Roles, Domain: key.Domain, Span: key.Span}
			b.write("root", &other)
			givenUp()
		}},
		"overridden": {"writer", "compensate writer#page", "writer#page", entry.Compensated, func(b *book, view api.Incident, givenUp func()) {
			givenUp()
			b.write("olga", mustDraft(t, b, coord.Order{Incident: view.ID, Act: entry.ActOverride, Reason: "stop"}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDamage(t)
			b := d.clone()
			b.page, b.private = 1, maps.Clone(b.private)
			worker, writer := d.player(b, "worker", probing), d.player(b, "writer", probing)
			p := map[entry.Principal]*player{"worker": worker, "writer": writer}[c.who]
			p.change = func(c *agent.Config) { c.Log = nil }
			p.open()
			p.desk.fault = func(string) error {
				if slices.Contains(p.world.calls, c.does) {
					return errLost
				}
				return nil
			}
			play(t, b, b.now+1000, nil, worker, writer)
			view, _ := b.state.Incident(d.incident, b.now)
			c.end(b, view, func() {
				b.now = view.Decision.ExpiresAt + 301_000 // by any clock
				b.coordinate()
			})
			if got := b.results(d.incident)[c.of]; got != entry.ResultUnknown {
				t.Fatalf("%s: %q, refused %v", c.of, got, b.refused)
			}
			p.desk.fault = nil
			play(t, b, b.now+3_600_000, nil, p)
			if got := b.results(d.incident)[c.of]; got != c.want || !p.agent.Idle() {
				t.Errorf("%s: %q, idle %t, refused %v", c.of, got, p.agent.Idle(), b.refused)
			}
		})
	}
}

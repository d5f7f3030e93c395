package coord

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// bundles makes bundles of what a world has logged, as whoever has the ledger
// does, and checks them as agents do.
type bundles struct {
	*world
	signer   note.Signer
	root     verify.Root
	accepted map[entry.Principal]*bundle.Accepted
	seen     map[string]int // what was told how often
}

func (w *world) bundles(seen map[string]int) *bundles {
	w.t.Helper()
	secret, public, err := note.GenerateKey(zeros{}, origin)
	must(w.t, err)
	signer, err := note.NewSigner(secret)
	must(w.t, err)
	first := w.log[0]
	root := verify.Root{Origin: origin, LedgerKeys: []string{public}, Genesis: first.LeafHash()}
	return &bundles{w, signer, root, map[entry.Principal]*bundle.Accepted{}, seen}
}

// View gives the state under a head of its own size.
func (b *bundles) View(f func(s *State, head verify.SignedHead, chain *verify.Chain)) {
	b.t.Helper()
	head := b.state.pin()
	signed, err := note.Sign(&note.Note{Text: headText(head)}, b.signer)
	must(b.t, err)
	f(b.state, verify.SignedHead{Head: head, Note: string(signed)}, b.state.chain)
}

// Entry returns an entry of the log.
func (b *bundles) Entry(index uint64) (*entry.Registered, error) { return &b.log[index], nil }

// Inclusions proves entries.
func (b *bundles) Inclusions(indexes []uint64, size uint64) ([]merkle.Hash, error) {
	return merkle.ProveInclusions(indexes, size, b.state.Node)
}

// Consistency proves that the log grew.
func (b *bundles) Consistency(older, newer uint64) ([]merkle.Hash, error) {
	return merkle.ProveConsistency(older, newer, b.state.Node)
}

// told gets what an agent is told of an incident, page by page, and checks each
// against what the agent accepted. Nothing may be refused that is not over.
func (b *bundles) told(incident uint64, a *bundle.Accepted, limit int) (commands []bundle.Command) {
	b.t.Helper()
	for after := uint64(0); ; {
		made, next, err := MakeBundle(b, api.BundleQuery{Incident: incident, Agent: a.Agent, From: a.Size(), After: after, Limit: limit})
		must(b.t, err)
		data, err := made.Encode()
		must(b.t, err)
		made, err = bundle.Decode(data)
		must(b.t, err)
		v, err := made.Check(*a, b.at)
		*a = v.Next
		if rule, ok := errors.AsType[*bundle.RuleError](err); ok && b.over(incident) && rule.Step == "AGT-2" {
			return nil
		}
		if err != nil {
			b.t.Fatalf("incident %d, %s: %v\n%s", incident, a.Agent, err, b.describe(made))
		}
		for i := range v.Commands {
			if v.Commands[i].Refused != nil {
				b.t.Fatalf("incident %d, %s: %v\n%s", incident, a.Agent, v.Commands[i].Refused, b.describe(made))
			}
		}
		commands = append(commands, v.Commands...)
		if after = next; after == 0 {
			return commands
		}
	}
}

// over reports whether a decision cannot be acted on by now.
func (b *bundles) over(incident uint64) bool {
	f := b.world.incident(incident).current
	return f != nil && (b.at >= f.exp || b.at >= f.deadline)
}

func (b *bundles) describe(made *bundle.Bundle) string {
	text := ""
	for _, e := range b.log {
		text += fmt.Sprintf("%d %s %s\n", e.Index, e.Kind, e.Payload())
	}
	return fmt.Sprintf("%s%+v\n%+v\n", text, made.Members, made.Steps)
}

// check compares what each agent is told of each incident with the plan in force.
func (b *bundles) check() {
	b.t.Helper()
	for _, inc := range b.state.incidents {
		for _, agent := range []entry.Principal{"a", "b", "c"} {
			b.checkAgent(inc, agent)
		}
	}
}

func (b *bundles) checkAgent(inc *incident, agent entry.Principal) {
	b.t.Helper()
	a := bundle.Accepted{Root: b.root, Agent: agent}
	commands := b.told(inc.opened, &a, 100)
	b.count(inc, commands)
	if commands == nil {
		return
	}
	drains := slices.ContainsFunc(inc.current.members, func(m member) bool { return b.state.draining(&m) })
	number, _ := b.state.principals.Find([]byte(agent))
	own := inc.current.byAgent[number]
	told := map[entry.Ref]*bundle.Command{}
	for i := range commands {
		told[commands[i].Exec] = &commands[i]
	}
	if len(told) != len(own) {
		b.t.Fatalf("incident %d: %d members of %s, told %d", inc.opened, len(own), agent, len(told))
	}
	for _, place := range own {
		m := &inc.current.members[place]
		c := told[b.state.refOf(m.exec)]
		result := m.result
		if !m.reported() {
			result = ""
		}
		released := m.releasedAt != 0
		if c == nil || c.Member != b.state.planMember(m.exec, m.method, m.checkpoint) || c.Result != result ||
			m.result == "" && (released && !c.Released || !released && c.Released && !drains) {
			b.t.Fatalf("incident %d: told %+v, the plan has %+v", inc.opened, c, m)
		}
	}
}

func headText(h merkle.Head) string {
	return fmt.Sprintf("%s\n%d\n%s\n", origin, h.Size, base64.StdEncoding.EncodeToString(h.Root[:]))
}

// count notes what was told.
func (b *bundles) count(inc *incident, commands []bundle.Command) {
	for i := range commands {
		c := &commands[i]
		b.seen[string(c.Method)]++
		for _, step := range c.Chain {
			b.seen[step.Rule]++
			if step.By != 0 {
				b.seen["by"]++
			}
			if step.Rule == bundle.RuleLine && step.Checkpoint == 0 {
				b.seen["whole line"]++
			}
		}
		for what, is := range map[string]bool{"waits": len(c.Waits) > 0, "standing": len(c.Standing) > 0, "outcome": c.Result != "",
			"approved": len(inc.current.approvals) > 0, "amended": len(inc.current.decisions) > 1} {
			if is {
				b.seen[what]++
			}
		}
	}
}

// follow is check for agents that go on from what they accepted before.
func (b *bundles) follow() {
	b.t.Helper()
	for _, agent := range []entry.Principal{"a", "b", "c"} {
		a := b.accepted[agent]
		if a == nil {
			a = &bundle.Accepted{Root: b.root, Agent: agent}
			b.accepted[agent] = a
		}
		for _, inc := range b.state.incidents {
			_ = b.told(inc.opened, a, 2)
		}
	}
}

// namedMax is how many of the compensations that come before one a bundle names.
const namedMax = 16

// A compensation names at most so many of those that come before it, and the
// newest that is done; what it names waits for no other itself.
func TestBundleNamesWhoIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	p := w.nextPolicy()
	p.Limits.Incident.Members, p.Limits.Signaler.Members, p.Limits.Victim.Members = 1000, 1000, 1000
	w.put(p)
	first := w.done("a", "first", entry.EffectCompensable)
	between := w.done("b", "between", entry.EffectCompensable, first.Ref())
	var last []entry.Ref
	for i := range namedMax + 2 {
		last = append(last, w.done("b", fmt.Sprint("last", i), entry.EffectCompensable, between.Ref()).Ref())
	}
	id := w.put(w.signal("a", entry.StandingExecutor, first.Ref())).Index
	w.decide("k", entry.ActAuthorize, id)
	b := w.bundles(map[string]int{})
	waits := func() []entry.Ref {
		t.Helper()
		commands := b.told(id, &bundle.Accepted{Root: b.root, Agent: "a"}, 10)
		return commands[0].Waits
	}
	if named := waits(); len(named) != namedMax || slices.Contains(named, between.Ref()) {
		t.Errorf("waits for %v, want %d that wait for nobody", named, namedMax)
	}
	for i, ref := range last {
		w.compensate(id, ref)
		if left := len(last) - i - 1; left > 0 && len(waits()) != min(left, namedMax) {
			t.Errorf("waits for %v, want some of %d", waits(), left)
		}
	}
	if named := waits(); !slices.Equal(named, []entry.Ref{between.Ref()}) {
		t.Errorf("waits for %v, want %s", named, between.Ref())
	}
	w.compensate(id, between.Ref())
	made, _, err := MakeBundle(b, api.BundleQuery{Incident: id, Agent: "a", Limit: 1})
	must(t, err)
	if len(waits()) != 0 || len(made.Members) != 2 || len(made.Members[1].After) != 1 {
		t.Errorf("members %+v, want the compensation that dates the release", made.Members)
	}
}

// TestAmendAfterItsCheckpointIsVoid authorizes a plan that counts an execution
// as undone which began around the checkpoint that its line goes back to: that
// makes the checkpoint void, and the amend finds none. What keeps it and what is
// undone with the whole line are in one bundle.
func TestAmendAfterItsCheckpointIsVoid(t *testing.T) {
	w := newWorld(t)
	around := w.planned("a", "look", entry.EffectNone)
	w.put(w.checkpoint("a", "cp", ""))
	w.put(w.step(around, entry.Confirmed))
	w.done("a", "edit", entry.EffectReversible)
	w.done("a", "pay", entry.EffectCompensable)
	id := w.put(w.signal("a", entry.StandingExecutor, "a#edit")).Index
	agents := w.bundles(map[string]int{})
	for range 2 {
		w.decide("k", entry.ActEscalate, id)
		w.put(w.answer("p1", id, "approve"))
		w.next()
		agents.check()
	}
	if f := w.incident(id).current; len(f.decisions) != 2 || agents.seen["whole line"] == 0 {
		t.Errorf("%d decisions, told %v", len(f.decisions), agents.seen)
	}
	w.checkAll()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

package draft_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/coord"
	assemble "recoveryledger/coord/bundle"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// story is the worked example: a wrong itinerary, upon which a hotel was booked and a mail was
// sent, is rolled back as far as it can be. Keys, ids and times follow from the code, so that the
// example is the same every time.
type story struct {
	*foldlog.Log
	at map[string]uint64 // index by what the draft calls the entry
}

func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{&foldlog.Log{Log: testlog.New(t), State: coord.NewState(testlog.Origin)}, map[string]uint64{}}
	s.put("policy", "authority", entry.Genesis(testlog.Origin, entry.AuthorityKey{Principal: "authority", Key: s.Key("authority").Public}))
	for _, who := range []struct {
		name entry.Principal
		role entry.Role
	}{{"planner", entry.RoleAgent}, {"booker", entry.RoleAgent}, {"writer", entry.RoleAgent}, {"coordinator", entry.RoleCoordinator}, {"ann", entry.RoleApprover}} {
		s.put("enrol "+string(who.name), "authority", &entry.Agent{Principal: who.name, Op: entry.Enrol, Key: s.Key(who.name).Public,
			Roles: []entry.Role{who.role}, Domain: "travel", Span: entry.SpanWorkflow})
	}
	s.put("checkpoint", "planner", &entry.Checkpoint{Checkpoint: "empty", Digest: foldlog.Digest("1")})
	s.do("planner", "itinerary", entry.EffectReversible)
	s.do("booker", "hotel", entry.EffectCompensable, "planner#itinerary")
	s.do("writer", "mail", entry.EffectIrrevocable, "booker#hotel")
	s.put("signal", "planner", &entry.Signal{Subject: "planner#itinerary", Class: "output", Code: "ungrounded", Standing: entry.StandingExecutor,
		Effects: entry.EffectsComplete, ReplaySafety: entry.ReplaySafe, ObservedAt: s.At,
		Evidence: []entry.Evidence{{Digest: foldlog.Digest("2")}}})
	return s
}

// put registers an entry, which the fold must admit, in workflow trip-7.
func (s *story) put(name string, iss entry.Principal, body entry.Body) {
	s.TB.Helper()
	if kind := body.Kind(); kind != entry.KindPolicy && kind != entry.KindAgent {
		entry.HeaderOf(body).Wid = "trip-7"
	}
	s.at[name] = s.Put(iss, body)
}

func (s *story) do(iss entry.Principal, id string, effect entry.Effect, parents ...entry.Ref) {
	s.TB.Helper()
	for _, progress := range []entry.Progress{entry.Started, entry.Confirmed} {
		x := foldlog.Execution(id, effect, parents...)
		x.Progress = progress
		s.put(id+" "+string(progress), iss, x)
	}
}

// next registers the one entry that the coordinator writes now.
func (s *story) next(name string) {
	s.TB.Helper()
	todo, _ := s.State.Next(s.At + 1000)
	if len(todo) != 1 {
		s.TB.Fatalf("%s: the coordinator writes %d entries", name, len(todo))
	}
	s.put(name, "coordinator", todo[0])
}

// decided has the plan proposed, approved and authorized.
func (s *story) decided() {
	s.TB.Helper()
	s.next("escalate")
	incident := s.at["signal"]
	s.put("approval", "ann", &entry.Approval{Incident: incident, Proposal: s.Incident(incident).Proposal.Ref, Verdict: "approve",
		Exp: s.At/1000 + 3600, Reason: "I computed the same plan"})
	s.next("authorize")
}

// undone has every member undone as far as it can be, and the incident recorded.
func (s *story) undone() {
	s.TB.Helper()
	incident := s.at["signal"]
	report := func(name string, o entry.Outcome) {
		o.Incident, o.Decision, o.ObservedAt = incident, s.Incident(incident).Decision.Ref, s.At
		agent, _ := o.Exec.Split()
		s.put(name, agent, &o)
	}
	report("outcome mail", entry.Outcome{Exec: "writer#mail", Result: entry.ResultIrrevocable, Residual: "the mail was read; a correction was sent"})
	for _, progress := range []entry.Progress{entry.Started, entry.Confirmed} {
		x := foldlog.Execution("hotel.undo", entry.EffectIrrevocable)
		x.Progress = progress
		x.Compensates = &entry.Compensates{Incident: incident, Decision: s.Incident(incident).Decision.Ref, Exec: "booker#hotel"}
		s.put("undo "+string(progress), "booker", x)
	}
	report("outcome hotel", entry.Outcome{Exec: "booker#hotel", Result: entry.Compensated, CompExec: "booker#hotel.undo"})
	report("outcome itinerary", entry.Outcome{Exec: "planner#itinerary", Result: entry.Restored, PostDigest: foldlog.Digest("1")})
	s.next("record")
}

// View, Entry, Inclusions and Consistency are what a bundle is assembled from.
func (s *story) View(f func(s *coord.State, head verify.SignedHead, chain *verify.Chain)) {
	size := len(s.Leaves)
	f(s.State, verify.SignedHead{Head: s.Head(size), Note: s.Signed(size)}, s.State.Chain())
}

func (s *story) Entry(index uint64) (*entry.Registered, error) { return &s.Entries[index], nil }

func (s *story) Inclusions(indexes []uint64, size uint64) ([]merkle.Hash, error) {
	return merkle.ProveInclusions(indexes, size, s.State.Node)
}

func (s *story) Consistency(older, newer uint64) ([]merkle.Hash, error) {
	return merkle.ProveConsistency(older, newer, s.State.Node)
}

// wrapped breaks long lines as RFC 8792 has it.
func wrapped(text string) string {
	const width = 68
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		for runes := []rune(line); ; runes = runes[width:] {
			if len(runes) <= width+1 {
				b.WriteString(string(runes) + "\n")
				break
			}
			b.WriteString(string(runes[:width]) + "\\\n")
		}
	}
	return b.String()
}

// payload is the payload of an entry as the draft shows it.
func (s *story) payload(name string) string {
	s.TB.Helper()
	var leaf struct {
		Envelope struct {
			Payload []byte `json:"payload"`
		} `json:"envelope"`
	}
	must(s.TB, json.Unmarshal(s.Leaves[s.at[name]], &leaf, json.RejectUnknownMembers(false)))
	return wrapped(string(leaf.Envelope.Payload) + "\n")
}

// list is the log of the example, in two columns, with the begin of each leaf hash.
func (s *story) list() string {
	names := make([]string, len(s.Leaves))
	for name, index := range s.at {
		names[index] = name
	}
	lines := make([]string, (len(names)+1)/2)
	for i, leaf := range s.Leaves {
		line := &lines[i%len(lines)]
		*line += fmt.Sprintf("%2d %-19s %.10s  ", i, names[i], merkle.HashLeaf(leaf).String())
	}
	return strings.ReplaceAll(strings.Join(lines, "\n")+"\n", "  \n", "\n")
}

// set is the rollback set: members as they are hashed, with the hashes, and the root.
func (s *story) set(b *bundle.Bundle) string {
	plan, _ := s.State.PlanInForce(s.at["signal"], s.At)
	var text strings.Builder
	var leaves []merkle.Hash
	for place, m := range plan.Set() {
		data := m.AppendJSON(nil)
		leaves = append(leaves, merkle.HashLeaf(data))
		if m.Agent == b.Agent {
			text.WriteString(wrapped(string(data) + "\n"))
		}
		fmt.Fprintf(&text, "member %d  %s\n", place, leaves[place])
	}
	fmt.Fprintf(&text, "size      %d\nroot      %s\nmembership proof of booker#hotel\n", len(leaves), merkle.HeadOf(leaves).Root)
	for _, h := range b.Membership {
		fmt.Fprintf(&text, "          %s\n", h)
	}
	text.WriteString("steps of booker#hotel\n")
	for _, step := range b.Steps {
		fmt.Fprintf(&text, "          entry %d, %s, from entry %d\n", step.Exec, step.Rule, step.From)
	}
	return text.String()
}

// TestWorkedExample makes the example, and verifies it as its readers can.
func TestWorkedExample(t *testing.T) {
	s := newStory(t)
	s.decided()
	incident := s.at["signal"]
	made, err := new(assemble.Maker).Make(s, nil, api.BundleQuery{Incident: incident, Agent: "booker", Limit: 100})
	must(t, err)
	b, err := bundle.Decode(made.Data)
	must(t, err)
	verdict, err := b.Check(bundle.Accepted{Root: s.Root, Agent: "booker"}, s.At)
	must(t, err)
	if len(verdict.Commands) != 1 || verdict.Commands[0].Refused != nil || verdict.Commands[0].Method != entry.MethodCompensate || !verdict.Commands[0].Released {
		t.Fatalf("booker is told %+v", verdict.Commands)
	}
	same(t, "example/bundle.json", string(made.Data)+"\n")
	same(t, "generated/example-set.txt", s.set(b))

	s.undone()
	if state := s.Incident(incident).State; state != entry.IncidentPartial {
		t.Fatalf("the example ends %s", state)
	}
	must(t, refold(s))
	root, err := s.Root.Encode()
	must(t, err)
	same(t, "example/root.json", string(root)+"\n")
	var receipts strings.Builder
	for _, r := range s.All() {
		line, err := r.Encode()
		must(t, err)
		receipts.Write(append(line, '\n'))
	}
	same(t, "example/receipts.ndjson", receipts.String())
	same(t, "generated/example-record.json", s.payload("record"))
	same(t, "generated/example-log.txt", s.list())
}

// refold folds the leaves of the example again, from the first on, as an auditor does.
func refold(s *story) error {
	state := coord.NewState(testlog.Origin)
	for i, leaf := range s.Leaves {
		e, at, err := entry.DecodeLeaf(leaf)
		if err != nil {
			return err
		}
		if err := state.Admit(e, uint64(i), at); err != nil {
			return err
		}
		state.Apply(e, uint64(i), at)
	}
	return nil
}

// TestExampleVerifies checks the files of the example as any verifier can.
func TestExampleVerifies(t *testing.T) {
	read := func(name string) []byte {
		data, err := os.ReadFile("example/" + name)
		must(t, err)
		return bytes.TrimSpace(data)
	}
	root, err := verify.ParseRoot(read("root.json"))
	must(t, err)
	var material verify.Material
	must(t, material.Add("receipts.ndjson", read("receipts.ndjson")))
	report, err := root.Verify(material)
	must(t, err)
	if len(report.Missing) > 0 {
		t.Errorf("missing: %+v", report.Missing)
	}
	b, err := bundle.Decode(read("bundle.json"))
	must(t, err)
	if _, err := b.Check(bundle.Accepted{Root: root, Agent: "booker"}, 1790000020000); err != nil {
		t.Error(err)
	}
	if _, err := b.Check(bundle.Accepted{Root: root, Agent: "writer"}, 1790000020000); err == nil {
		t.Error("the bundle of booker is taken for one of writer")
	}
}

package coord

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/cases"
	"recoveryledger/testdata/needs"
)

const scopeVectors = "../testdata/vectors/scope"

// scopeVector is a log, an incident, and the rollback set that a decision names that is registered
// next (testdata/vectors/README.md).
type scopeVector struct {
	Desc string    `json:"desc"`
	Case scopeCase `json:"case"`
	Want scopeWant `json:"want"`

	WantErr string `json:"wantErr"`
}

type scopeCase struct {
	Incident  uint64       `json:"incident"`
	Dismissed []uint64     `json:"dismissed"`
	Now       int64        `json:"now"` // registered_at of the decision
	Log       []scopeEntry `json:"log"` // all of it: the pin is its size
}

type scopeEntry struct {
	Kind         entry.Kind      `json:"kind"`
	RegisteredAt int64           `json:"registered_at"`
	LeafHash     merkle.Hash     `json:"leaf_hash"`
	Payload      json.RawMessage `json:"payload"`
}

type scopeWant struct {
	Size    int            `json:"size"`
	Root    merkle.Hash    `json:"root"`
	Members []entry.Member `json:"members"`
}

// vector is what a decision about an incident names now.
func (w *world) vector(desc string, id uint64, dismissed ...uint64) *scopeVector {
	w.t.Helper()
	number, _, ok := w.state.findIncident(id)
	if !ok {
		w.t.Fatalf("%s: no incident %d", desc, id)
	}
	plan := w.state.assess(number, w.state.Size(), dismissed, w.at).plan
	set := w.state.rollbackSetHead(plan.Members)
	v := &scopeVector{Desc: desc, Case: scopeCase{Incident: id, Dismissed: append([]uint64{}, dismissed...), Now: w.at},
		Want: scopeWant{Size: len(plan.Members), Root: set.Root, Members: []entry.Member{}}}
	for _, m := range plan.Members {
		v.Want.Members = append(v.Want.Members, w.state.planMember(m.Exec, m.Method, m.Checkpoint))
	}
	for _, e := range w.log {
		v.Case.Log = append(v.Case.Log, scopeEntry{e.Kind, e.RegisteredAt, merkle.HashLeaf(e.AppendLeaf(nil)), json.RawMessage(e.Payload())})
	}
	return v
}

// doubt registers that an agent's execution failed by its own word, and names the incident.
func (w *world) doubt(ref entry.Ref, change ...func(*entry.Signal)) uint64 {
	w.t.Helper()
	iss, _ := ref.Split()
	s := w.signal(iss, entry.StandingExecutor, ref)
	for _, f := range change {
		f(s)
	}
	return w.put(s).Index
}

// scopeScenes are logs that need one rule each.
var scopeScenes = []struct {
	name, desc string
	of         func(w *world) (id uint64, dismissed []uint64)
}{
	{"hard-and-soft", "hard dependents are members, and theirs; soft ones are not", func(w *world) (uint64, []uint64) {
		w.done("a", "1", entry.EffectCompensable)
		w.done("b", "2", entry.EffectCompensable, "a#1")
		x := w.exec("c", "4")
		x.Parents = []entry.Parent{{Exec: "b#2", Dep: entry.Soft}}
		w.put(x)
		w.done("a", "5", entry.EffectNone, "b#2")
		return w.doubt("a#1"), nil
	}},
	{"methods", "the method by progress and effect", func(w *world) (uint64, []uint64) {
		w.done("a", "seed", entry.EffectNone)
		for _, effect := range []entry.Effect{entry.EffectNone, entry.EffectCompensable, entry.EffectIrrevocable, entry.EffectUndeclared} {
			w.planned("b", "planned-"+string(effect), effect, "a#seed")
			w.flying("b", "started-"+string(effect), effect, "a#seed")
			w.done("b", "done-"+string(effect), effect, "a#seed")
			w.put(w.step(w.flying("b", "failed-"+string(effect), effect, "a#seed"), entry.Failed))
			w.put(w.step(w.planned("b", "cancelled-"+string(effect), effect, "a#seed"), entry.Cancelled))
		}
		return w.doubt("a#seed"), nil
	}},
	{"failed-without-effect", "an execution that failed without effect, by its executor's word, takes no line back", func(w *world) (uint64, []uint64) {
		w.put(w.checkpoint("a", "empty", ""))
		w.done("a", "before", entry.EffectReversible)
		w.put(w.step(w.flying("a", "seed", entry.EffectReversible), entry.Failed))
		return w.doubt("a#seed", func(s *entry.Signal) { s.Effects = entry.EffectsNone }), nil
	}},
	{"line", "a line goes back to its newest checkpoint before the member started, with all that came since", func(w *world) (uint64, []uint64) {
		w.put(w.checkpoint("a", "empty", ""))
		w.done("a", "1", entry.EffectReversible)
		w.put(w.checkpoint("a", "one", "a#1"))
		w.done("a", "2", entry.EffectReversible)
		w.put(w.checkpoint("a", "two", "a#2"))
		w.done("a", "3", entry.EffectCompensable)
		w.planned("a", "4", entry.EffectReversible)
		return w.doubt("a#2"), nil
	}},
	{"line-in-flight-at-the-checkpoint", "what was not final when after of the checkpoint was, goes back with the line", func(w *world) (uint64, []uint64) {
		x := w.flying("a", "early", entry.EffectCompensable)
		w.done("a", "1", entry.EffectReversible)
		w.put(w.checkpoint("a", "one", "a#1"))
		w.put(w.step(x, entry.Confirmed))
		w.done("a", "2", entry.EffectReversible)
		return w.doubt("a#2"), nil
	}},
	{"line-without-checkpoint", "the whole line is undone, and its reversible members are residual", func(w *world) (uint64, []uint64) {
		w.done("a", "1", entry.EffectCompensable)
		w.done("a", "2", entry.EffectReversible)
		w.done("b", "3", entry.EffectNone, "a#1")
		return w.doubt("a#2"), nil
	}},
	{"line-further-back", "a dependent that began earlier takes its line further back", func(w *world) (uint64, []uint64) {
		w.done("a", "seed", entry.EffectNone)
		w.put(w.checkpoint("b", "empty", ""))
		w.done("b", "1", entry.EffectReversible, "a#seed")
		w.put(w.checkpoint("b", "one", "b#1"))
		w.done("b", "2", entry.EffectReversible, "a#seed")
		return w.doubt("a#seed"), nil
	}},
	{"line-expired-checkpoint", "a checkpoint that expires before the latest deadline is not usable", func(w *world) (uint64, []uint64) {
		w.put(w.checkpoint("a", "empty", ""))
		w.done("a", "1", entry.EffectReversible)
		c := w.checkpoint("a", "brief", "a#1")
		c.ExpiresAt = w.at + minuteMS
		w.put(c)
		w.done("a", "2", entry.EffectReversible)
		return w.doubt("a#2"), nil
	}},
	{"line-span-agent", "an agent whose span is agent has one line across workflows", func(w *world) (uint64, []uint64) {
		w.put(w.checkpoint("c", "empty", ""))
		x := w.exec("c", "other")
		x.Wid, x.Effect, x.IdempotencyKey = "w2", entry.EffectCompensable, someDigest("other")
		w.put(x)
		w.put(w.step(x, entry.Started))
		w.done("c", "1", entry.EffectReversible)
		return w.doubt("c#1"), nil
	}},
	{"lines-of-two-workflows", "an agent has a line in each workflow, and the other one stays", func(w *world) (uint64, []uint64) {
		w.put(w.checkpoint("a", "empty", ""))
		x := w.exec("a", "other")
		x.Wid, x.Effect, x.IdempotencyKey = "w2", entry.EffectReversible, someDigest("other")
		w.put(x)
		w.put(w.step(x, entry.Started))
		w.done("a", "1", entry.EffectReversible)
		return w.doubt("a#1"), nil
	}},
	{"since", "an executor's since makes every execution from there to the subject a seed", func(w *world) (uint64, []uint64) {
		for _, id := range []string{"1", "2", "3", "4"} {
			w.done("a", id, entry.EffectCompensable)
		}
		w.done("b", "5", entry.EffectCompensable, "a#2")
		return w.doubt("a#3", func(s *entry.Signal) { s.Since = "a#2" }), nil
	}},
	{"dismissed", "the subject of a dismissed signal is no seed", func(w *world) (uint64, []uint64) {
		w.done("a", "1", entry.EffectCompensable)
		w.done("b", "2", entry.EffectCompensable, "a#1")
		w.done("b", "3", entry.EffectCompensable)
		id := w.doubt("a#1")
		s := w.signal("m", entry.StandingMonitor, "a#1")
		s.Evidence = []entry.Evidence{{Digest: someDigest("seen")}}
		w.put(s)
		return id, []uint64{id}
	}},
	{"undone-by-another", "what another incident has undone is no member, and its dependents are", func(w *world) (uint64, []uint64) {
		w.done("a", "1", entry.EffectCompensable)
		w.done("b", "2", entry.EffectCompensable, "a#1")
		one := w.doubt("b#2")
		w.decide("k", entry.ActAuthorize, one)
		w.compensate(one, "b#2")
		w.next()
		w.done("a", "3", entry.EffectCompensable, "a#1")
		return w.doubt("a#1"), nil
	}},
	{"void-checkpoint", "a checkpoint between the restore point and the restore is void", func(w *world) (uint64, []uint64) {
		w.put(w.checkpoint("a", "empty", ""))
		w.done("a", "1", entry.EffectReversible)
		w.put(w.checkpoint("a", "void", "a#1"))
		one := w.doubt("a#1")
		w.decide("k", entry.ActAuthorize, one)
		o := w.outcome("a", one, "a#1", entry.Restored)
		o.PostDigest = someDigest("a#empty")
		for _, e := range w.log {
			if c, ok := e.Body.(*entry.Checkpoint); ok && c.Checkpoint == "empty" {
				o.PostDigest = c.Digest
			}
		}
		w.put(o)
		w.next()
		w.done("a", "2", entry.EffectReversible)
		return w.doubt("a#2"), nil
	}},
	{"compensation-is-on-no-line", "a compensation belongs to no line, and is no member", func(w *world) (uint64, []uint64) {
		w.put(w.checkpoint("a", "empty", ""))
		w.done("a", "1", entry.EffectCompensable)
		one := w.doubt("a#1")
		w.decide("k", entry.ActAuthorize, one)
		w.compensate(one, "a#1")
		w.next()
		w.done("a", "2", entry.EffectReversible)
		return w.doubt("a#2"), nil
	}},
}

// randomScopes are incidents that random actions leave open. The draft has no tasks, so that
// nothing here makes any.
func randomScopes(t *testing.T) (list []*scopeVector) {
	t.Helper()
	generated := rapid.Custom(func(r *rapid.T) *world {
		w := newWorld(t)
		g := generator{r, w}
		g.graph()
		for range rapid.IntRange(10, 40).Draw(r, "actions") {
			switch pick(g, "action", 's', 's', 'n', 'd', 'f', 't') {
			case 's':
				g.accuse()
			case 'n':
				todo, _ := w.state.Next(w.at)
				for _, body := range todo {
					w.head("k", body)
					g.try(body)
				}
			case 'd':
				g.decision()
			case 'f':
				g.finish()
			case 't':
				w.at += pick[int64](g, "wait", 1000, minuteMS)
			}
		}
		return w
	})
	for seed := 1; len(list) < 16; seed++ {
		w := generated.Example(seed)
		for _, inc := range slices.Backward(w.state.incidents) {
			if !inc.state.Open() || inc.current != nil {
				continue
			}
			v := w.vector("random actions", inc.opened)
			if restores := slices.ContainsFunc(v.Want.Members, func(m entry.Member) bool { return m.Checkpoint != "" }); len(v.Want.Members) < 3 || !restores && len(list)%2 == 0 {
				continue
			}
			list = append(list, v)
			break
		}
	}
	return list
}

// TestScopeVectors compares the vectors of rollback sets with what this package computes; -update
// writes them.
func TestScopeVectors(t *testing.T) {
	files := map[string]*scopeVector{}
	for _, scene := range scopeScenes {
		w := newWorld(t)
		id, dismissed := scene.of(w)
		files[scene.name] = w.vector(scene.desc, id, dismissed...)
	}
	for i, v := range randomScopes(t) {
		files[fmt.Sprintf("random-%02d", i)] = v
	}
	cases.Files(t, scopeVectors, files, *update)
	methods := map[entry.Method]int{}
	for _, v := range files {
		for _, m := range v.Want.Members {
			methods[m.Method]++
		}
	}
	if len(methods) != int(scope.Residual)+1 {
		t.Errorf("the vectors have the methods %v", methods)
	}
	t.Logf("%d vectors, members by method: %v", len(files), methods)
}

// TestScopeCrossCheck has a program that was written from the text of the Internet-Draft alone
// compute the sets; it disagrees with a damaged vector.
func TestScopeCrossCheck(t *testing.T) {
	python := needs.Program(t, "python3", "python3", "the rollback sets are not computed again")
	const program = "../testdata/crosscheck/scope.py"
	out, err := exec.CommandContext(t.Context(), python, program).CombinedOutput()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), " 0 wrong") {
		t.Errorf("%v\n%s", err, out)
	}
	damaged := t.TempDir()
	text, err := os.ReadFile(filepath.Join(scopeVectors, "line.json"))
	must(t, err)
	text = bytes.Replace(text, []byte(`"progress": "confirmed"`), []byte(`"progress": "cancelled"`), 2)
	must(t, os.WriteFile(filepath.Join(damaged, "line.json"), text, 0o600))
	if out, err := exec.CommandContext(t.Context(), python, program, damaged).CombinedOutput(); err == nil || !strings.HasSuffix(strings.TrimSpace(string(out)), " 1 wrong") {
		t.Errorf("a damaged vector: %v\n%s", err, out)
	}
}

package bundle_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// The mutations below work on the JSON of a bundle, whatever it holds: each
// value changed, dropped, doubled, moved, and replaced by what stands at the
// same place in another bundle. None may come through.

// node is a value of a JSON tree at a path.
type node struct {
	path  string
	value any
	set   func(value any)
	drop  func() // of a member of an object
}

// walk yields every value below one, itself included.
func walk(path string, value any, set func(any), drop func(), yield func(node)) {
	yield(node{path, value, set, drop})
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			walk(path+"/"+name, value[name], func(v any) { value[name] = v }, func() { delete(value, name) }, yield)
		}
	case []any:
		for i := range value {
			walk(fmt.Sprintf("%s/%d", path, i), value[i], func(v any) { value[i] = v }, nil, yield)
		}
	}
}

// variants returns what to put in the place of a value.
func variants(value any) (list []any) {
	switch value := value.(type) {
	case string:
		list = append(list, "")
		for i := 0; i < len(value); i += 1 + len(value)/4 {
			c := byte('A')
			if value[i] == c {
				c = 'B'
			}
			list = append(list, value[:i]+string(c)+value[i+1:])
		}
		list = append(list, value+"A", value[:max(0, len(value)-1)])
	case float64:
		list = append(list, value+1, value+2, value-1, 0.0, 1e15)
	case []any:
		list = append(list, []any{})
		for i := range value {
			list = append(list, slices.Delete(slices.Clone(value), i, i+1), slices.Insert(slices.Clone(value), i, value[i]))
			if i > 0 {
				moved := slices.Clone(value)
				moved[i-1], moved[i] = moved[i], moved[i-1]
				list = append(list, moved)
			}
		}
	}
	return list
}

// mutator tries changes of one bundle.
type mutator struct {
	*testing.T
	good     []byte
	accepted bundle.Accepted
	now      int64
	rules    map[string]int // what refused how often
}

func newMutator(t *testing.T, b *bundle.Bundle, a bundle.Accepted, now int64) *mutator {
	t.Helper()
	good, err := b.Encode()
	must(t, err)
	return &mutator{t, good, a, now, map[string]int{}}
}

// try checks that a changed tree is refused, with a rule.
func (m *mutator) try(what string, tree any) {
	m.Helper()
	data, err := json.Marshal(tree, json.Deterministic(true))
	must(m, err)
	b := new(bundle.Bundle)
	if err := json.Unmarshal(data, b); err != nil { // of other types
		if _, err := bundle.Decode(data); err == nil {
			m.Errorf("%s: decoded", what)
		}
		m.rules["form"]++
		return
	}
	if again, err := b.Encode(); err == nil && bytes.Equal(again, m.good) {
		return // nothing changed
	}
	v, err := b.Check(m.accepted, m.now)
	got := outcomeOf(v, err, "")
	if got == "" {
		m.Errorf("%s: accepted: %v", what, told(v))
	}
	_, rule := errors.AsType[*bundle.RuleError](err)
	_, form := errors.AsType[*verify.FormatError](err)
	if err != nil && !rule && !form {
		m.Errorf("%s: error of no type: %v", what, err)
	}
	if _, refused, ok := strings.Cut(got, ": "); ok {
		got = refused
	}
	m.rules[got]++
}

func (m *mutator) tree() (tree any) {
	m.Helper()
	must(m, json.Unmarshal(m.good, &tree))
	return tree
}

// all tries every change of every value.
func (m *mutator) all() {
	m.Helper()
	tree := m.tree()
	walk("", tree, nil, nil, func(n node) {
		if n.set == nil {
			return
		}
		for _, v := range variants(n.value) {
			n.set(v)
			m.try(n.path, tree)
		}
		n.set(n.value)
		if n.drop != nil {
			n.drop()
			m.try(n.path+" dropped", tree)
			n.set(n.value)
		}
	})
}

// swap tries every value of another bundle in the place of ours.
func (m *mutator) swap(name string, other *bundle.Bundle) {
	m.Helper()
	data, err := other.Encode()
	must(m, err)
	var theirs any
	must(m, json.Unmarshal(data, &theirs))
	values := map[string]any{}
	walk("", theirs, nil, nil, func(n node) { values[n.path] = n.value })
	tree := m.tree()
	walk("", tree, nil, nil, func(n node) {
		value, ok := values[n.path]
		if n.set == nil || !ok {
			return
		}
		n.set(value)
		m.try(n.path+" of "+name, tree)
		n.set(n.value)
	})
}

// TestBundleMutations changes every value of good bundles; in short, of two of them.
// Draft: AGT-0, AGT-6.
func TestBundleMutations(t *testing.T) {
	some := []string{"good-automatic", "good-approved", "good-amended", "good-stopped", "good-whole-line", "good-by", "good-witnessed"}
	some = some[:budget.Budget{Short: 1, Usual: len(some)}.Now()]
	for _, c := range goodCases() {
		if !slices.Contains(some, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, b, a, now := c.build(t)
			m := newMutator(t, b, a, now)
			m.all()
			t.Log(m.rules)
		})
	}
}

// TestBundleSwaps puts parts of other bundles into a good one: of another
// incident, of another agent, of another ledger, of a fork, and of the same
// incident at another time.
func TestBundleSwaps(t *testing.T) {
	w, b := twoIncidents(t)
	m := newMutator(t, b, w.state(), w.now)
	v, err := b.Check(w.state(), w.now)
	must(t, err)
	if len(told(v)) != 6 {
		t.Fatalf("%v", told(v))
	}
	m.swap("another incident", w.other(b))
	_, another := approved(t, plain)
	m.swap("a log without it", another)
	writer := *b
	writer.Agent = "writer"
	writer.Members = nil
	for i := range w.members {
		if w.members[i].Agent == "writer" {
			writer.Members = append(writer.Members, bundle.PlanMember{Place: uint64(i), Member: w.members[i]})
		}
	}
	w.proveScope(&writer)
	m.swap("another agent", &writer)
	_, foreign := approved(t, func(w *world) {
		w.signer["policy"] = testlog.NewKey(t, "authority", "of another ledger")
		w.hooks["policy"] = func(body entry.Body) {
			p, _ := body.(*entry.Policy)
			p.Authority[0].Key = w.signer["policy"].Public
		}
		w.who["authority"] = testlog.NewKey(t, "authority", "of another ledger")
		w.Signer = testlog.OtherSigner(t)
	})
	m.swap("another ledger", foreign)
	_, fork := approved(t, before("worker#mail", func(w *world) { w.exec("source#hidden", entry.EffectNone, entry.Confirmed) }))
	m.swap("a fork", fork)
	m.accepted.Head, m.accepted.Root = w.Signed(len(w.Leaves)-1), w.Root
	for name, whole := range map[string]*bundle.Bundle{"another agent": &writer, "another ledger": foreign, "a fork": fork} {
		data, err := whole.Encode()
		must(t, err)
		var tree any
		must(t, json.Unmarshal(data, &tree))
		m.try("all of "+name, tree)
	}
	m.accepted = w.state()
	_, automatically := automatic(t, plain)
	m.swap("a decision without approvals", automatically)
	t.Log(m.rules)
}

// twoIncidents is the approved incident, with a second one like it in the log.
func twoIncidents(t *testing.T) (*world, *bundle.Bundle) {
	t.Helper()
	return approved(t, before("charged back", func(w *world) {
		names, members := maps.Clone(w.at), w.members
		w.members = nil
		w.done("source#other", entry.EffectNone)
		w.done("worker#other", entry.EffectReversible, "source#other")
		w.done("worker#stays", entry.EffectIrrevocable, "source#other")
		w.signal("signal", "source", "source#other", entry.StandingExecutor)
		w.member("source#other", entry.MethodNone, "")
		w.member("worker#other", entry.MethodRestore, "worker#c0")
		w.member("worker#stays", entry.MethodResidual, "")
		w.authorize(1)
		w.outcome("charged back", "worker#stays", entry.ResultIrrevocable)
		for _, name := range []string{"signal", "proposal", "anna approves", "bert approves", "decision", "charged back"} {
			w.at["other "+name], w.at[name] = w.at[name], names[name]
		}
		w.at["other read"], w.at["other draft"], w.at["other mail"] = w.at["source#other"], w.at["worker#other"], w.at["worker#stays"]
		w.members = members
	}))
}

// others are the entries of the second incident in the place of those of the first.
var others = map[string]string{"signal": "other signal", "proposal": "other proposal", "anna approves": "other anna approves",
	"bert approves": "other bert approves", "decision": "other decision", "charged back": "other charged back",
	"source#read": "other read", "worker#draft": "other draft", "worker#mail": "other mail"}

// other returns the bundle with all that is of the first incident replaced by
// what is of the second, as far as there is something.
func (w *world) other(b *bundle.Bundle) *bundle.Bundle {
	w.TB.Helper()
	replaced := *b
	var indexes []uint64
	for _, logged := range b.Entries {
		indexes = append(indexes, logged.Index)
	}
	for name, other := range others {
		indexes[slices.Index(indexes, w.at[name])] = w.at[other]
	}
	w.prove(&replaced, indexes)
	replaced.Decision = w.at["other decision"]
	return &replaced
}

// TestBundleOtherIncident replaces entries by those of a second incident in the
// same log, each alone, with proofs that hold and every place of its index
// changed too.
func TestBundleOtherIncident(t *testing.T) {
	for name, other := range others {
		w, b := twoIncidents(t)
		from, to := w.at[name], w.at[other]
		drop(name)(w, b)
		with(other)(w, b)
		if b.Decision == from {
			b.Decision = to
		}
		for i := range b.Steps {
			for _, field := range []*uint64{&b.Steps[i].Exec, &b.Steps[i].From} {
				if *field == from {
					*field = to
				}
			}
		}
		v, err := b.Check(w.state(), w.now)
		if outcomeOf(v, err, "") == "" {
			t.Errorf("%s: accepted: %v", name, told(v))
		}
		t.Logf("%s: %v", name, cause(v, err))
	}
}

// jsonUnmarshal reads JSON whose members stand in any order.
func jsonUnmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	checkpoint "github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// changes are what to put in the place of a value of a bundle's JSON: bits that
// are flipped, other numbers, lists with an element less, twice, or elsewhere.
func changes(value any) (list []any) {
	switch value := value.(type) {
	case string:
		for i := 0; i < len(value); i += 1 + len(value)/3 {
			list = append(list, value[:i]+string('A'+(value[i]&7))+value[i+1:], value[:i]+string('f'+(value[i]&7))+value[i+1:])
		}
		return append(list, "", value+"A")
	case float64:
		return []any{value + 1, value - 1, 0.0, 1e15}
	case []any:
		list = []any{[]any{}}
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

// throughout calls f for every value below one, with what sets it and, of a member of
// an object, what drops it.
func throughout(path string, value any, set func(any), drop func(), f func(path string, value any, set func(any), drop func())) {
	f(path, value, set, drop)
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			throughout(path+"/"+name, value[name], func(v any) { value[name] = v }, func() { delete(value, name) }, f)
		}
	case []any:
		for i := range value {
			throughout(fmt.Sprintf("%s/%d", path, i), value[i], func(v any) { value[i] = v }, nil, f)
		}
	}
}

// served is a bundle that an agent was given.
type served struct {
	*keeper
	bundle *bundle.Bundle
	rules  map[string]int // what refused how often
}

func (k *keeper) served(path string) *served {
	k.t.Helper()
	b, _ := k.fetch(path)
	v, err := b.Check(k.Accepted, k.log.Now())
	must(k.t, err)
	if slices.ContainsFunc(v.Commands, func(c bundle.Command) bool { return c.Refused != nil }) || len(v.Commands) == 0 {
		k.t.Fatalf("%+v", v.Commands)
	}
	return &served{k, b, map[string]int{}}
}

func (s *served) tree(b *bundle.Bundle) (tree any) {
	s.t.Helper()
	data, err := b.Encode()
	must(s.t, err)
	must(s.t, json.Unmarshal(data, &tree))
	return tree
}

// refused wants a changed bundle to be refused, or a member of it, by a rule.
func (s *served) refused(what string, tree any) {
	s.t.Helper()
	data, err := json.Marshal(tree, json.Deterministic(true))
	must(s.t, err)
	b := new(bundle.Bundle)
	if json.Unmarshal(data, b) != nil {
		s.rules["form"]++
		return
	}
	good, err := s.bundle.Encode()
	must(s.t, err)
	if again, err := b.Encode(); err == nil && bytes.Equal(again, good) {
		return
	}
	v, err := b.Check(s.Accepted, s.log.Now())
	refused := slices.IndexFunc(v.Commands, func(c bundle.Command) bool { return c.Refused != nil })
	if err == nil && refused >= 0 {
		err = v.Commands[refused].Refused
	}
	rule, isRule := errors.AsType[*bundle.RuleError](err)
	_, isForm := errors.AsType[*verify.FormatError](err)
	switch {
	case isRule:
		s.rules[rule.Step+" "+rule.Rule]++
	case isForm:
		s.rules["form"]++
	default:
		s.t.Errorf("%s: %v, want a rule that fails; %+v", what, err, v.Commands)
	}
}

// mutate changes each value, one in rare of them.
func (s *served) mutate(rare int) {
	s.t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	tree := s.tree(s.bundle)
	throughout("", tree, nil, nil, func(path string, value any, set func(any), drop func()) {
		if set == nil {
			return
		}
		for _, other := range changes(value) {
			if r.IntN(rare) == 0 {
				set(other)
				s.refused(path, tree)
			}
		}
		set(value)
		if drop != nil {
			drop()
			s.refused(path+" dropped", tree)
			set(value)
		}
	})
}

// swap puts each value of another bundle in the place of ours, and all of it.
func (s *served) swap(name string, other *bundle.Bundle) {
	s.t.Helper()
	theirs := map[string]any{}
	throughout("", s.tree(other), nil, nil, func(path string, value any, _ func(any), _ func()) { theirs[path] = value })
	tree := s.tree(s.bundle)
	throughout("", tree, nil, nil, func(path string, value any, set func(any), _ func()) {
		if other, ok := theirs[path]; ok && set != nil {
			set(other)
			s.refused(path+" of "+name, tree)
			set(value)
		}
	})
}

// disaster is an incident that people approved, with a second one like it, and
// what was compensated of the first.
func disaster(t *testing.T, c *panel) (one, two uint64) {
	t.Helper()
	c.point("agent-1", "flow-1", "c0", "")
	var ids []uint64
	for _, name := range []string{"one", "two"} {
		wid := entry.WorkflowID("flow-" + name)
		c.point("agent-1", wid, name+"-c0", "")
		read := c.runs(in(wid, work("agent-1", name+"-read", entry.EffectReversible)), whole...)
		c.runs(in(wid, work("agent-1", name+"-other", entry.EffectReversible)), whole...)
		pay := c.runs(in(wid, work("agent-2", name+"-pay", entry.EffectCompensable, read)), whole...)
		c.runs(in(wid, work("agent-3", name+"-ship", entry.EffectCompensable, pay)), whole...)
		c.runs(in(wid, work("agent-2", name+"-mail", entry.EffectIrrevocable, pay)), whole...)
		sig := c.signal(read)
		sig.Wid = wid
		id := c.put(sig).Index
		c.approves(id, entry.ActAuthorize)
		c.ends(id, entry.Ref("agent-3#"+name+"-ship"), entry.Compensated)
		ids = append(ids, id)
	}
	return ids[0], ids[1]
}

// TestServedMutations changes every value of bundles that were served, and puts
// into them what is of another incident, of another agent, of another ledger, or
// of a fork: a rule refuses each.
func TestServedMutations(t *testing.T) {
	budget.Unraced(t, "one goroutine checks changed bundles")
	c := newPanel(t, nil)
	one, two := disaster(t, c)
	path := func(agent string, id uint64) string {
		return fmt.Sprintf("/v1/incidents/%d/bundle?agent=%s", id, agent)
	}
	from := c.keeps("agent-2")
	_ = from.told(0)
	other := newPanel(t, nil)
	foreign, _ := disaster(t, other)
	c.signals("monitor-1", entry.StandingMonitor, c.runs(work("agent-3", "apart", entry.EffectNone), whole...))
	rules := map[string]int{}
	for _, agent := range []string{"agent-1", "agent-2"} {
		k := c.keeps(entry.Principal(agent))
		target := path(agent, one)
		if agent == "agent-2" {
			k.Accepted = from.Accepted
			target += fmt.Sprintf("&from=%d", k.Size())
		}
		s := k.served(target)
		s.mutate(budget.Budget{Short: 64, Usual: 4}.Now())
		for _, wrong := range []string{path(agent, two), path("agent-3", one)} {
			b, _ := c.fetch(wrong)
			s.swap(wrong, b)
		}
		b, _ := other.fetch(path(agent, foreign))
		s.swap("another ledger", b)
		s.refused("all of another ledger's", s.tree(b))
		for rule, count := range s.rules {
			rules[rule] += count
		}
	}
	t.Log(rules)
	for _, rule := range []string{"form", "AGT-1 AGT-1", "AGT-2 AGT-2", "AGT-3 AGT-3", "AGT-3 SCO-1", "AGT-3 SCO-2", "AGT-3 SCO-3", "AGT-3 SCO-5"} {
		if rules[rule] == 0 {
			t.Errorf("nothing was refused by %s", rule)
		}
	}
}

// TestServedFork shows a served bundle to somebody whom the same ledger's key has
// shown another history: of the same size, of a smaller one.
func TestServedFork(t *testing.T) {
	c := newPanel(t, nil)
	one, _ := disaster(t, c)
	k := c.keeps("agent-2")
	_ = k.told(0)
	for name, size := range map[string]uint64{"of the same size": c.log.Head().Size, "of a smaller size": k.Size() - 3} {
		head := merkle.Head{Size: size, Root: merkle.HashLeaf([]byte(name))}
		forked, err := note.Sign(&note.Note{Text: string(checkpoint.Checkpoint{Origin: origin, Size: head.Size, Hash: head.Root[:]}.Marshal())}, c.keys.Signer)
		must(t, err)
		other := k.Accepted
		other.Head, other.Links, other.Epochs = string(forked), nil, nil
		b, _ := c.fetch(fmt.Sprintf("/v1/incidents/%d/bundle?agent=agent-2&from=%d&whole=true", one, size))
		v, err := b.Check(other, c.log.Now())
		rule, ok := errors.AsType[*bundle.RuleError](err)
		if !ok || rule.Step != "AGT-1" || len(rule.Heads) != 2 || rule.Heads[0] != other.Head || v.Next.Head != other.Head || len(v.Commands) > 0 {
			t.Errorf("%s: %v, want both heads; accepted %q", name, err, v.Next.Head)
		}
	}
}

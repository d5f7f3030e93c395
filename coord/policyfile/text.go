package policyfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
	"github.com/rogpeppe/go-internal/diff"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// Lint returns all mistakes in the rules of a file, and the first mistake among the members of the
// ledger. If the rules have no other mistake, strategies returns the rules that name a strategy
// which is not registered.
func Lint(file string, data []byte, strategies func() ([]recovery.Problem, error)) (problems []recovery.Problem, err error) {
	rules, ledger := policyParts(data)
	if rules || !ledger {
		problems = recovery.Lint(file, data)
		if len(problems) == 0 {
			if problems, err = strategies(); err != nil {
				return nil, err
			}
		}
	}
	if !ledger {
		return problems, nil
	}
	policy, err := parseMembers(file, data)
	if err == nil {
		err = Obeyable(file, data, policy)
	}
	wrong, ok := errors.AsType[*recovery.Error](err)
	if !ok {
		return problems, err
	}
	for _, p := range wrong.Problems {
		found := slices.ContainsFunc(problems, func(other recovery.Problem) bool { return other.Line == p.Line && other.Column == p.Column })
		if !found {
			problems = append(problems, p)
		}
	}
	slices.SortStableFunc(problems, func(a, b recovery.Problem) int { return a.Line - b.Line })
	return problems, nil
}

// Plain returns a policy file without comments, in one order and spelling,
// and whether it has more than the rules of recovery.
func Plain(file string, data []byte) (text []byte, whole bool, err error) {
	if _, whole = policyParts(data); whole {
		policy, err := Parse(file, data)
		if err != nil {
			return nil, true, err
		}
		text, err = Format(policy)
		return text, true, err
	}
	p, err := recovery.Load(file, data)
	if err != nil {
		return nil, false, err
	}
	text, err = plainRules(p)
	return text, false, err
}

func plainRules(p *recovery.Policy) ([]byte, error) {
	return yaml.MarshalWithOptions(yaml.MapSlice{{Key: "recovery", Value: p}}, yaml.IndentSequence(true))
}

// PlainDefault is the default policy as plainPolicy writes it.
func PlainDefault(whole bool) ([]byte, error) {
	rules, err := plainRules(recovery.Default())
	if err != nil || !whole {
		return rules, err
	}
	members, err := Format(entry.Genesis(""))
	return slices.Concat(members, rules), err
}

// Default is the file of the default policy: the policy with which a ledger begins, and
// the built-in rules.
func Default() ([]byte, error) {
	members, err := Format(entry.Genesis(""))
	return slices.Concat(members, []byte("\n"), recovery.DefaultDocument()), err
}

// DefaultPolicy is the policy in the file of [Default].
func DefaultPolicy() *entry.Policy {
	p := entry.Genesis("")
	p.Recovery = recovery.Default().JSON()
	return p
}

// Diff returns the changes from one policy file to another, or nothing if both files
// mean the same.
func Diff(older, newer *entry.Policy, name string) ([]byte, error) {
	was, err := Format(older)
	if err != nil {
		return nil, err
	}
	is, err := Format(newer)
	if err != nil {
		return nil, err
	}
	return diff.Diff("in force", was, name, is), nil
}

// Change is a member in which two policies differ. A member that one of
// them does not have is left out.
type Change struct {
	Path string         `json:"path"` // JSON Pointer (RFC 6901)
	Was  jsontext.Value `json:"was,omitempty"`
	Is   jsontext.Value `json:"is,omitempty"`
}

// Changes compares two policies as plainPolicy writes them, member by
// member, in the order of their paths.
func Changes(was, is []byte) ([]Change, error) {
	older, newer := map[string]jsontext.Value{}, map[string]jsontext.Value{}
	for _, side := range []struct {
		text   []byte
		leaves map[string]jsontext.Value
	}{{was, older}, {is, newer}} {
		var document any
		if err := yaml.Unmarshal(side.text, &document); err != nil {
			return nil, err
		}
		if err := flatten("", document, side.leaves); err != nil {
			return nil, err
		}
	}
	all := maps.Clone(older)
	maps.Copy(all, newer)
	var changes []Change
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if string(older[path]) != string(newer[path]) {
			changes = append(changes, Change{path, older[path], newer[path]})
		}
	}
	return changes, nil
}

// flatten collects the leaves of a document by their paths. An empty object or
// array is a leaf.
func flatten(path string, node any, leaves map[string]jsontext.Value) error {
	switch node := node.(type) {
	case map[string]any:
		for name, value := range node {
			if err := flatten(string(jsontext.Pointer(path).AppendToken(name)), value, leaves); err != nil {
				return err
			}
		}
		if len(node) > 0 {
			return nil
		}
	case []any:
		for i, value := range node {
			if err := flatten(path+"/"+strconv.Itoa(i), value, leaves); err != nil {
				return err
			}
		}
		if len(node) > 0 {
			return nil
		}
	}
	value, err := json.Marshal(node, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("policy member %s: %w", path, err)
	}
	leaves[path] = value
	return nil
}

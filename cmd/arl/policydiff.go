package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
)

// policyChange is a member in which two policies differ. A member that one of
// them does not have is left out.
type policyChange struct {
	Path string         `json:"path"` // JSON Pointer (RFC 6901)
	Was  jsontext.Value `json:"was,omitempty"`
	Is   jsontext.Value `json:"is,omitempty"`
}

// policyChanges compares two policies as plainPolicy writes them, member by
// member, in the order of their paths.
func policyChanges(was, is []byte) ([]policyChange, error) {
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
	var changes []policyChange
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if string(older[path]) != string(newer[path]) {
			changes = append(changes, policyChange{path, older[path], newer[path]})
		}
	}
	return changes, nil
}

func (a *app) printPolicyChanges(was, is []byte) error {
	changes, err := policyChanges(was, is)
	for _, change := range changes {
		err = errors.Join(err, a.printJSON(change))
	}
	return err
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

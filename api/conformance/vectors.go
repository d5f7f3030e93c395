package conformance

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"recoveryledger/docs/draft"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Groups returns the folders of vectors that are a verifier's to judge, ascending.
func Groups() []string {
	return []string{"bundle", "envelope", "evidence", "hash", "history", "key", "leaf", "merkle", "note", "payload", "prefix", "subjects"}
}

// A VectorError reports a file that is no protocol vector.
type VectorError struct {
	File string
	Err  error
}

// Error names the file and says where vectors are.
func (e *VectorError) Error() string {
	return fmt.Sprintf("vector %s: %v: pass a directory with the layout of testdata/vectors", e.File, e.Err)
}

// Unwrap returns the cause.
func (e *VectorError) Unwrap() error { return e.Err }

// object is a JSON object of which the kit reads some members.
type object = map[string]any

// question is one vector as it is asked.
type question struct {
	id, about string
	line      []byte // the question, without a line break
	refused   string // problem type, or step and rule
	result    any    // of what is accepted; nil: none
}

// readVectors reads all vectors by name, such as bundle/expired.
func readVectors(dir fs.FS) (map[string]object, error) {
	files := map[string]object{}
	for _, group := range Groups() {
		err := fs.WalkDir(dir, group, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || path.Ext(name) != ".json" {
				return err
			}
			data, err := fs.ReadFile(dir, name)
			if err != nil {
				return err
			}
			vector, err := decode(data)
			if err != nil {
				return err
			}
			files[strings.TrimSuffix(name, ".json")] = vector
			return nil
		})
		if err != nil {
			return nil, &VectorError{group, err}
		}
	}
	return files, nil
}

// decode reads an object; its numbers stay as they are written.
func decode(data []byte) (value object, err error) {
	numbers := json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, value *any) error {
		if d.PeekKind() != '0' {
			return errors.ErrUnsupported
		}
		raw, err := d.ReadValue()
		*value = raw.Clone()
		return err
	}))
	err = json.Unmarshal(data, &value, numbers)
	return value, err
}

func ask(files map[string]object, name string) (*question, error) {
	vector := files[name]
	group, _, _ := strings.Cut(name, "/")
	q := &question{id: name, result: vector["want"]}
	q.about, _ = vector["desc"].(string)
	q.refused, _ = vector["wantErr"].(string)
	asked := object{"id": name, "group": group}
	for member, value := range vector {
		if !slices.Contains([]string{"desc", "wantErr", "want", "field", "case", "like", "patch"}, member) {
			asked[member] = value
		}
	}
	if want, is := q.result.(object); is && group == "note" && want["note"] != nil {
		asked["note"] = want["note"]
	}
	if input, has := vector["input"]; has {
		data, err := join(input)
		if err != nil {
			return nil, &VectorError{name, err}
		}
		asked["input"] = base64.StdEncoding.EncodeToString(data)
	}
	var err error
	switch group {
	case "bundle":
		err = askBundle(files, name, asked)
	case "evidence":
		text, _ := vector["evidence"].(string)
		asked["evidence"] = base64.StdEncoding.EncodeToString([]byte(text))
	case "history":
		err = askHistory(files, name, asked)
	}
	if err != nil {
		return nil, &VectorError{name, err}
	}
	q.line, err = json.Marshal(asked, json.Deterministic(true))
	return q, err
}

// join joins the parts of an input, as the README of the vectors says.
func join(input any) ([]byte, error) {
	switch input := input.(type) {
	case string:
		return []byte(input), nil
	case []any:
		var all []byte
		for _, part := range input {
			data, err := join(part)
			if err != nil {
				return nil, err
			}
			all = append(all, data...)
		}
		return all, nil
	case object:
		if text, is := input["repeat"].(string); is {
			times, err := strconv.Atoi(fmt.Sprint(input["times"]))
			if err != nil || times < 0 || times*len(text) > 1<<24 {
				return nil, fmt.Errorf("times %v: want a small number", input["times"])
			}
			return []byte(strings.Repeat(text, times)), nil
		}
		if text, is := input["base64"].(string); is {
			return base64.StdEncoding.DecodeString(text)
		}
		data, err := join(input["encode"])
		return []byte(base64.StdEncoding.EncodeToString(data)), err
	}
	return nil, fmt.Errorf("input %v: want text, parts, repeat, base64 or encode", input)
}

// askBundle puts bundle and accepted state, each in its one form, into a question.
func askBundle(files map[string]object, name string, asked object) error {
	c, err := caseOf(files, name, 0)
	if err != nil {
		return err
	}
	text, is := c["bundle"].(string)
	data := []byte(text)
	if !is {
		var b bundle.Bundle
		if err := convert(c["bundle"], &b); err != nil {
			return err
		}
		if data, err = b.Encode(); err != nil {
			return err
		}
	}
	var accepted bundle.Accepted
	if err := convert(c["accepted"], &accepted); err != nil {
		return err
	}
	state, err := accepted.Encode()
	asked["bundle"], asked["accepted"], asked["now"] = base64.StdEncoding.EncodeToString(data), string(state), c["now"]
	return err
}

// askHistory puts a history in its one form, the pinned root and what is asked into a
// question.
func askHistory(files map[string]object, name string, asked object) error {
	c, err := caseOf(files, name, 0)
	if err != nil {
		return err
	}
	text, is := c["history"].(string)
	data := []byte(text)
	if !is {
		var h verify.History
		if err := convert(c["history"], &h); err != nil {
			return err
		}
		if data, err = json.Marshal(&h); err != nil { // also one that is refused for its form
			return err
		}
	}
	asked["history"], asked["root"], asked["questions"] = base64.StdEncoding.EncodeToString(data), c["root"], c["questions"]
	return nil
}

func convert(tree, into any) error {
	data, err := json.Marshal(tree, json.Deterministic(true)) // a leaf stands in canonical form
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// caseOf is a vector's case: its own, or that of another vector with a patch. Vectors are like
// others at most eight deep.
func caseOf(files map[string]object, name string, depth int) (object, error) {
	vector, known := files[name]
	if !known || depth > 8 {
		return nil, fmt.Errorf("like %s: want another vector", name)
	}
	if c, is := vector["case"]; is {
		data, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		return decode(data) // a copy, since patches change it
	}
	like, _ := vector["like"].(string)
	c, err := caseOf(files, path.Dir(name)+"/"+like, depth+1)
	if err != nil {
		return nil, err
	}
	var tree any = c
	patches, _ := vector["patch"].([]any)
	for _, p := range patches {
		p, _ := p.(object)
		at, _ := p["path"].(string)
		op, _ := p["op"].(string)
		if tree, err = patch(tree, strings.Split(at, "/")[1:], op, p["value"]); err != nil {
			return nil, fmt.Errorf("patch %s: %w", at, err)
		}
	}
	c, _ = tree.(object)
	return c, nil
}

// patch does one operation of RFC 6902, add, remove or replace, and returns the changed tree.
func patch(tree any, tokens []string, op string, value any) (any, error) {
	if len(tokens) == 0 {
		return value, nil
	}
	switch node := tree.(type) {
	case object:
		if len(tokens) == 1 && op == "remove" {
			delete(node, tokens[0])
			return node, nil
		}
		child, err := patch(node[tokens[0]], tokens[1:], op, value)
		node[tokens[0]] = child
		return node, err
	case []any:
		i, err := strconv.Atoi(tokens[0])
		last := len(tokens) == 1
		switch {
		case err != nil || i < 0 || i > len(node) || i == len(node) && (!last || op != "add"):
			return nil, fmt.Errorf("no element %s", tokens[0])
		case last && op == "add":
			return slices.Insert(node, i, value), nil
		case last && op == "remove":
			return slices.Delete(node, i, i+1), nil
		}
		node[i], err = patch(node[i], tokens[1:], op, value)
		return node, err
	}
	return nil, fmt.Errorf("%s leads nowhere", strings.Join(tokens, "/"))
}

// statementsOf are the statements of the draft that a vector holds to.
func statementsOf(name string) []string {
	return append([]string{}, draft.OfVector(name)...)
}

package entry_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/entry"
)

// TestExamples: the example of each kind is a payload that Decode accepts once it
// has a header, as arl entry submit gives it.
func TestExamples(t *testing.T) {
	for _, kind := range entry.Kinds() {
		var members map[string]jsontext.Value
		must(t, json.Unmarshal(entry.Example(kind), &members))
		for name, value := range map[string]string{"v": "1", "jti": `"0190b9d4-7d3e-7cc0-9f11-6c0d8e6a5b21"`, "iss": `"my-agent"`, "aud": `"my.log"`, "iat": "1790000000"} {
			if _, ok := members[name]; ok {
				t.Errorf("%s: the example has %s, which submitting adds", kind, name)
			}
			members[name] = jsontext.Value(value)
		}
		payload, err := json.Marshal(members)
		must(t, err)
		if _, err := entry.NewRaw(kind, payload); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if entry.Example("defs") != nil || entry.Example("no-kind") != nil {
		t.Error("an example of what is no kind")
	}
}

// TestKindsPage: docs/kinds.md is made of the schemas, and every member of every
// kind has a meaning there.
func TestKindsPage(t *testing.T) {
	page := kindsPage(t)
	path := filepath.FromSlash("../../docs/kinds.md")
	if *update {
		must(t, os.WriteFile(path, []byte(page), 0o600))
	}
	content, err := os.ReadFile(path)
	must(t, err)
	if string(content) != page {
		t.Error("docs/kinds.md is not what the schemas say: go test ./ledger/entry -run TestKindsPage -update")
	}
}

// schemaNode is what the page reads of a JSON Schema.
type schemaNode struct {
	Ref         string                 `json:"$ref"`
	Defs        map[string]*schemaNode `json:"$defs"`
	Title       string                 `json:"title"`
	Description string                 `json:"description"`
	Type        string                 `json:"type"`
	Const       jsontext.Value         `json:"const"`
	Enum        []string               `json:"enum"`
	AllOf       []schemaNode           `json:"allOf"`
	AnyOf       []schemaNode           `json:"anyOf"`
	Items       *schemaNode            `json:"items"`
	Required    []string               `json:"required"`
	Properties  jsontext.Value         `json:"properties"`
}

// kindsWriter writes the page from the schemas.
type kindsWriter struct {
	strings.Builder
	t    *testing.T
	defs schemaNode
	own  schemaNode // of the kind that is being written
}

func kindsPage(t *testing.T) string {
	t.Helper()
	w := &kindsWriter{t: t}
	must(t, json.Unmarshal(entry.Schema("defs"), &w.defs))
	w.WriteString("# Kinds and members\n\n" +
		"This page is made from the JSON Schemas of the payloads, which `GET /openapi.json` serves too.\n" +
		"`arl entry template KIND` writes an example of a kind. A member is required where it has a ●.\n" +
		"Words such as *name* or *digest* are explained [at the end](#types).\n\n" +
		"Members of every kind:\n\n")
	w.members("", w.defs.Defs["header"])
	w.WriteString("\nMembers of every kind but policy, agent and index:\n\n")
	w.members("", w.defs.Defs["workflow"])
	for _, kind := range entry.Kinds() {
		w.own = schemaNode{}
		must(t, json.Unmarshal(entry.Schema(string(kind)), &w.own))
		_, title, _ := strings.Cut(w.own.Title, ": ")
		fmt.Fprintf(w, "\n## %s\n\n%s.\n\n", kind, strings.ToUpper(title[:1])+title[1:])
		w.members("", &w.own)
	}
	w.WriteString("\n## Types\n\n| type | form |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(w.defs.Defs)) {
		if form, ok := typeForms[name]; ok {
			fmt.Fprintf(w, "| %s | %s |\n", name, form)
		}
	}
	return w.String()
}

// typeForms says in words what the schema of a type says in patterns.
var typeForms = map[string]string{
	"base64":     "standard base64 with padding (RFC 4648)",
	"count":      "whole number from 0 to 2^53−1",
	"digest":     "`sha256:` and 64 hexadecimal digits; `hmac-sha256:` where the content could be guessed",
	"entry_ref":  "`{\"index\": …, \"leaf_hash\": …}`: an entry of the same log",
	"hash":       "32 bytes in base64 (RFC 6962)",
	"head_ref":   "`{\"size\": …, \"root\": …}`: a tree head",
	"index":      "position in the log, from 0",
	"integer":    "whole number from −(2^53−1) to 2^53−1",
	"name":       "1 to 128 characters of A–Z a–z 0–9 . _ : / @ -",
	"positive":   "whole number from 1 to 2^53−1",
	"public_key": "SubjectPublicKeyInfo in DER as base64: Ed25519 or ECDSA P-256",
	"ref":        "`issuer#id`, two names",
	"roles":      "list of agent, enroller, coordinator, operator, approver, monitor, engine",
	"text":       "1 to 1,024 bytes; untrusted",
	"uri":        "1 to 1,024 bytes; never fetched",
	"uuid":       "UUID in lower case",
	"word":       "1 to 64 characters of a–z 0–9 _ . -",
}

// members writes the table of an object's members, those of objects inside
// behind it.
func (w *kindsWriter) members(prefix string, object *schemaNode) {
	if prefix == "" {
		w.WriteString("| member | | values | meaning |\n|---|---|---|---|\n")
	}
	for name, member := range w.properties(object) {
		if name == "crit" && object.Title != "" {
			continue // stands once, in the header
		}
		path := prefix + name
		mandatory := " "
		if slices.Contains(object.Required, name) {
			mandatory = "●"
		}
		values, inner := w.values(member)
		meaning := cmp.Or(member.Description, w.resolve(member).Description)
		if meaning == "" {
			w.t.Errorf("%s of %q: the schema has no description", path, w.own.Title)
		}
		fmt.Fprintf(w, "| `%s` | %s | %s | %s |\n", path, mandatory, values, meaning)
		if inner != nil {
			w.members(path+".", inner)
		}
	}
}

// properties yields the members of an object in the order of the schema.
func (w *kindsWriter) properties(object *schemaNode) func(yield func(string, *schemaNode) bool) {
	return func(yield func(string, *schemaNode) bool) {
		if len(object.Properties) == 0 {
			return
		}
		values := jsontext.NewDecoder(strings.NewReader(string(object.Properties)))
		_, err := values.ReadToken()
		must(w.t, err)
		for values.PeekKind() == '"' {
			name, err := values.ReadToken()
			must(w.t, err)
			key := name.String()
			var member schemaNode
			must(w.t, json.UnmarshalDecode(values, &member))
			if !yield(key, &member) {
				return
			}
		}
	}
}

// resolve follows a reference.
func (w *kindsWriter) resolve(node *schemaNode) *schemaNode {
	switch {
	case node.Ref == "":
		return node
	case strings.HasPrefix(node.Ref, "defs.json#/$defs/"):
		return w.defs.Defs[strings.TrimPrefix(node.Ref, "defs.json#/$defs/")]
	case w.own.Defs[strings.TrimPrefix(node.Ref, "#/$defs/")] != nil:
		return w.own.Defs[strings.TrimPrefix(node.Ref, "#/$defs/")]
	}
	return w.defs.Defs[strings.TrimPrefix(node.Ref, "#/$defs/")]
}

// values describes what a member may hold; inner is the object whose members are
// to be listed, if it holds one.
func (w *kindsWriter) values(node *schemaNode) (text string, inner *schemaNode) {
	name := node.Ref[strings.LastIndexByte(node.Ref, '/')+1:]
	if _, ok := typeForms[name]; ok {
		return name, nil
	}
	node = w.resolve(node)
	switch {
	case len(node.Const) > 0:
		return "`" + strings.Trim(string(node.Const), `"`) + "`", nil
	case len(node.Enum) > 0:
		return strings.Join(node.Enum, ", "), nil
	case len(node.AnyOf) > 0:
		var all []string
		for i := range node.AnyOf {
			one, _ := w.values(&node.AnyOf[i])
			all = append(all, one)
		}
		return strings.Join(all, " or "), nil
	case node.Items != nil:
		one, inner := w.values(node.Items)
		return "list of " + one, inner
	case len(node.Properties) > 0:
		return "object", node
	}
	return cmp.Or(node.Type, "any"), nil
}

package draft_test

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify/bundle"
)

// coreKinds are the kinds of the draft; task, attempt and run are the product's.
var coreKinds = []string{"policy", "agent", "execution", "checkpoint", "signal", "decision", "approval", "outcome", "record"}

// product are members that the draft leaves out: readers of the core ignore them.
var product = []string{"execution.task", "execution.cost_micro_usd", "execution.latency_ms", "agent.capabilities",
	"policy.recovery", "policy.index", "policy.predecessor", "policy.rollout"}

// schemaNode is what the CDDL is made of.
type schemaNode struct {
	Ref                  string         `json:"$ref"`
	Defs                 jsontext.Value `json:"$defs"`
	Description          string         `json:"description"`
	Type                 string         `json:"type"`
	Pattern              string         `json:"pattern"`
	Minimum              jsontext.Value `json:"minimum"`
	Maximum              jsontext.Value `json:"maximum"`
	MaxLength            int            `json:"maxLength"`
	MinItems             int            `json:"minItems"`
	Const                jsontext.Value `json:"const"`
	Enum                 []string       `json:"enum"`
	AnyOf                []schemaNode   `json:"anyOf"`
	Items                *schemaNode    `json:"items"`
	Required             []string       `json:"required"`
	Properties           jsontext.Value `json:"properties"`
	PropertyNames        *schemaNode    `json:"propertyNames"`
	AdditionalProperties jsontext.Value `json:"additionalProperties"`
}

type member struct {
	name string
	node schemaNode
}

// ordered decodes an object of schemas in the order of its members.
func ordered(t *testing.T, object jsontext.Value) (list []member) {
	t.Helper()
	if len(object) == 0 {
		return nil
	}
	d := jsontext.NewDecoder(strings.NewReader(string(object)))
	_, err := d.ReadToken()
	must(t, err)
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		must(t, err)
		m := member{name: name.String()}
		value, err := d.ReadValue()
		must(t, err)
		if value.Kind() == '{' {
			must(t, json.Unmarshal(value, &m.node))
			list = append(list, m)
		}
	}
	return list
}

// cddl writes rules; nested objects get rules of their own.
type cddl struct {
	t     *testing.T
	rules strings.Builder
}

// taken are names that the prelude of CDDL has with another meaning.
var taken = map[string]string{"text": "short-text", "uri": "location", "integer": "safe-integer"}

func hyphened(name string) string {
	return cmp.Or(taken[name], strings.ReplaceAll(name, "_", "-"))
}

// rule writes a rule, its choices broken at width 69.
func (c *cddl) rule(name, text string) {
	fmt.Fprintf(&c.rules, "%s\n", broken(name+" = "+text, "  "))
}

// broken breaks a line of choices.
func broken(line, indent string) string {
	var lines []string
	for len(line) > 66 {
		i := strings.LastIndex(line[:66], " / ")
		if i < 0 {
			break
		}
		lines = append(lines, line[:i]+" /")
		line = indent + line[i+3:]
	}
	return strings.Join(append(lines, line), "\n")
}

// typeOf returns the CDDL of a schema; name is that of the rule that a nested
// object gets.
func (c *cddl) typeOf(name string, n *schemaNode) string {
	switch {
	case n.Ref != "":
		return hyphened(strings.TrimSuffix(n.Ref[strings.LastIndex(n.Ref, "/")+1:], ".json"))
	case len(n.Const) > 0:
		return string(n.Const)
	case len(n.Enum) > 0:
		return `"` + strings.Join(n.Enum, `" / "`) + `"`
	case len(n.AnyOf) > 0:
		var list []string
		for i := range n.AnyOf {
			list = append(list, c.typeOf(name, &n.AnyOf[i]))
		}
		return strings.Join(list, " / ")
	case n.PropertyNames != nil:
		c.rule(name+"-name", c.typeOf("", n.PropertyNames))
		return "{ * " + name + "-name => count }"
	}
	switch n.Type {
	case "null":
		return "null"
	case "boolean":
		return "bool"
	case "integer":
		return strings.Trim(string(n.Minimum), " ") + ".." + strings.Trim(string(n.Maximum), " ")
	case "array":
		least := "*"
		if n.MinItems > 0 {
			least = "+"
		}
		inner := c.typeOf(name, n.Items)
		if strings.Contains(inner, " / ") {
			c.rule(name, inner)
			inner = name
		}
		return "[" + least + " " + inner + "]"
	case "object":
		c.object(name, n, nil)
		return name
	case "string":
		if n.MaxLength > 0 {
			return fmt.Sprintf("tstr .size (1..%d)", n.MaxLength)
		}
		return "tstr"
	}
	c.t.Fatalf("%s: no CDDL for %+v", name, n)
	return ""
}

// object writes the rule of an object, after those of nested ones.
func (c *cddl) object(name string, n *schemaNode, first []string) {
	lines := first
	for _, m := range ordered(c.t, n.Properties) {
		if m.name == "crit" && name != "header" || slices.Contains(product, name+"."+m.name) {
			continue
		}
		optional := "? "
		if slices.Contains(n.Required, m.name) {
			optional = ""
		}
		line := optional + m.name + ": " + c.typeOf(name+"-"+hyphened(m.name), &m.node) + ","
		lines = append(lines, line)
	}
	if string(n.AdditionalProperties) != "false" {
		lines = append(lines, "extension")
	}
	text := name + " = {"
	for _, word := range append(lines, "}") {
		text = flowing(text, word)
	}
	c.rules.WriteString(text + "\n")
}

// flowing appends a member to a rule, on the same line if there is room. A choice is broken.
func flowing(text, member string) string {
	const width = 69
	for {
		at := strings.LastIndex(text, "\n") + 1
		if len(text)-at+1+len(member) <= width {
			return text + " " + member
		}
		i := strings.LastIndex(member[:max(0, min(len(member), width-3-(len(text)-at)))], " / ")
		if i < 0 {
			return text + "\n  " + broken(member, "    ")
		}
		text, member = text+" "+member[:i]+" /\n   ", member[i+3:]
	}
}

func schemaOf(t *testing.T, name string) *schemaNode {
	t.Helper()
	n := new(schemaNode)
	must(t, json.Unmarshal(entry.Schema(name), n))
	return n
}

// TestCDDL makes the CDDL of the objects from their JSON Schemas.
func TestCDDL(t *testing.T) {
	for _, name := range []string{"envelope", "leaf", "receipt"} {
		c := &cddl{t: t}
		n := schemaOf(t, name)
		if name == "envelope" { // the type of the payload is shown as text
			n.Properties = jsontext.Value(strings.Replace(string(n.Properties), `"enum": [`, `"type": "string", "kinds": [`, 1))
		}
		c.object(name, n, nil)
		same(t, "generated/"+name+".cddl", c.rules.String())
	}
	head, types, _ := strings.Cut(commonCDDL(t), "extension = ")
	same(t, "generated/header.cddl", head)
	scalars, objects, _ := strings.Cut("extension = "+types, "entry-ref = ")
	same(t, "generated/types.cddl", scalars)
	same(t, "generated/shared.cddl", "entry-ref = "+objects)
	for _, kind := range coreKinds {
		c := &cddl{t: t}
		first := []string{"header,", "wid: name,"}
		if kind == "policy" || kind == "agent" {
			first = first[:1]
		}
		n := schemaOf(t, kind)
		for _, m := range ordered(t, n.Defs) {
			c.object(hyphened(m.name), &m.node, nil)
		}
		c.object(kind, n, first)
		text := c.rules.String()
		if parts, whole, ok := strings.Cut(text, "\n"+kind+" = {"); ok && kind == "policy" { // one block would leave half a page empty
			same(t, "generated/policy-parts.cddl", parts+"\n")
			text = kind + " = {" + whole
		}
		same(t, "generated/"+kind+".cddl", text)
	}
}

// commonCDDL is the rules that several kinds use.
func commonCDDL(t *testing.T) string {
	t.Helper()
	c := &cddl{t: t}
	for _, m := range ordered(t, schemaOf(t, "defs").Defs) {
		name := hyphened(m.name)
		switch {
		case m.name == "workflow" || m.name == "no_workflow" || m.name == "integer":
		case m.name == "header":
			c.header(&m.node)
		case m.name == "roles":
			m.node.Items.Enum = slices.DeleteFunc(m.node.Items.Enum, func(role string) bool { return role == "engine" })
			c.rule("role", c.typeOf("", m.node.Items))
			c.rule("roles", "[* role]")
		case m.name == "base64":
			c.rule(name, "tstr ; standard, padded")
		case m.node.Pattern != "":
			c.rule(name, "tstr .regexp "+regexpOf(m.node.Pattern))
		case m.node.Type == "object":
			c.object(name, &m.node, nil)
		case m.node.Type == "array":
			c.rule(name, "[* "+c.typeOf(name+"-item", m.node.Items)+"]")
		default:
			c.rule(name, c.typeOf(name, &m.node))
		}
	}
	return c.rules.String()
}

// header writes the group of the members of every payload.
func (c *cddl) header(n *schemaNode) {
	text := "header = ("
	for _, m := range ordered(c.t, n.Properties) {
		optional := ""
		if m.name == "crit" {
			optional = "? "
		}
		text = flowing(text, optional+m.name+": "+c.typeOf("header-"+m.name, &m.node)+",")
	}
	c.rules.WriteString(text + " )\nextension = ( * tstr => any ) ; ignored, unless crit lists it\n")
}

// regexpOf returns a pattern as CDDL has it, which matches the whole text.
func regexpOf(pattern string) string {
	inner := strings.TrimSuffix(strings.TrimPrefix(pattern, "^"), "$")
	if len(inner) <= 46 {
		return `"` + inner + `"`
	}
	i := 20 + strings.IndexAny(inner[20:], "[(#")
	return "(\n  \"" + inner[:i] + "\" cat\n  \"" + inner[i:] + `")`
}

// TestSignalSchema shows the JSON Schema of a signal, broken at 69 columns.
func TestSignalSchema(t *testing.T) {
	var members map[string]jsontext.Value
	must(t, json.Unmarshal(entry.Schema("signal"), &members))
	delete(members, "examples")
	var b strings.Builder
	b.WriteString("{\n  \"$schema\": " + string(members["$schema"]) + ",\n  \"title\": \"signal\",\n")
	b.WriteString("  \"allOf\": [{ \"$ref\": \"defs.json#/$defs/header\" },\n            { \"$ref\": \"defs.json#/$defs/workflow\" }],\n")
	var required []string
	must(t, json.Unmarshal(members["required"], &required))
	b.WriteString("  \"required\": [\n" + folded(required, "    ") + "\n  ],\n  \"properties\": {\n")
	list := ordered(t, members["properties"])
	for i, m := range list {
		comma := ","
		if i == len(list)-2 {
			comma = ""
		}
		switch {
		case m.name == "crit":
		case m.node.Ref != "":
			fmt.Fprintf(&b, "    %q: { \"$ref\": %q }%s\n", m.name, m.node.Ref, comma)
		default:
			fmt.Fprintf(&b, "    %q: { \"enum\": [\n%s\n    ] }%s\n", m.name, folded(m.node.Enum, "      "), comma)
		}
	}
	b.WriteString("  }\n}\n")
	if !jsontext.Value(b.String()).IsValid() {
		t.Fatal("no JSON")
	}
	same(t, "generated/signal.schema.json", b.String())
}

// folded is a list of texts in JSON, broken at 66 columns.
func folded(words []string, indent string) string {
	line, lines := indent, []string{}
	for i, word := range words {
		text := fmt.Sprintf("%q", word)
		if i < len(words)-1 {
			text += ","
		}
		if len(line)+len(text) > 66 {
			lines, line = append(lines, strings.TrimRight(line, " ")), indent
		}
		line += text + " "
	}
	return strings.Join(append(lines, strings.TrimRight(line, " ")), "\n")
}

// TestBundleCDDL makes the CDDL of the bundle from its type. What proves absences is not in the
// draft.
func TestBundleCDDL(t *testing.T) {
	c := &cddl{t: t}
	c.structure("step", reflect.TypeFor[bundle.ChainStep]())
	c.structure("member", reflect.TypeFor[entry.Member]())
	c.structure("bundle-member", reflect.TypeFor[bundle.PlanMember]())
	c.structure("bundle", reflect.TypeFor[bundle.Bundle]())
	same(t, "generated/bundle.cddl", c.rules.String())
}

// structure writes the rule of a type that JSON Schema does not describe.
func (c *cddl) structure(name string, of reflect.Type) {
	types := map[reflect.Type]string{
		reflect.TypeFor[entry.Principal](): "name", reflect.TypeFor[entry.Ref](): "ref",
		reflect.TypeFor[merkle.Hash](): "hash", reflect.TypeFor[uint64](): "index", reflect.TypeFor[string](): "tstr",
		reflect.TypeFor[bundle.Leaf](): "{ index: index, leaf: leaf }", reflect.TypeFor[bundle.ChainStep](): "step",
		reflect.TypeFor[bundle.PlanMember](): "bundle-member", reflect.TypeFor[entry.Member](): "member",
	}
	text := name + " = {"
	for field := range of.Fields() {
		tag, optional, _ := strings.Cut(field.Tag.Get("json"), ",")
		if tag == "" || name == "bundle" && tag == "index" {
			continue
		}
		inner, list := field.Type, ""
		if inner.Kind() == reflect.Slice {
			inner, list = inner.Elem(), "[* "
		}
		value := types[inner]
		switch {
		case tag == "method":
			value = fmt.Sprintf("%q / %q / %q / %q / %q", entry.MethodNone, entry.MethodCancel, entry.MethodRestore, entry.MethodCompensate, entry.MethodResidual)
		case tag == "rule":
			value = fmt.Sprintf("%q / %q / %q", bundle.RuleDependent, bundle.RuleLine, bundle.RuleSeed)
		case value == "":
			c.t.Fatalf("%s.%s: no CDDL for %s", name, tag, inner)
		case list != "" && optional != "":
			list = "[+ "
		}
		if list != "" {
			value = list + value + "]"
		}
		if optional != "" {
			tag = "? " + tag
		}
		text = flowing(text, tag+": "+value+",")
	}
	c.rules.WriteString(strings.TrimSuffix(text, ",") + " }\n")
}

package recovery

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kaptinlin/jsonschema"
)

// topMembers are the members of a policy file. The ledger defines all of them except recovery, and
// checks them when the file becomes an entry.
func topMembers() []string {
	return []string{"authority", "roles", "windows", "limits", "quotas", "quorum", "max_step_ms", "witnesses", "index", "ledger_keys", recoveryMember}
}

const recoveryMember = "recovery"

// rules returns a file's member recovery.
func (s *source) rules(tree any) (any, bool) {
	top, ok := tree.(map[string]any)
	if !ok {
		if len(s.problems) == 0 {
			s.report(position{1, 1}, "", "not a policy", "start from arl policy show")
		}
		return nil, false
	}
	for _, name := range slices.Sorted(maps.Keys(top)) {
		if !slices.Contains(topMembers(), name) {
			fix := oneOf(name, topMembers())
			if slices.Contains([]string{"rules", "guards", "models", "thresholds"}, name) {
				fix = "indent it below recovery:"
			}
			s.report(s.members["/"+name], "/"+name, "unknown member", fix)
		}
	}
	rules, ok := top[recoveryMember]
	if !ok {
		s.report(position{1, 1}, "/"+recoveryMember, "missing", "start from arl policy show")
	}
	return rules, ok
}

// sorted returns the problems in the order of lines.
func (s *source) sorted() []Problem {
	slices.SortStableFunc(s.problems, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		if a.Column != b.Column {
			return a.Column - b.Column
		}
		return strings.Compare(a.What, b.What)
	})
	return s.problems
}

// checkSchema checks the member recovery against the schema.
func (s *source) checkSchema(rules any) error {
	schema, err := jsonschema.NewCompiler().Compile([]byte(schemaText))
	if err != nil {
		return fmt.Errorf("recovery: compile schema: %w", err)
	}
	s.look(schema, "/"+recoveryMember, rules)
	return nil
}

// look reports what a value has against its schema, and goes on to the values within it. The
// schema of a policy file applies schemas by $ref, properties, additionalProperties, items and
// propertyNames alone (TestSchemaKeywords).
func (s *source) look(schema *jsonschema.Schema, at string, value any) {
	for schema.ResolvedRef != nil {
		schema = schema.ResolvedRef
	}
	found := schema.Validate(value)
	if found.IsValid() {
		return
	}
	unread := slices.ContainsFunc(s.problems, func(p Problem) bool { return p.Field == field(at) })
	for _, keyword := range []string{"type", "enum", "minItems", "maxItems", "maxProperties", "minLength", "maxLength", "pattern", "minimum", "maximum"} {
		if found.Errors[keyword] == nil {
			continue
		}
		if !unread {
			what, fix := says(schema, found.Errors[keyword], at, value)
			s.wrong(at, what, fix)
		}
		if keyword == "type" || keyword == "enum" {
			return
		}
		break
	}
	switch value := value.(type) {
	case map[string]any:
		if !unread {
			s.lookForMembers(schema, at, value)
		}
		s.lookAtMembers(schema, at, value)
	case []any:
		for i := range value {
			if schema.Items != nil {
				s.look(schema.Items, element(at, i), value[i])
			}
		}
	}
}

// lookForMembers reports members that are missing or unknown.
func (s *source) lookForMembers(schema *jsonschema.Schema, at string, object map[string]any) {
	for _, name := range schema.Required {
		if _, ok := object[name]; !ok {
			s.report(s.at(at), at+"/"+name, "missing", "add it; arl policy show has an example")
		}
	}
	if others := schema.AdditionalProperties; others == nil || others.Boolean == nil {
		return
	}
	known := slices.Sorted(maps.Keys(members(schema)))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(known, name) {
			below := at + "/" + pointerPart(name)
			s.report(s.members[below], below, "unknown member", oneOf(name, known))
		}
	}
}

// lookAtMembers looks at the names and the values of members.
func (s *source) lookAtMembers(schema *jsonschema.Schema, at string, object map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		below, value := at+"/"+pointerPart(name), object[name]
		if names := schema.PropertyNames; names != nil && !names.Validate(name).IsValid() {
			what, fix := wrongWord(names, below, name)
			s.report(s.members[below], below, what, fix)
			continue
		}
		switch member, known := members(schema)[name]; {
		case known:
			s.look(member, below, value)
		case schema.AdditionalProperties != nil && schema.AdditionalProperties.Boolean == nil:
			s.look(schema.AdditionalProperties, below, value)
		}
	}
}

// members are the members that a schema names.
func members(schema *jsonschema.Schema) jsonschema.SchemaMap {
	if schema.Properties == nil {
		return nil
	}
	return *schema.Properties
}

// says tells what a value has against a keyword of its schema, and what to do. The bounds of counts
// are read from the error: in the schema they are floating-point numbers.
func says(schema *jsonschema.Schema, found *jsonschema.EvaluationError, at string, value any) (what, fix string) {
	bound := func(word, parameter string) string { return word + " " + fmt.Sprint(found.Params[parameter]) }
	list, _ := value.([]any)
	text, _ := value.(string)
	switch found.Keyword {
	case "type":
		got := typeName(value)
		return fmt.Sprintf("is %s, want %s", article(got), article(strings.Join(schema.Type, " or "))), typeFix(at, got)
	case "enum":
		return wrongWord(schema, at, value)
	case "minimum":
		return fmt.Sprint(value) + " is too small", "at least " + schema.Minimum.RatString()
	case "maximum":
		return fmt.Sprint(value) + " is too large" + unbounded(at), "at most " + schema.Maximum.RatString()
	case "minItems":
		return fmt.Sprintf("%d elements", len(list)), bound("at least", "min_items")
	case "maxItems":
		return fmt.Sprintf("%d elements", len(list)), bound("at most", "max_items")
	case "minLength":
		return "is empty", "write a value"
	case "maxLength":
		return fmt.Sprintf("%d characters", utf8.RuneCountInString(text)), bound("at most", "max_length")
	case "pattern":
		return fmt.Sprintf("%.80q has characters that are not allowed, or too many", value), "match " + *schema.Pattern
	default:
		return found.Keyword + " does not hold", "see the schema in docs/policy.md"
	}
}

func wrongWord(schema *jsonschema.Schema, at string, value any) (what, fix string) {
	var known []string
	for _, word := range schema.Enum {
		if text, ok := word.(string); ok {
			known = append(known, text)
		}
	}
	got, ok := value.(string)
	switch {
	case !ok:
		return "is not a text", oneOf("", known)
	case strings.HasSuffix(at, "/strategy"):
		return fmt.Sprintf("unknown strategy %.80q", got), oneOf(got, known)
	default:
		return fmt.Sprintf("%.80q is unknown", got), oneOf(got, known)
	}
}

// typeName is the JSON type of a value of [parse].
func typeName(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	default:
		return "number"
	}
}

// unbounded names the effect of a number of attempts that is too large.
func unbounded(at string) string {
	if strings.HasSuffix(at, "/max") || strings.HasSuffix(at, "/attempts") {
		return ": the ladder is as good as unbounded"
	}
	return ""
}

func article(typ string) string {
	switch typ {
	case "null":
		return "nothing"
	case "integer", "object", "array":
		return "an " + typ
	}
	return "a " + typ
}

func typeFix(at, got string) string {
	switch {
	case strings.HasSuffix(at, "/when") && got == "boolean":
		return `put it in quotes: "true"`
	case got == "null":
		return "write a value or remove the member"
	}
	return "see docs/policy.md"
}

// element is the pointer to an element of a list.
func element(list string, i int) string { return list + "/" + strconv.Itoa(i) }

package recovery

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
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
	text, err := jsonschema.UnmarshalJSON(strings.NewReader(schemaText))
	if err != nil {
		return fmt.Errorf("recovery: read schema: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", text); err != nil {
		return fmt.Errorf("recovery: add schema: %w", err)
	}
	schema, err := compiler.Compile("schema.json")
	if err != nil {
		return fmt.Errorf("recovery: compile schema: %w", err)
	}
	if found, ok := errors.AsType[*jsonschema.ValidationError](schema.Validate(rules)); ok {
		s.reportSchema(schema, found)
	}
	return nil
}

// reportSchema reports the innermost causes of a schema error in words.
func (s *source) reportSchema(schema *jsonschema.Schema, e *jsonschema.ValidationError) {
	for _, cause := range e.Causes {
		s.reportSchema(schema, cause)
	}
	if len(e.Causes) > 0 {
		return
	}
	at := "/" + recoveryMember
	if len(e.InstanceLocation) > 0 {
		at += "/" + strings.Join(e.InstanceLocation, "/") // no member that the schema knows has a / or ~
	}
	if slices.ContainsFunc(s.problems, func(p Problem) bool { return p.Field == field(at) }) {
		return // it could not even be read
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		known := memberNames(schema, e.InstanceLocation)
		for _, name := range k.Properties {
			s.report(s.members[at+"/"+name], at+"/"+name, "unknown member", oneOf(name, known))
		}
	case *kind.Required:
		for _, name := range k.Missing {
			s.report(s.at(at), at+"/"+name, "missing", "add it; arl policy show has an example")
		}
	case *kind.Enum:
		s.wrongEnum(at, k)
	case *kind.Type:
		s.wrong(at, fmt.Sprintf("is %s, want %s", article(k.Got), article(strings.Join(k.Want, " or "))), typeFix(at, k.Got))
	case *kind.Minimum:
		s.wrong(at, k.Got.RatString()+" is too small", "at least "+k.Want.RatString())
	case *kind.Maximum:
		s.wrong(at, k.Got.RatString()+" is too large"+unbounded(at), "at most "+k.Want.RatString())
	case *kind.MinItems:
		s.wrong(at, fmt.Sprintf("%d elements", k.Got), fmt.Sprintf("at least %d", k.Want))
	case *kind.MaxItems:
		s.wrong(at, fmt.Sprintf("%d elements", k.Got), fmt.Sprintf("at most %d", k.Want))
	case *kind.MinLength:
		s.wrong(at, "is empty", "write a value")
	case *kind.MaxLength:
		s.wrong(at, fmt.Sprintf("%d characters", k.Got), fmt.Sprintf("at most %d", k.Want))
	case *kind.Pattern:
		s.wrong(at, fmt.Sprintf("%.80q has characters that are not allowed, or too many", k.Got), "match "+k.Want)
	default:
		s.wrong(at, strings.Join(k.KeywordPath(), "/")+" does not hold", "see the schema in docs/policy.md")
	}
}

func (s *source) wrongEnum(at string, k *kind.Enum) {
	var known []string
	for _, word := range k.Want {
		if text, ok := word.(string); ok {
			known = append(known, text)
		}
	}
	got, ok := k.Got.(string)
	if !ok {
		s.wrong(at, "is not a text", oneOf("", known))
		return
	}
	what := fmt.Sprintf("%.80q is unknown", got)
	if strings.HasSuffix(at, "/strategy") {
		what = fmt.Sprintf("unknown strategy %.80q", got)
	}
	s.wrong(at, what, oneOf(got, known))
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

// memberNames are the members that an object may have.
func memberNames(schema *jsonschema.Schema, location []string) []string {
	for _, part := range location {
		for schema.Ref != nil {
			schema = schema.Ref
		}
		switch {
		case schema.Properties[part] != nil:
			schema = schema.Properties[part]
		case schema.Items2020 != nil:
			schema = schema.Items2020
		}
	}
	for schema.Ref != nil {
		schema = schema.Ref
	}
	return slices.Sorted(maps.Keys(schema.Properties))
}

// element is the pointer to an element of a list.
func element(list string, i int) string { return list + "/" + strconv.Itoa(i) }

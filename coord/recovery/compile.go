package recovery

import (
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"recoveryledger/ledger/entry"
)

// compiler compiles conditions.
type compiler struct {
	env   *cel.Env
	facts []fact
}

func newCompiler() (*compiler, error) {
	c := &compiler{facts: facts()}
	options := []cel.EnvOption{cel.StdLib(), cel.ParserExpressionSizeLimit(conditionMax), cel.ExpressionNodeLimit(nodesMax),
		cel.ParserRecursionLimit(depthMax), cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateComprehensionNestingLimit(1))}
	for _, f := range c.facts {
		options = append(options, cel.Variable(f.name, f.typ))
	}
	var err error
	if c.env, err = cel.NewCustomEnv(options...); err != nil {
		return nil, fmt.Errorf("recovery: make CEL environment: %w", err)
	}
	return c, nil
}

// fault is a mistake in a condition.
type fault struct{ what, fix string }

// compile compiles one condition. never says that the condition is never true.
func (c *compiler) compile(source string) (compiled *condition, never bool, faults []fault) {
	var err error
	checked, issues := c.env.Compile(source)
	if issues.Err() != nil {
		for _, e := range issues.Errors() {
			faults = append(faults, c.syntaxFault(e))
		}
		return nil, false, faults
	}
	if checked.OutputType() != cel.BoolType {
		return nil, false, []fault{{"yields " + cel.FormatCELType(checked.OutputType()) + ", want bool", "compare the value with another value"}}
	}
	expr := checked.NativeRep().Expr()
	compiled = new(condition)
	enough := compiled.narrow(expr)
	if faults := c.vet(expr, compiled.classes); faults != nil {
		return nil, false, faults
	}
	if enough {
		return compiled, compiled.never(), nil
	}
	if compiled.program, err = c.env.Program(checked, cel.EvalOptions(cel.OptOptimize)); err != nil {
		return nil, false, []fault{{err.Error(), "write the condition in another way"}}
	}
	if !constant(expr) {
		return compiled, compiled.never(), nil
	}
	value, _, err := compiled.program.Eval(cel.NoVars())
	if err != nil {
		return nil, false, []fault{{"always fails: " + err.Error(), "compare a variable with a value"}}
	}
	return &condition{always: value == types.True}, value != types.True, nil
}

// never reports whether the conditions of c on class and code can never hold.
func (c *condition) never() bool {
	return c.classes != nil && len(c.classes) == 0 || c.codes != nil && len(c.codes) == 0
}

// syntaxFault words an error of CEL.
func (c *compiler) syntaxFault(e *cel.Error) fault {
	what := strings.TrimSpace(e.Message)
	if _, rest, ok := strings.Cut(what, "undeclared reference to '"); ok {
		name, _, _ := strings.Cut(rest, "'")
		names := make([]string, len(c.facts))
		for i := range c.facts {
			names[i] = c.facts[i].name
		}
		return fault{"unknown name " + name, oneOf(name, names)}
	}
	if at := e.Location.Column(); at >= 0 {
		what = fmt.Sprintf("character %d: %s", at+1, what)
	}
	return fault{what, "see the conditions in docs/policy.md"}
}

// vet finds CEL that a policy must not have: fractions, and words that a variable never has. The
// expression is evaluated for the given classes only; nil means all.
func (c *compiler) vet(expr ast.Expr, classes []string) (faults []fault) {
	ast.PreOrderVisit(expr, ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.LiteralKind:
			if e.AsLiteral().Type() == types.DoubleType {
				faults = append(faults, fault{fmt.Sprintf("%v is a floating-point number", e.AsLiteral()), "use integers"})
			}
		case ast.CallKind:
			if e.AsCall().FunctionName() == "double" {
				faults = append(faults, fault{"double() makes a floating-point number", "use integers"})
			}
			if name, compared := comparison(e); name != "" {
				faults = append(faults, c.vetWords(classes, name, compared)...)
			}
		default:
		}
	}))
	return faults
}

func (c *compiler) vetWords(classes []string, name string, compared []string) (faults []fault) {
	for _, word := range compared {
		if name == "code" {
			faults = append(faults, vetCode(classes, word)...)
			continue
		}
		at := slices.IndexFunc(c.facts, func(f fact) bool { return f.name == name })
		if at >= 0 && c.facts[at].words != nil && !slices.Contains(c.facts[at].words, word) {
			faults = append(faults, fault{fmt.Sprintf("%s is never %q", name, word), oneOf(word, c.facts[at].words)})
		}
	}
	return faults
}

// vetCode refuses a code that looks misspelt. Policies may use unknown codes, but a code of another
// class, or a code that is nearly a known one, is a mistake.
func vetCode(classes []string, code string) []fault {
	if classes == nil {
		classes = entry.Classes()
	}
	known := []string{entry.ClassUnknown}
	for _, class := range classes {
		if !slices.Contains(entry.Classes(), class) {
			return nil // that is the mistake
		}
		known = append(known, entry.Codes(class)...)
	}
	if slices.Contains(known, code) {
		return nil
	}
	for _, class := range entry.Classes() {
		if slices.Contains(entry.Codes(class), code) {
			return []fault{{fmt.Sprintf("code %q is of class %s", code, class), "ask for that class"}}
		}
	}
	if near := entry.Nearest(code, known); near != "" {
		return []fault{{fmt.Sprintf("code %q looks misspelt", code), fmt.Sprintf("write %q, or choose a code that differs more from it", near)}}
	}
	return nil
}

// comparison returns the variable of an expression and the words with which ==, != or in compare
// it. The name is empty for any other expression.
func comparison(e ast.Expr) (name string, words []string) {
	if e.Kind() != ast.CallKind || len(e.AsCall().Args()) != 2 {
		return "", nil
	}
	left, right := e.AsCall().Args()[0], e.AsCall().Args()[1]
	switch e.AsCall().FunctionName() {
	case operators.Equals, operators.NotEquals:
		if left.Kind() == ast.LiteralKind {
			left, right = right, left
		}
	case operators.In:
		if right.Kind() == ast.IdentKind { // "retry" in tried
			left, right = right, left
		}
	default:
		return "", nil
	}
	if left.Kind() != ast.IdentKind {
		return "", nil
	}
	elements := []ast.Expr{right}
	if right.Kind() == ast.ListKind {
		elements = right.AsList().Elements()
	}
	words = make([]string, 0, len(elements))
	for _, element := range elements {
		if element.Kind() != ast.LiteralKind {
			return "", nil
		}
		word, ok := element.AsLiteral().Value().(string)
		if !ok {
			return "", nil
		}
		words = append(words, word)
	}
	return left.AsIdent(), words
}

// narrow removes the conditions on class and code from a conjunction. It reports whether the
// conjunction has no other conditions.
func (c *condition) narrow(e ast.Expr) bool {
	if e.Kind() == ast.LiteralKind && e.AsLiteral() == types.False {
		c.classes = []string{}
	}
	if e.Kind() != ast.CallKind {
		return false
	}
	if e.AsCall().FunctionName() == operators.LogicalAnd {
		complete := true
		for _, part := range e.AsCall().Args() {
			complete = c.narrow(part) && complete
		}
		return complete
	}
	name, words := comparison(e)
	if e.AsCall().FunctionName() == operators.NotEquals {
		return false
	}
	switch name {
	case "class":
		c.classes = both(c.classes, words)
	case "code":
		c.codes = both(c.codes, words)
	default:
		return false
	}
	return true
}

// both returns the intersection of two sets. A nil first set contains every word.
func both(set, further []string) []string {
	if set == nil {
		return further
	}
	return slices.DeleteFunc(slices.Clone(set), func(word string) bool { return !slices.Contains(further, word) })
}

// covers reports whether class and code alone make c true wherever other is true.
func (c *condition) covers(other *condition) bool {
	return c.always || c.program == nil && within(other.classes, c.classes) && within(other.codes, c.codes)
}

// within reports whether every word of a set is in another set. A nil set contains every word.
func within(set, other []string) bool {
	if other == nil || set == nil {
		return other == nil
	}
	return !slices.ContainsFunc(set, func(word string) bool { return !slices.Contains(other, word) })
}

// constant reports whether an expression names no variable.
func constant(e ast.Expr) bool {
	is := true
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(part ast.Expr) { is = is && part.Kind() != ast.IdentKind }))
	return is
}

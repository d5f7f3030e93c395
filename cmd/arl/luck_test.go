package main_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTestsDoNotDependOnLuck parses every test: what it draws at random comes from a
// generator with a seed, and the seed is no clock. budget.Seed gives one that is the same
// in every run, but with ARL_CHAOS. What one test calls a name for itself may be random.
func TestTestsDoNotDependOnLuck(t *testing.T) {
	draw := regexp.MustCompile(`^(Int|Uint|Float|NormFloat|ExpFloat|N$|Perm$|Shuffle$|Read$)`)
	draws := 0
	for _, name := range tracked(t, root) {
		if !strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "bench_test.go") {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, filepath.Join(root, filepath.FromSlash(name)), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		local := ""
		for _, spec := range f.Imports {
			if imported := importPath(spec); imported == "math/rand/v2" || imported == "math/rand" {
				if local = "rand"; spec.Name != nil {
					local = spec.Name.Name
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of, ok := selector.X.(*ast.Ident)
			switch {
			case ok && local != "" && of.Name == local:
				draws++
				if draw.MatchString(selector.Sel.Name) {
					t.Errorf("%s: %s.%s draws from a generator without a seed: make one from budget.Seed", fset.Position(n.Pos()), local, selector.Sel.Name)
				}
			case local != "" && selector.Sel.Name == "UnixNano":
				t.Errorf("%s: a clock as a seed, or near one: take budget.Seed", fset.Position(n.Pos()))
			}
			return true
		})
	}
	if draws < 20 {
		t.Errorf("%d uses of a generator", draws)
	}
}

// TestLargeBudgetsAreSpent: make chaos runs the tests named Chaos or Random, so that a test with a
// large budget and another name would never have it.
func TestLargeBudgetsAreSpent(t *testing.T) {
	budgeted, function, large := regexp.MustCompile(`budget\.Budget\{[^}]*Chaos:`), regexp.MustCompile(`(?m)^func (Test\w+)\(`), regexp.MustCompile("Chaos|Random")
	found := 0
	for _, name := range tracked(t, root) {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		starts := function.FindAllSubmatchIndex(text, -1)
		for i, at := range starts {
			body, test := text[at[0]:], string(text[at[2]:at[3]])
			if i+1 < len(starts) {
				body = text[at[0]:starts[i+1][0]]
			}
			if end := bytes.Index(body, []byte("\n}\n")); end >= 0 {
				body = body[:end]
			}
			if !budgeted.Match(body) {
				continue
			}
			if found++; !large.MatchString(test) {
				t.Errorf("%s: %s has a large budget, and make chaos does not run it: name it %[2]sChaos", name, test)
			}
		}
	}
	if found < 40 {
		t.Errorf("%d tests with a large budget", found)
	}
}

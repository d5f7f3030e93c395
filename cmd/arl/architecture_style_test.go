package main_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// TestArchitectureStyle parses every package for what no package here may
// have: a missing or second package comment, init, an exit outside cmd, a
// context in a struct, an exported function whose result has an unexported type,
// a variable that is declared with the zero of its type. docs/decisions.md says why
// no linter has the last two.
func TestArchitectureStyle(t *testing.T) {
	for _, p := range packages(t) {
		documents := 0
		for _, f := range p.files {
			if f.Doc != nil {
				documents++
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					if n.Name.Name == "init" && n.Recv == nil {
						t.Errorf("%s: func init", p.fset.Position(n.Pos()))
					}
					if hidden := hiddenResult(n); hidden != "" && f.Name.Name != "main" {
						t.Errorf("%s: %s is exported, and its result %s is not", p.fset.Position(n.Pos()), n.Name.Name, hidden)
					}
				case *ast.GenDecl:
					for _, s := range n.Specs {
						if v, ok := s.(*ast.ValueSpec); ok && n.Tok == token.VAR && v.Type != nil && slices.ContainsFunc(v.Values, isZero) {
							t.Errorf("%s: leave the zero out", p.fset.Position(v.Pos()))
						}
					}
				case *ast.StructType:
					for _, field := range n.Fields.List {
						if isName(f, field.Type, "context", "Context") {
							t.Errorf("%s: context in a struct", p.fset.Position(field.Pos()))
						}
					}
				}
				return true
			})
		}
		if documents != 1 {
			t.Errorf("package %s has %d package comments, want 1", p.name, documents)
		}
		if strings.HasPrefix(p.name, "cmd/") {
			continue
		}
		p.refuseUse(t, "os", "Exit", "is not cmd and exits with")
		for _, name := range []string{"Fatal", "Fatalf", "Fatalln"} {
			p.refuseUse(t, "log", name, "is not cmd and exits with")
		}
	}
}

// hiddenResult returns the unexported type of this package that an exported function
// has as a result; empty: it has none.
func hiddenResult(f *ast.FuncDecl) string {
	if !f.Name.IsExported() || f.Type.Results == nil || f.Recv != nil && !ast.IsExported(named(f.Recv.List[0].Type)) {
		return ""
	}
	known := map[string]bool{}
	for _, list := range []*ast.FieldList{f.Type.TypeParams, f.Recv} {
		if list == nil {
			continue
		}
		for _, field := range list.List {
			for _, name := range field.Names {
				known[name.Name] = true
			}
			ast.Inspect(field.Type, func(n ast.Node) bool { // Node[T] of a receiver
				if id, ok := n.(*ast.Ident); ok {
					known[id.Name] = true
				}
				return true
			})
		}
	}
	for _, result := range f.Type.Results.List {
		if name := named(result.Type); name != "" && !ast.IsExported(name) && !known[name] && types.Universe.Lookup(name) == nil {
			return name
		}
	}
	return ""
}

// named returns the name of a type of this package, also behind a pointer, with
// arguments, or as the element of another type; empty: it is none.
func named(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return named(e.X)
	case *ast.IndexExpr:
		return named(e.X)
	case *ast.IndexListExpr:
		return named(e.X)
	case *ast.ArrayType:
		return named(e.Elt)
	case *ast.MapType:
		return named(e.Value)
	case *ast.ChanType:
		return named(e.Value)
	}
	return ""
}

// isZero reports whether an expression is a literal of a zero.
func isZero(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return slices.Contains([]string{"0", "0.0", `""`, "``"}, e.Value)
	case *ast.Ident:
		return e.Name == "nil" || e.Name == "false"
	}
	return false
}

// TestHiddenResults finds what the tree does not have.
func TestHiddenResults(t *testing.T) {
	for source, want := range map[string]string{
		"func F() (int, *hidden)":     "hidden",
		"func F() []hidden":           "hidden",
		"func F() map[string]*hidden": "hidden",
		"func F() hidden":             "hidden",
		"func (s *S) F() hidden[int]": "hidden",
		"func (s *hidden) F() hidden": "",
		"func f() hidden":             "",
		"func F() (n int, err error)": "",
		"func F[t any]() t":           "",
		"func (s S[t]) F() t":         "",
		"func F() other.Type":         "",
		"func F()":                    "",
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "f.go", "package p\n"+source+" { panic(0) }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := hiddenResult(file.Decls[0].(*ast.FuncDecl)); got != want {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}

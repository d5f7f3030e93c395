package recovery_test

import (
	"encoding/json"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/needs"
)

// banned finds in a package what would make its results differ from run to run
// or from machine to machine: clock, randomness that nobody seeded, the order of
// maps, floating point, goroutines, I/O. It reports places with what is there.
func banned(fset *token.FileSet, files []*ast.File, info *types.Info) []string {
	var found []string
	var sorted []ast.Expr // arguments of slices.Sorted
	report := func(n ast.Node, what string) {
		found = append(found, filepath.Base(fset.Position(n.Pos()).String())+": "+what)
	}
	for _, f := range files {
		for _, spec := range f.Imports {
			switch strings.Trim(spec.Path.Value, `"`) {
			case "time", "math", "math/rand", "math/rand/v2", "crypto/rand", "hash/maphash", "os", "net", "net/http", "runtime", "unsafe", "sync":
				report(spec, "imports "+spec.Path.Value)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.RangeStmt:
				if t := info.TypeOf(n.X); t != nil {
					if _, isMap := t.Underlying().(*types.Map); isMap {
						report(n, "ranges over a map")
					}
				}
			case *ast.BasicLit:
				if n.Kind == token.FLOAT || n.Kind == token.IMAG {
					report(n, "floating point "+n.Value)
				}
			case *ast.GoStmt, *ast.SelectStmt:
				report(n, "concurrency")
			case *ast.CallExpr:
				if callsAny(info, n, "slices", "Sorted") && len(n.Args) == 1 {
					sorted = append(sorted, n.Args[0])
				}
				if callsAny(info, n, "maps", "Keys", "Values", "All") && !slices.Contains(sorted, ast.Expr(n)) {
					report(n, "order of a map")
				}
			case ast.Expr:
				if t := info.TypeOf(n); t != nil {
					if b, ok := t.Underlying().(*types.Basic); ok && b.Info()&(types.IsFloat|types.IsComplex) != 0 {
						report(n, "floating point "+b.Name())
					}
				}
			}
			return true
		})
	}
	return found
}

// callsAny reports whether a call is of one of the functions of a package.
func callsAny(info *types.Info, call *ast.CallExpr, path string, names ...string) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	f, ok := info.Uses[s.Sel].(*types.Func)
	return ok && f.Pkg() != nil && f.Pkg().Path() == path && slices.Contains(names, f.Name())
}

// imports returns the types that the compiler has exported of all packages that
// this one depends on.
func imports(t *testing.T, fset *token.FileSet) types.Importer {
	t.Helper()
	out, err := needs.Go(t.Context(), "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".",
		"math/rand/v2", "crypto/rand").Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
}

// check parses and types the files of a package.
func check(t *testing.T, from types.Importer, fset *token.FileSet, sources map[string]string) []string {
	t.Helper()
	var files []*ast.File
	for _, name := range sortedNames(sources) {
		f, err := parser.ParseFile(fset, name, sources[name], parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: from}
	if _, err := config.Check("recovery", fset, files, info); err != nil {
		t.Fatal(err)
	}
	return banned(fset, files, info)
}

func sortedNames(sources map[string]string) []string {
	var names []string
	for name := range sources {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// The deciding package uses no clock, no global randomness, no order of maps and
// no floating point.
func TestDecidesFromItsArgumentsAlone(t *testing.T) {
	sources := map[string]string{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sources[name] = string(text)
	}
	if len(sources) < 10 {
		t.Fatalf("only %d files", len(sources))
	}
	fset := token.NewFileSet()
	for _, what := range check(t, imports(t, fset), fset, sources) {
		t.Error(what)
	}
}

// The test above notices each of what it bans.
func TestBannedIsNoticed(t *testing.T) {
	fset := token.NewFileSet()
	from := imports(t, fset)
	for _, c := range []struct{ source, want string }{
		{`import "time"; var t = time.Now`, "time"},
		{`import "math/rand/v2"; var n = rand.Int`, "math/rand"},
		{`import "crypto/rand"; var n = rand.Read`, "crypto/rand"},
		{`func f(m map[int]int) { for range m {} }`, "ranges over a map"},
		{`type set map[string]bool; func f(m set) { for range m {} }`, "ranges over a map"},
		{`import "maps"; func f(m map[int]int) any { return maps.Values(m) }`, "order of a map"},
		{`import "maps"; func f(m map[int]int) any { return maps.Keys(m) }`, "order of a map"},
		{`var x = 1.5`, "floating point"},
		{`func f(n int) bool { return float64(n) > 1 }`, "floating point"},
		{`type ratio float32; var r ratio`, "floating point"},
		{`func f() { go func() {}() }`, "concurrency"},
	} {
		found := check(t, from, fset, map[string]string{"x.go": "package recovery\n" + c.source + "\n"})
		if !slices.ContainsFunc(found, func(what string) bool { return strings.Contains(what, c.want) }) {
			t.Errorf("%s: found %v", c.source, found)
		}
	}
}

// The schema has the words of the code, and the published file is what is used.
func TestSchemaHasTheWords(t *testing.T) {
	var schema struct {
		Defs struct {
			Rung struct {
				Properties struct {
					Variant, Scope struct{ Enum []string }
					Max            struct{ Maximum int64 }
				}
			}
			Strategy  struct{ Enum []string }
			Severity  struct{ Enum []string }
			Condition struct{ MaxLength int64 }
		} `json:"$defs"`
	}
	if err := json.Unmarshal(recovery.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	rung := schema.Defs.Rung.Properties
	same(t, schema.Defs.Strategy.Enum, recovery.Strategies())
	same(t, rung.Variant.Enum, recovery.Variants())
	same(t, rung.Scope.Enum, recovery.Scopes())
	same(t, schema.Defs.Severity.Enum, []entry.Severity{entry.SeverityInfo, entry.SeverityWarning, entry.SeverityError, entry.SeverityCritical})
}

func same[T ~string](t *testing.T, schema []string, code []T) {
	t.Helper()
	if !slices.EqualFunc(schema, code, func(a string, b T) bool { return a == string(b) }) {
		t.Errorf("schema has %v, code %v", schema, code)
	}
}

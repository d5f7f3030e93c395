package main_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"recoveryledger/testdata/needs"
)

// pkg is one package of this module without its tests. Files are parsed
// whatever their build tags say.
type pkg struct {
	name  string // import path below the module
	fset  *token.FileSet
	files []*ast.File
}

// packages parses every package of this module as the go command sees them:
// testdata and directories that begin with . or _ are not among them.
func packages(t *testing.T) []*pkg {
	t.Helper()
	byName := map[string]*pkg{}
	for _, file := range tracked(t, root) {
		name := path.Dir(file)
		passedOver := slices.ContainsFunc(strings.Split(name, "/"), func(dir string) bool {
			return dir == "testdata" || dir != "." && strings.HasPrefix(dir, ".") || strings.HasPrefix(dir, "_")
		})
		if passedOver || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			continue
		}
		if byName[name] == nil {
			byName[name] = &pkg{name: name, fset: token.NewFileSet()}
		}
		p := byName[name]
		f, err := parser.ParseFile(p.fset, filepath.Join(root, filepath.FromSlash(file)), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		p.files = append(p.files, f)
	}
	if len(byName) == 0 {
		t.Fatalf("no package below %s", root)
	}
	var all []*pkg
	for _, p := range byName {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *pkg) int { return strings.Compare(a.name, b.name) })
	return all
}

func (p *pkg) imports() []string {
	var all []string
	for _, f := range p.files {
		for _, spec := range f.Imports {
			all = append(all, importPath(spec))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// refuseUse reports each place where p names the function of the imported
// package; why completes "PACKAGE why FUNCTION".
func (p *pkg) refuseUse(t *testing.T, imported, function, why string) {
	t.Helper()
	for _, f := range p.files {
		ast.Inspect(f, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok && isName(f, e, imported, function) {
				t.Errorf("%s: %s %s %s.%s", p.fset.Position(n.Pos()), p.name, why, imported, function)
			}
			return true
		})
	}
}

// isName reports whether e is written as the name of the imported package,
// under whatever name the file imports it.
func isName(f *ast.File, e ast.Expr, imported, name string) bool {
	selector, ok := e.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != name {
		return false
	}
	qualifier, ok := selector.X.(*ast.Ident)
	if !ok {
		return false
	}
	for _, spec := range f.Imports {
		local := path.Base(imported)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		if importPath(spec) == imported && qualifier.Name == local {
			return true
		}
	}
	return false
}

// importPath unquotes an import; the parser accepts only quoted ones.
func importPath(spec *ast.ImportSpec) string {
	unquoted, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		panic(err)
	}
	return unquoted
}

// dependencies are the import paths that a package of this module is built
// from, itself left out.
func dependencies(t *testing.T, name string) []string {
	t.Helper()
	cmd := needs.Go(t.Context(), "list", "-deps", "./"+name)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list -deps ./%s: %v\n%s", name, err, stderr.String())
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(dep string) bool { return dep == module+"/"+name })
}

// Package cases holds folders of protocol vectors to what a test generates, and tells in what a
// vector differs from another: vectors that are much alike are kept as one case, and as JSON
// Patches (RFC 6902) of that.
//
// The package is for tests alone. It lies in testdata so that the product cannot depend on
// it.
package cases

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Patch is an operation of RFC 6902: add, remove or replace.
type Patch struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Files compares the files of a folder with what is generated, by name. With update it writes the
// folder anew: the difference is to be read before it is committed.
func Files[V any](tb testing.TB, dir string, generated map[string]V, update bool) {
	tb.Helper()
	if update {
		if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
			tb.Fatal(err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(generated)) {
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", " ")
		if err := encoder.Encode(generated[name]); err != nil {
			tb.Fatal(err)
		}
		file := filepath.Join(dir, name+".json")
		if update {
			if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
				tb.Fatal(err)
			}
		}
		if is, err := os.ReadFile(file); err != nil || !bytes.Equal(is, text.Bytes()) {
			tb.Errorf("%s is not what is generated; write it with -update, and read the difference (%v)", file, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != len(generated) {
		tb.Errorf("%s has %d files, and %d are generated (%v)", dir, len(files), len(generated), err)
	}
}

// Tree decodes JSON with its numbers as they are.
func Tree(tb testing.TB, data []byte) (value any) {
	tb.Helper()
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		tb.Fatal(err)
	}
	return value
}

// Differences returns the operations that make one tree of another.
func Differences(a, b any) []Patch { return differences("", a, b) }

func differences(path string, a, b any) []Patch {
	if reflect.DeepEqual(a, b) {
		return nil
	}
	am, aok := a.(map[string]any)
	bm, bok := b.(map[string]any)
	if aok && bok {
		var list []Patch
		for _, name := range slices.Sorted(maps.Keys(am)) {
			if _, ok := bm[name]; !ok {
				list = append(list, Patch{Op: "remove", Path: path + "/" + name})
			}
		}
		for _, name := range slices.Sorted(maps.Keys(bm)) {
			if _, ok := am[name]; ok {
				list = append(list, differences(path+"/"+name, am[name], bm[name])...)
			} else {
				list = append(list, Patch{Op: "add", Path: path + "/" + name, Value: bm[name]})
			}
		}
		return list
	}
	al, aok := a.([]any)
	bl, bok := b.([]any)
	if !aok || !bok || len(bl) == 0 {
		return []Patch{{Op: "replace", Path: path, Value: b}}
	}
	return listDifferences(path, al, bl)
}

// listDifferences keeps what lists begin and end with in common.
func listDifferences(path string, a, b []any) (list []Patch) {
	first := 0
	for first < min(len(a), len(b)) && reflect.DeepEqual(a[first], b[first]) {
		first++
	}
	last := 0
	for last < min(len(a), len(b))-first && reflect.DeepEqual(a[len(a)-1-last], b[len(b)-1-last]) {
		last++
	}
	common := min(len(a), len(b)) - first - last
	for i := first; i < first+common; i++ {
		list = append(list, differences(path+"/"+strconv.Itoa(i), a[i], b[i])...)
	}
	for i := first + common; i < len(a)-last; i++ {
		list = append(list, Patch{Op: "remove", Path: path + "/" + strconv.Itoa(first+common)})
	}
	for i := first + common; i < len(b)-last; i++ {
		list = append(list, Patch{Op: "add", Path: path + "/" + strconv.Itoa(i), Value: b[i]})
	}
	return list
}

// Apply does the operations, one after the other, on a tree, and returns the tree.
func Apply(tb testing.TB, value any, operations []Patch) any {
	tb.Helper()
	for _, p := range operations {
		value = apply(tb, value, strings.Split(p.Path, "/")[1:], p)
	}
	return value
}

// apply does one operation on a tree and returns it.
func apply(tb testing.TB, value any, tokens []string, p Patch) any {
	tb.Helper()
	if len(tokens) == 0 {
		return p.Value
	}
	switch value := value.(type) {
	case map[string]any:
		if len(tokens) == 1 && p.Op == "remove" {
			delete(value, tokens[0])
		} else {
			value[tokens[0]] = apply(tb, value[tokens[0]], tokens[1:], p)
		}
		return value
	case []any:
		i, err := strconv.Atoi(tokens[0])
		if err != nil {
			tb.Fatal(err)
		}
		switch {
		case len(tokens) > 1 || p.Op == "replace":
			value[i] = apply(tb, value[i], tokens[1:], p)
			return value
		case p.Op == "remove":
			return slices.Delete(value, i, i+1)
		}
		return slices.Insert(value, i, p.Value)
	}
	tb.Fatalf("patch %+v leads nowhere", p)
	return nil
}

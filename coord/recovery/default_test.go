package recovery

import (
	"bytes"
	"flag"
	"os"
	"reflect"
	"testing"
)

var updateDefault = flag.Bool("update-default", false, "write the rules of the default policy as JSON")

// The default policy is compiled from JSON, without the checks of a file. The file of the default
// policy passes them, and makes the same rules.
func TestDefaultRules(t *testing.T) {
	file, err := Load("default.yaml", DefaultDocument())
	if err != nil {
		t.Fatal(err)
	}
	if *updateDefault {
		if err := os.WriteFile("default.json", file.JSON(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(file.JSON(), defaultText) {
		t.Fatal("default.json is not default.yaml: go test ./coord/recovery -run TestDefaultRules -update-default")
	}
	p := Default()
	if !reflect.DeepEqual(file.doc, p.doc) || file.hash != p.hash || file.named != p.named || len(file.facts) != len(p.facts) ||
		len(file.guards) != len(p.guards) || len(file.rules) != len(p.rules) {
		t.Fatal("the default policy is not that of its file")
	}
	same := func(of string, a, b *condition) {
		t.Helper()
		if (a == nil) != (b == nil) || a != nil && (a.always != b.always || (a.program == nil) != (b.program == nil) ||
			!reflect.DeepEqual(a.classes, b.classes) || !reflect.DeepEqual(a.codes, b.codes)) {
			t.Errorf("%s: the condition is not that of the file", of)
		}
	}
	for i := range p.guards {
		same(p.guards[i].ID, file.guards[i].when, p.guards[i].when)
	}
	for i := range p.rules {
		same(p.rules[i].ID, file.rules[i].when, p.rules[i].when)
		if file.rules[i].place != p.rules[i].place {
			t.Errorf("%s names a strategy, whose place default.json does not have", p.rules[i].ID)
		}
		for j := range p.rules[i].rungs {
			same(p.rules[i].ID, file.rules[i].rungs[j].when, p.rules[i].rungs[j].when)
		}
	}
}

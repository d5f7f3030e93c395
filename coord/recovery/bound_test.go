package recovery_test

import (
	"bytes"
	"strings"
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// A bound beside the pinned one makes the policy that loading it would make, or
// none where that would not load; the policy itself stays as it is.
func TestBesideIsWith(t *testing.T) {
	document := strings.Replace(string(recovery.DefaultDocument()), "{ strategy: checkpoint_resume, max: 2, when: checkpoint }",
		"{ strategy: checkpoint_resume, max: 2, when: checkpoint }\n        - { strategy: retry, max: 1 }", 1)
	p, err := recovery.Load("policy.yaml", []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	before := p.JSON()
	bounds := p.Bounds()
	if len(bounds) != 4+strings.Count(document, " max: ") {
		t.Fatalf("%d bounds", len(bounds))
	}
	every := budget.Budget{Short: 4, Usual: 1}.Now()
	for n, b := range bounds {
		if n%every != 0 {
			continue
		}
		if pinned, ok := p.Int(b.Path); !ok || pinned != b.Value {
			t.Errorf("%s is %d, %t, want %d", b.Path, pinned, ok, b.Value)
		}
		for _, value := range []int64{-1, 0, 1, b.Value - 1, b.Value + 1, 64, 65, entry.MaxInteger, entry.MaxInteger + 1} {
			want, err := p.With(b.Path, value)
			got, ok := p.Beside(b, value)
			switch {
			case ok != (err == nil):
				t.Errorf("%s=%d: beside %t, loaded: %v", b.Path, value, ok, err)
			case ok && (got.Hash() != want.Hash() || !bytes.Equal(got.JSON(), want.JSON())):
				t.Errorf("%s=%d: another policy than the one loaded", b.Path, value)
			}
			if !ok {
				continue
			}
			if pinned, known := got.Int(b.Path); !known || pinned != value {
				t.Errorf("%s=%d is %d", b.Path, value, pinned)
			}
		}
	}
	if !bytes.Equal(p.JSON(), before) {
		t.Error("the policy changed")
	}
}

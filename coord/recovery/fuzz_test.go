package recovery_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"recoveryledger/coord/recovery"
)

// Load and Lint agree on every file, and none makes them panic. What loads says
// the same as its canonical form, which is canonical, and decides.
func FuzzLoad(f *testing.F) {
	f.Add(recovery.DefaultDocument())
	for _, m := range mistakes() {
		before, after, _ := strings.Cut(lintBase, strings.Replace(m.old, "¶", "", 1))
		f.Add([]byte(before + strings.Replace(m.new, "¶", "", 1) + after))
	}
	f.Add([]byte("{\"recovery\": {}}"))
	f.Add([]byte("recovery: &a [*a]"))
	f.Add([]byte("recovery: {? [a]: b, 'c/d~e': 1, \"\\u0000\": 2}"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		p, err := recovery.Load("f.yaml", doc)
		problems := recovery.Lint("f.yaml", doc)
		if (err == nil) != (len(problems) == 0) {
			t.Fatalf("Load: %v, Lint: %v", err, problems)
		}
		for _, problem := range problems {
			if problem.What == "" || problem.Fix == "" || problem.File != "f.yaml" {
				t.Fatalf("incomplete: %+v", problem)
			}
		}
		if err != nil {
			return
		}
		again, err := recovery.Load("f.json", []byte(`{"recovery":`+string(p.JSON())+"}"))
		if err != nil || again.Hash() != p.Hash() || !bytes.Equal(again.JSON(), p.JSON()) {
			t.Fatalf("the canonical form loads as another policy: %v", err)
		}
		for _, failure := range []string{"transient.timeout", "safety.violation", "unknown.unknown"} {
			class, code, _ := strings.Cut(failure, ".")
			walk(t, plain(class, code), p, world{})
		}
	})
}

// Conditions of any kind are refused or decide; none panics.
func FuzzCondition(f *testing.F) {
	for _, c := range []string{"true", "!benign", `class == "tool"`, `tags.exists(t, t == "a")`, "1 / (repeats - 1) > 0", `tool.matches("a+")`,
		"[1, 2][attempts] == 1", `{"a": benign}["b"]`, "dyn(1) == class", "size(tried) > 1 ? benign : idempotent"} {
		f.Add(c)
	}
	f.Fuzz(func(t *testing.T, condition string) {
		quoted, err := json.Marshal(condition)
		if err != nil {
			return // no text that a policy could hold
		}
		doc := document("rules:\n  - { id: a, when: " + string(quoted) + ", ladder: [{ strategy: retry }, { strategy: escalate }] }\n" +
			"  - { id: b, when: \"true\", ladder: [{ strategy: escalate }] }\n")
		p, err := recovery.Load("f.yaml", []byte(doc))
		if err != nil {
			return
		}
		h := plain("tool", "error")
		h.Tags = []string{"a"}
		walk(t, h, p, world{})
	})
}

// A history from outside, whatever it says, comes to an end.
func FuzzHistory(f *testing.F) {
	standard := recovery.Default()
	for _, c := range table() {
		seed, err := json.Marshal(c.given)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var h recovery.History
		if json.Unmarshal(data, &h) != nil {
			return // no history
		}
		walk(t, h, standard, world{})
	})
}

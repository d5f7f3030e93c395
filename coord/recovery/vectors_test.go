package recovery_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/testdata/needs"
)

var update = flag.Bool("update", false, "write the vectors of this package anew")

// vectorsDir holds the vectors; its README describes them.
const vectorsDir = "../../testdata/vectors"

// vector is one case, one file. Members that a group does not use are absent.
type vector struct {
	Desc string `json:"desc"`

	// policy: a file, and where the first mistake in it is.
	Input string `json:"input,omitempty"`
	Field string `json:"field,omitempty"`
	Line  int    `json:"line,omitempty"`

	// decide: rules ("default": those of default.json), the history of a case,
	// the answers of the world, and the decisions until the end.
	Policy  any               `json:"policy,omitempty"`
	History *recovery.History `json:"history,omitempty"`
	World   *vectorWorld      `json:"world,omitempty"`

	WantErr string `json:"wantErr"` // malformed; empty: accepted
	Want    any    `json:"want,omitempty"`
}

type vectorWorld struct {
	Result recovery.Result `json:"result"` // of every attempt
	Probe  string          `json:"probe"`  // what a reconcile finds out
}

type decision struct {
	recovery.Action
	Rule recovery.Rule `json:"rule"`
}

// generateVectors makes the vectors of this package by file name.
func generateVectors(tb testing.TB) map[string]*vector {
	tb.Helper()
	files := map[string]*vector{}
	add := func(name string, v *vector) {
		name = strings.Trim(regexp.MustCompile(`[^a-z0-9/._]+`).ReplaceAllString(strings.ToLower(name), "-"), "-")
		if files[name] != nil {
			tb.Fatalf("two vectors named %s", name)
		}
		files[name] = v
	}
	standard := recovery.Default()
	add("decide/default", &vector{Desc: "the default policy, and its digest", Policy: json.RawMessage(standard.JSON()), Want: standard.Hash()})
	for _, g := range []struct {
		name  string
		cases []walkCase
	}{{"table", table()}, {"gate", gateCases()}, {"guard", guardCases()}, {"limit", limitCases()}, {"pause", pauseCases()},
		{"chain", chainCases()}, {"memory", memoryCases()}} {
		for _, c := range g.cases {
			add("decide/"+g.name+"-"+c.name, walkVector(tb, g.name, &c, standard))
		}
	}
	add("policy/default", &vector{Desc: "the default policy", Input: string(recovery.DefaultDocument())})
	for _, m := range mistakes() {
		doc, _ := m.edit(tb)
		v := &vector{Desc: m.desc, Input: doc}
		if problems := recovery.Lint("p.yaml", []byte(doc)); len(problems) > 0 {
			v.WantErr, v.Field, v.Line = "malformed", problems[0].Field, problems[0].Line
		}
		add("policy/"+m.desc, v)
	}
	return files
}

func walkVector(tb testing.TB, group string, c *walkCase, standard *recovery.Policy) *vector {
	tb.Helper()
	p, w := c.load(tb, standard), c.world.complete()
	v := &vector{Desc: group + ": " + c.name, Policy: "default", History: &c.given, World: &vectorWorld{w.result, string(w.probe)}}
	if p != standard {
		v.Policy = json.RawMessage(p.JSON())
	}
	v.Want = walkRules(tb, c.given, p, w)
	return v
}

// TestVectorFiles compares the files with what is generated; with -update it
// writes them. The difference is to be read before it is committed.
func TestVectorFiles(t *testing.T) {
	groups := []string{"decide", "policy"}
	generated := generateVectors(t)
	if *update {
		for _, group := range groups {
			if err := os.RemoveAll(filepath.Join(vectorsDir, group)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var onDisk []string
	for _, group := range groups {
		files, err := filepath.Glob(filepath.Join(vectorsDir, group, "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		onDisk = append(onDisk, files...)
	}
	for name, v := range generated {
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(v); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(vectorsDir, name+".json")
		if *update {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if is, err := os.ReadFile(file); err != nil || !bytes.Equal(is, text.Bytes()) {
			t.Errorf("%s: the file says\n%s\nwant\n%s", name, is, text.Bytes())
		}
		onDisk = slices.DeleteFunc(onDisk, func(other string) bool { return other == file })
	}
	if len(onDisk) > 0 && !*update {
		t.Errorf("nothing generates %v", onDisk)
	}
	t.Logf("%d vectors", len(generated))
}

// TestCrossCheck has another program, which shares no code with ours, decide the
// vectors; it disagrees with damaged ones.
func TestCrossCheck(t *testing.T) {
	python := needs.Program(t, "python3", "python3", "the vectors are not decided again")
	const program = "../../testdata/crosscheck/decide.py"
	out, err := exec.CommandContext(t.Context(), python, program).CombinedOutput()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), " 0 wrong") {
		t.Errorf("%v\n%s", err, out)
	}
	damaged := t.TempDir()
	for _, name := range []string{"default", "table-transient.timeout"} {
		text, err := os.ReadFile(filepath.Join(vectorsDir, "decide", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.Replace(text, []byte(`"retry"`), []byte(`"retry_altered"`), 1)
		if err := os.WriteFile(filepath.Join(damaged, name+".json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err = exec.CommandContext(t.Context(), python, program, damaged).CombinedOutput()
	if err == nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "2 vectors decided, 2 wrong") {
		t.Errorf("damaged vectors: %v\n%s", err, out)
	}
}

package bundle_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"recoveryledger/testdata/cases"
	"recoveryledger/testdata/needs"
	"recoveryledger/verify/bundle"
)

const bundleVectors = "../../testdata/vectors/bundle"

// bundleVector is one case, one file. One that is much like another says what it
// is like and in what it differs.
type bundleVector struct {
	Desc    string        `json:"desc"`
	Case    *vectorCase   `json:"case,omitempty"`
	Like    string        `json:"like,omitempty"`  // name of the file whose case it begins from
	Patch   []cases.Patch `json:"patch,omitempty"` // JSON Patch (RFC 6902) of that
	WantErr string        `json:"wantErr"`         // step and rule; form; empty: accepted
	Want    *vectorReport `json:"want,omitempty"`
}

// vectorCase is what a bundle is checked against, and the bundle.
type vectorCase struct {
	Accepted any   `json:"accepted"`
	Now      int64 `json:"now"`
	Bundle   any   `json:"bundle"` // or text, of what is none
}

// vectorReport is what is known after a bundle was accepted.
type vectorReport struct {
	Confirmed bool            `json:"confirmed"`
	Incident  uint64          `json:"incident"`
	ExpiresAt int64           `json:"expires_at"`
	Commands  []vectorCommand `json:"commands"`
	Links     []uint64        `json:"links"` // of the next state
	Epochs    []bundle.Epoch  `json:"epochs"`
	Since     uint64          `json:"since,omitempty"` // of its ledger keys
}

type vectorCommand struct {
	Exec     string   `json:"exec"`
	Method   string   `json:"method"`
	Digest   string   `json:"digest,omitempty"`
	Standing []string `json:"standing,omitempty"`
	Released bool     `json:"released"`
	Waits    []string `json:"waits,omitempty"`
	Result   string   `json:"result,omitempty"`
	Refused  string   `json:"refused,omitempty"` // step and rule
}

func reportOf(v bundle.Verdict) *vectorReport {
	r := &vectorReport{Confirmed: v.Confirmed, Incident: v.Incident, ExpiresAt: v.ExpiresAt, Commands: []vectorCommand{}, Links: []uint64{}, Epochs: []bundle.Epoch{}}
	for _, c := range v.Commands {
		command := vectorCommand{Exec: string(c.Exec), Method: string(c.Method), Digest: string(c.Digest), Released: c.Released, Result: string(c.Result)}
		for _, ref := range c.Standing {
			command.Standing = append(command.Standing, string(ref))
		}
		for _, ref := range c.Waits {
			command.Waits = append(command.Waits, string(ref))
		}
		if c.Refused != nil {
			command.Refused = named(c.Refused)
			command.Digest = "" // how far it was looked at is nobody's business
		}
		r.Commands = append(r.Commands, command)
	}
	for _, link := range v.Next.Links {
		r.Links = append(r.Links, link.Index)
	}
	r.Epochs = append(r.Epochs, v.Next.Epochs...)
	r.Since = v.Next.Root.Since
	return r
}

// caseOf returns what a vector is about, as one tree.
func caseOf(tb testing.TB, v *bundleVector, vectors map[string]*bundleVector) any {
	tb.Helper()
	if v.Case != nil {
		data, err := json.Marshal(v.Case)
		must(tb, err)
		return cases.Tree(tb, data)
	}
	return cases.Apply(tb, caseOf(tb, vectors[v.Like], vectors), v.Patch)
}

// newBundleVector makes a vector of a case that is already checked.
func newBundleVector(tb testing.TB, desc string, state bundle.Accepted, now int64, text []byte) *bundleVector {
	tb.Helper()
	accepted, err := state.Encode()
	must(tb, err)
	v := &bundleVector{Desc: desc, Case: &vectorCase{Accepted: cases.Tree(tb, accepted), Now: now, Bundle: string(text)}}
	b, err := bundle.Decode(text)
	if err != nil {
		v.WantErr = "form"
		return v
	}
	v.Case.Bundle = cases.Tree(tb, text)
	verdict, err := b.Check(state, now)
	if err != nil {
		v.WantErr = outcomeOf(verdict, err, "")
		return v
	}
	v.Want = reportOf(verdict)
	return v
}

// generateBundleVectors makes all of them, by name; the same ones every time.
func generateBundleVectors(t *testing.T) map[string]*bundleVector {
	t.Helper()
	vectors := map[string]*bundleVector{}
	bases := map[string]string{}
	for _, c := range bundleCases() {
		_, b, a, now := c.build(t)
		data, err := b.Encode()
		must(t, err)
		v := newBundleVector(t, c.desc, a, now, data)
		scene := fmt.Sprintf("%p", c.scene)
		if base, ok := bases[scene]; ok {
			v.like(t, base, vectors)
		} else {
			bases[scene] = c.name
		}
		vectors[c.name] = v
	}
	for name, v := range formVectors(t) {
		v.like(t, "good-news", vectors)
		vectors[name] = v
	}
	return vectors
}

// like says in what the vector differs from another.
func (v *bundleVector) like(tb testing.TB, base string, vectors map[string]*bundleVector) {
	tb.Helper()
	a, b := caseOf(tb, vectors[base], vectors), caseOf(tb, v, vectors)
	v.Case, v.Like, v.Patch = nil, base, cases.Differences(a, b)
}

// formVectors are spellings that are refused before anything is checked.
func formVectors(t *testing.T) map[string]*bundleVector {
	t.Helper()
	var news bundleCase
	for _, c := range goodCases() {
		if c.name == "good-news" {
			news = c
		}
	}
	_, b, a, now := news.build(t)
	data, err := b.Encode()
	must(t, err)
	good := string(data)
	vectors := map[string]*bundleVector{}
	for name, c := range map[string]struct{ desc, text string }{
		"form-white-space":      {"white space between the tokens", strings.Replace(good, `,"head"`, `, "head"`, 1)},
		"form-order":            {"members in another order", `{` + good[strings.Index(good, `"head"`):len(good)-1] + `,"agent":"worker"}`},
		"form-unknown":          {"an unknown member", strings.Replace(good, `{"agent"`, `{"more":1,"agent"`, 1)},
		"form-twice":            {"a member twice", strings.Replace(good, `{"agent"`, `{"agent":"worker","agent"`, 1)},
		"form-escape":           {"an escape that is not needed", strings.Replace(good, `"worker"`, `"\u0077orker"`, 1)},
		"form-number":           {"a number with an exponent", strings.Replace(good, `"from":11`, `"from":11e0`, 1)},
		"form-null":             {"null for a list", strings.Replace(good, `"members":[]`, `"members":null`, 1)},
		"form-trailing":         {"a second value behind the first", good + `{}`},
		"form-cut":              {"the last bracket is missing", good[:len(good)-1]},
		"form-not-json":         {"no JSON", "arl verify"},
		"form-zero-decision":    {"a decision at index 0, which is written by leaving it out", strings.Replace(good, `"worker",`, `"worker","decision":0,`, 1)},
		"form-steps-alone":      {"steps without a decision", strings.Replace(good, `"steps":[]`, `"steps":[{"exec":3,"rule":"SCO-3","from":1}]`, 1)},
		"form-membership-alone": {"a proof of members where there are none", strings.Replace(good, `"membership":[]`, `"membership":["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]`, 1)},
	} {
		if c.text == good {
			t.Fatalf("%s is no other text", name)
		}
		vectors[name] = newBundleVector(t, c.desc, a, now, []byte(c.text))
	}
	for name, c := range formCases() {
		_, text := c.text(t)
		vectors[name] = newBundleVector(t, c.desc, a, now, text)
	}
	return vectors
}

// TestBundleVectorFiles compares the files with what is generated; with -update
// it writes them. The difference is to be read before it is committed.
func TestBundleVectorFiles(t *testing.T) {
	generated := generateBundleVectors(t)
	cases.Files(t, bundleVectors, generated, *update)
	if len(generated) < 40 {
		t.Errorf("%d vectors", len(generated))
	}
	t.Logf("%d vectors", len(generated))
}

// readBundleVectors reads the files by name.
func readBundleVectors(t *testing.T) map[string]*bundleVector {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(bundleVectors, "*.json"))
	must(t, err)
	vectors := map[string]*bundleVector{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(t, err)
		v := new(bundleVector)
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		decoder.UseNumber()
		must(t, decoder.Decode(v))
		vectors[strings.TrimSuffix(filepath.Base(file), ".json")] = v
	}
	return vectors
}

// TestBundleVectors checks the files, as any implementation can.
func TestBundleVectors(t *testing.T) {
	vectors := readBundleVectors(t)
	for name, v := range vectors {
		t.Run(name, func(t *testing.T) {
			members, _ := caseOf(t, v, vectors).(map[string]any)
			state := stateOf(t, members["accepted"])
			now, err := members["now"].(json.Number).Int64()
			must(t, err)
			again := newBundleVector(t, v.Desc, state, now, textOf(t, members["bundle"]))
			if again.WantErr != v.WantErr || !reflect.DeepEqual(again.Want, v.Want) {
				t.Errorf("%s: %q %+v, want %q %+v", v.Desc, again.WantErr, again.Want, v.WantErr, v.Want)
			}
		})
	}
}

// stateOf writes a tree in the order of the state's members.
func stateOf(tb testing.TB, value any) bundle.Accepted {
	tb.Helper()
	data, err := json.Marshal(value)
	must(tb, err)
	var a bundle.Accepted
	must(tb, jsonUnmarshal(data, &a))
	return a
}

// textOf is the bundle of a case as it was received: text, or a tree that is
// written in the order of the bundle's members.
func textOf(tb testing.TB, value any) []byte {
	tb.Helper()
	if text, ok := value.(string); ok {
		return []byte(text)
	}
	data, err := json.Marshal(value)
	must(tb, err)
	b := new(bundle.Bundle)
	must(tb, jsonUnmarshal(data, b))
	data, err = b.Encode()
	must(tb, err)
	return data
}

// crossCheck runs the program that shares no code with ours on a folder of
// vectors and returns its last line.
func crossCheck(t *testing.T, dir string) (last string, ok bool) {
	t.Helper()
	python := needs.Program(t, "python3", "python3", "the vectors are not cross-checked")
	out, err := exec.CommandContext(t.Context(), python, "../../testdata/crosscheck/bundle.py", dir, "../../ledger/entry/schema").CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil {
		t.Logf("%s", strings.Join(lines[max(0, len(lines)-10):], "\n"))
	}
	return lines[len(lines)-1], err == nil
}

// TestBundleCrossCheck has the other program check the vectors; it disagrees
// with damaged ones.
func TestBundleCrossCheck(t *testing.T) {
	last, ok := crossCheck(t, bundleVectors)
	if !ok || !strings.HasSuffix(last, " 0 wrong") {
		t.Errorf("%s", last)
	}
	t.Log(last)
	dir := t.TempDir()
	good, err := filepath.Glob(filepath.Join(bundleVectors, "good-*.json")) // what others are like
	must(t, err)
	for _, file := range good {
		text, err := os.ReadFile(file)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, filepath.Base(file)), text, 0o600))
	}
	damaged := 0
	for _, change := range []struct{ name, from, to string }{
		{"good-automatic", `"released": false`, `"released": true`},
		{"good-approved", `"worker#mail"`, `"worker#note"`},
		{"good-waits", `"wantErr": ""`, `"wantErr": "AGT-1"`},
		{"approval-revoked", `"wantErr": "AGT-2 INC-5"`, `"wantErr": ""`},
		{"soft-edge", `"refused": "AGT-3 SCO-1"`, `"refused": "AGT-3 SCO-2"`},
		{"head-fork", `"wantErr": "AGT-1"`, `"wantErr": "AGT-2"`},
		{"form-order", `"wantErr": "form"`, `"wantErr": ""`},
	} {
		text, err := os.ReadFile(filepath.Join(bundleVectors, change.name+".json"))
		must(t, err)
		if i := strings.LastIndex(string(text), change.from); i >= 0 {
			damaged++
			text = []byte(string(text[:i]) + change.to + string(text[i+len(change.from):]))
		}
		must(t, os.WriteFile(filepath.Join(dir, change.name+".json"), text, 0o600))
	}
	if last, ok := crossCheck(t, dir); ok || !strings.HasSuffix(last, fmt.Sprintf(" %d wrong", damaged)) || damaged != 7 {
		t.Errorf("%d damaged: %s", damaged, last)
	}
}

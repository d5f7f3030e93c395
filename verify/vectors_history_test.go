package verify_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/cases"
	"recoveryledger/testdata/needs"
	"recoveryledger/verify"
)

const historyVectors = "../testdata/vectors/history"

// historyVector is one case, one file. A case that is much like another says what it is
// like and in what it differs.
type historyVector struct {
	Desc    string         `json:"desc"`
	Case    *historyCase   `json:"case,omitempty"`
	Like    string         `json:"like,omitempty"`  // name of the file whose case it begins from
	Patch   []cases.Patch  `json:"patch,omitempty"` // JSON Patch (RFC 6902) of that
	WantErr string         `json:"wantErr"`         // step; form, fork; empty: nothing false was found
	Want    *historyReport `json:"want,omitempty"`
}

// historyCase is a history, what it is checked against, and what it is asked.
type historyCase struct {
	Root      any               `json:"root"`
	Questions []verify.Question `json:"questions"`
	History   any               `json:"history"` // or text, of what is none
}

// historyReport is what is known after a history was verified.
type historyReport struct {
	Answers []verify.Answer `json:"answers"`
	Missing []verify.Step   `json:"missing"` // steps that the file does not bring everything for
}

// newHistoryVector makes a vector of a history.
func newHistoryVector(tb testing.TB, desc string, root verify.Root, questions []verify.Question, text []byte) *historyVector {
	tb.Helper()
	pinned, err := jsonv2.Marshal(root)
	must(tb, err)
	if questions == nil {
		questions = []verify.Question{}
	}
	v := &historyVector{Desc: desc, Case: &historyCase{Root: cases.Tree(tb, pinned), Questions: questions, History: string(text)}}
	m := verify.Material{Questions: questions}
	if err := m.Add("history", text); err != nil {
		wantFormat(tb, err)
		v.WantErr = "form"
		return v
	}
	v.Case.History = cases.Tree(tb, text)
	report, err := root.Verify(m)
	if err != nil {
		v.WantErr = "form"
		if step, ok := errors.AsType[*verify.StepError](err); ok {
			v.WantErr = fmt.Sprintf("step %d", step.Step)
		} else if _, ok := errors.AsType[*verify.ForkError](err); ok {
			v.WantErr = "fork"
		}
		return v
	}
	v.Want = &historyReport{Answers: report.Answers, Missing: []verify.Step{}}
	for i := range v.Want.Answers {
		if v.Want.Answers[i].Entries == nil {
			v.Want.Answers[i].Entries = []uint64{}
		}
	}
	for _, gap := range report.Missing {
		v.Want.Missing = append(v.Want.Missing, gap.Step)
	}
	slices.Sort(v.Want.Missing)
	v.Want.Missing = slices.Compact(v.Want.Missing)
	return v
}

// like says in what the vector differs from another.
func (v *historyVector) like(tb testing.TB, base string, vectors map[string]*historyVector) {
	tb.Helper()
	a, b := historyCaseOf(tb, vectors[base], vectors), historyCaseOf(tb, v, vectors)
	v.Case, v.Like, v.Patch = nil, base, cases.Differences(a, b)
}

func historyCaseOf(tb testing.TB, v *historyVector, vectors map[string]*historyVector) any {
	tb.Helper()
	if v.Case == nil {
		return cases.Apply(tb, historyCaseOf(tb, vectors[v.Like], vectors), v.Patch)
	}
	data, err := json.Marshal(v.Case)
	must(tb, err)
	return cases.Tree(tb, data)
}

// generateHistoryVectors makes all vectors, by name; the same ones every time.
func generateHistoryVectors(t *testing.T) map[string]*historyVector {
	t.Helper()
	vectors := map[string]*historyVector{}
	base := ""
	put := func(name, desc string, text []byte, questions ...verify.Question) {
		v := newHistoryVector(t, desc, newIndexed(t).Root, questions, text)
		if vectors[name] = v; base == "" {
			base = name
		} else {
			v.like(t, base, vectors)
		}
	}
	x := newIndexed(t)
	text := func(h *verify.History) []byte {
		data, err := h.Encode()
		must(t, err)
		return data
	}
	whole := text(x.history(agentSubject, colleague, nobody))
	put("good-whole", "every entry about three subjects, of whom one was never heard of; nobody asks", whole)
	asked := map[string]struct {
		desc string
		ask  []verify.Question
	}{
		"good-present": {"executions in the whole log, of which the index does not cover two", []verify.Question{{Subject: agentSubject, Label: "execution", Size: 19}}},
		"good-none":    {"nobody revoked a key of the agent", []verify.Question{{Subject: agentSubject, Label: revoked}}},
		"good-older": {"executions as of an older size, and as of one where they end with the last entry",
			[]verify.Question{{Subject: agentSubject, Label: "execution", Size: 13}, {Subject: agentSubject, Label: "execution", Size: 14}}},
		"good-since":     {"executions from an index on", []verify.Question{{Subject: agentSubject, Label: "execution", From: 10, Size: 18}}},
		"good-revoked":   {"a revocation by another, as of sizes before it and with it", []verify.Question{{Subject: colleague, Label: revoked, Size: 15}, {Subject: colleague, Label: revoked, Size: 16}}},
		"good-nobody":    {"no entry about a principal that the log does not know", []verify.Question{{Subject: nobody}}},
		"good-label":     {"a label for which the record of the agent has no row", []verify.Question{{Subject: agentSubject, Label: "policy"}}},
		"bad-subject":    {"a question about a subject that the file is not about", []verify.Question{{Subject: entry.Subject{Type: entry.SubjectLog}, Label: "policy"}}},
		"bad-size-above": {"a question about more entries than the file claims anything of", []verify.Question{{Subject: nobody, Size: 20}}},
	}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		put(name, asked[name].desc, whole, asked[name].ask...)
	}
	base = ""
	page := x.history(agentSubject)
	s := &page.Subjects[0]
	at := slices.IndexFunc(s.Lists, func(l verify.ListRun) bool { return l.Label == "execution" })
	s.Lists[at] = x.index.Run(agentSubject, "execution", 1, 1)
	put("good-page", "one rank of a list, of the three that there are, is complete for what lies between", text(page), verify.Question{Subject: agentSubject, Label: "execution", From: 11, Size: 12})
	put("bad-page-before", "a page does not reach back to where the question begins", text(page), verify.Question{Subject: agentSubject, Label: "execution", From: 9, Size: 12})
	put("bad-page-behind", "a page does not reach to where the question ends", text(page), verify.Question{Subject: agentSubject, Label: "execution", From: 11, Size: 14})
	base = ""
	put("good-log", "policies and index entries of the log, and the entries of a workflow",
		text(x.history(entry.Subject{Type: entry.SubjectLog}, entry.Subject{Type: entry.SubjectWorkflow, Value: "workflow"})))
	base = ""
	put("good-colleague", "the one revocation of a principal by another, in the whole log", text(x.history(colleague)), wholeLog)
	bare := x.history(colleague)
	x.drop(bare, 2)
	put("missing-coordinator", "the entry that enrols the coordinator is not in the file: nothing is false, and who signed the index is not known", text(bare), wholeLog)
	for _, attack := range historyAttacks() {
		x := newIndexed(t)
		h := x.history(colleague)
		attack.change(x, h)
		data, err := jsonv2.Marshal(h)
		must(t, err)
		put("attack-"+slug(attack.name), attack.name, data, wholeLog)
	}
	base = ""
	put("good-short", "nothing is known of a principal: the form that the spellings below are not", text(x.history(nobody)), verify.Question{Subject: nobody})
	spellings := historySpellings(string(text(x.history(nobody))))
	for _, name := range slices.Sorted(maps.Keys(spellings)) {
		spelling := spellings[name]
		put("form-"+name, spelling.desc, []byte(spelling.text), verify.Question{Subject: nobody})
	}
	return vectors
}

// slug is a name as it stands in that of a file.
func slug(name string) string {
	return strings.Trim(regexp.MustCompile("[^a-z0-9]+").ReplaceAllString(strings.ToLower(name), "-"), "-")
}

type spelling struct{ desc, text string }

// historySpellings are spellings of a history that are none.
func historySpellings(good string) map[string]spelling {
	before, _, _ := strings.Cut(good, `"subjects":[`)
	_, after, _ := strings.Cut(good, `,"index":`)
	return map[string]spelling{
		"order":       {"members in another order", `{"size":19,` + strings.Replace(good[1:], `,"size":19`, "", 1)},
		"unknown":     {"an unknown member", strings.Replace(good, `{"head"`, `{"more":1,"head"`, 1)},
		"twice":       {"a member twice", strings.Replace(good, `{"head"`, `{"index":16,"head"`, 1)},
		"number":      {"a number with an exponent", strings.Replace(good, `"size":19`, `"size":19e0`, 1)},
		"escape":      {"an escape that is not needed", strings.Replace(good, `"agent"`, `"\u0061gent"`, 1)},
		"no-size":     {"size 0", strings.Replace(good, `"size":19}`, `"size":0}`, 1)},
		"no-subject":  {"no subject", before + `"subjects":[],"prefix":[],"size":19}`},
		"no-head":     {"no tree head", `{"head":"","index":` + after},
		"type":        {"a type of subject that there is not", strings.Replace(good, `"type":"agent"`, `"type":"person"`, 1)},
		"depth":       {"deeper than a key has bits", regexp.MustCompile(`"depth":[0-9]+`).ReplaceAllString(good, `"depth":257`)},
		"zero-hash":   {"an empty subtree that is written as a hash", strings.Replace(good, `"prefix":[`, `"prefix":["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",`, 1)},
		"empty-lists": {"an empty list of lists, which is written by leaving it out", strings.Replace(good, `"value":"nobody",`, `"value":"nobody","lists":[],`, 1)},
		"cut":         {"the last bracket is missing", good[:len(good)-1]},
	}
}

// TestHistoryVectorFiles compares the files with what is generated; with -update it writes
// them. The difference is to be read before it is committed.
func TestHistoryVectorFiles(t *testing.T) {
	generated := generateHistoryVectors(t)
	cases.Files(t, historyVectors, generated, *update)
	verdicts := map[string]int{}
	for name, v := range generated {
		if good := strings.HasPrefix(name, "good-"); good != (v.WantErr == "" && len(v.Want.Missing) == 0) {
			t.Errorf("%s: %q %+v", name, v.WantErr, v.Want)
		}
		verdicts[v.WantErr]++
	}
	if len(generated) < 50 {
		t.Errorf("%d vectors", len(generated))
	}
	for step := 9; step <= 15; step++ {
		if verdicts[fmt.Sprint("step ", step)] == 0 {
			t.Errorf("no vector is refused in step %d", step)
		}
	}
	t.Logf("%d vectors: %v", len(generated), verdicts)
}

// TestHistoryVectors checks the files, as any implementation can.
func TestHistoryVectors(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(historyVectors, "*.json"))
	must(t, err)
	vectors := map[string]*historyVector{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(t, err)
		v := new(historyVector)
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		decoder.UseNumber()
		must(t, decoder.Decode(v))
		vectors[strings.TrimSuffix(filepath.Base(file), ".json")] = v
	}
	for name, v := range vectors {
		data, err := json.Marshal(historyCaseOf(t, v, vectors))
		must(t, err)
		var c struct {
			Root      verify.Root
			Questions []verify.Question
			History   json.RawMessage
		}
		must(t, jsonv2.Unmarshal(data, &c, jsonv2.MatchCaseInsensitiveNames(true)))
		again := newHistoryVector(t, v.Desc, c.Root, c.Questions, historyText(t, c.History))
		if again.WantErr != v.WantErr || !reflect.DeepEqual(again.Want, v.Want) {
			t.Errorf("%s: %s: %q %+v, want %q %+v", name, v.Desc, again.WantErr, again.Want, v.WantErr, v.Want)
		}
	}
}

// historyText is the history of a case as it was received: text, or a tree that is written
// in the order of the history's members.
func historyText(tb testing.TB, value json.RawMessage) []byte {
	tb.Helper()
	if value[0] == '"' {
		var text string
		must(tb, json.Unmarshal(value, &text))
		return []byte(text)
	}
	h := new(verify.History)
	must(tb, jsonv2.Unmarshal(value, h))
	data, err := jsonv2.Marshal(h)
	must(tb, err)
	return data
}

// TestHistoryCrossCheck has a program that shares no code with ours check the vectors; the
// program disagrees with damaged ones.
func TestHistoryCrossCheck(t *testing.T) {
	budget.Unraced(t, "one goroutine checks histories")
	python := needs.Program(t, "python3", "python3", "the vectors are not cross-checked")
	check := func(dir string) (last string, ok bool) {
		out, err := exec.CommandContext(t.Context(), python, "../testdata/crosscheck/history.py", dir, "../ledger/entry/schema").CombinedOutput()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if err != nil {
			t.Logf("%s", strings.Join(lines[max(0, len(lines)-10):], "\n"))
		}
		return lines[len(lines)-1], err == nil
	}
	if last, ok := check(historyVectors); !ok || !strings.HasSuffix(last, " 0 wrong") {
		t.Error(last)
	}
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(historyVectors)))
	for name, change := range map[string][2]string{
		"good-whole": {`"entries": []`, `"entries": [1]`}, "attack-tail-short": {"step 15", "step 14"}, "form-order": {`"form"`, `""`},
		"missing-coordinator": {`"missing": [`, `"missing": [3,`},
	} {
		file := filepath.Join(dir, name+".json")
		text, err := os.ReadFile(file)
		must(t, err)
		damaged := strings.Replace(string(text), change[0], change[1], 1)
		if damaged == string(text) {
			t.Errorf("%s is not damaged", name)
		}
		must(t, os.WriteFile(file, []byte(damaged), 0o600))
	}
	if last, ok := check(dir); ok || !strings.HasSuffix(last, " 4 wrong") {
		t.Errorf("damaged: %s", last)
	}
}

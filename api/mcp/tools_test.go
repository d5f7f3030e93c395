package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// TestParseToolsRefuses: every mistake is an error with the line, the field and the remedy.
func TestParseToolsRefuses(t *testing.T) {
	tool := func(text string) string { return "tools:\n  put:\n    " + text + "\n" }
	for _, c := range []struct {
		text  string
		line  int
		field string
		want  string
	}{
		{"", 0, "/tools", "names no tool"},
		{"tools: {}\n", 1, "/tools", "names no tool"},
		{"tools:\n  put: null\n", 2, "/tools/put", "declares nothing"},
		{"tools:\n  put: {effect: none}\nextra: 1\n", 3, "/extra", "is not a member of a tools file"},
		{tool("effect: none") + "keep_days: -1\n", 4, "/keep_days", "is -1"},
		{tool("effect: none") + "keep_days: 36501\n", 4, "/keep_days", "from 1 to 36500"},
		{tool("effects: none"), 3, "/tools/put/effects", "is not a member"},
		{tool("effect: reversible"), 3, "/tools/put/effect", "no checkpoints"},
		{tool("effect: harmless"), 3, "/tools/put/effect", `is "harmless"`},
		{tool("effect: 1"), 3, "/tools/put/effect", "holds a number"},
		{tool("errors: fatal"), 3, "/tools/put/errors", `is "fatal"`},
		{tool("effect: compensable"), 3, "/tools/put/effect", "there is no compensation"},
		{tool("effect: none\n    compensation: [{tool: del}]"), 3, "/tools/put/effect", "there is a compensation"},
		{tool("effect: none\n    key: k"), 3, "/tools/put/effect", "before, probe or key"},
		{tool("before: {tool: get}"), 3, "/tools/put/before", "no compensation that uses it"},
		{tool("compensation: [{arguments: {a: b}}]"), 3, "/tools/put/compensation/0/tool", "is missing"},
		{tool("compensation: [{tool: del, when: before.done}]"), 3, "/tools/put/compensation/0/when", "has no before"},
		{tool("compensation: [{tool: del}, {tool: put}]"), 3, "/tools/put/compensation/0", "never made"},
		{tool("before: {tool: get}\n    compensation: [{tool: del}]"), 4, "/tools/put/compensation/0", "may fail"},
		{tool("before: {tool: get}\n    compensation: [{tool: del, when: sometimes}]"), 4, "/tools/put/compensation/0/when", "sometimes"},
		{tool("compensation: [{tool: del, arguments: {a: \"${before/x}\"}}]"), 3, "/tools/put/compensation/0/arguments", "begins with none of"},
		{tool("compensation: [{tool: del, arguments: {a: \"${key/x}\"}}]"), 3, "/tools/put/compensation/0/arguments", "nothing inside"},
		{tool("compensation: [{tool: del, arguments: {a: \"${result/\"}}]"), 3, "/tools/put/compensation/0/arguments", "is no template"},
		{tool("compensation: [{tool: del, arguments: {a: [\"${result/}\"]}}]"), 3, "/tools/put/compensation/0/arguments", "ends with a slash"},
		{tool("probe: {tool: get}"), 3, "/tools/put/probe/done", "does not say"},
		{tool("probe: {tool: get, done: maybe}"), 3, "/tools/put/probe/done", "does not say"},
		{tool("probe: {tool: get, done: {a: \"${result/x}\"}}"), 3, "/tools/put/probe/done", "begins with none of"},
		{tool("compensation: &a [{tool: del}]"), 3, "", "anchor"},
		{"tools:\n  put: {effect: none}\n  put: {effect: none}\n", 3, "", "put"},
		{strings.Repeat("#", MaxToolsFile+1), 0, "", "bytes"},
	} {
		_, err := ParseTools("tools.yaml", []byte(c.text))
		wrong, ok := errors.AsType[*scenario.Error](err)
		if !ok || wrong.File != "tools.yaml" || wrong.Line != c.line || wrong.Field != c.field || !strings.Contains(err.Error(), c.want) || wrong.Remedy == "" {
			t.Errorf("%.100q: %v (line %d, field %s), want line %d, field %s, %q", c.text, err, wrong.Line, wrong.Field, c.line, c.field, c.want)
		}
	}
	if _, err := ParseTools("", []byte("tools: {put: {effect: none}}\n"+strings.Repeat("#", MaxToolsFile-29))); err != nil {
		t.Errorf("as large as it may be: %v", err)
	}
}

// FuzzParseTools: a file is refused, or its templates can be filled. Nothing panics.
func FuzzParseTools(f *testing.F) {
	for _, seed := range []string{"tools:\n  put: {effect: irrevocable, key: k}\n",
		"tools:\n  put:\n    before: {tool: get, arguments: {n: \"${arguments/n}\"}}\n    compensation: [{tool: put, when: before.done, arguments: {t: \"a${before/content/0/text}$${b\"}}]\n",
		"trust_annotations: false\ntools: {a: {probe: {tool: b, done: {x/0: [1, \"${arguments/y}\"]}}}}\n"} {
		f.Add([]byte(seed))
	}
	arguments := jsontext.Value(`{"n":"x","y":[1,{"z":null}]}`)
	f.Fuzz(func(t *testing.T, text []byte) {
		tools, err := ParseTools("", text)
		if err != nil {
			return
		}
		for name, tool := range tools.Tools {
			tools.effect(name, nil)
			for _, c := range tool.Compensation {
				vs := values{}
				_ = takeAll(vs, "arguments", arguments, c.Arguments)
				_ = takeAll(vs, "result", arguments, c.Arguments)
				if filled, err := vs.with("k").fill(c.Arguments); err == nil {
					if _, err := json.Marshal(filled); err != nil {
						t.Errorf("%v: %v", filled, err)
					}
				}
			}
		}
	})
}

// TestTemplates fills templates: whole values keep their kind, and texts of a call are never
// templates themselves.
func TestTemplates(t *testing.T) {
	vs := values{}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	template := map[string]any{"whole": "${arguments/list}", "in": "a ${arguments/name} ${arguments/n} ${arguments/yes} b", "key": "${key}",
		"literal": "$${key}", "deep": []any{map[string]any{"x": "${result/a~1b/1}"}}, "all": "${arguments}", "each": "${result/a~1b/*}", "n": int64(3)}
	must(takeAll(vs, "arguments", jsontext.Value(`{"list":[1,2.50],"name":"${key} \"q\"","n":7,"yes":true}`), template))
	must(takeAll(vs, "result", jsontext.Value(`{"a/b":["x","y"]}`), template))
	filled, err := vs.with("K").fill(template)
	must(err)
	text, err := json.Marshal(filled)
	must(err)
	const want = `{"all":{"list":[1,2.50],"name":"${key} \"q\"","n":7,"yes":true},"deep":[{"x":"y"}],"each":["x","y"],"in":"a ${key} \"q\" 7 true b","key":"K","literal":"${key}","n":3,"whole":[1,2.50]}`
	if string(text) != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
	for _, c := range []struct{ template, want string }{{"${arguments/none}", "there is no arguments/none"},
		{"${result/a~1b/2}", "there is no result/a~1b/2"}, {"${result/a~1b/01}", "there is no"}, {"${result/a~1b/*/x}", "there is no"},
		{"x${arguments/list}", "is a list or an object"}} {
		vs := values{}
		err := errors.Join(vs.take(c.template, "arguments", jsontext.Value(`{"list":[]}`)), vs.take(c.template, "result", jsontext.Value(`{"a/b":["x","y"]}`)))
		if err == nil {
			_, err = vs.fill(c.template)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.template, err, c.want)
		}
	}
}

// TestMatches compares answers with what a probe wants.
func TestMatches(t *testing.T) {
	vs := values{"arguments/t": jsontext.Value(`"x"`)}
	answer := jsontext.Value(`{"content":[{"text":"x"}],"n":1.0,"o":{"b":1,"a":2}}`)
	for _, c := range []struct {
		done map[string]any
		want probed
	}{
		{map[string]any{"content/0/text": "${arguments/t}"}, probedDone}, {map[string]any{"content/0/text": "y"}, probedNot}, {map[string]any{"content/1/text": "x"}, probedNot},
		{map[string]any{"n": int64(1), "o": map[string]any{"a": int64(2), "b": int64(1)}}, probedDone}, {map[string]any{"n": "${arguments/none}"}, probedUnknown},
	} {
		if got := matches(c.done, answer, vs); got != c.want {
			t.Errorf("%v: %d, want %d", c.done, got, c.want)
		}
	}
}

// TestJournal: a journal that a crash tore is read up to the last whole line; damage before that is
// refused, and what is of no more use is dropped.
func TestJournal(t *testing.T) {
	dir := t.TempDir()
	open := func() (*journal, []*record) {
		t.Helper()
		j, records, err := openJournal(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		return j, records
	}
	write := func(j *journal, records ...*record) {
		t.Helper()
		for _, r := range records {
			if err := j.write(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	j, _ := open()
	write(j, &record{Exec: "w#a", Tool: "put", Effect: entry.EffectCompensable, Undo: &Call{Tool: "del"}, Values: values{"arguments/n": jsontext.Value(`"x"`)}},
		&record{Exec: "w#b", Tool: "get", Effect: entry.EffectNone}, &record{Exec: "w#b", Progress: entry.Confirmed},
		&record{Exec: "w#a", Progress: entry.Confirmed, Outbox: []jsontext.Value{jsontext.Value(`{}`)}}, &record{Exec: "w#c", Tool: "mail", Effect: entry.EffectIrrevocable})
	path := filepath.Join(dir, journalFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		j, records := open()
		if names := namesOf(records); cut == len(whole)-1 && names != "w#a" {
			t.Errorf("without the end of the last line: %s", names)
		}
		write(j)
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	j, records := open()
	if names := namesOf(records); names != "w#a w#c" || records[0].Progress != entry.Confirmed || len(records[0].Outbox) != 1 {
		t.Errorf("%s: %+v", names, records[0])
	}
	if vs, err := j.values(records[0]); err != nil || string(vs["arguments/n"]) != `"x"` {
		t.Errorf("values %v, %v", vs, err)
	}
	write(j)
	whole[20] ^= 1
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err = openJournal(dir, 0)
	if damage, ok := errors.AsType[*JournalError](err); !ok || damage.Line != 1 {
		t.Errorf("damage: %v", err)
	}
}

func namesOf(records []*record) string {
	var names []string
	for _, r := range records {
		names = append(names, string(r.Exec))
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// FuzzJournalLine: a line is refused, or is written again as it was.
func FuzzJournalLine(f *testing.F) {
	line, err := lineOf(&record{Exec: "w#a", Values: values{"arguments/n": jsontext.Value(`"x"`)}, Probe: &ToolProbe{Call{"get", nil}, "ok"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := parseLine(line)
		if err != nil {
			return
		}
		again, err := lineOf(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseLine(again); err != nil {
			t.Errorf("%q: %v", again, err)
		}
	})
}

// TestStricter: of two claims about a tool, the one that allows less counts.
func TestStricter(t *testing.T) {
	yes, no := true, false
	reads, writes, silent := &hints{ReadOnly: &yes}, &hints{ReadOnly: &no, Idempotent: &yes}, (*hints)(nil)
	for _, c := range []struct {
		one, other *hints
		want       entry.Effect
	}{{reads, reads, entry.EffectNone}, {reads, writes, entry.EffectIrrevocable}, {writes, reads, entry.EffectIrrevocable},
		{reads, silent, entry.EffectUndeclared}, {silent, reads, entry.EffectUndeclared},
		{reads, &hints{Destructive: &yes}, entry.EffectIrrevocable}} {
		if got := c.one.stricter(c.other).effect(); got != c.want {
			t.Errorf("%v and %v: %s, want %s", fmt.Sprint(c.one), fmt.Sprint(c.other), got, c.want)
		}
	}
}

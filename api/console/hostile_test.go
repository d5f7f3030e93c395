package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/html"

	"recoveryledger/api/console"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/cases"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/webpage"
)

// hostile passes for markup, reorders what stands beside it, cannot be seen, and is a template.
const hostile = "</td></code><script>alert(1)</script><img src=x onerror=alert(1)>\u202egnp\u2066\u200b\x00\n{{.}} javascript:alert(1) "

// spelled is how a page shows the beginning of it.
const spelled = "<script>alert(1)</script><img src=x onerror=alert(1)>[U+202E]gnp[U+2066][U+200B]"

// freeTexts are the fields that take any text, beside members that an object may have more, and the
// audience, which is the ledger's. All other fields have an alphabet of their own.
const freeTexts = `approval reason
attempt facts.intent
attempt facts.tags[0]
attempt rungs[0].reason
attempt rungs[1].reason
checkpoint loc
decision dismissed[0].reason
decision reason
outcome residual
policy ledger_keys[0]
policy predecessor.ledger_keys[0]
policy predecessor.origin
policy recovery.rules[0].ladder[0]
policy recovery.rules[0].when
policy witnesses
rollout reason
rollout start.candidate.rules[0].when
signal detail
signal evidence[0].uri
task reason`

// forged is a log as a source of pages, with entries that the state never took up.
type forged struct{ shown }

func (f forged) Entry(_ context.Context, index, size uint64) (*entry.Registered, []merkle.Hash, error) {
	proof, err := merkle.ProveInclusion(index, size, f.Node, nil)
	return &f.Log.Entries[index], proof, err
}

// TestHostileFields writes the worst text that an entry may carry into each field of each kind: the
// list of entries and the page of the entry show the text, spelled out, and no part of it as it is.
func TestHostileFields(t *testing.T) {
	l := foldlog.New(t)
	fields := map[uint64]string{}
	for _, kind := range entry.Kinds() {
		for field, payload := range hostilePayloads(t, kind) {
			e := longest(kind, payload)
			if e == nil {
				continue // the field takes no such text
			}
			e.Seal(l.Key("a").Public.KeyID(), []byte("forged"))
			fields[uint64(len(l.Entries))] = string(kind) + " " + strings.TrimPrefix(field, ".")
			l.Forge(e)
		}
	}
	c, err := console.New(&console.Config{Source: forged{shown{l}}, Origin: "ledger.example/test"})
	if err != nil {
		t.Fatal(err)
	}
	for index, field := range fields {
		for _, path := range []string{"/log?before=" + decimal(index+1), "/log/" + decimal(index)} {
			status, body := get(t, c, path)
			webpage.Check(t, path, body)
			if status != http.StatusOK || strings.Contains(body, "<script>") || strings.Contains(body, "<img") || strings.ContainsAny(body, "\u202e\u2066\u200b\x00") {
				t.Errorf("%s of %s: %d, with the text as it is", path, field, status)
			}
			if path == "/log/"+decimal(index) && !strings.Contains(html.UnescapeString(body), spelled) {
				t.Errorf("%s of %s does not show the text", path, field)
			}
		}
	}
	free := slices.Collect(maps.Values(fields))
	free = slices.DeleteFunc(free, func(field string) bool { return strings.HasSuffix(field, "*") || strings.HasSuffix(field, " aud") })
	slices.Sort(free)
	if got := strings.Join(free, "\n"); got != freeTexts {
		t.Errorf("an entry carries free text in\n%s\n\nwant\n%s", got, freeTexts)
	}
}

// hostilePayloads returns the payload of a kind that has every member, with the placeholder in one
// field, by the field. A field is a string, or a new member of an object.
func hostilePayloads(t *testing.T, kind entry.Kind) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "vectors", "payload", string(kind), "full.json"))
	if err != nil {
		t.Fatal(err)
	}
	var vector struct{ Input string }
	if err := json.Unmarshal(text, &vector); err != nil {
		t.Fatal(err)
	}
	tree, all := cases.Tree(t, []byte(vector.Input)), map[string]string{}
	add := func(field string) {
		payload, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		all[field] = string(payload)
	}
	eachText(tree, "", add)
	return all
}

// placeholder stands in a payload where a text is to be.
const placeholder = "placeholder of a text"

// eachText puts the placeholder into each string of a tree, and beside the members of each object,
// and calls add with its place.
func eachText(node any, path string, add func(field string)) {
	visit := func(child any, name string, set func(any)) {
		if _, is := child.(string); is {
			set(placeholder)
			add(name)
			set(child)
		}
		eachText(child, name, add)
	}
	switch n := node.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(n)) {
			visit(n[key], path+"."+key, func(v any) { n[key] = v })
		}
		n[placeholder] = json.Number("1")
		add(path + ".*")
		delete(n, placeholder)
	case []any:
		for i := range n {
			visit(n[i], fmt.Sprintf("%s[%d]", path, i), func(v any) { n[i] = v })
		}
	}
}

// longest returns the entry whose text is the longest that the rules of its kind let in; nil: they
// let in none.
func longest(kind entry.Kind, payload string) *entry.Entry {
	for _, more := range []int{40_000, 900, 300, 0} {
		text, err := jsontext.AppendQuote(nil, hostile+strings.Repeat("w", more))
		if err != nil {
			return nil
		}
		e, err := entry.NewRaw(kind, []byte(strings.Replace(payload, `"`+placeholder+`"`, string(text), 1)))
		if err == nil {
			return e
		}
	}
	return nil
}

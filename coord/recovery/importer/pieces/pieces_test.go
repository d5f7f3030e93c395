package pieces_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"recoveryledger/coord/recovery/importer/pieces"
	"recoveryledger/coord/recovery/scenario"
)

// read reads an object in pieces, and says what the error at the end was: the lines before it, the
// field of the value that it is about, and the error.
func read(r io.Reader, limit int, each func(*pieces.Piece)) string {
	in := &pieces.Guard{Reader: r, Limit: limit}
	dec := jsontext.NewDecoder(in)
	reader := pieces.New(dec, in, append(pieces.Spans(), pieces.Runs()...))
	for {
		piece, err := reader.Next()
		lines := in.LinesBefore(dec.UnreadBuffer())
		if wrong, ok := errors.AsType[*scenario.Error](err); ok {
			return fmt.Sprintf("%d %s %s", lines, wrong.Field, wrong.Detail)
		}
		if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
			return fmt.Sprintf("%d %s %s", lines, syntax.JSONPointer, syntax.Err)
		}
		if errors.Is(err, pieces.ErrTooLarge) {
			return fmt.Sprintf("%d %s %s", lines, reader.Place(), pieces.ErrTooLarge)
		}
		if err != nil {
			return fmt.Sprintf("%d %v", lines, err)
		}
		each(piece)
	}
}

// Each piece has elements of one array, with the members around the array that they need, and knows
// its place.
func TestPieces(t *testing.T) {
	type piece struct{ value, field string }
	for _, c := range []struct {
		desc, text string
		limit      int
		want       []piece
	}{
		{"a page", `{"next": 1, "data": [{"a":  1}, 2, [3]], "more": {"data": [4]}}`, 400, []piece{
			{`{"data":[{"a":  1}]}`, "/data/0"}, {`{"data":[2]}`, "/data/1"}, {`{"data":[[3]]}`, "/data/2"}}},
		{"a name with an escape", `{"r\u0075ns": [1]}`, 400, []piece{{`{"runs":[1]}`, "/runs/0"}}},
		{"resources and scopes", "{\"resourceSpans\": [\n" +
			`{"resource": {"r": 1}, "scopeSpans": [{"scope": {"s": 1}, "spans": [1, 2], "schemaUrl": "u"}, {"spans": [3]}], "schemaUrl": "u"},` + "\n" +
			`{}, {"scopeSpans": []}, {"scopeSpans": null, "resource": null}, {"scopeSpans": [{"spans": null}, {"spans": []}, {"scope": 1, "spans": [4]}]}]}`, 1000, []piece{
			{`{"resourceSpans":[{"resource":{"r": 1},"scopeSpans":[{"scope":{"s": 1},"spans":[1,2]}]}]}`, "/resourceSpans/0/scopeSpans/0/spans"},
			{`{"resourceSpans":[{"resource":{"r": 1},"scopeSpans":[{"spans":[3]}]}]}`, "/resourceSpans/0/scopeSpans/1/spans/0"},
			{`{"resourceSpans":[{"scopeSpans":[{"scope":1,"spans":[4]}]}]}`, "/resourceSpans/4/scopeSpans/2/spans/0"}}},
		{"the other names", `{"resource_spans": [{"scope_spans": [{"spans": [1]}]}]}`, 400, []piece{
			{`{"resourceSpans":[{"scopeSpans":[{"spans":[1]}]}]}`, "/resourceSpans/0/scopeSpans/0/spans/0"}}},
		{"many elements", `{"resourceSpans":[{"scopeSpans":[{"spans":[` + strings.Repeat(`"0123456789",`, 8) + `1]}]}]}`, 400, []piece{
			{`{"resourceSpans":[{"scopeSpans":[{"spans":[` + strings.Repeat(`"0123456789",`, 3) + `"0123456789"]}]}]}`, "/resourceSpans/0/scopeSpans/0/spans"},
			{`{"resourceSpans":[{"scopeSpans":[{"spans":[` + strings.Repeat(`"0123456789",`, 3) + `"0123456789"]}]}]}`, "/resourceSpans/0/scopeSpans/0/spans"},
			{`{"resourceSpans":[{"scopeSpans":[{"spans":[1]}]}]}`, "/resourceSpans/0/scopeSpans/0/spans/8"}}},
	} {
		for _, r := range []io.Reader{strings.NewReader(c.text), iotest.OneByteReader(strings.NewReader(c.text))} {
			var got []piece
			end := read(r, c.limit, func(p *pieces.Piece) { got = append(got, piece{string(p.Value), p.Field("")}) })
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(piece{})); diff != "" || !strings.HasSuffix(end, " EOF") {
				t.Errorf("%s ended with %s:\n%s", c.desc, end, diff)
			}
		}
	}
}

// What is not divided is an error with its place, after the pieces before it.
func TestWrongObjects(t *testing.T) {
	long := strings.Repeat("x", 300)
	many := ""
	for i := range 6 {
		many += fmt.Sprintf(`"%d": 1, `, i)
	}
	span := func(text string) string { return `{"resourceSpans": [{"scopeSpans": [{"spans": [` + text }
	for _, c := range []struct {
		text   string
		pieces int
		want   string
	}{
		{`{"a": 1, "data": 2, "runs": null}`, 0, "0 the object has none of the forms"},
		{`{"resourceSpans": {"scopeSpans": []}}`, 0, "0 the object has none of the forms"},
		{`{"resourceSpans": [{"scopeSpans": [{"spans": []}]}]}`, 0, "0 the object has none of the forms"},
		{`{"data": [1], "runs": [1]}`, 1, "0 the object has none of the forms"},
		{`{"resourceSpans": [{"scopeSpans": [], "resource": {}}], "data": [1]}`, 0, "0 the object has none of the forms"},
		{`{"resourceSpans": [{"scopeSpans": [{"spans": [1]}],` + "\n" + `"resource": {}}]}`, 1,
			"1 /resourceSpans/0/resource stands behind the scopeSpans that it belongs to, in an object that is too large to be held"},
		{span(`1, 2], "scope": {}}]}]}`), 1, "0 /resourceSpans/0/scopeSpans/0/scope stands behind the spans that it belongs to, in an object that is too large to be held"},
		{span(`]}, {"spans": {}}]}]}`), 0, "0 /resourceSpans/0/scopeSpans/1/spans holds an object and not an array"},
		{span(`1]}, []]}]}`), 1, "0 /resourceSpans/0/scopeSpans/1 holds an array and not an object"},
		{`{"data": [1], "data": [2]}`, 1, `0 /data duplicate object member name`},
		{`{"data": [{"a": 1, "a": 2}]}`, 0, `0 /data/0/a duplicate object member name`},
		{"{\"data\": [1,\n2,\n3 4]}", 3, `2 /data invalid character '4' after array element (expecting ',' or ']')`},
		{"{\"data\": [1,\n2,", 2, "1 /data unexpected EOF"},
		{`{"data": [1, "` + long + `"]}`, 1, "0 /data/1 record over the limit"},
		{span(`1, "` + long + `"]}]}]}`), 1, "0 /resourceSpans/0/scopeSpans/0/spans/1 record over the limit"},
		{`{"data": [1], "m~": "` + long + `"}`, 1, "0 /m~0 record over the limit"},
		{`{"data": [1], "` + long + `": 1}`, 1, "0  record over the limit"},
		{`{` + many + `"data": [1]}`, 0, "0 /3 record over the limit"},
		{`{"data": [1], ` + strings.Repeat(" ", 300) + `"m": 1}`, 1, "0  record over the limit"},
	} {
		for _, r := range []io.Reader{strings.NewReader(c.text), iotest.OneByteReader(strings.NewReader(c.text))} {
			got := 0
			if end := read(r, 256, func(*pieces.Piece) { got++ }); got != c.pieces || end != c.want {
				t.Errorf("%.60s: %d pieces, and\n %s, want %d and\n %s", c.text, got, end, c.pieces, c.want)
			}
		}
	}
	at := `"` + long[:256-2] + `"`
	got := 0
	end := read(strings.NewReader(`{"data": [`+"\n  "+at+`,  `+at+`], "m": `+at+`}`), 256, func(*pieces.Piece) { got++ })
	if got != 2 || end != "1 EOF" {
		t.Errorf("elements at the limit: %d, and %s", got, end)
	}
}

// The place of a value of a piece is that in the object.
func TestField(t *testing.T) {
	in := &pieces.Guard{Reader: strings.NewReader(`{"resourceSpans":[{},{"scopeSpans":[{},{},{"spans":[{},{}]}]}]}`), Limit: 1000}
	piece, err := pieces.New(jsontext.NewDecoder(in), in, pieces.Spans()).Next()
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{
		"":                              "/resourceSpans/1/scopeSpans/2/spans",
		"/resourceSpans":                "/resourceSpans",
		"/resourceSpans/0":              "/resourceSpans/1",
		"/resourceSpans/0/resource/a/0": "/resourceSpans/1/resource/a/0",
		"/resourceSpans/0/scopeSpans/0/spans/1/name": "/resourceSpans/1/scopeSpans/2/spans/1/name",
		"/resourceSpans/x/scopeSpans/0":              "/resourceSpans/x/scopeSpans/0",
		"/traceId":                                   "/traceId",
	} {
		if got := piece.Field(field); got != want {
			t.Errorf("%s is %s, want %s", field, got, want)
		}
	}
	if got := (*pieces.Piece)(nil).Field("/a"); got != "/a" {
		t.Errorf("without a piece: %s", got)
	}
}

// element is an element of an object, with its place and the members that belong to it.
type element struct{ Field, Resource, Scope, Value string }

// elements reads an object whole. It reports false for an object that json finds wrong.
func elements(value jsontext.Value) (all []element, ok bool) {
	var whole struct {
		ResourceSpans []struct {
			Resource   jsontext.Value `json:"resource"`
			ScopeSpans []struct {
				Scope jsontext.Value   `json:"scope"`
				Spans []jsontext.Value `json:"spans"`
			} `json:"scopeSpans"`
		} `json:"resourceSpans"`
		Data []jsontext.Value `json:"data"`
		Runs []jsontext.Value `json:"runs"`
	}
	err := json.Unmarshal(value, &whole)
	text := func(value jsontext.Value) string { return strings.TrimPrefix(string(value), "null") }
	for i, resource := range whole.ResourceSpans {
		for j, scope := range resource.ScopeSpans {
			for k, span := range scope.Spans {
				all = append(all, element{fmt.Sprintf("/resourceSpans/%d/scopeSpans/%d/spans/%d", i, j, k), text(resource.Resource), text(scope.Scope), string(span)})
			}
		}
	}
	for i, row := range whole.Data {
		all = append(all, element{Field: fmt.Sprintf("/data/%d", i), Value: string(row)})
	}
	for i, run := range whole.Runs {
		all = append(all, element{Field: fmt.Sprintf("/runs/%d", i), Value: string(run)})
	}
	return all, err == nil
}

// FuzzPieces: the elements of the pieces are those of the whole object, with their places and what
// belongs to them, or the first of them before an error. No piece is much larger than the limit.
func FuzzPieces(f *testing.F) {
	for _, text := range []string{
		`{"data": [1, {"a": [2]}, 3], "more": null}`, `{"next": "x", "runs": [{"id": "\u00e9"}]}`, `{"runs": [1], "data": [2]}`, `{"data": 1}`, `[]`, `{"data": [`,
		`{"resourceSpans": [{"resource": {"a": 1}, "scopeSpans": [{"scope": [2], "spans": [{}, {}, 3]}, {"spans": [4]}]}, {"scopeSpans": [{"spans": [5]}]}]}`,
		`{"resourceSpans": [{"scopeSpans": [{"spans": [1], "scope": {}}], "resource": null}, null, {"scopeSpans": null}]}`,
	} {
		f.Add(text, 65) // less than two members of an object on the way
		f.Add(text, 20)
		f.Add(text, 150)
		f.Add(text, 1000)
	}
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if limit < 0 || limit > 1<<20 {
			return
		}
		whole, ok := elements(jsontext.Value(text))
		var got []element
		end := read(strings.NewReader(text), limit, func(piece *pieces.Piece) {
			some, readable := elements(piece.Value)
			if !readable || len(some) == 0 || len(piece.Value) > 25*limit+1000 {
				t.Errorf("piece of %d bytes %s", len(piece.Value), piece.Value)
			}
			for _, e := range some {
				e.Field = piece.Field(e.Field)
				got = append(got, e)
			}
		})
		forms := map[string]bool{}
		for _, e := range whole {
			form, _, _ := strings.Cut(e.Field[1:], "/")
			forms[form] = true
		}
		if !ok || len(forms) > 1 || strings.Contains(text, "_spans") { // the reference does not know the other names
			return
		}
		if !strings.HasSuffix(end, " EOF") {
			whole = whole[:min(len(got), len(whole))]
			for i := range whole { // what belongs to an element may stand behind it, and be the error
				if got[i].Resource == "" {
					whole[i].Resource = ""
				}
				if got[i].Scope == "" {
					whole[i].Scope = ""
				}
			}
		}
		if diff := cmp.Diff(whole, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("pieces with the end %s:\n%s", end, diff)
		}
	})
}

package importer

import (
	"crypto/sha256"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/testdata/budget"
)

// importSmall imports a text of traces as if a record could have no more bytes than the limit, and
// writes down what came: cases as lines of a scenario, errors, and the counts.
func importSmall(tb testing.TB, format Format, text string, limit int) string {
	tb.Helper()
	s := newSource("file", strings.NewReader(text))
	s.in.Limit = limit
	var all []string
	s.traces(format, func(c scenario.Case, err error) bool {
		if err != nil {
			all = append(all, err.Error())
			return true
		}
		line, err := scenario.Encode(c)
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, string(line))
		return true
	})
	return strings.Join(append(all, s.counts.String()), "\n")
}

// objects are the forms of objects with many spans or runs, and of their elements. Two elements are
// of one trace.
var objects = []struct {
	format           Format
	head, tail       string // around the elements of an object
	before, after    string // around an element in a line
	id, text         string // of an element: how it begins, and how a text stands in it
	container, place string // pointers: to all elements, and in one of them
	wrong            string // id of a trace
}{
	{OTLP, `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},"scopeSpans":[{"scope":{"name":"s"},"spans":[`, `]}]}]}`,
		`{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},"scopeSpans":[{"scope":{"name":"s"},"spans":[`, `]}]}]}`,
		`{"traceId":"%032x","spanId":"%016x","name":"x","startTimeUnixNano":"1","endTimeUnixNano":"2",`,
		`"attributes":[{"key":"gen_ai.tool.name","value":{"stringValue":"get_a"}},{"key":"gen_ai.tool.call.arguments","value":{"stringValue":%q}}]}`,
		"/resourceSpans/0/scopeSpans/0/spans", "/traceId", ""},
	{OpenInference, `{"next_cursor":null,"data":[`, `]}`, "", "",
		`{"context":{"trace_id":"%032x","span_id":"%016x"},"name":"x","span_kind":"TOOL","status_code":"OK",`, `"attributes":{"tool":{"name":"get_a"},"input":{"value":%q}}}`,
		"/data", "/context/trace_id", ""},
	{LangSmith, `{"runs":[`, `],"cursors":{"next":null}}`, "", "",
		`{"trace_id":"%032x","id":"run-%d","name":"get_a","run_type":"tool",`, `"inputs":{"input":%q}}`,
		"/runs", "/trace_id", "x"},
}

// An object that is over the limit gives the cases, the errors and the counts that the object gives
// under a larger limit. Without an error, it gives what its elements give in lines.
func TestObjectInPieces(t *testing.T) {
	for _, form := range objects {
		element := func(n int) string {
			return fmt.Sprintf(form.id, n/2+1, n+1) + fmt.Sprintf(form.text, strings.Repeat("a", n))
		}
		var all []string
		lines := ""
		for n := range 40 {
			all, lines = append(all, element(n)), lines+form.before+element(n)+form.after+"\n"
		}
		object := form.head + strings.Join(all, ",") + form.tail
		pretty := jsontext.Value(object)
		if err := pretty.Indent(); err != nil {
			t.Fatal(err)
		}
		all[17] = fmt.Sprintf(form.id, 0, 18) + fmt.Sprintf(form.text, "a")
		all[17] = strings.Replace(all[17], strings.Repeat("0", 32), form.wrong, 1)
		wrong := form.head + strings.Join(all, ",\n") + form.tail
		for desc, text := range map[string]string{"one line": object, "indented": string(pretty), "two": object + "\n" + strings.ReplaceAll(object, "get_a", "get_b") + lines, "wrong": wrong} {
			whole := importSmall(t, form.format, text, scenario.CaseBytesMax)
			if diff := cmp.Diff(whole, importSmall(t, form.format, text, 1000)); diff != "" {
				t.Errorf("%s, %s:\n%s", form.format, desc, diff)
			}
			if inLines := importSmall(t, form.format, lines, 1000); strings.Count(inLines, "get_a") != 40 || (desc == "one line" || desc == "indented") && inLines != whole {
				t.Errorf("%s, %s: in lines\n%s", form.format, desc, cmp.Diff(whole, inLines))
			}
			if want := "read file: record 1: line 1: field " + form.container + "/17" + form.place; desc == "wrong" && !strings.Contains(whole, want) {
				t.Errorf("%s: no error with %s in\n%.1000s", form.format, want, whole)
			}
		}
	}
}

// What is wrong with a large object is said with its place in the file, and with the number of
// traces that are lost.
func TestWrongLargeObjects(t *testing.T) {
	otlp, page, smith := objects[0], objects[1], objects[2]
	element := func(i, n int) string { return fmt.Sprintf(objects[i].id, n, n) + fmt.Sprintf(objects[i].text, "a") }
	pad := strings.Repeat("x", 1100)
	for _, c := range []struct {
		format Format
		text   string
		want   string // the errors
	}{
		{OTLP, `{"resourceSpans":[{"scopeSpans":[{"spans":[` + element(0, 1) + "]}],\n\"pad\":\"" + pad[:900] + "\",\n\"resource\":{}}]}",
			"record 1: line 3: field /resourceSpans/0/resource: stands behind the scopeSpans that it belongs to, in an object that is too large to be " +
				"held; the rest of the file was not read; the traces that were not whole before are not imported: 1 (malformed); write it before them"},
		{OTLP, otlp.head + element(0, 1) + ",\n" + element(0, 2) + ",\n" + element(0, 3) + ",\n" + element(0, 4) + ",\n" + element(0, 5) + ` oh` + otlp.tail + "\n" + otlp.head + element(0, 6) + otlp.tail,
			"record 1: line 5: field /resourceSpans/0/scopeSpans/0/spans: is not JSON: invalid character 'o' after array element (expecting ',' or " +
				"']'); the rest of the file was not read; the traces that were not whole before are not imported: 5 (malformed); write the file as " +
				"JSON in UTF-8 with each member named once"},
		{OpenInference, element(1, 9) + "\n" + page.head + element(1, 1) + ",\n" + element(1, 2) + ",\n\"" + pad + "\"" + page.tail + "\n",
			"record 2: line 4: field /data/2: is larger than 1000 bytes; the rest of the file was not read; the traces that were not whole before are " +
				"not imported: 3 (too-large); split the record, or leave out what is not part of the run"},
		{LangSmith, smith.head + strings.Repeat(element(2, 3)+",", 20) + element(2, 1) + ",\n" + strings.TrimSuffix(element(2, 2), "}") + `,"id":"again"},`,
			"record 1: line 2: field /runs/21/id: is not JSON: duplicate object member name; the rest of the file was not read; the traces that were " +
				"not whole before are not imported: 2 (malformed); write the file as JSON in UTF-8 with each member named once"},
		{LangSmith, "\n" + strings.TrimSuffix(element(2, 1), "}") + `,"child_runs":[` + strings.Repeat(element(2, 3)+",", 20) + element(2, 4) + "]}",
			"record 1: line 2: field /child_runs: is larger than 1000 bytes; the rest of the file was not read (too-large); split the record, or leave out what is not part of the run"},
		{LangSmith, `{"runs":[],` + "\n" + `"pad":[` + strings.Repeat("0,", 300) + `0],"pads":[` + strings.Repeat("0,", 300) + "0]}\n",
			"record 1: line 1: is larger than 1000 bytes; the rest of the file was not read (too-large); split the record, or leave out what is not part of the run"},
		{LangSmith, "[" + smith.head + strings.Repeat(element(2, 1)+",", 20) + element(2, 2) + smith.tail + "]",
			"record 1: line 1: is larger than 1000 bytes; the rest of the file was not read (too-large); split the record, or leave out what is not part of the run"},
		{OTLP, otlp.head + strings.Repeat(element(0, 1)+",\n", 20) + strings.Replace(element(0, 2), `"1"`, "{}", 1) + otlp.tail,
			"record 1: line 1: field /resourceSpans/0/scopeSpans/0/spans/20: is not OTLP/JSON: "},
	} {
		got := importSmall(t, c.format, c.text, 1000)
		if got = got[:strings.LastIndex(got, "\n")]; !strings.HasPrefix(got, "read file: "+c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.format, got, c.want)
		}
	}
}

// texts makes a file of texts without holding it. The text after the last one is empty.
type texts struct {
	text func(i int) string
	i    int
	left string
	peak func() // looks at the heap
}

func (f *texts) Read(p []byte) (read int, err error) {
	for read < len(p) {
		if f.left == "" {
			if f.left = f.text(f.i); f.left == "" {
				return read, io.EOF
			}
			if f.i++; f.i%200 == 0 {
				f.peak()
			}
		}
		n := copy(p[read:], f.left)
		read, f.left = read+n, f.left[n:]
	}
	return read, nil
}

// importLarge imports a file, and gives a digest of the cases, their number, and by how much the
// heap grew.
func importLarge(t *testing.T, format Format, text func(i int) string) (digest [32]byte, cases int, peak uint64) {
	t.Helper()
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	file := &texts{text: text, peak: func() {
		runtime.GC()
		runtime.ReadMemStats(&now)
		peak = max(peak, now.HeapAlloc-min(now.HeapAlloc, before.HeapAlloc))
	}}
	all := sha256.New()
	for c, err := range Import(format, "file", file, &Counts{NoInputs: true}) {
		if err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		line, err := scenario.Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(line)
		cases++
	}
	return [32]byte(all.Sum(nil)), cases, peak
}

// An object that is over the limit of a record is read in flat memory, whatever its size: beside
// the traces that are not whole, the memory has what was read of the object before it was found to
// be too large. The object gives the cases that its elements give in lines.
func TestLargeObjectsChaos(t *testing.T) {
	size := budget.Budget{Short: 33 << 20, Usual: 34 << 20, Chaos: 100 << 20}.Now()
	pad := strings.Repeat("word ", budget.Budget{Short: 12 << 10, Usual: 8 << 10, Chaos: 400}.Now())
	for _, form := range objects {
		text := fmt.Sprintf(form.text, pad)
		element := func(n int) string { return fmt.Sprintf(form.id, n/4+1, n+1) + text }
		many := size / len(element(0))
		file := func(head, tail, before, between, after string) func(i int) string {
			return func(i int) string {
				switch {
				case i == 0:
					return head + before + element(i) + after
				case i < many:
					return between + before + element(i) + after
				case i == many:
					return tail + "\n"
				}
				return ""
			}
		}
		object, cases, peak := importLarge(t, form.format, file(form.head, form.tail, "", ",", ""))
		lines := object
		if form.format == OTLP || budget.Large() { // TestObjectInPieces does so in small for all
			lines, _, _ = importLarge(t, form.format, file("", "", form.before, "\n", form.after))
		}
		if cases != (many+3)/4 || object != lines || peak > 3*scenario.CaseBytesMax+heapMax {
			t.Errorf("%s: %d cases of %d elements, as in lines: %t, needed %d bytes", form.format, cases, many, object == lines, peak)
		}
		t.Logf("%s: %d cases of %d elements, heap grew by at most %d bytes", form.format, cases, many, peak)
	}
}

package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/schematest"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// minimal is the least that a case needs.
const minimal = `{"v":1,"id":"a","agent":"x","steps":[{"id":"s"}]}`

// with replaces a text in the minimal case.
func with(old, replacement string) string { return strings.Replace(minimal, old, replacement, 1) }

// step is the minimal case with members in its step.
func step(members string) string { return with(`"id":"s"`, `"id":"s",`+members) }

func caseSchema(tb testing.TB) *jsonschema.Schema {
	tb.Helper()
	return schematest.Compile(tb, CaseSchema())
}

func caseSchemaTakes(schema *jsonschema.Schema, text []byte) bool {
	return schematest.Check(schema, text) == nil
}

// fixtureLines are the lines of the scenario that was written for this project.
func fixtureLines(tb testing.TB) [][]byte {
	tb.Helper()
	text, err := os.ReadFile("../../../testdata/tool_chain_failures.ndjson")
	if err != nil {
		tb.Fatal(err)
	}
	return slices.Collect(bytes.Lines(text))
}

// Every mistake is named by its field, with a remedy, and nothing is read of the
// case. The schema sees it too, but for what its comment lists.
func TestScenarioMistakes(t *testing.T) {
	failed := `"outcome":"failed","failure":{}`
	digest := "sha256:" + strings.Repeat("0", 64)
	many := func(n int, element string) string {
		return strings.TrimSuffix(strings.Repeat(element+",", n), ",")
	}
	for _, test := range []struct {
		name, line, field, detail string
		beyond                    bool // the schema cannot say it
	}{
		{"no JSON", `{`, "", "is not JSON", true},
		{"not UTF-8", with(`"x"`, "\"\xff\""), "/agent", "is not JSON: invalid UTF-8", true},
		{"lone surrogate", with(`"x"`, `"\ud800"`), "/agent", "is not JSON", true},
		{"twice", with(`"id":"a"`, `"id":"a","id":"b"`), "/id", "duplicate", true},
		{"two cases", minimal + minimal, "", "is not JSON", true},
		{"no object", `[]`, "", "holds an array", false},
		{"no version", with(`"v":1,`, ``), "/v", "is 0", false},
		{"another version", with(`"v":1`, `"v":2`), "/v", "is 2", false},
		{"unknown member", with(`"v":1`, `"v":1,"x":1`), "/x", "is not a member", false},
		{"unknown member of a step", step(`"x":1`), "/steps/0/x", "is not a member", false},
		{"member in other case", with(`"agent"`, `"Agent"`), "/Agent", "is not a member", false},
		{"null", step(`"model":null`), "/steps/0/model", "is null", false},
		{"float", step(`"latency_ms":0.5`), "/steps/0/latency_ms", "holds 0.5 and not an integer", false},
		{"exponent", step(`"latency_ms":1e3`), "/steps/0/latency_ms", "holds 1e3 and not an integer", true},
		{"negative", step(`"latency_ms":-1`), "/steps/0/latency_ms", "is -1", false},
		{"too large a number", step(`"latency_ms":9007199254740992`), "/steps/0/latency_ms", "is 9007199254740992", false},
		{"far too large a number", step(`"latency_ms":99999999999999999999`), "/steps/0/latency_ms", "another number", false},
		{"text for a number", step(`"latency_ms":"1"`), "/steps/0/latency_ms", "holds a string and not a 64-bit integer", false},
		{"no id", with(`"id":"a",`, ``), "/id", "is missing", false},
		{"id with a space", with(`"a"`, `"a b"`), "/id", `"a b" is not an id`, false},
		{"id too long", with(`"a"`, `"`+strings.Repeat("a", 129)+`"`), "/id", "is not an id", false},
		{"no agent", with(`"agent":"x",`, ``), "/agent", "is missing", false},
		{"intent with capitals", with(`"v":1`, `"v":1,"intent":"Refund"`), "/intent", "is not a word", false},
		{"risk", with(`"v":1`, `"v":1,"risk":{"level":"severe"}`), "/risk/level", `is "severe"`, false},
		{"digest", with(`"v":1`, `"v":1,"context_digest":"sha256:12"`), "/context_digest", "is not a digest", false},
		{"tag twice", with(`"v":1`, `"v":1,"tags":["a","b","a"]`), "/tags/2", "is listed twice", false},
		{"tags over the limit", with(`"v":1`, `"v":1,"tags":[`+many(33, `"a"`)+`]`), "/tags", "over the limit of 32", false},
		{"budget", with(`"v":1`, `"v":1,"budget":{"tokens":-1}`), "/budget/tokens", "is -1", false},
		{"no steps", with(`{"id":"s"}`, ``), "/steps", "is missing or empty", false},
		{"step twice", with(`{"id":"s"}`, `{"id":"s"},{"id":"s"}`), "/steps/1/id", "is already step 0", true},
		{"effect", step(`"effect":"bad"`), "/steps/0/effect", `is "bad"`, false},
		{"dependency", step(`"parents":[{"step":"s","dep":"firm"}]`), "/steps/0/parents/0/dep", `is "firm"`, false},
		{"unknown parent", step(`"parents":[{"step":"t","dep":"hard"}]`), "/steps/0/parents/0/step", "is not a step of the case", true},
		{"own parent", step(`"parents":[{"step":"s","dep":"hard"}]`), "/steps/0/parents/0/step", "makes a cycle: s depends on s", true},
		{
			"cycle of three", with(`{"id":"s"}`, `{"id":"a","parents":[{"step":"b","dep":"hard"}]},{"id":"b","parents":[{"step":"c","dep":"soft"}]},{"id":"c","parents":[{"step":"a","dep":"hard"}]}`),
			"/steps/0/parents/0/step", "makes a cycle: a depends on b depends on c depends on a", true,
		},
		{
			"parent behind its child", with(`{"id":"s"}`, `{"id":"a","parents":[{"step":"b","dep":"hard"}]},{"id":"b"}`),
			"/steps/0/parents/0/step", "stands after the step", true,
		},
		{
			"parent twice", with(`{"id":"s"}`, `{"id":"a"},{"id":"b","parents":[{"step":"a","dep":"hard"},{"step":"a","dep":"soft"}]}`),
			"/steps/1/parents/1/step", "is listed twice", true,
		},
		{"tool too long", step(`"tool":"` + strings.Repeat("t", 257) + `"`), "/steps/0/tool", "over the limit of 256", false},
		{"outcome", step(`"outcome":"fine"`), "/steps/0/outcome", `is "fine"`, false},
		{"failure is missing", step(`"outcome":"failed"`), "/steps/0/failure", "is missing", true},
		{"failure of success", step(`"outcome":"ok","failure":{}`), "/steps/0/failure", "is allowed only in an attempt that failed", true},
		{"first attempt with a strategy", step(`"strategy":"retry"`), "/steps/0/strategy", "belongs to the first attempt here", false},
		{"attempts behind success", step(`"outcome":"ok","attempts":[{"strategy":"retry","outcome":"ok"}]`), "/steps/0/attempts", "follow a first attempt that did not fail", true},
		{"attempt without a strategy", step(failed + `,"attempts":[{"outcome":"ok"}]`), "/steps/0/attempts/0/strategy", "is not a word", false},
		{"attempt without an outcome", step(failed + `,"attempts":[{"strategy":"retry"}]`), "/steps/0/attempts/0/outcome", `is ""`, false},
		{"effects of a retry", step(failed + `,"attempts":[{"strategy":"retry","outcome":"ok","effects":"none"}]`), "/steps/0/attempts/0/effects", "is allowed only in a reconcile", true},
		{"attempts over the limit", step(failed + `,"attempts":[` + many(257, `{"strategy":"retry","outcome":"ok"}`) + `]`), "/steps/0/attempts", "over the limit of 256", false},
		{"confidence", step(`"confidence_ppm":1000001`), "/steps/0/confidence_ppm", "is 1000001", false},
		{"empty citation", step(`"citations":[""]`), "/steps/0/citations/0", "has 0 bytes", false},
		{"class", step(`"outcome":"failed","failure":{"class":"A"}`), "/steps/0/failure/class", "is not a word", false},
		{"code without class", step(`"outcome":"failed","failure":{"code":"a"}`), "/steps/0/failure/class", "is not a word", true},
		{"status", step(`"outcome":"failed","failure":{"raw":{"http_status":99}}`), "/steps/0/failure/raw/http_status", "is 99", false},
		{"status beyond", step(`"outcome":"failed","failure":{"raw":{"http_status":600}}`), "/steps/0/failure/raw/http_status", "is 600", false},
		{"text too long", step(`"outcome":"failed","failure":{"raw":{"text":"` + strings.Repeat("t", 4097) + `"}}`), "/steps/0/failure/raw/text", "over the limit of 4096", false},
		{"text too long in bytes", step(`"outcome":"failed","failure":{"raw":{"text":"` + strings.Repeat("é", 2049) + `"}}`), "/steps/0/failure/raw/text", "over the limit of 4096", true},
		{"evidence", step(`"outcome":"failed","failure":{"evidence":"` + strings.ToUpper(digest) + `"}`), "/steps/0/failure/evidence", "is not a digest", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Decode([]byte(test.line))
			wrong := checkLineError(t, err)
			if wrong.Field != test.field || !strings.Contains(wrong.Detail, test.detail) {
				t.Errorf("field %q: %s; want field %q: %s", wrong.Field, wrong.Detail, test.field, test.detail)
			}
			if caseSchemaTakes(caseSchema(t), []byte(test.line)) != test.beyond && utf8Valid(test.line) {
				t.Errorf("the schema takes it: %t", !test.beyond)
			}
		})
	}
}

// utf8Valid leaves out lines that the schema library reads more leniently than
// the decoder: broken text and repeated members are JSON's own rules.
func utf8Valid(line string) bool {
	return !strings.Contains(line, "\xff") && !strings.Contains(line, "\\ud800") && json.Unmarshal([]byte(line), new(any)) == nil
}

// checkLineError checks what is promised of an error about a line.
func checkLineError(tb testing.TB, err error) *Error {
	tb.Helper()
	var wrong *Error
	if !errors.As(err, &wrong) {
		tb.Fatalf("error %v is no *Error", err)
	}
	if wrong.Problem == "" || wrong.Detail == "" || wrong.Remedy == "" || wrong.Field != "" && wrong.Field[0] != '/' {
		tb.Fatalf("error %+v is incomplete", wrong)
	}
	return wrong
}

// What is left out has its meaning, and is the same after writing.
func TestScenarioDefaults(t *testing.T) {
	c, err := Decode([]byte(step(`"outcome":"failed","failure":{"raw":{"http_status":429,"provider_code":"insufficient_quota"}}`)))
	if err != nil {
		t.Fatal(err)
	}
	s := c.Steps[0]
	if s.Agent != "x" || s.Effect != "undeclared" || s.Failure.String() != "capacity.quota_exhausted" ||
		s.Failure.Effects != "unknown" || s.Failure.ReplaySafety != "unknown" {
		t.Errorf("step %+v, failure %+v", s, s.Failure)
	}
	checkRoundTrip(t, c)
}

// Everything at its limit is taken.
func TestScenarioLimits(t *testing.T) {
	var steps, tags, parents, attempts, citations []string
	for i := range StepsMax {
		steps = append(steps, fmt.Sprintf(`{"id":"%d"}`, i))
	}
	for i := range tagsMax {
		tags = append(tags, fmt.Sprintf(`"t%d"`, i))
	}
	for i := range ParentsMax {
		parents = append(parents, fmt.Sprintf(`{"step":"%d","dep":"soft"}`, i))
	}
	for range attemptsMax {
		attempts = append(attempts, `{"strategy":"retry","outcome":"ok"}`)
	}
	for range citationsMax {
		citations = append(citations, `"`+strings.Repeat("c", citationMax)+`"`)
	}
	word, name := strings.Repeat("w", CodeMax), strings.Repeat("n", 128)
	steps[StepsMax-1] = `{"id":"` + name + `","parents":[` + strings.Join(parents, ",") + `],"tool":"` + strings.Repeat("t", ToolMax) +
		`","outcome":"failed","failure":{"raw":{"text":"` + strings.Repeat("t", TextMax) + `","http_status":599},"class":"` + word + `"},"attempts":[` +
		strings.Join(attempts, ",") + `],"citations":[` + strings.Join(citations, ",") + `],"confidence_ppm":1000000,"latency_ms":9007199254740991}`
	line := `{"v":1,"id":"` + name + `","agent":"` + name + `","tags":[` + strings.Join(tags, ",") + `],"steps":[` + strings.Join(steps, ",") + `]}`
	c, err := Decode([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	checkRoundTrip(t, c)
	if !caseSchemaTakes(caseSchema(t), []byte(line)) {
		t.Error("the schema refuses it")
	}
	over := strings.Replace(line, `"steps":[`, `"steps":[{"id":"one-more"},`, 1)
	if wrong := checkLineError(t, errOf(Decode([]byte(over)))); wrong.Field != "/steps" {
		t.Errorf("one step more: %v", wrong)
	}
	over = strings.Replace(line, `"parents":[`, `"parents":[{"step":"200","dep":"hard"},`, 1)
	if wrong := checkLineError(t, errOf(Decode([]byte(over)))); !strings.HasSuffix(wrong.Field, "/parents") {
		t.Errorf("one parent more: %v", wrong)
	}
	over = strings.Replace(line, `"citations":[`, `"citations":["one more",`, 1)
	if wrong := checkLineError(t, errOf(Decode([]byte(over)))); !strings.HasSuffix(wrong.Field, "/citations") {
		t.Errorf("one citation more: %v", wrong)
	}
}

func errOf(_ Case, err error) error { return err }

// checkRoundTrip checks that a case is the same after writing and reading.
func checkRoundTrip(tb testing.TB, c Case) []byte {
	tb.Helper()
	line, err := Encode(c)
	if err != nil {
		tb.Fatal(err)
	}
	again, err := Decode(line)
	if err != nil {
		tb.Fatalf("written case cannot be read: %v\n%s", err, line)
	}
	if diff := cmp.Diff(c, again); diff != "" {
		tb.Fatalf("case after writing (-was +is):\n%s", diff)
	}
	return line
}

// mutate changes one value of a JSON object somewhere.
func mutateJSON(t *rapid.T, value any) any {
	switch v := value.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		if len(names) == 0 || rapid.IntRange(0, 9).Draw(t, "here") == 0 {
			return mutantOf(t, value)
		}
		name := rapid.SampledFrom(names).Draw(t, "member")
		switch rapid.IntRange(0, 9).Draw(t, "change") {
		case 0:
			delete(v, name)
		case 1:
			v["more"] = v[name]
		default:
			v[name] = mutateJSON(t, v[name])
		}
		return v
	case []any:
		if len(v) == 0 || rapid.IntRange(0, 9).Draw(t, "here") == 0 {
			return mutantOf(t, value)
		}
		i := rapid.IntRange(0, len(v)-1).Draw(t, "element")
		if rapid.IntRange(0, 4).Draw(t, "change") == 0 {
			return append(v, v[i])
		}
		v[i] = mutateJSON(t, v[i])
		return v
	}
	return mutantOf(t, value)
}

func mutantOf(t *rapid.T, _ any) any {
	return rapid.SampledFrom([]any{
		"", "a", "A b", "ok", "failed", "none", "unknown", "hard", "retry", "reconcile", strings.Repeat("x", 200), 0, 1, -1, 1e15, 1e17, 0.5, true,
		nil, []any{}, map[string]any{}, entry.Digest("sha256:" + strings.Repeat("a", 64)),
	}).Draw(t, "value")
}

// beyondCase is what the decoder refuses and the schema of a case does not.
var beyondCase = []string{
	"is already step", "is not a step of the case", "makes a cycle", "stands after", "is listed twice", "bytes, over the limit",
	"is missing", "is allowed only in an attempt that failed", "did not fail", "is allowed only in a reconcile", "is not a word", "not an integer",
	"another number", "ways to look at the output", "is not a JSON pointer",
	"is not a schema", "is not a regular expression",
}

// The schema is never stricter than the decoder, and more lenient only where its
// comment says so.
func TestCaseSchemaVerdict(t *testing.T) {
	schema := caseSchema(t)
	lines := fixtureLines(t)
	taken, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var value any
		if err := json.Unmarshal(rapid.SampledFrom(lines).Draw(t, "case"), &value); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 3).Draw(t, "mutations") {
			value = mutateJSON(t, value)
		}
		line, err := json.Marshal(value, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		_, err = Decode(line)
		schemaOK := caseSchemaTakes(schema, line)
		var wrong *Error
		errors.As(err, &wrong)
		switch {
		case err == nil && schemaOK:
			taken++
		case err == nil:
			t.Fatalf("the schema refuses what is read: %s", line)
		case schemaOK && !slices.ContainsFunc(beyondCase, func(s string) bool { return strings.Contains(wrong.Detail, s) }):
			t.Fatalf("the schema takes what is refused with %v: %s", err, line)
		default:
			refused++
		}
	})
	if taken == 0 || refused == 0 {
		t.Errorf("%d lines were taken and %d refused: the test is empty", taken, refused)
	}
}

// readLines reads all lines of a text.
func readLines(tb testing.TB, r io.Reader) (lines []string, wrongs []*Error) {
	tb.Helper()
	reader := newLineReader("scenario.ndjson", r)
	for {
		line, wrong, err := reader.next(nil)
		switch {
		case errors.Is(err, io.EOF):
			return lines, wrongs
		case err != nil:
			tb.Fatal(err)
		case wrong != nil:
			wrongs = append(wrongs, wrong)
		default:
			lines = append(lines, string(line))
		}
	}
}

func TestLines(t *testing.T) {
	lines, wrongs := readLines(t, strings.NewReader("one\r\n  two \n\n \nlast"))
	if diff := cmp.Diff([]string{"one", "two", "last"}, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if len(wrongs) != 2 || wrongs[0].Line != 3 || wrongs[1].Line != 4 {
		t.Errorf("empty lines: %v", wrongs)
	}
}

// endlessLine is a text of n times the letter x.
type endlessLine struct {
	n     int64
	block []byte
}

func newEndlessLine(n int64) *endlessLine { return &endlessLine{n, bytes.Repeat([]byte("x"), 64<<10)} }

// Read implements [io.Reader].
func (r *endlessLine) Read(p []byte) (int, error) {
	if r.n == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.block[:min(int64(len(r.block)), r.n)])
	r.n -= int64(n)
	return n, nil
}

// A line of 2 GB takes no memory, is named, and the lines behind it are read.
func TestEndlessLine(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	lines, wrongs := readLines(t, io.MultiReader(strings.NewReader("first\n"), newEndlessLine(2<<30), strings.NewReader("\nlast\n")))
	runtime.ReadMemStats(&after)
	if len(wrongs) != 1 || wrongs[0].Line != 2 || wrongs[0].Problem != "too-large" {
		t.Fatalf("errors %v", wrongs)
	}
	if diff := cmp.Diff([]string{"first", "last"}, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 8*CaseBytesMax {
		t.Errorf("allocated %d bytes", grown)
	}
}

// A line at the limit is read, one past it is not.
func TestLineLimit(t *testing.T) {
	text := func(n int64) io.Reader { return io.MultiReader(newEndlessLine(n), strings.NewReader("\nlast\n")) }
	if lines, wrongs := readLines(t, text(CaseBytesMax)); len(lines) != 2 || len(wrongs) != 0 {
		t.Errorf("at the limit: %d lines, %v", len(lines), wrongs)
	}
	if lines, wrongs := readLines(t, text(CaseBytesMax+1)); len(lines) != 1 || len(wrongs) != 1 {
		t.Errorf("one past it: %d lines, %v", len(lines), wrongs)
	}
}

// A file of one case may have several lines. What is wrong in it is named with
// its line.
func TestReadCase(t *testing.T) {
	const lines = "\n{\"v\":1,\n \"id\":\"a\",\"agent\":\"x\",\n \"steps\":[\n  {\"id\":\"s\"},\n  {\"id\":\"r\",\n   \"latency_ms\":7}\n ]}\n"
	if c, err := ReadCase("case.json", strings.NewReader(lines), nil); err != nil || len(c.Steps) != 2 {
		t.Fatalf("case %+v, %v", c, err)
	}
	for text, want := range map[string]string{
		strings.Replace(lines, "7", "7.5", 1):          "case.json: line 7: field /steps/1/latency_ms: holds 7.5",
		strings.Replace(lines, `"r"`, `"s"`, 1):        `case.json: line 6: field /steps/1/id: "s" is already step 0`,
		strings.Replace(lines, `"agent":"x",`, ``, 1):  "case.json: line 2: field /agent: ",
		strings.Replace(lines, `"id":"s"`, `"id":`, 1): "case.json: line 5: field /steps/0/id: is not JSON",
		lines + "{}":             "case.json: line 9: has text after its case",
		minimal + "\n" + minimal: "case.json: line 2: has text after its case (malformed); pass a file with one case",
		" ":                      "case.json: holds no case",
		"\ufeff" + minimal:       "case.json: line 1: begins with a byte order mark",
		minimal[:20]:             "case.json: line 1: ",
	} {
		_, err := ReadCase("case.json", strings.NewReader(text), nil)
		if err == nil || !strings.HasPrefix(err.Error(), "read "+want) {
			t.Errorf("%q: %v\nwant %s", text, err, want)
			continue
		}
		if wrong := checkLineError(t, err); wrong.File != "case.json" {
			t.Errorf("%q: file %q", text, wrong.File)
		}
	}
	sized := func(n int) error {
		_, err := ReadCase("case.json", io.MultiReader(strings.NewReader(minimal), bytes.NewReader(bytes.Repeat([]byte(" "), n-len(minimal)))), nil)
		return err
	}
	if err := sized(CaseBytesMax); err != nil {
		t.Errorf("a case of the largest size: %v", err)
	}
	if wrong := checkLineError(t, sized(CaseBytesMax+1)); wrong.Problem != "too-large" || wrong.Line != 1 {
		t.Errorf("one byte more: %v", wrong)
	}
}

// FuzzDecode: a line is read or refused with all that an error promises; what is
// read is the same after writing.
func FuzzDecode(f *testing.F) {
	for _, line := range fixtureLines(f) {
		f.Add(bytes.TrimSpace(line))
	}
	f.Add([]byte(minimal))
	f.Add([]byte(step(`"input":{"a":null,"b":1.5},"expect":{"schema":{"type":"object"},"checks":[{"name":"c","equals":null}]}`)))
	f.Fuzz(func(t *testing.T, line []byte) {
		c, err := Decode(line)
		if err != nil {
			_ = checkLineError(t, err)
			return
		}
		_ = checkRoundTrip(t, c)
	})
}

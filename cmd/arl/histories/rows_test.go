package histories

import (
	"bytes"
	"encoding/csv"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// proven returns a verified history of an agent and of its workflow.
func proven(tb testing.TB) (verify.Root, *verify.Material, *verify.Report) {
	tb.Helper()
	l := testlog.New(tb)
	key := func(name entry.Principal) testlog.Key { return testlog.NewKey(tb, name, string(name)) }
	authority, coordinator, agent := key("authority"), key("coordinator"), key("agent")
	l.Add(authority.Sign(tb, l.Policy(authority, authority)))
	l.Add(authority.Sign(tb, l.Agent(authority, entry.Enrol, coordinator, entry.RoleCoordinator)))
	l.Add(authority.Sign(tb, l.Agent(authority, entry.Enrol, agent, entry.RoleAgent)))
	l.Add(agent.Sign(tb, l.Execution(agent)))
	x := l.Index(len(l.Leaves))
	at := l.AddIndex(coordinator, x)
	l.Add(agent.Sign(tb, l.Execution(agent))) // the index does not cover it
	h := l.History(x, at, entry.Subject{Type: entry.SubjectAgent, Value: "agent"}, entry.Subject{Type: entry.SubjectWorkflow, Value: "workflow"},
		entry.Subject{Type: entry.SubjectLog})
	m := &verify.Material{Histories: []*verify.History{h}}
	r, err := l.Root.Verify(*m)
	must(tb, err)
	return l.Root, m, &r
}

// TestRows writes a table in each format, and reads it again: the same rows, and a proof
// that verifies.
func TestRows(t *testing.T) {
	root, m, r := proven(t)
	want := []string{"agent:agent agent/enrol< 2", "agent:agent execution 3", "agent:agent execution 5", "log agent/enrol 1", "log agent/enrol 2", "log index 4",
		"log policy 0", "workflow:workflow execution 3", "workflow:workflow execution 5"}
	dir := t.TempDir()
	for _, format := range []string{"parquet", "csv", "ndjson"} {
		file := filepath.Join(dir, "rows."+format)
		must(t, WriteRows(file, m, r))
		rows, proof := readRows(t, file)
		var got []string
		for _, one := range rows {
			got = append(got, strings.Join([]string{one.Subject, one.Label, decimal(one.Index)}, " "))
			if !strings.Contains(string(one.Payload), `"jti":"`+one.ID+`"`) || one.Issuer == "" || one.Kind == "" || len(one.LeafHash) != 44 {
				t.Errorf("%s: row %+v", format, one)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: rows %q, want %q", format, got, want)
		}
		var again verify.Material
		must(t, again.Add("proof", []byte(proof)))
		report, err := root.Verify(again)
		if err != nil || len(report.Answers) != 3 || len(report.Missing) > 0 {
			t.Errorf("%s: the proof of the table: %v %+v", format, err, report)
		}
	}
	before, err := os.ReadFile(filepath.Join(dir, "rows.parquet"))
	must(t, err)
	must(t, WriteRows(filepath.Join(dir, "again.parquet"), m, r))
	if after, err := os.ReadFile(filepath.Join(dir, "again.parquet")); err != nil || string(after) != string(before) {
		t.Errorf("the same rows are another file: %v", err)
	}
}

// readRows reads a table and its proof.
func readRows(t *testing.T, file string) (rows []row, proof string) {
	t.Helper()
	content, err := os.ReadFile(file)
	must(t, err)
	switch filepath.Ext(file) {
	case ".parquet":
		rows = readParquet(t, content)
		opened, err := os.Open(file)
		must(t, err)
		defer opened.Close()
		f, err := parquet.OpenFile(opened, int64(len(content)))
		must(t, err)
		heads, _ := f.Lookup(metaHeads)
		proof, _ = f.Lookup(metaHistories)
		if strings.Count(heads, "\u2014 ") != 1 {
			t.Errorf("heads %q", heads)
		}
		return rows, proof
	case ".csv":
		lines, err := csv.NewReader(strings.NewReader(string(content))).ReadAll()
		must(t, err)
		for _, line := range lines[1:] {
			if lines[0][2] != "index" || !strings.HasSuffix(line[3], "Z") {
				t.Errorf("%q", line)
			}
			var index uint64
			must(t, json.Unmarshal([]byte(line[2]), &index))
			rows = append(rows, row{Subject: line[0], Label: line[1], Index: index, Kind: line[4], Issuer: line[5], Workflow: line[6], ID: line[7], LeafHash: line[8], Payload: jsontext.Value(line[9])})
		}
	default:
		for line := range strings.Lines(string(content)) {
			var one struct {
				Subject, Label, Kind string
				Index                uint64
				Issuer               string `json:"iss"`
				ID                   string `json:"jti"`
				LeafHash             string `json:"leaf_hash"`
				Payload              map[string]any
			}
			must(t, json.Unmarshal([]byte(line), &one, json.MatchCaseInsensitiveNames(true)))
			rows = append(rows, row{Subject: one.Subject, Label: one.Label, Index: one.Index, Kind: one.Kind, Issuer: one.Issuer, ID: one.ID, LeafHash: one.LeafHash,
				Payload: jsontext.Value(`"jti":"` + one.Payload["jti"].(string) + `"`)})
		}
	}
	content, err = os.ReadFile(file + "-metadata.json")
	must(t, err)
	var beside metadata
	must(t, json.Unmarshal(content, &beside))
	if beside.URL != filepath.Base(file) || len(beside.Schema.Columns) != 10 || beside.Schema.Columns[3].Name != "registered_at" {
		t.Errorf("metadata %+v", beside)
	}
	for _, h := range beside.Notes {
		proof += string(h) + "\n"
	}
	return rows, proof
}

// parquetRow is a row as the library reads it.
type parquetRow struct {
	Subject      string `parquet:"subject"`
	Label        string `parquet:"label"`
	Index        uint64 `parquet:"index"`
	RegisteredAt int64  `parquet:"registered_at,timestamp"`
	Kind         string `parquet:"kind"`
	Issuer       string `parquet:"iss"`
	Workflow     string `parquet:"wid"`
	ID           string `parquet:"jti"`
	LeafHash     string `parquet:"leaf_hash"`
	Payload      string `parquet:"payload,json"`
}

// readParquet reads a file by a library that did not write it, and holds its schema to the one that
// the library makes of the same columns.
func readParquet(t *testing.T, content []byte) (rows []row) {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(content), int64(len(content)))
	must(t, err)
	schema := parquet.NewSchema("row", parquet.SchemaOf(new(parquetRow)))
	if got := f.Schema().String(); got != schema.String() {
		t.Errorf("schema %s, want %s", got, schema)
	}
	table, err := parquet.Read[parquetRow](bytes.NewReader(content), int64(len(content)))
	must(t, err)
	for _, one := range table {
		rows = append(rows, row{one.Subject, one.Label, one.Index, instant(one.RegisteredAt), one.Kind, one.Issuer, one.Workflow, one.ID, one.LeafHash, jsontext.Value(one.Payload)})
	}
	return rows
}

// TestParquetRandom writes tables of few and of many pages, of no row, and of values of any length.
func TestParquetRandom(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.StringN(0, 40, -1)
		want := make([]row, rapid.IntRange(0, 20).Draw(r, "rows"))
		for i := range want {
			long := text.Draw(r, "payload")
			if i == 1 {
				long = strings.Repeat(long, rapid.IntRange(0, pageSize/20).Draw(r, "times"))
			}
			payload, err := jsontext.AppendQuote(nil, long)
			must(t, err)
			want[i] = row{text.Draw(r, "subject"), "execution", rapid.Uint64().Draw(r, "index"), instant(rapid.Int64().Draw(r, "at")), "execution",
				text.Draw(r, "iss"), text.Draw(r, "wid"), text.Draw(r, "jti"), strings.Repeat("=", 44), payload}
		}
		var out bytes.Buffer
		must(t, writeParquet(&out, want, proof{}))
		if got := readParquet(t, out.Bytes()); len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
			r.Fatalf("%d rows, want %d, or the same number with other values", len(got), len(want))
		}
	})
}

// TestRowsRefused: another end of a name, no history, no directory.
func TestRowsRefused(t *testing.T) {
	_, m, r := proven(t)
	dir := t.TempDir()
	for want, err := range map[string]error{
		"want a name that ends with": WriteRows(filepath.Join(dir, "rows.xlsx"), m, r),
		"no history is given":        WriteRows(filepath.Join(dir, "rows.csv"), new(verify.Material), new(verify.Report)),
		"there is no directory":      WriteRows(filepath.Join(dir, "none", "rows.parquet"), m, r),
		"make the directory first":   WriteRows(filepath.Join(dir, "none", "rows.csv"), m, r),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

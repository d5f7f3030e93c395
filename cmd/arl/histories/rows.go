package histories

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger/durable"
	"recoveryledger/verify"
)

// The names of the metadata of a Parquet file: the list of tree heads, and the list of history
// files.
const (
	metaHeads     = "arl.heads"
	metaHistories = "arl.histories"
)

// row is an entry under a subject, as SQL reads it.
type row struct {
	Subject      string         `json:"subject"`
	Label        string         `json:"label"`
	Index        uint64         `json:"index"`
	RegisteredAt instant        `json:"registered_at"`
	Kind         string         `json:"kind"`
	Issuer       string         `json:"iss"`
	Workflow     string         `json:"wid"`
	ID           string         `json:"jti"`
	LeafHash     string         `json:"leaf_hash"`
	Payload      jsontext.Value `json:"payload"`
}

// instant is Unix time in milliseconds.
type instant int64

// String returns the time in UTC, in the form of CSV and NDJSON.
func (at instant) String() string {
	return time.UnixMilli(int64(at)).UTC().Format("2006-01-02T15:04:05.000Z")
}

// MarshalText returns the same.
func (at instant) MarshalText() ([]byte, error) { return []byte(at.String()), nil }

// columns are those of a table, in the order of a row's fields.
var columns = []column{
	{"subject", "string", "type and value of the subject", func(r *row) any { return r.Subject }},
	{"label", "string", "label of the entry under the subject", func(r *row) any { return r.Label }},
	{"index", "nonNegativeInteger", "position in the log", func(r *row) any { return r.Index }},
	{"registered_at", "dateTimeStamp", "time at which the ledger registered the entry", func(r *row) any { return r.RegisteredAt }},
	{"kind", "string", "kind of the entry", func(r *row) any { return r.Kind }},
	{"iss", "string", "principal that signed the entry", func(r *row) any { return r.Issuer }},
	{"wid", "string", "workflow; empty: none", func(r *row) any { return r.Workflow }},
	{"jti", "string", "id of the entry", func(r *row) any { return r.ID }},
	{"leaf_hash", "string", "hash of the leaf, base64", func(r *row) any { return r.LeafHash }},
	{"payload", "json", "content of the entry", func(r *row) any { return r.Payload }},
}

// WriteRows writes the entries that histories prove as a table. The table has a row for each entry
// under each answered subject, by subject and index. The end of the file's name is the format:
// .parquet, .csv or .ndjson. A Parquet file has the history files in its metadata. For another file
// they are in NAME-metadata.json beside it, in the form of CSV on the Web
// (www.w3.org/TR/tabular-metadata).
func WriteRows(file string, m *verify.Material, r *verify.Report) error {
	format := strings.TrimPrefix(filepath.Ext(file), ".")
	if !slices.Contains([]string{"parquet", "csv", "ndjson"}, format) {
		return exit.Usagef("--rows %s: want a name that ends with .parquet, .csv or .ndjson", file)
	}
	if len(r.Answers) == 0 {
		return exit.Usagef("--rows: no history is given: arl agent history PRINCIPAL --prove --out FILE fetches one")
	}
	proof, err := proofs(m)
	if err != nil {
		return err
	}
	rows := rowsOf(r)
	var content bytes.Buffer
	switch format {
	case "parquet":
		err = writeParquet(&content, rows, proof)
	case "csv":
		err = writeCSV(&content, rows)
	default:
		err = writeNDJSON(&content, rows)
	}
	if err == nil && format != "parquet" { // the proof first: no table is without its proof
		err = writeMetadata(file, proof)
	}
	if err != nil {
		return exit.Output(file, err)
	}
	return exit.Output(file, durable.Write(file, content.Bytes(), 0o644))
}

// rowsOf returns the rows of all answers, each row once.
func rowsOf(r *verify.Report) (rows []row) {
	for i := range r.Answers {
		a := &r.Answers[i]
		for _, index := range a.Entries {
			at, _ := slices.BinarySearchFunc(r.Entries, index, func(e verify.Entry, index uint64) int { return cmp.Compare(e.Index, index) })
			e := &r.Entries[at]
			for _, l := range e.Subjects(index) {
				if l.Subject == a.Subject {
					rows = append(rows, row{strings.TrimSuffix(fmt.Sprintf("%s:%s", l.Type, l.Value), ":"), string(l.Label), index, instant(e.RegisteredAt), string(e.Kind),
						string(e.Header.Iss), string(e.Header.Wid), e.Header.JTI, e.LeafHash().String(), jsontext.Value(e.Payload())})
				}
			}
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Index, b.Index))
	})
	return slices.CompactFunc(rows, func(a, b row) bool { return a.Subject == b.Subject && a.Index == b.Index })
}

// proof has the documents that prove that the rows are right, and that there are no others.
type proof struct {
	heads     []string
	histories []jsontext.Value
}

func proofs(m *verify.Material) (p proof, err error) {
	for _, h := range m.Histories {
		file, err := h.Encode()
		if err != nil {
			return proof{}, err
		}
		p.heads, p.histories = append(p.heads, h.Head), append(p.histories, file)
	}
	return p, nil
}

func writeCSV(out *bytes.Buffer, rows []row) error {
	w := csv.NewWriter(out)
	var line []string
	for _, c := range columns {
		line = append(line, c.Name)
	}
	_ = w.Write(line) // w.Error returns the error
	for i := range rows {
		line = line[:0]
		for _, c := range columns {
			line = append(line, fmt.Sprint(c.of(&rows[i])))
		}
		_ = w.Write(line)
	}
	w.Flush()
	return w.Error()
}

func writeNDJSON(out *bytes.Buffer, rows []row) error {
	for _, r := range rows {
		if err := json.MarshalWrite(out, r); err != nil {
			return err
		}
		out.WriteByte('\n')
	}
	return nil
}

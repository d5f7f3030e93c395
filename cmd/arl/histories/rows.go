package histories

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/parquet-go/parquet-go"

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
	Subject      string `parquet:"subject,dict" csvw:"string" doc:"type and value of the subject"`
	Label        string `parquet:"label,dict" csvw:"string" doc:"label of the entry under the subject"`
	Index        uint64 `parquet:"index" csvw:"nonNegativeInteger" doc:"position in the log"`
	RegisteredAt int64  `parquet:"registered_at,timestamp" csvw:"dateTimeStamp" doc:"time at which the ledger registered the entry"`
	Kind         string `parquet:"kind,dict" csvw:"string" doc:"kind of the entry"`
	Issuer       string `parquet:"iss,dict" csvw:"string" doc:"principal that signed the entry"`
	Workflow     string `parquet:"wid,dict" csvw:"string" doc:"workflow; empty: none"`
	ID           string `parquet:"jti" csvw:"string" doc:"id of the entry"`
	LeafHash     string `parquet:"leaf_hash" csvw:"string" doc:"hash of the leaf, base64"`
	Payload      string `parquet:"payload,json" csvw:"json" doc:"content of the entry"`
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
					rows = append(rows, row{strings.TrimSuffix(fmt.Sprintf("%s:%s", l.Type, l.Value), ":"), string(l.Label), index, e.RegisteredAt, string(e.Kind),
						string(e.Header.Iss), string(e.Header.Wid), e.Header.JTI, e.LeafHash().String(), string(e.Payload())})
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

func writeParquet(out *bytes.Buffer, rows []row, p proof) error {
	var files strings.Builder
	for _, h := range p.histories {
		files.Write(append(slices.Clip(h), '\n'))
	}
	w := parquet.NewGenericWriter[row](out, parquet.Compression(&parquet.Zstd),
		parquet.KeyValueMetadata(metaHeads, strings.Join(slices.Compact(slices.Sorted(slices.Values(p.heads))), "\n")),
		parquet.KeyValueMetadata(metaHistories, files.String()))
	if _, err := w.Write(rows); err != nil {
		return err
	}
	return w.Close()
}

// instant returns the time of registration in the form of CSV and NDJSON.
func (r *row) instant() string {
	return time.UnixMilli(r.RegisteredAt).UTC().Format("2006-01-02T15:04:05.000Z")
}

func writeCSV(out *bytes.Buffer, rows []row) error {
	w := csv.NewWriter(out)
	names := []string{}
	for _, c := range columns() {
		names = append(names, c.Name)
	}
	_ = w.Write(names) // w.Error returns the error
	for _, r := range rows {
		_ = w.Write([]string{r.Subject, r.Label, strconv.FormatUint(r.Index, 10), r.instant(), r.Kind, r.Issuer, r.Workflow, r.ID, r.LeafHash, r.Payload})
	}
	w.Flush()
	return w.Error()
}

func writeNDJSON(out *bytes.Buffer, rows []row) error {
	for _, r := range rows {
		line := struct {
			Subject      string         `json:"subject"`
			Label        string         `json:"label"`
			Index        uint64         `json:"index"`
			RegisteredAt string         `json:"registered_at"`
			Kind         string         `json:"kind"`
			Issuer       string         `json:"iss"`
			Workflow     string         `json:"wid"`
			ID           string         `json:"jti"`
			LeafHash     string         `json:"leaf_hash"`
			Payload      jsontext.Value `json:"payload"`
		}{r.Subject, r.Label, r.Index, r.instant(), r.Kind, r.Issuer, r.Workflow, r.ID, r.LeafHash, jsontext.Value(r.Payload)}
		if err := json.MarshalWrite(out, line); err != nil {
			return err
		}
		out.WriteByte('\n')
	}
	return nil
}

package histories

import (
	"path/filepath"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/durable"
)

// column describes a column of a table as CSV on the Web does.
type column struct {
	Name        string `json:"name"`
	Datatype    string `json:"datatype"`
	Description string `json:"dc:description"`

	of func(*row) any // value of the column in a row
}

// metadata is the document beside a table whose format has no room for metadata.
type metadata struct {
	Context string `json:"@context"`
	URL     string `json:"url"` // of the table, relative to this document
	Schema  struct {
		Columns []column `json:"columns"`
	} `json:"tableSchema"`
	Notes []jsontext.Value `json:"notes"` // the history files
}

func writeMetadata(file string, p proof) error {
	m := metadata{Context: "http://www.w3.org/ns/csvw", URL: filepath.Base(file), Notes: p.histories}
	m.Schema.Columns = columns
	content, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return durable.Write(file+"-metadata.json", append(content, '\n'), 0o644)
}

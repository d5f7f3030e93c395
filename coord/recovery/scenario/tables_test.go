package scenario

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
)

var updateTables = flag.Bool("update-tables", false, "write the tables of the classifier as JSON")

// asJSON writes a table in YAML as the JSON that the classifier reads.
func asJSON(t *testing.T, table string) []byte {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte(table))
	if err == nil {
		err = (*jsontext.Value)(&text).Compact()
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The classifier reads the tables that people write in YAML. The YAML itself has no anchor, alias
// or tag, and is read as strictly as other documents.
func TestTablesAreTheYAML(t *testing.T) {
	for name, have := range map[string][]byte{"causes": causesText, "evidence": evidenceText} {
		table, err := os.ReadFile(name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var whole map[string]any
		if wrong := (Document{What: "a table"}).DecodeYAML(table, &whole); wrong != nil {
			t.Errorf("%s.yaml: %v", name, wrong)
		}
		// A line for each member, so that a change of the table is a change of few lines.
		want := []byte(strings.ReplaceAll(string(asJSON(t, string(table))), "},{", "},\n{"))
		if bytes.Equal(have, want) {
			continue
		}
		if !*updateTables {
			t.Errorf("%s.json is not %s.yaml: go test ./coord/recovery/scenario -run TestTablesAreTheYAML -update-tables", name, name)
			continue
		}
		if err := os.WriteFile(name+".json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

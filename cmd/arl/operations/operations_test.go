package operations_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"recoveryledger/api/metrics"
	"recoveryledger/cmd/arl/operations"
	"recoveryledger/cmd/arl/terminal"
)

// TestPrintMetrics prints the catalogue for people and for programs: every metric once.
func TestPrintMetrics(t *testing.T) {
	for _, output := range []string{terminal.OutputTable, terminal.OutputJSON} {
		var out bytes.Buffer
		if err := operations.PrintMetrics(&terminal.Terminal{Out: &out, Output: output}); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if output == terminal.OutputTable {
			lines = lines[1:]
		}
		for i, m := range metrics.Catalogue() {
			if output == terminal.OutputTable && !strings.HasPrefix(lines[i], m.Name+" ") {
				t.Errorf("line %q, want %s", lines[i], m.Name)
				continue
			}
			var read metrics.Metric
			if output == terminal.OutputJSON && (json.Unmarshal([]byte(lines[i]), &read) != nil || read.Name != m.Name || read.Meaning != m.Meaning) {
				t.Errorf("line %q, want %s", lines[i], m.Name)
			}
		}
	}
}

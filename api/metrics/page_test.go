package metrics

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/operations/metrics.md anew; read the difference")

// TestPage compares docs/operations/metrics.md with the catalogue.
func TestPage(t *testing.T) {
	path := filepath.FromSlash("../../docs/operations/metrics.md")
	if *update {
		if err := os.WriteFile(path, []byte(page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(content) != page() {
		t.Error("docs/operations/metrics.md is stale: go test ./api/metrics -run TestPage -update")
	}
}

// page returns the document of the catalogue.
func page() string {
	var b strings.Builder
	b.WriteString(`# Metrics

` + "`GET /metrics`" + ` has these metrics, in the text format of Prometheus or in OpenMetrics. ` + "`arl metrics`" + `
prints the catalogue, and this page is generated from it. A metric without a unit counts what its
meaning names. A counter and a histogram begin at 0 when
the process starts, unless the meaning says otherwise. No label names an agent, and every label has
a bounded number of values. [alerts.yaml](alerts.yaml) has the alerts.

The metrics of the process (` + "`go_goroutines`, `process_open_fds`, `process_resident_memory_bytes`" + ` and
others) are those of the Go client of Prometheus.
`)
	last := ""
	for _, m := range Catalogue() {
		if m.group != last {
			fmt.Fprintf(&b, "\n## %s\n\n| metric | type | unit | labels | meaning | alerts |\n|---|---|---|---|---|---|\n", m.group)
			last = m.group
		}
		var labels []string
		for _, l := range m.Labels {
			labels = append(labels, "`"+l.Name+"`: "+l.Bound)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", m.Name, m.Type, m.Unit, strings.Join(labels, "; "), m.Meaning, strings.Join(m.Alerts, ", "))
	}
	b.WriteString("\n## Values of labels\n\n| `reason` of an escalation | why people are asked |\n|---|---|\n")
	for _, e := range escalations {
		fmt.Fprintf(&b, "| `%s` | %s |\n", e.reason, e.meaning)
	}
	fmt.Fprintf(&b, "| `%s` | A person proposed the plan in the place of the coordinator. |\n| `%s` | Another reason. |\n", byPeople, other)
	b.WriteString("\n| `invariant` | what is counted |\n|---|---|\n")
	for _, i := range invariants {
		fmt.Fprintf(&b, "| `%s` | %s |\n", i.of, i.meaning)
	}
	return b.String()
}

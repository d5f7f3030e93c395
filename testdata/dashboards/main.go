// Command dashboards writes the Grafana dashboards of docs/operations/dashboards:
//
//	go run . ../../docs/operations/dashboards
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dashboards DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write writes each dashboard as a file of a directory.
func write(dir string) error {
	for _, b := range boards {
		content, err := b.encode()
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, b.name+".json"), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// encode returns the JSON that Grafana imports. The data source is a variable, so that one file
// fits every Grafana.
func (b *board) encode() ([]byte, error) {
	source, kind := "${source}", "prometheus"
	ref := common.DataSourceRef{Type: &kind, Uid: &source}
	builder := dashboard.NewDashboardBuilder("Recovery ledger: "+b.title).Uid("arl-"+b.name).Tags([]string{"arl"}).
		Refresh("30s").Time("now-6h", "now").Description(b.asks).
		WithVariable(dashboard.NewDatasourceVariableBuilder("source").Label("Data source").Type(kind))
	for _, p := range b.panels {
		panel := timeseries.NewPanelBuilder().Title(p.title).Description(p.asks).Unit(p.unit).Datasource(ref).Span(12).Height(8)
		for _, q := range p.queries {
			panel.WithTarget(prometheus.NewDataqueryBuilder().Expr(q.expr).LegendFormat(q.legend))
		}
		builder.WithPanel(panel)
	}
	built, err := builder.Build()
	if err != nil {
		return nil, err
	}
	content, err := json.MarshalIndent(built, "", "  ")
	return append(content, '\n'), err
}

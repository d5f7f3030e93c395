// Package operations prints what operators of a ledger need to know beside its data: the
// catalogue of its metrics.
package operations

import (
	"strings"

	"recoveryledger/api/metrics"
	"recoveryledger/cmd/arl/terminal"
)

// PrintMetrics lists the metrics that a ledger has at /metrics, as the catalogue has them.
func PrintMetrics(t *terminal.Terminal) error {
	list := t.NewList("NAME", "TYPE", "UNIT", "LABELS", "MEANING", "ALERTS")
	for _, m := range metrics.Catalogue() {
		var labels []string
		for _, l := range m.Labels {
			labels = append(labels, l.Name)
		}
		if err := list.Add(m, m.Name, string(m.Type), m.Unit, strings.Join(labels, ","), m.Meaning, strings.Join(m.Alerts, ",")); err != nil {
			return err
		}
	}
	return list.Close()
}

package server_test

import (
	"fmt"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// BenchmarkRecordedBatch is POST /v1/recoveries/batch with 10,000 cases a request that all become
// attempts of the log.
func BenchmarkRecordedBatch(b *testing.B) {
	n := start(b, nil)
	key := newSigner(b)
	n.register(n.enrol("engine-1", key, entry.RoleEngine))
	n.engineOf(key, 1<<40, nil)
	const cases = 10_000
	requests := 0
	for b.Loop() {
		var body strings.Builder
		for i := range cases {
			body.WriteString(strings.Replace(oneCase, `"id":"one"`, fmt.Sprintf(`"id":"case-%d-%d"`, requests, i), 1) + "\n")
		}
		requests++
		lines := recoveryLines(b, n.recover("/batch", api.MediaNDJSON, body.String()))
		if end := lines[cases].End; end.Recorded.Cases != cases {
			b.Fatalf("%+v", end)
		}
	}
	b.ReportMetric(float64(cases*requests)/b.Elapsed().Seconds(), "cases/s")
}

package mcp_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recoveryledger/ledger/entry"
)

// timed is a ledger that notes how long it takes to register an entry before a call.
type timed struct {
	*world
	took chan time.Duration
}

func (l *timed) Submit(ctx context.Context, e *entry.Entry) (entry.LogRef, error) {
	began := time.Now()
	ref, err := l.agent.Submit(ctx, e)
	if x, ok := e.Body.(*entry.Execution); ok && x.Progress == entry.Started {
		l.took <- time.Since(began)
	}
	return ref, err
}

func (l *timed) Plan(ctx context.Context, incident uint64) ([]entry.Member, error) {
	return l.agent.Plan(ctx, incident)
}

// BenchmarkCall calls one tool of one server with an effect and one without, directly and through
// the proxy, in turns. overhead-p50 is what the proxy adds to the median, without the time in which
// the ledger registers the entry.
func BenchmarkCall(b *testing.B) {
	for _, tool := range []string{"mail", "get"} {
		b.Run(tool, func(b *testing.B) {
			w := newWorld(b)
			must(b, os.WriteFile(w.files+"/notes/x", []byte("note"), 0o600))
			ledger := &timed{w, make(chan time.Duration, 1)}
			config := w.config(notesFile)
			config.Ledger = ledger
			l := w.begin(config, nil)
			bare, err := sdk.NewClient(&sdk.Implementation{Name: "bare", Version: "1"}, nil).Connect(b.Context(), w.server()(), nil)
			must(b, err)
			defer bare.Close()
			call := func(in *sdk.ClientSession) time.Duration {
				began := time.Now()
				_, err := in.CallTool(b.Context(), &sdk.CallToolParams{Name: tool, Arguments: map[string]any{"name": "x"}})
				must(b, err)
				return time.Since(began)
			}
			call(bare)
			call(l.client)
			<-ledger.took
			var direct, through, registering []time.Duration
			for b.Loop() {
				direct = append(direct, call(bare))
				through = append(through, call(l.client))
				registering = append(registering, <-ledger.took)
			}
			p50 := func(all []time.Duration) float64 {
				slices.Sort(all)
				return float64(all[len(all)/2].Microseconds()) / 1000
			}
			b.ReportMetric(p50(direct), "bare-p50-ms")
			b.ReportMetric(p50(through), "proxy-p50-ms")
			b.ReportMetric(p50(registering), "entry-p50-ms")
			b.ReportMetric(p50(through)-p50(direct)-p50(registering), "overhead-p50-ms")
		})
	}
}

package record_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"

	"recoveryledger/cmd/arl/access"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/record"
)

// manyCases writes the cases of the project's own failures, again and again under new ids.
func manyCases(b *testing.B, n int) (path string) {
	b.Helper()
	text, err := os.ReadFile("../../../testdata/tool_chain_failures.ndjson")
	if err != nil {
		b.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	path = filepath.Join(b.TempDir(), "cases.ndjson")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	out := bufio.NewWriter(f)
	for i := range n {
		head, tail, _ := bytes.Cut(lines[i%len(lines)], []byte(`"id":"`))
		fmt.Fprintf(out, "%s\"id\":\"%d-%s\n", head, i, tail)
	}
	if err := out.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}

// BenchmarkRecorded takes recorded cases through the built-in rules, and records each in an
// embedded ledger.
func BenchmarkRecorded(b *testing.B) {
	s := newSite(b)
	path := manyCases(b, b.N)
	policy := recovery.Default()
	run := &engine.Run{Batch: engine.Batch{Config: engine.Config{Policy: policy, Runtime: engine.Recorded{}}, Workers: 2, Neighbours: engine.Neighbours(policy)},
		Scenario: path, Mode: engine.ModeRecorded, ID: uuid.NewString()}
	s.use(func(reg *access.Recording, signer *access.Signer) {
		run.Recorder = &record.Recorder{Ledger: reg, Root: s.root, Sign: signer.Sign, Issuer: signer.Principal, Run: run.ID}
		b.ResetTimer()
		if _, err := run.Do(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "cases/s")
}

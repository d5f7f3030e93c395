package record_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"recoveryledger/cmd/arl/access"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/record"
	"recoveryledger/coord/recovery/scenario"
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

// slow is a runtime whose attempts take as long as a fast call of a tool.
type slow struct{ engine.Recorded }

const callTime = 50 * time.Millisecond

// Attempt implements [engine.Runtime].
func (s slow) Attempt(ctx context.Context, q scenario.Request) (scenario.Attempt, error) {
	time.Sleep(callTime) // the call that the benchmark stands for
	return s.Recorded.Attempt(ctx, q)
}

// BenchmarkUnderWay makes attempts that take 50 ms, 64 cases at a time, with and without an
// embedded ledger in turn. It reports by how many percent the ledger makes the cases slower.
func BenchmarkUnderWay(b *testing.B) {
	const cases, workers = 1920, 64
	s := newSite(b)
	path := manyCases(b, cases)
	policy := recovery.Default()
	took := func(recorder func(run string) engine.Recorder) time.Duration {
		run := &engine.Run{Batch: engine.Batch{Config: engine.Config{Policy: policy, Runtime: slow{}}, Workers: workers},
			Scenario: path, Mode: engine.ModeLive, ID: uuid.NewString()}
		run.Recorder = recorder(run.ID)
		begin := time.Now()
		if _, err := run.Do(b.Context()); err != nil {
			b.Fatal(err)
		}
		return time.Since(begin)
	}
	var with, without time.Duration
	s.use(func(reg *access.Recording, signer *access.Signer) {
		for b.Loop() {
			without += took(func(string) engine.Recorder { return nil })
			with += took(func(run string) engine.Recorder {
				return &record.Recorder{Ledger: reg, Root: s.root, Sign: signer.Sign, Issuer: signer.Principal, Run: run}
			})
		}
	})
	b.ReportMetric(100*(with-without).Seconds()/without.Seconds(), "%slower")
}

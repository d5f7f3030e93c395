package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/coord/recovery/engine"
)

// manyCases writes a scenario of n cases: those of the fixture under new ids.
func manyCases(t *testing.T, n int) string {
	t.Helper()
	fixture, err := os.ReadFile("../../testdata/tool_chain_failures.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(bytes.TrimSpace(fixture), []byte("\n"))
	path := filepath.Join(t.TempDir(), "scenario.ndjson")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewWriter(f)
	for i := range n {
		line := bytes.TrimSpace(lines[i%len(lines)])
		fmt.Fprintf(out, "%s\n", bytes.Replace(line, []byte(`"id":"`), fmt.Appendf(nil, `"id":"%d-`, i), 1))
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// Progress of a long batch shows on a terminal. Ctrl-C there ends it with a
// report that is marked as partial, and the run goes on where it was.
func TestRecoverIsInterrupted(t *testing.T) {
	user, other := openTerminal(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	go func() {
		shown := bufio.NewReader(other)
		for seen := ""; !strings.Contains(seen, "recover "); {
			part, err := shown.ReadString(' ')
			if err != nil {
				return
			}
			seen += part
		}
		interrupt()
		_, _ = io.Copy(io.Discard, shown) // so that nobody waits for the terminal
	}()
	var out bytes.Buffer
	dir := filepath.Join(t.TempDir(), "run")
	o := recoverOptions{scenario: manyCases(t, 20_000), out: dir, workers: 1}
	err := newApp(nil, &out, user).recover(ctx, &o)
	if exit.Code(err) != exit.Interrupted {
		t.Fatalf("ended with %v, exit code %d", err, exit.Code(err))
	}
	var said strings.Builder
	if newApp(nil, nil, nil).printError(&said, err); said.String() != "arl: interrupted\n" {
		t.Errorf("said %q", said.String())
	}
	if out.Len() > 0 {
		t.Errorf("standard output has %q", out.String())
	}
	report := reportIn(t, dir)
	if report.Partial != "interrupted" || report.Recommendation != engine.Inconclusive || report.Total >= 20_000 {
		t.Errorf("partial %q, %s, %d cases", report.Partial, report.Recommendation, report.Total)
	}
	o.resume, o.workers = true, 2
	if err := newApp(nil, &out, io.Discard).recover(t.Context(), &o); exit.Code(err) != exit.Rejected { // of so many adversarial cases too few recover
		t.Fatal(err)
	}
	report = reportIn(t, dir)
	if want := "[auto_recovered] 14200/18800\n[fallback_model_recoveries] 4400\n[escalated] 4600\n"; out.String() != want || report.Partial != "" {
		t.Errorf("resumed: %q, partial %q", out.String(), report.Partial)
	}
}

func reportIn(t *testing.T, dir string) *engine.Report {
	t.Helper()
	report, _, err := newApp(nil, nil, nil).readReport(dir)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// A person who thinks about what to type into a scenario can give up.
func TestRecoverStopsWaitingForInput(t *testing.T) {
	in, unused, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer unused.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	err = newApp(in, io.Discard, io.Discard).recover(ctx, &recoverOptions{scenario: "-", workers: 1})
	if exit.Code(err) != exit.Interrupted {
		t.Errorf("ended with %v", err)
	}
}

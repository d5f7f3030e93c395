package engine

import (
	"bytes"
	"errors"
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
)

// FuzzRecover: the engine comes to an end with every case that can be read.
func FuzzRecover(f *testing.F) {
	for line := range bytes.Lines(fixture(f)) {
		f.Add(bytes.TrimSpace(line))
	}
	f.Add([]byte(minimalCase))
	f.Add([]byte(caseWith(`"input":{"a":null,"b":1.5},"expect":{"schema":{"type":"object"},"checks":[{"name":"c","equals":null}]}`)))
	config := Config{Policy: recovery.Default()}
	f.Fuzz(func(t *testing.T, line []byte) {
		c, err := scenario.Decode(line)
		if err != nil {
			return
		}
		done, err := config.Recover(t.Context(), &c)
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := done.Trace.Encode()
		if err != nil {
			t.Fatal(err)
		}
		checkTrace(t, &done.Trace, encoded)
	})
}

// FuzzScenario: a file of any bytes gives cases and errors, each about its own
// line, in order, and the same with one worker and with several.
func FuzzScenario(f *testing.F) {
	f.Add([]byte(minimalCase + "\n\n" + minimalCase + "\n{"))
	f.Add(bytes.Join(bytes.SplitAfterN(fixture(f), []byte("\n"), 4)[:3], nil))
	f.Add([]byte("\xff\n\x00\n"))
	config := Config{Policy: recovery.Default()}
	f.Fuzz(func(t *testing.T, text []byte) {
		read := func(workers int) (lines []int) {
			b := &Batch{Config: config, Workers: workers}
			for done, err := range b.Run(t.Context(), "fuzz", bytes.NewReader(text)) {
				var wrong *scenario.Error
				switch {
				case errors.As(err, &wrong):
					lines = append(lines, -wrong.Line)
				case err != nil:
					t.Fatal(err)
				default:
					lines = append(lines, done.Line)
				}
			}
			return lines
		}
		one, several := read(1), read(3)
		if len(one) == 0 || len(one) != len(several) {
			t.Fatalf("%v and %v", one, several)
		}
		for i := range one {
			if one[i] != several[i] || one[0] != 0 && max(one[i], -one[i]) != i+1 {
				t.Fatalf("%v and %v", one, several)
			}
		}
	})
}

// FuzzOutcomeModel: a model is read, and draws, or is refused with all that an
// error promises.
func FuzzOutcomeModel(f *testing.F) {
	f.Add([]byte("outcomes:\n- {class: capacity, strategy: fallback_model, success_ppm: 500000, latency_ms: 700}\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte(`{"outcomes":[{"success_ppm":1.5}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ParseOutcomeModel("model.yaml", text)
		if err != nil {
			_ = lineError(t, err)
			return
		}
		q := scenario.Request{Case: &scenario.Case{ID: "c"}, Step: &scenario.Step{ID: "s"}, Variation: scenario.Variation{Strategy: "retry"}, Failure: &scenario.Failure{Label: scenario.UnknownLabel()}}
		a, err := newSimulated(m, 1).Attempt(t.Context(), q)
		if err != nil || a.Outcome != scenario.NotObserved && !a.Simulated {
			t.Fatalf("%+v, %v", a, err)
		}
	})
}

// FuzzDecodeTrace: what is read is what is written.
func FuzzDecodeTrace(f *testing.F) {
	all := recoverAll(f, defaultBatch(), fixture(f))
	for line := range bytes.Lines(all.lines) {
		f.Add(bytes.TrimSpace(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		trace, err := DecodeTrace(line)
		if err != nil {
			_ = lineError(t, err)
			return
		}
		again, err := trace.Encode()
		if err != nil || !bytes.Equal(again, line) {
			t.Fatalf("written as %s: %v", again, err)
		}
	})
}

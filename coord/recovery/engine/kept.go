package engine

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// Kept is a run as its directory keeps the run. Make a Kept with [ReadRun].
type Kept struct {
	Snapshot
	Rules *recovery.Policy // of the snapshot
	Info  Info
	dir   string
}

// ReadRun reads how the run of a directory was made. The error is a [*scenario.Error], or an error
// of the file system.
func ReadRun(dir string) (*Kept, error) {
	k := &Kept{dir: dir}
	name := k.file(ConfigFile)
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	if err := json.Unmarshal(text, &k.Snapshot, json.RejectUnknownMembers(true)); err != nil {
		return nil, &scenario.Error{Problem: entry.Malformed, File: name, Detail: "is not the configuration of a run: " + scenario.Cut(err.Error(), scenario.ToolMax),
			Remedy: "run arl recover again: the file is not edited, and is of this version of arl"}
	}
	if k.Rules, err = k.policy(name); err != nil {
		return nil, err
	}
	k.Info, err = (&Dir{path: dir}).info()
	return k, err
}

func (k *Kept) file(name string) string { return filepath.Join(k.dir, name) }

// Input returns the path of the file with the cases of the run: the scenario, or the record where
// the scenario does not determine the attempts.
func (k *Kept) Input() string {
	if k.recorded() {
		return k.file(RecordFile)
	}
	return k.Info.Scenario
}

// Config decides the cases of [Kept.Input] as the run did.
func (k *Kept) Config() (Config, error) {
	c := again(k.Rules, k.Outcomes, k.Seed).Config
	var err error
	c.Arms, err = k.armsOf(k.dir, k.Rules)
	return c, err
}

// Traces yields the traces of the run in their order. An error ends the sequence.
func (k *Kept) Traces() iter.Seq2[*Trace, error] {
	return func(yield func(*Trace, error) bool) {
		name := k.file(TracesFile)
		f, err := os.Open(name)
		if err != nil {
			yield(nil, fmt.Errorf("engine: %w", err))
			return
		}
		defer f.Close() //nolint:errcheck // only read
		in := bufio.NewScanner(f)
		in.Buffer(nil, scenario.CaseBytesMax)
		for line := 1; in.Scan(); line++ {
			t, err := DecodeTrace(in.Bytes())
			if wrong, ok := errors.AsType[*scenario.Error](err); ok {
				wrong.File, wrong.Line = name, line
			}
			if !yield(&t, err) || err != nil {
				return
			}
		}
		if err := in.Err(); err != nil {
			yield(nil, fmt.Errorf("engine: read %s: %w", name, err))
		}
	}
}

// ReadReport reads a report.json, or the report of the run in a directory, and returns the bytes of
// the report, too. The error is a [*scenario.Error], or an error of the file system.
func ReadReport(path string) (*Report, []byte, error) {
	path = ReportPath(path)
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("engine: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(f, ReportBytesMax+1))
	if err != nil {
		return nil, nil, fmt.Errorf("engine: read %s: %w", path, err)
	}
	if len(text) > ReportBytesMax {
		return nil, nil, &scenario.Error{Problem: entry.TooLarge, File: path, Detail: fmt.Sprintf("has more than %d bytes", ReportBytesMax),
			Remedy: "pass a report.json that arl recover wrote"}
	}
	report, err := DecodeReport(path, text)
	return &report, text, err
}

// ReportPath returns the path of the report that a path means: of a run's directory, the report in
// the directory.
func ReportPath(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return filepath.Join(path, ReportFile)
	}
	return path
}

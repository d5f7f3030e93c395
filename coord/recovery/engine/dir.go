package engine

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofrs/flock"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/program"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
)

// The files of a run's directory. All but run.json are the same for every run
// of the same scenario under the same configuration.
const (
	// TracesFile holds a trace a line, in scenario order.
	TracesFile = "traces.ndjson"
	// ReportFile is the report.
	ReportFile = "report.json"
	// ConfigFile has the configuration of the run, including the policy.
	ConfigFile = "config.snapshot.json"
	// SummaryFile is the report for people.
	SummaryFile = "summary.md"
	// InfoFile is when, where and how the run ran.
	InfoFile = "run.json"
	// RecordFile is the scenario of a live run, or of a run with an external strategy, with the
	// attempts that were made and the actions that were chosen. A recorded run of this file makes
	// the same traces.
	RecordFile = "recorded.ndjson"
)

// Snapshot is the configuration that determines a run.
type Snapshot struct {
	V            int64          `json:"v"`
	Engine       string         `json:"engine"`
	Runtime      string         `json:"runtime"`
	Seed         int64          `json:"seed"`
	KeepGoing    bool           `json:"keep_going"`
	Scenario     entry.Digest   `json:"scenario_digest"`
	PolicyDigest entry.Digest   `json:"policy_digest"`
	Policy       jsontext.Value `json:"policy"`
	Outcomes     *OutcomeModel  `json:"outcomes,omitzero"`
	LiveDigest   entry.Digest   `json:"live_digest,omitzero"`
	Strategy     []string       `json:"strategy,omitzero"` // command line of an external one
	// Strategies are the command lines of the strategies that the rules of the policy name.
	Strategies map[string][]string `json:"strategies,omitzero"`
	Baseline   *Baseline           `json:"baseline,omitzero"`
	// Candidate are the rules of the candidate whose rollout the run obeys.
	Candidate jsontext.Value `json:"candidate,omitzero"`
}

func (r *Run) snapshot(of entry.Digest) Snapshot {
	s := Snapshot{V: formatVersion, Engine: Engine, Runtime: r.Mode, Seed: r.Seed, KeepGoing: r.KeepGoing, Scenario: of,
		PolicyDigest: r.Policy.Hash(), Policy: r.Policy.JSON(), Outcomes: r.Outcomes, LiveDigest: r.LiveDigest, Strategy: r.Strategy,
		Strategies: commands(r.Strategies), Baseline: r.Baseline}
	if r.Candidate != nil {
		s.Candidate = r.Candidate.JSON()
	}
	return s
}

// recorded reports whether the run keeps its attempts and choices, because they do not follow from
// its scenario.
func (s *Snapshot) recorded() bool {
	return s.Runtime == ModeLive || s.Strategy != nil || s.Strategies != nil
}

// registered returns stand-ins for the strategies of the run. A replay asks no strategy.
func (s *Snapshot) registered() []recovery.RecoveryStrategy {
	all := make([]recovery.RecoveryStrategy, 0, len(s.Strategies))
	for _, name := range slices.Sorted(maps.Keys(s.Strategies)) {
		all = append(all, &program.Command{Argv: s.Strategies[name], Is: recovery.About{Name: name}})
	}
	return all
}

// Encode returns the content of config.snapshot.json. The digest of the content is the digest of
// the configuration.
func (s *Snapshot) Encode() ([]byte, error) {
	text, err := json.Marshal(s, jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("engine: encode configuration: %w", err)
	}
	return append(text, '\n'), nil
}

// policy loads the policy of a snapshot.
func (s *Snapshot) policy(name string) (*recovery.Policy, error) {
	document := fmt.Appendf(nil, `{"recovery":%s}`, s.Policy)
	return recovery.Load(name, document)
}

// Info has the members that differ between runs of the same scenario under the same configuration.
type Info struct {
	Run       string `json:"run"` // id, also in a ledger
	Scenario  string `json:"scenario"`
	Workers   int    `json:"workers"`
	Build     string `json:"build"` // version of the program
	StartedAt int64  `json:"started_at"`
	EndedAt   int64  `json:"ended_at,omitzero"` // Unix milliseconds
	Partial   string `json:"partial,omitzero"`
	Ledger    string `json:"ledger,omitzero"` // origin
}

// Dir is the directory of a run. No other process runs in the directory until the Dir is closed.
type Dir struct {
	path   string
	lock   *flock.Flock
	traces *os.File
	record *os.File // nil: nothing is recorded
	out    bufio.Writer
	also   bufio.Writer // to record
}

// ErrUsed reports a directory that holds another run.
var ErrUsed = errors.New("engine: the directory holds a run")

// lockFile keeps a second run out of the directory.
const lockFile = ".lock"

// openDir takes the directory, or says that another process has it.
func openDir(path string) (*Dir, error) {
	d := &Dir{path: path, lock: flock.New(filepath.Join(path, lockFile))}
	switch locked, err := d.lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("engine: %w", err)
	case !locked:
		return nil, fmt.Errorf("%w: another process runs in %s; wait for its end, or choose another directory", ErrUsed, path)
	}
	return d, nil
}

// Close lets others have the directory.
func (d *Dir) Close() error {
	if err := d.lock.Close(); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	return nil
}

// CreateDir makes the directory of a new run. The error is ErrUsed if the directory holds a run, if
// another run works in the directory, or if a file there could be taken for a part of the run. The
// file run.json alone is allowed: a run that never began leaves this file.
func CreateDir(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	d, err := openDir(path)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{ConfigFile, TracesFile, ReportFile, SummaryFile, RecordFile, "receipts.ndjson"} {
		if _, err := os.Lstat(filepath.Join(path, name)); err == nil {
			used := fmt.Errorf("%w: %s has %s; continue the run with --resume, or choose another directory", ErrUsed, path, name)
			return nil, errors.Join(used, d.Close())
		}
	}
	return d, nil
}

// resumeDir opens the directory of a run that did not come to its end. It is
// ErrUsed while one is on its way there.
func resumeDir(path string) (*Dir, error) {
	if _, err := os.Stat(filepath.Join(path, ConfigFile)); err != nil {
		return nil, fmt.Errorf("engine: %s holds no run: %w", path, err)
	}
	return openDir(path)
}

// configure writes the configuration, or compares it with that of the run that
// is resumed.
func (d *Dir) configure(config []byte) error {
	before, err := os.ReadFile(d.file(ConfigFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = durable.Write(d.file(ConfigFile), config, 0o644)
	case err == nil && !bytes.Equal(before, config):
		return fmt.Errorf("%w: %s has a run that began with another scenario, policy, seed, runtime or baseline; pass the same ones again", ErrUsed, d.path)
	}
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	return nil
}

// open opens the files that grow, and gives the lines of the traces that are
// there to take.
func (d *Dir) open(record bool, take func(number int, line []byte) error) (err error) {
	most := math.MaxInt
	if record {
		// A case counts that stands in both files.
		if d.record, most, err = openLines(d.file(RecordFile), most, nil); err != nil {
			return err
		}
		if err := d.record.Close(); err != nil {
			return fmt.Errorf("engine: %w", err)
		}
	}
	if d.traces, most, err = openLines(d.file(TracesFile), most, take); err != nil {
		return err
	}
	d.out.Reset(d.traces)
	if record {
		if d.record, _, err = openLines(d.file(RecordFile), most, nil); err != nil {
			return err
		}
		d.also.Reset(d.record)
	}
	return nil
}

func (d *Dir) file(name string) string { return filepath.Join(d.path, name) }

// openLines opens a file for appending behind its whole lines, at most so many: a
// crash may have cut the one behind. Each is given to take, if there is one.
func openLines(path string, most int, take func(number int, line []byte) error) (f *os.File, lines int, err error) {
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, 0, fmt.Errorf("engine: %w", err)
	}
	in, end := bufio.NewReaderSize(f, 64<<10), int64(0)
	for lines < most && err == nil {
		var line []byte
		if line, err = in.ReadBytes('\n'); err != nil {
			break
		}
		end += int64(len(line))
		if lines++; take != nil {
			err = take(lines, line[:len(line)-1])
		}
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.Seek(end, io.SeekStart)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, lines, nil
}

// add appends the trace of a case.
func (d *Dir) add(done *Result) error {
	if _, err := d.out.Write(append(done.Encoded, '\n')); err != nil {
		return fmt.Errorf("engine: write traces: %w", err)
	}
	if d.record == nil {
		return nil
	}
	line, err := scenario.Encode(done.Case)
	if err == nil {
		_, err = d.also.Write(append(line, '\n'))
	}
	if err == nil {
		err = errors.Join(d.also.Flush(), d.out.Flush()) // a real action is not done twice
	}
	if err != nil {
		return fmt.Errorf("engine: write record: %w", err)
	}
	return nil
}

// recordDigest is the digest of all that was recorded.
func (d *Dir) recordDigest() (entry.Digest, error) {
	if err := d.also.Flush(); err != nil {
		return "", fmt.Errorf("engine: write record: %w", err)
	}
	recorded, _, err := digestFile(d.file(RecordFile))
	return recorded, err
}

// finish makes the traces durable and writes the report.
func (d *Dir) finish(r *Report, text []byte) error {
	err := errors.Join(d.out.Flush(), d.traces.Sync(), d.traces.Close())
	if d.record != nil {
		err = errors.Join(err, d.also.Flush(), d.record.Sync(), d.record.Close())
	}
	if err == nil {
		err = durable.Write(d.file(ReportFile), text, 0o644)
	}
	if err == nil {
		err = durable.Write(d.file(SummaryFile), []byte(r.Summary()), 0o644)
	}
	if err != nil {
		return fmt.Errorf("engine: write %s: %w", d.path, err)
	}
	return nil
}

// writeInfo writes run.json.
func (d *Dir) writeInfo(info Info) error {
	text, err := json.Marshal(info, jsontext.WithIndent("  "))
	if err == nil {
		err = durable.Write(d.file(InfoFile), append(text, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("engine: write %s: %w", d.file(InfoFile), err)
	}
	return nil
}

// info reads run.json. One that was changed is an [*Error].
func (d *Dir) info() (Info, error) {
	var info Info
	text, err := os.ReadFile(d.file(InfoFile))
	if err != nil {
		return info, fmt.Errorf("engine: %w", err)
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return info, &scenario.Error{Problem: entry.Malformed, File: d.file(InfoFile), Detail: "is not the run.json of a run: " + scenario.Cut(err.Error(), scenario.ToolMax),
			Remedy: "start the run again in another directory: you lose only the id of the run and the path of its scenario"}
	}
	return info, nil
}

// countingReader counts and digests the bytes that pass through it.
type countingReader struct {
	r    io.Reader
	read atomic.Int64 // which progress is told of while another goroutine reads on
	sum  hash.Hash
}

// Read implements [io.Reader].
func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.read.Add(int64(n))
	if c.sum != nil {
		c.sum.Write(p[:n])
	}
	return n, err
}

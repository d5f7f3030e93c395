package engine

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// Match is how a replay compares with the run.
type Match string

// The outcomes of a comparison.
const (
	Matches       Match = "match"
	Diverged      Match = "diverged"
	NotComparable Match = "not_comparable"
)

// Misplaced says why a trace does not belong to the case at this place.
type Misplaced string

// How a trace is out of place: it is missing there, it stands there beside the
// others, or it stands there instead of another.
const (
	Missing Misplaced = "missing"
	Extra   Misplaced = "extra"
	Another Misplaced = "another"
)

// Comparison is the finding of a replay.
type Comparison struct {
	Match Match `json:"match"`
	Cases int64 `json:"cases"` // compared and equal
	// MissingStrategies are the strategies that were missing, in the run or here, so that ladders
	// decided.
	MissingStrategies []string `json:"missing_strategies,omitzero"`
	// Reason says why the two cannot be compared.
	Reason string `json:"reason,omitzero"`
	// The first difference has a file, a case, a field (a JSON pointer), and the value on each
	// side. A side without the field is empty. Trace is set if traces of different cases stand at
	// the same place.
	Trace      Misplaced `json:"trace,omitzero"`
	File       string    `json:"file,omitzero"`
	Case       string    `json:"case,omitzero"`
	Field      string    `json:"field,omitzero"`
	Recorded   string    `json:"recorded,omitzero"`
	Recomputed string    `json:"recomputed,omitzero"`
}

// ReplayOptions replace values that the run's directory has.
type ReplayOptions struct {
	Scenario string           // path; empty: that of the run
	Policy   *recovery.Policy // nil: that of the run
	Workers  int
	Progress func(done, total int64) // may be nil
}

// Replay decides every case of a run again, and compares traces and report with the files in the
// run's directory. The record answers for live attempts and for choices of an external strategy. A
// file that was changed, cut off or removed is a difference if Replay can decide its content again.
// Otherwise the file is a reason why the two cannot be compared. An error says that the directory
// holds no run, or that a file cannot be read.
func Replay(ctx context.Context, dir string, o ReplayOptions) (Comparison, error) {
	p := replay{dir: dir, o: o}
	for _, step := range []func() (string, error){p.load, p.incomparable, p.input} {
		if reason, err := step(); err != nil || reason != "" {
			return Comparison{Match: NotComparable, Reason: reason}, err
		}
	}
	return p.compare(ctx)
}

// replay is a comparison on its way.
type replay struct {
	dir      string
	o        ReplayOptions
	config   []byte
	snapshot Snapshot
	text     []byte // of the report
	report   Report // as far as it can be read
	policy   *recovery.Policy
	scenario string       // path
	record   entry.Digest // digest of the record; empty: there is no record
	tally    *Tally
	subject  Subject
	equal    int64
}

func (p *replay) file(name string) string { return filepath.Join(p.dir, name) }

// batch is the run again.
func (p *replay) batch() (_ *Batch, err error) {
	b := again(p.policy, p.snapshot.Outcomes, p.snapshot.Seed)
	b.Workers, b.Neighbours = p.o.Workers, Neighbours(p.policy)
	b.Arms, err = p.snapshot.armsOf(p.dir, p.policy)
	return &b, err
}

// again decides cases without doing anything. The cases have the real attempts, or the attempts are
// drawn.
func again(p *recovery.Policy, outcomes *OutcomeModel, seed int64) Batch {
	b := Batch{Config: Config{Policy: p, Seed: seed}}
	if outcomes != nil {
		b.Runtime = newSimulated(outcomes, seed)
	}
	return b
}

func (p *replay) compare(ctx context.Context) (Comparison, error) {
	traces, err := os.Open(p.file(TracesFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return p.found(&Comparison{Trace: Missing, File: TracesFile}), nil
	case err != nil:
		return Comparison{}, fmt.Errorf("engine: %w", err)
	}
	defer traces.Close() //nolint:errcheck // only read
	cases, err := os.Open(p.scenario)
	if err != nil {
		return Comparison{}, fmt.Errorf("engine: %w", err)
	}
	defer cases.Close() //nolint:errcheck // only read
	if p.tally, err = NewTally(p.policy); err != nil {
		return Comparison{}, err
	}
	p.subject = Subject{Runtime: p.snapshot.Runtime, External: p.snapshot.Strategy, Policy: p.policy, Seed: p.snapshot.Seed, ConfigDigest: entry.DigestOf(p.config),
		ScenarioDigest: p.snapshot.Scenario, RecordDigest: p.record, Partial: p.report.Partial, Baseline: p.snapshot.Baseline,
		Missing: missing(p.policy, p.snapshot.registered())}
	different, err := p.traces(ctx, bufio.NewReaderSize(traces, 64<<10), &countingReader{r: cases})
	if err != nil || different != nil {
		return p.found(different), err
	}
	return p.reports()
}

// traces compares the traces one by one, and returns the first difference.
func (p *replay) traces(ctx context.Context, recorded *bufio.Reader, cases *countingReader) (*Comparison, error) {
	batch, err := p.batch()
	if err != nil {
		return nil, err
	}
	var other *Comparison // the trace belongs to another case
	for done, err := range batch.Run(ctx, p.scenario, cases) {
		if err != nil {
			if over, err := p.reject(err); over || err != nil {
				return other, err
			}
			continue
		}
		if other != nil {
			return other.misplaced(recorded, done.ID)
		}
		line, err := recorded.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0 && p.report.Partial != "":
			return nil, nil // the run came no further
		case err != nil && !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("engine: read traces: %w", err)
		}
		if id := caseOf(line); id != done.ID && (id != "" || len(line) == 0) {
			other = &Comparison{Trace: Another, File: TracesFile, Case: done.ID, Field: "/case", Recorded: id, Recomputed: done.ID}
			continue // the next case tells more
		}
		if want := string(done.Encoded) + "\n"; string(line) != want {
			d := difference(line, done.Encoded)
			d.File, d.Case = TracesFile, done.ID
			return &d, nil
		}
		if err := p.tally.Add(&done.Trace, done.Leaf); err != nil {
			return nil, err
		}
		p.equal++
		if p.o.Progress != nil {
			p.o.Progress(p.equal, p.report.Total)
		}
	}
	if other != nil {
		return other.misplaced(recorded, "")
	}
	extra, err := recorded.ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("engine: read traces: %w", err)
	}
	if len(extra) > 0 {
		id := caseOf(extra)
		return &Comparison{Trace: Extra, File: TracesFile, Case: id, Field: "/case", Recorded: id}, nil
	}
	return nil, nil
}

// misplaced finds out why the trace of another case stands at this place. It looks at the traces
// that follow on both sides. No case follows the last one.
func (c *Comparison) misplaced(recorded *bufio.Reader, next string) (*Comparison, error) {
	line, err := recorded.ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("engine: read traces: %w", err)
	}
	switch behind := caseOf(line); {
	case c.Recorded == "", c.Recorded == next && behind != c.Case:
		c.Trace, c.Recorded = Missing, ""
	case c.Recorded != next && behind == c.Case:
		c.Trace, c.Case, c.Recomputed = Extra, c.Recorded, ""
	}
	return c, nil
}

// caseOf is the id of the case that a trace says it is of; empty: it says none.
func caseOf(line []byte) string {
	var head struct {
		Case string `json:"case"`
	}
	if json.Unmarshal(line, &head) != nil {
		return ""
	}
	return head.Case
}

// reject takes note of a line that the run passed over, too, or ended at.
func (p *replay) reject(err error) (over bool, _ error) {
	var wrong *scenario.Error
	if !errors.As(err, &wrong) {
		return true, err
	}
	if !p.snapshot.KeepGoing {
		return true, nil
	}
	p.subject.reject(wrong)
	return false, nil
}

// reports compares the reports.
func (p *replay) reports() (Comparison, error) {
	if p.snapshot.recorded() { // the record has no rejected lines, and another digest
		p.subject.Rejected, p.subject.Rejections = p.report.Rejected, p.report.Rejections
	}
	again, err := p.tally.Report(p.subject)
	if err != nil {
		return Comparison{}, err
	}
	text, err := again.Encode()
	if err != nil {
		return Comparison{}, err
	}
	if string(text) != string(p.text) {
		d := difference(p.text, text)
		d.File = ReportFile
		return p.found(&d), nil
	}
	summary, err := os.ReadFile(p.file(SummaryFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // one that is missing has no line
		return Comparison{}, fmt.Errorf("engine: %w", err)
	}
	if d := differentLine(string(summary), again.Summary()); d != nil {
		d.File = SummaryFile
		return p.found(d), nil
	}
	return Comparison{Match: Matches, Cases: p.equal, MissingStrategies: p.subject.Missing}, nil
}

// differentLine finds the first line in which two texts differ.
func differentLine(recorded, recomputed string) *Comparison {
	if recorded == recomputed {
		return nil
	}
	a, b := strings.Split(recorded, "\n"), strings.Split(recomputed, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return &Comparison{Field: fmt.Sprintf("line %d", i+1), Recorded: scenario.Cut(a[i], valueMax), Recomputed: scenario.Cut(b[i], valueMax)}
		}
	}
	return &Comparison{Field: fmt.Sprintf("line %d", min(len(a), len(b))+1), Recorded: counted(int64(len(a)), "line"), Recomputed: counted(int64(len(b)), "line")}
}

func (p *replay) found(different *Comparison) Comparison {
	if different == nil {
		return Comparison{}
	}
	different.Match, different.Cases, different.MissingStrategies = Diverged, p.equal, p.subject.Missing
	return *different
}

// difference finds the first field in which two JSON texts differ.
func difference(recorded, recomputed []byte) Comparison {
	a, b := fieldsOf(recorded), fieldsOf(recomputed)
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(b):
			return Comparison{Field: a[i].field, Recorded: a[i].value}
		case i >= len(a):
			return Comparison{Field: b[i].field, Recomputed: b[i].value}
		case a[i].field != b[i].field:
			return firstMissing(a[i:], b[i:])
		case a[i].value != b[i].value:
			return Comparison{Field: a[i].field, Recorded: a[i].value, Recomputed: b[i].value}
		}
	}
	return Comparison{Recorded: "another spelling of the same"}
}

// firstMissing names the field that one side has and the other has not.
func firstMissing(a, b []jsonField) Comparison {
	for _, f := range b {
		if f.field == a[0].field {
			return Comparison{Field: b[0].field, Recomputed: b[0].value}
		}
	}
	return Comparison{Field: a[0].field, Recorded: a[0].value}
}

// jsonField is a value that is neither object nor array, and where it stands.
type jsonField struct{ field, value string }

// fieldsOf lists the fields of a JSON text in order. The text from a mistake on is one field.
func fieldsOf(text []byte) []jsonField {
	var all []jsonField
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		token, err := dec.ReadToken()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			return append(all, jsonField{string(dec.StackPointer()), scenario.Cut(string(text[dec.InputOffset():]), valueMax)})
		}
		switch kind := token.Kind(); kind {
		case '{', '}', '[', ']':
			continue
		case '"':
			if in, length := dec.StackIndex(dec.StackDepth()); in == '{' && length%2 == 1 {
				continue // a name
			}
		}
		all = append(all, jsonField{string(dec.StackPointer()), scenario.Cut(token.String(), valueMax)})
	}
}

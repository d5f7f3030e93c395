package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Run is a batch over a scenario file, with a directory for traces and report, and with entries in
// a ledger.
type Run struct {
	Batch
	// Scenario is the path of the file. It is read twice, first for its digest.
	Scenario string
	// Mode names the runtime in the report: recorded, simulated or live.
	Mode string
	// Outcomes is the outcome model of a simulated run.
	Outcomes *OutcomeModel
	// Strategy is the command line of an external strategy.
	Strategy []string
	// LiveDigest is the digest of the configuration of a live run.
	LiveDigest entry.Digest
	// Baseline is the run that the report is compared with, or nil.
	Baseline *Baseline
	// Candidate is the candidate whose rollout the run obeys by Arms, which the directory keeps for
	// a replay; nil: the run obeys none.
	Candidate *recovery.Policy
	// KeepGoing passes over lines that cannot be used; otherwise the first one
	// ends the run.
	KeepGoing bool
	// Dir keeps traces and report; nil: nothing is kept.
	Dir *Dir
	// Recorder writes entries; nil: none are written.
	Recorder Recorder
	// ID names the run in the ledger.
	ID string

	// Rejected is told of each line that cannot be used, Progress how many
	// bytes of how many have been dealt with. Both may be nil.
	Rejected func(*scenario.Error)
	Progress func(done, total int64)
}

// Asks reports whether people are asked about what the run leaves to them. A comparison asks
// nobody: a simulated run, or a recorded one with a baseline.
func (r *Run) Asks() bool {
	return r.Mode == ModeLive || r.Mode == ModeRecorded && r.Baseline == nil
}

// Recorder writes a run into a ledger. The bodies have no header yet.
type Recorder interface {
	// Begin makes sure that the run is open.
	Begin(ctx context.Context, open *entry.Run) error
	// Attempt takes the entry of one case. It may write it later.
	Attempt(ctx context.Context, a *entry.Attempt) error
	// Flush writes everything that is not yet written.
	Flush(ctx context.Context) error
	// End closes the run.
	End(ctx context.Context, closed *entry.Run) error
}

// Modes of a run.
const (
	ModeRecorded  = "recorded"
	ModeSimulated = "simulated"
	ModeLive      = "live"
)

// Do runs to the end and returns the report. With an error there is a report
// too, if the run began, and it says in Partial that it is not whole.
func (r *Run) Do(ctx context.Context) (Report, error) {
	if r.Mode == ModeLive {
		r.Instance = r.ID // a run that is resumed has the same keys, so that it repeats no effect
	}
	x := execution{Run: r}
	if err := x.begin(ctx); err != nil {
		return Report{}, errors.Join(err, x.flush(ctx))
	}
	err := errors.Join(x.cases(ctx), x.flush(ctx))
	switch {
	case err == nil:
	case ctx.Err() != nil:
		x.subject.Partial = "interrupted"
	default:
		x.subject.Partial = "failed"
	}
	report, endErr := x.finish(context.WithoutCancel(ctx))
	return report, errors.Join(err, endErr)
}

// execution is a run on its way.
type execution struct {
	*Run
	subject Subject
	tally   *Tally
	known   map[[16]byte]bool // cases that the directory has traces of
	size    int64             // of the scenario in bytes
	// recorded says whether the real attempts are kept beside the traces.
	recorded     bool
	policyDigest entry.Digest
}

// begin does the work before the first case.
func (x *execution) begin(ctx context.Context) error {
	of, size, err := digestFile(x.Scenario)
	if err == nil {
		err = x.Baseline.of(of)
	}
	if err != nil {
		return err
	}
	x.size, x.policyDigest = size, x.Policy.Hash()
	snapshot := x.snapshot(of)
	x.recorded = snapshot.recorded()
	config, err := snapshot.Encode()
	if err != nil {
		return err
	}
	x.subject = Subject{Runtime: x.Mode, External: x.Strategy, Policy: x.Policy, Seed: x.Seed, ConfigDigest: entry.DigestOf(config), ScenarioDigest: of, Baseline: x.Baseline,
		Missing: missing(x.Policy, x.Strategies)}
	if x.tally, err = NewTally(x.Policy); err != nil {
		return err
	}
	if err := x.foresee(ctx); err != nil {
		return err
	}
	if x.Dir != nil {
		if err := x.Dir.configure(config); err != nil {
			return err
		}
	}
	if x.Recorder != nil {
		x.attempt = x.attemptOf
		if err := x.Recorder.Begin(ctx, x.entry("open")); err != nil {
			return err
		}
	}
	if x.Dir == nil {
		return nil
	}
	return x.resume(ctx)
}

// foresee reads the scenario of a live run once more before anything is done: a
// line that would end the run ends it before the first effect. Where bad lines
// are passed over, none of them does.
func (x *execution) foresee(ctx context.Context) error {
	if x.Mode != ModeLive || x.KeepGoing {
		return nil
	}
	f, err := os.Open(x.Scenario)
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	s := scenario.Pipeline[struct{}]{Workers: x.Workers, Check: x.check,
		Do: func(context.Context, *scenario.Case) (struct{}, error) { return struct{}{}, nil }}
	for _, err := range s.Run(ctx, x.Scenario, f) {
		if err != nil {
			return err
		}
	}
	return nil
}

// resume takes up the traces in the directory. Each trace must equal the trace that its case gives
// now, because an edited trace must not be signed. The ledger may lack some of the traces.
func (x *execution) resume(ctx context.Context) error {
	known := map[[16]byte]bool{}
	next, stop := iter.Pull2(x.again(ctx))
	defer stop()
	err := x.Dir.open(x.recorded, func(number int, line []byte) error {
		done, err, ok := next()
		if err != nil {
			return err
		}
		if !ok || string(done.Encoded) != string(line) {
			return x.edited(number, done)
		}
		known[scenario.IDHash(done.ID)] = true
		if err := x.tally.Add(&done.Trace, done.Leaf); err != nil || x.Recorder == nil {
			return err
		}
		return x.record(ctx, done)
	})
	if len(known) > 0 {
		x.known = known
		x.Known = func(id string) bool { return known[scenario.IDHash(id)] }
	}
	return err
}

// again decides the cases that the directory may have traces of. The cases come from the scenario,
// or from the record if the scenario does not determine the attempts.
func (x *execution) again(ctx context.Context) iter.Seq2[*Result, error] {
	return func(yield func(*Result, error) bool) {
		path, batch := x.Scenario, x.Batch
		snapshot := x.snapshot("")
		arms, err := snapshot.armsOf(x.Dir.path, x.Policy)
		if err != nil {
			yield(nil, err)
			return
		}
		if x.recorded {
			path, batch = x.Dir.file(RecordFile), again(x.Policy, x.Outcomes, x.Seed)
			batch.Workers, batch.Neighbours = x.Workers, x.Neighbours
		}
		batch.Arms = arms
		f, err := os.Open(path)
		if err != nil {
			yield(nil, fmt.Errorf("engine: %w", err))
			return
		}
		defer f.Close() //nolint:errcheck // only read
		for done, err := range batch.Run(ctx, path, f) {
			if wrong, ok := errors.AsType[*scenario.Error](err); ok && wrong.Line > 0 && x.KeepGoing {
				continue // it is rejected in its turn
			}
			if !yield(done, err) {
				return
			}
		}
	}
}

// edited is the error about a trace that differs from the trace of its case.
func (x *execution) edited(number int, done *Result) error {
	of := "no case of the scenario"
	if done != nil {
		of = "case " + done.ID
	}
	return &scenario.Error{Problem: entry.Malformed, File: x.Dir.file(TracesFile), Line: number, Detail: "is not the trace of " + of,
		Remedy: "traces must not be edited: start the run again in another directory"}
}

// cases deals with all cases.
func (x *execution) cases(ctx context.Context) error {
	f, err := os.Open(x.Scenario)
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	in := &countingReader{r: f, sum: sha256.New()}
	for done, err := range x.Batch.Run(ctx, x.Scenario, in) {
		if err != nil {
			if err := x.reject(err); err != nil {
				return err
			}
			continue
		}
		if err := x.take(ctx, done); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil { // cases that are done already do not keep anybody waiting
			return err
		}
		if x.Progress != nil {
			x.Progress(in.read.Load(), x.size)
		}
	}
	if got := entry.DigestFrom(in.sum.Sum(nil)); got != x.subject.ScenarioDigest {
		return fmt.Errorf("engine: %s changed while it was read", x.Scenario)
	}
	return nil
}

// reject passes over a line, or ends the run.
func (x *execution) reject(err error) error {
	var wrong *scenario.Error
	if !errors.As(err, &wrong) || wrong.Line == 0 || !x.KeepGoing {
		return err
	}
	x.subject.reject(wrong)
	if x.Rejected != nil {
		x.Rejected(wrong)
	}
	return nil
}

// take keeps the result of a case.
func (x *execution) take(ctx context.Context, done *Result) error {
	if done.Known {
		return nil
	}
	if err := x.tally.Add(&done.Trace, done.Leaf); err != nil {
		return err
	}
	if x.Dir != nil {
		if err := x.Dir.add(done); err != nil {
			return err
		}
	}
	if x.Recorder == nil {
		return nil
	}
	return x.record(ctx, done)
}

// flush waits until what the recorder took stands in the ledger.
func (x *execution) flush(ctx context.Context) error {
	if x.Recorder == nil {
		return nil
	}
	return x.Recorder.Flush(context.WithoutCancel(ctx))
}

// finish writes the report, and closes the run in the ledger if it is whole.
func (x *execution) finish(ctx context.Context) (Report, error) {
	report, text, err := x.report()
	if err != nil || x.Recorder == nil || report.Partial != "" {
		return report, err
	}
	end := x.entry("close")
	end.RunRoot, end.ReportDigest, end.Recommendation = rootText(report.RunRoot), entry.DigestOf(text), string(report.Recommendation)
	return report, x.Recorder.End(ctx, end)
}

// report makes the report, and writes it into the directory of the run.
func (x *execution) report() (Report, []byte, error) {
	if x.Dir != nil && x.recorded {
		var err error
		if x.subject.RecordDigest, err = x.Dir.recordDigest(); err != nil {
			return Report{}, nil, err
		}
	}
	report, err := x.tally.Report(x.subject)
	if err != nil {
		return report, nil, err
	}
	text, err := report.Encode()
	if err == nil && x.Dir != nil {
		err = x.Dir.finish(&report, text)
	}
	return report, text, err
}

// entry is the body of an entry about the run as a whole.
func (x *execution) entry(op string) *entry.Run {
	r := &entry.Run{Run: x.ID, Op: op, ConfigDigest: x.subject.ConfigDigest, ScenarioDigest: x.subject.ScenarioDigest, Seed: x.Seed, Engine: Engine,
		PolicyDigest: x.Policy.Hash()}
	if x.Baseline != nil {
		r.BaselineDigest = x.Baseline.PolicyDigest
	}
	return r
}

// rootText is a run root as an entry holds it.
func rootText(root merkle.Hash) entry.Digest { return entry.DigestFrom(root[:]) }

// record hands the entry of a case over.
func (x *execution) record(ctx context.Context, done *Result) error {
	a, err := done.attempt, error(nil)
	if a == nil {
		a, err = x.attemptOf(&done.Recovery, done.Encoded)
	}
	if err != nil {
		return err
	}
	if err := x.Recorder.Attempt(ctx, a); err != nil {
		return err
	}
	if beside := ShadowOf(&done.Recovery); beside != nil {
		return x.Recorder.Attempt(ctx, beside)
	}
	return nil
}

func (x *execution) attemptOf(of *Recovery, line []byte) (*entry.Attempt, error) {
	return AttemptOf(x.ID, x.policyDigest, of, line)
}

// digestFile reads a file once.
func digestFile(path string) (digest entry.Digest, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, fmt.Errorf("engine: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	sum := sha256.New()
	size, err = io.Copy(sum, f)
	if err != nil {
		return "", 0, fmt.Errorf("engine: read %s: %w", path, err)
	}
	return entry.DigestFrom(sum.Sum(nil)), size, nil
}

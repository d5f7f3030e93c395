package record

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"recoveryledger/coord/recovery/engine"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// Verified is the result of [Verify].
type Verified struct {
	Run    string          // id
	Issuer entry.Principal // the engine that signed the entries
	// Cases counts the traces, Entries the entries of the run.
	Cases, Entries int64
	Report         *engine.Report
	ReportDigest   entry.Digest
	Head           merkle.Head // the newest one that the receipts have
	// Missing says why entries are not known to be signed, or to be of one log.
	Missing []verify.Gap
	// Files are the files that the report determines.
	Files []string
}

// Verdict says whether every claim of the directory was checked.
func (v *Verified) Verdict() verify.Verdict { return verify.VerdictOf(v.Missing) }

// Checked lists the properties that [Verify] has checked, one a line.
func (v *Verified) Checked() []string {
	signed := ""
	if len(v.Missing) == 0 {
		signed = "signed, and "
	}
	return []string{
		fmt.Sprintf("entries (%d): %sin the log of tree head %d, root %s", v.Entries, signed, v.Head.Size, v.Head.Root),
		fmt.Sprintf("traces (%d): each is the one in the entry of its case", v.Cases),
		fmt.Sprintf("run root %s: over the traces, in the report and in the closing entry", v.Report.RunRoot),
		fmt.Sprintf("report %s: in the closing entry, with configuration and scenario of the opening one", v.ReportDigest),
		strings.Join(v.Files, ", ") + ": what the report says",
	}
}

// NotChecked lists the properties that the directory of a run cannot show, one a line.
func (v *Verified) NotChecked() []string {
	return []string{
		"that the traces follow from scenario and policy: arl replay decides every case again",
		"that the record of the cases is true: entries say what the engine saw",
		"run.json: when and where the run ran; nothing depends on it",
	}
}

// Verify checks the directory of a run that was recorded in a ledger, against the pinned root of
// the ledger. A [*BrokenError], or an error of package verify, names the property that does not
// hold. Any other error says that a file cannot be read.
func Verify(root verify.Root, dir string) (*Verified, error) {
	p := runProof{dir: dir, root: root, heads: map[uint64]merkle.Head{}, attempts: map[[32]byte]attempt{}}
	if err := p.receipts(); err != nil {
		return nil, err
	}
	report, digest, err := p.report()
	if err != nil {
		return nil, err
	}
	cases, err := p.traces(report)
	if err != nil {
		return nil, err
	}
	v := &Verified{Run: p.closed.Run, Issuer: p.issuer, Cases: cases, Entries: p.entries, Report: report, ReportDigest: digest, Missing: p.missing, Files: p.said}
	for size, head := range p.heads {
		if size >= v.Head.Size {
			v.Head = head
		}
	}
	return v, nil
}

// runProof checks that a report follows from traces that follow from entries,
// and that the entries are in the log.
type runProof struct {
	dir      string
	root     verify.Root
	material verify.Material // links and consistency proofs, checked with every batch
	batch    []verify.Receipt
	heads    map[uint64]merkle.Head

	opened, closed *entry.Run
	issuer         entry.Principal
	attempts       map[[32]byte]attempt // by the digest of the case
	entries        int64
	missing        []verify.Gap // why entries are not known to be signed, or of one log
	last           uint64       // index of the newest receipt so far
	said           []string     // files that the report decides about
}

// attempt has the values that the entry of a case states.
type attempt struct {
	trace [32]byte // digest
	index uint64
}

// BrokenError reports that a directory differs from the run in the ledger.
type BrokenError struct{ err error }

// Error names the property that does not hold, and the place.
func (e *BrokenError) Error() string { return e.err.Error() }

// Unwrap returns the cause, if there is one.
func (e *BrokenError) Unwrap() error { return errors.Unwrap(e.err) }

func broken(format string, args ...any) error { return &BrokenError{fmt.Errorf(format, args...)} }

// receipts checks every entry of the run, a batch at a time: a run may have more
// of them than memory holds.
func (p *runProof) receipts() error {
	path := filepath.Join(p.dir, receiptsFile)
	if err := p.collect(path); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	number := 0
	err = eachLine(f, func(line []byte) error {
		number++
		receipt, ok := runReceipt(line)
		if !ok {
			return nil
		}
		if receipt.Index <= p.last {
			return broken("%s: line %d: the receipt of entry %d stands there twice, or behind that of entry %d", path, number, receipt.Index, p.last)
		}
		p.last = receipt.Index
		if p.batch = append(p.batch, receipt); len(p.batch) < batchMax {
			return nil
		}
		return p.check()
	})
	if err == nil {
		err = p.check()
	}
	switch {
	case err != nil:
		return err
	case p.opened == nil:
		return broken("%s: there is no receipt of the entry that opens the run", path)
	case p.closed == nil:
		return broken("%s: there is no receipt of the entry that closes the run: the run did not end, or the line was lost", path)
	}
	return nil
}

// collect takes the lines beside the run's own entries.
func (p *runProof) collect(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%s is not the directory of a run that was recorded in a ledger: %w: name files, or the directory that arl recover --out made", p.dir, err)
	}
	defer f.Close() //nolint:errcheck // only read
	heads := map[string]bool{}
	return eachLine(f, func(line []byte) error {
		receipt, ok := runReceipt(line)
		switch {
		case !ok:
			return p.material.Add(path, line)
		case !heads[receipt.Head]: // the heads that a proof connects
			heads[receipt.Head] = true
			p.material.Heads = append(p.material.Heads, receipt.Head)
		}
		return nil
	})
}

// runReceipt decodes the receipt of a run's own entry.
func runReceipt(line []byte) (verify.Receipt, bool) {
	receipt, err := verify.DecodeReceipt(line)
	if err != nil {
		return receipt, false
	}
	e, _, err := entry.DecodeLeaf(receipt.Leaf)
	return receipt, err == nil && (e.Kind == entry.KindRun || e.Kind == entry.KindAttempt)
}

func eachLine(r io.Reader, do func(line []byte) error) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := do(line); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// check verifies a batch of entries, and notes their content.
func (p *runProof) check() error {
	if len(p.batch) == 0 {
		return nil
	}
	m := p.material
	m.Receipts = append(append([]verify.Receipt{}, p.material.Receipts...), p.batch...)
	p.batch = p.batch[:0]
	report, err := p.root.Verify(m)
	if err != nil {
		return err
	}
	for _, head := range report.Heads {
		p.heads[head.Size] = head
	}
	for _, gap := range report.Missing {
		if !slices.Contains(p.missing, gap) { // each batch has the same links
			p.missing = append(p.missing, gap)
		}
	}
	for _, e := range report.Entries {
		if err := p.take(&e); err != nil {
			return err
		}
	}
	return nil
}

func (p *runProof) take(e *verify.Entry) error {
	switch e.Body.(type) {
	case *entry.Run, *entry.Attempt:
	default:
		return nil
	}
	if p.issuer == "" {
		p.issuer = e.Header.Iss
	}
	if e.Header.Iss != p.issuer {
		return broken("entry %d: by %s, not by %s, the engine of the run", e.Index, e.Header.Iss, p.issuer)
	}
	p.entries++
	switch body := e.Body.(type) {
	case *entry.Attempt:
		if body.Arm == entry.ArmShadow {
			return nil // it stands outside of the run
		}
		for c := range body.Cases() {
			if err := p.takeCase(e.Index, body.Run, c); err != nil {
				return err
			}
		}
	case *entry.Run:
		if body.Op == "open" {
			p.opened = body
		} else {
			p.closed = body
		}
	}
	return nil
}

// takeCase notes the trace of a case.
func (p *runProof) takeCase(index uint64, run string, c *entry.AttemptCase) error {
	key, a := sha256.Sum256([]byte(c.Case)), attempt{index: index}
	switch before, twice := p.attempts[key]; {
	case twice:
		return broken("entry %d: case %s already stands in entry %d", index, c.Case, before.index)
	case p.opened == nil:
		return broken("%s: there is no receipt of the entry that opens the run, before that of case %s", receiptsFile, c.Case)
	case run != p.opened.Run:
		return broken("entry %d: case %s is of run %s", index, c.Case, run)
	}
	if _, err := hex.Decode(a.trace[:], []byte(c.TraceDigest[len("sha256:"):])); err != nil {
		return broken("entry %d: %w", index, err)
	}
	p.attempts[key] = a
	return nil
}

// open opens a file of the directory. A file that the entries or the report vouch for must exist.
func (p *runProof) open(name string) (*os.File, error) {
	f, err := os.Open(filepath.Join(p.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, broken("%s: %s is not there: the run left it, and nothing else shows that the run was so", p.dir, name)
	}
	return f, err
}

// read reads a file that open opens.
func (p *runProof) read(name string) ([]byte, error) {
	f, err := p.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(f, engine.ReportBytesMax+1))
	return text, err
}

// report compares the report with the entries that open and close the run. It does not decode a
// file that the entries do not vouch for.
func (p *runProof) report() (*engine.Report, entry.Digest, error) {
	text, err := p.read(engine.ReportFile)
	if err != nil {
		return nil, "", err
	}
	o, c, digest := p.opened, p.closed, entry.DigestOf(text)
	if digest != c.ReportDigest {
		return nil, "", broken("%s: digest of %s is %s here and %s in the entry", p.dir, engine.ReportFile, digest, c.ReportDigest)
	}
	report, err := engine.DecodeReport(engine.ReportFile, text)
	if err != nil {
		return nil, "", broken("%s: the entry has the digest of a report that cannot be read: %w", p.dir, err)
	}
	config, err := p.read(engine.ConfigFile)
	if err != nil {
		return nil, "", err
	}
	root := string(entry.DigestFrom(report.RunRoot[:]))
	for _, same := range []struct{ what, here, there string }{
		{"run", o.Run, c.Run},
		{"run root", root, string(c.RunRoot)},
		{"recommendation", string(report.Recommendation), c.Recommendation},
		{"digest of " + engine.ConfigFile, string(entry.DigestOf(config)), string(o.ConfigDigest)},
		{"configuration of the report", string(report.ConfigDigest), string(o.ConfigDigest)},
		{"scenario", string(report.ScenarioDigest), string(o.ScenarioDigest)},
		{"engine", report.Engine, o.Engine},
	} {
		if same.here != same.there {
			return nil, "", broken("%s: %s is %s here and %s in the entry", p.dir, same.what, same.here, same.there)
		}
	}
	return &report, digest, p.follows(&report)
}

// follows compares the files that the report determines with the report.
func (p *runProof) follows(report *engine.Report) error {
	summary, err := p.read(engine.SummaryFile)
	if err != nil {
		return err
	}
	if string(summary) != report.Summary() {
		return broken("%s: %s does not match %s: arl report show prints the right text", p.dir, engine.SummaryFile, engine.ReportFile)
	}
	if p.said = append(p.said, engine.SummaryFile); report.RecordDigest == "" {
		return nil
	}
	p.said = append(p.said, engine.RecordFile)
	f, err := p.open(engine.RecordFile)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if got := entry.DigestFrom(sum.Sum(nil)); got != report.RecordDigest {
		return broken("%s: digest of %s is %s here and %s in the report", p.dir, engine.RecordFile, got, report.RecordDigest)
	}
	return nil
}

// traces compares every trace with the entry of its case, and their root with
// that of the report.
func (p *runProof) traces(report *engine.Report) (cases int64, err error) {
	f, err := p.open(engine.TracesFile)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	frontier, err := merkle.NewFrontier(0, nil)
	if err != nil {
		return 0, err
	}
	err = eachLine(f, func(line []byte) error {
		trace, err := engine.DecodeTrace(line)
		if err != nil {
			return broken("%s: trace %d: %w", engine.TracesFile, cases+1, err)
		}
		key := sha256.Sum256([]byte(trace.Case))
		switch there, ok := p.attempts[key]; {
		case !ok:
			return broken("%s: line %d: %s has no receipt of the entry of %s, or its trace stands there twice", engine.TracesFile, cases+1, receiptsFile, trace.Case)
		case there.trace != sha256.Sum256(line):
			return broken("%s: line %d: the trace of %s is not the one in entry %d", engine.TracesFile, cases+1, trace.Case, there.index)
		}
		delete(p.attempts, key)
		cases++
		return frontier.Append(merkle.HashLeaf(line), func(uint, uint64, merkle.Hash) {})
	})
	if err != nil {
		return 0, err
	}
	head, err := frontier.Head()
	switch {
	case err != nil:
		return 0, err
	case len(p.attempts) > 0:
		index := slices.MinFunc(slices.Collect(maps.Values(p.attempts)), func(a, b attempt) int { return cmp.Compare(a.index, b.index) }).index
		return 0, broken("%s: there is no trace of entry %d (entries without one: %d)", engine.TracesFile, index, len(p.attempts))
	case head.Root != report.RunRoot || cases != report.Total:
		return 0, broken("%s: %d traces with the root %s, the report has %d and %s", engine.TracesFile, cases, head.Root, report.Total, report.RunRoot)
	}
	return cases, nil
}

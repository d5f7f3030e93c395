package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
)

// journalFile is the name of the journal in the directory of the agent's state.
const journalFile = "calls.log"

// lineMax is the size of a line of the journal: the values, and an envelope or two.
const lineMax = maxValues + 256<<10

// record is a call as the journal keeps it. A later line about the same execution replaces the
// members that it has.
//
// A crash means, by the newest line:
//
//	no line       the tool was not reached
//	Progress ""   the tool may have been reached: the proxy asks the probe of the tool, or says failed
//	Progress set  the call has ended: only the entries in Outbox are to be logged
//	Outbox empty  the log has the entries
type record struct {
	Exec     entry.Ref        `json:"exec"`
	Wid      entry.WorkflowID `json:"wid,omitzero"`
	Tool     string           `json:"tool,omitzero"`
	Effect   entry.Effect     `json:"effect,omitzero"`
	Parents  []entry.Parent   `json:"parents,omitzero"`
	Progress entry.Progress   `json:"progress,omitzero"`
	Ended    int64            `json:"ended,omitzero"` // when Progress was set, in Unix milliseconds
	// Undo is the compensation, with its templates; Values are what its templates name.
	Undo   *Call  `json:"undo,omitzero"`
	Values values `json:"values,omitzero"`
	// Probe asks for the effect of the call; Asked has what its templates name, but the key.
	Probe  *ToolProbe       `json:"probe,omitzero"`
	Asked  values           `json:"asked,omitzero"`
	Outbox []jsontext.Value `json:"outbox,omitzero"` // signed envelopes that the log may not have

	at int64 // where the newest line with values, or the first line, begins in the journal
}

// merge takes up a later line about the same execution.
func (r *record) merge(later *record) {
	if later.Progress != "" {
		r.end(later.Progress, later.Ended)
	}
	if later.Values != nil {
		r.Values, r.at = later.Values, later.at
	}
	r.Outbox = later.Outbox
}

// end notes how a call ended. Its effect is not asked for any more.
func (r *record) end(progress entry.Progress, ended int64) {
	r.Progress, r.Ended = progress, ended
	r.Probe, r.Asked = nil, nil
}

// kept reports whether the record is still of use: the log lacks entries of the call, or the call
// may have to be undone. Calls that ended before an instant are not undone any more.
func (r *record) kept(since int64) bool {
	return r.Progress == "" || len(r.Outbox) > 0 || r.Effect == entry.EffectCompensable && r.Progress != entry.Cancelled && (r.Ended >= since || r.Ended == 0)
}

// JournalError reports a journal that differs from what was written.
type JournalError struct {
	Path string
	Line int // from 1
}

// Error implements error.
func (e *JournalError) Error() string {
	return fmt.Sprintf("mcp: %s: line %d is damaged: the compensations of its calls are not known (move the file away to go on without them; each of their rollbacks then ends as failed)", e.Path, e.Line)
}

// journal keeps calls in a file. Lines are added. The file is replaced when it is opened, and when
// half of it is of no more use: its size is at most twice that of what is kept, and slack.
type journal struct {
	path   string
	file   *os.File
	size   int64
	whole  int64 // the size after the last replacement
	slack  int64
	most   int64 // size from which on no call is taken that must be kept for its compensation
	failed error // nothing is written after it
}

// openJournal reads the journal of a directory, drops what is of no more use, and opens the file
// for what comes. A last line that was torn by a crash counts as never written. Calls that ended
// before an instant, in Unix milliseconds, are dropped, too.
func openJournal(dir string, since int64) (*journal, []*record, error) {
	j := &journal{path: filepath.Join(dir, journalFile), slack: journalSlack, most: MaxJournal}
	records, err := readJournal(j.path)
	if err != nil {
		return nil, nil, err
	}
	kept := slices.DeleteFunc(records, func(r *record) bool { return !r.kept(since) })
	if err := removeTorn(dir); err != nil {
		return nil, nil, err
	}
	return j, kept, j.replace(kept)
}

// removeTorn removes what replacements left that a crash has ended.
func removeTorn(dir string) error {
	torn, err := filepath.Glob(filepath.Join(dir, "."+journalFile+".*"))
	for _, path := range torn {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// full reports whether it is time to replace the file.
func (j *journal) full() bool { return j.size > 2*j.whole+j.slack }

// replace writes the file anew with the records that are kept. A crash leaves the file as it was,
// or the new one: both say the same of these records. Afterwards the file is on stable storage. The
// values of a record that has none in memory are those of its line.
func (j *journal) replace(kept []*record) error {
	if j.failed != nil {
		return j.failed
	}
	next, err := durable.Begin("", j.path, 0o600)
	if err != nil {
		return j.fail(err)
	}
	defer next.Discard() //nolint:errcheck // after a failure only
	out := bufio.NewWriter(next)
	places := make([]int64, len(kept))
	size := int64(0)
	for i, r := range kept {
		whole := *r
		if whole.Values == nil && whole.Undo != nil {
			if whole.Values, err = j.values(r); err != nil {
				return j.fail(err)
			}
		}
		line, err := lineOf(&whole)
		if err == nil {
			_, err = out.Write(line)
		}
		if err != nil {
			return j.fail(err)
		}
		places[i], size = size, size+int64(len(line))
	}
	if err = out.Flush(); err == nil && j.file != nil {
		err = j.file.Close() // Windows replaces no file that is open
	}
	if err == nil {
		err = next.Commit()
	}
	if err == nil {
		j.file, err = os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0o600)
	}
	if err != nil {
		return j.fail(err)
	}
	j.size, j.whole = size, size
	for i, r := range kept {
		r.at, r.Values = places[i], nil
	}
	return nil
}

// readJournal returns the records in the order of their first lines.
func readJournal(path string) ([]*record, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	var records []*record
	known := map[entry.Ref]*record{}
	in := bufio.NewReader(f)
	for number := 1; ; number++ {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return records, nil // what a crash tore counts as never written
		}
		var r *record
		if err == nil {
			r, err = parseLine(line)
		}
		if err != nil {
			if _, more := in.Peek(1); errors.Is(more, io.EOF) && !errors.Is(err, bufio.ErrTooLong) {
				return records, nil
			}
			return nil, &JournalError{path, number}
		}
		if before := known[r.Exec]; before != nil {
			before.merge(r)
			continue
		}
		known[r.Exec] = r
		records = append(records, r)
	}
}

// readLine returns the next line with its end. The error is [io.EOF] for a line without one.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		piece, err := in.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case len(line) > lineMax:
			return nil, bufio.ErrTooLong
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		}
		return line, err
	}
}

// lineOf returns a record as a line: CRC-32 of the JSON in hexadecimal, a space, the JSON.
func lineOf(r *record) ([]byte, error) {
	content, err := json.Marshal(r, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("mcp: write the journal: %w", err)
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(content), content), nil
}

func parseLine(line []byte) (*record, error) {
	sum, content, found := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
	if !found || string(sum) != fmt.Sprintf("%08x", crc32.ChecksumIEEE(content)) {
		return nil, errors.New("mcp: the line does not match its checksum")
	}
	r := new(record)
	if err := json.Unmarshal(content, r, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	if r.Exec == "" {
		return nil, errors.New("mcp: the line names no execution")
	}
	return r, nil
}

// begin adds the first line about a call.
func (j *journal) begin(r *record) error {
	if r.Undo != nil && j.size >= j.most {
		return fmt.Errorf("it could not be undone: the journal of calls has %d bytes, most of them for compensations, the limit is %d (keep_days of "+
			"the tools file says how long a compensation is kept)", j.size, j.most)
	}
	at := j.size
	err := j.write(r)
	r.at = at
	return err
}

// write adds a line, which the file has also after the end of this process. [journal.sync] puts it
// on stable storage. After an error the journal takes nothing more, since the contents of the file
// are not known then. In memory the record has no values afterwards, only the place of the line.
func (j *journal) write(r *record) error {
	if j.failed != nil {
		return j.failed
	}
	line, err := lineOf(r)
	if err == nil {
		_, err = j.file.Write(line)
	}
	if err != nil {
		return j.fail(err)
	}
	if r.Values != nil {
		r.at, r.Values = j.size, nil
	}
	j.size += int64(len(line))
	return nil
}

func (j *journal) fail(err error) error {
	j.failed = fmt.Errorf("mcp: the journal of calls: %w", err)
	return j.failed
}

// values reads what the templates of a compensation name.
func (j *journal) values(r *record) (values, error) {
	f, err := os.Open(j.path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	line, err := readLine(bufio.NewReader(io.NewSectionReader(f, r.at, lineMax)))
	if err != nil {
		return nil, err
	}
	kept, err := parseLine(line)
	if err == nil && kept.Exec != r.Exec {
		err = fmt.Errorf("mcp: %s: the line at byte %d is about %s", j.path, r.at, kept.Exec)
	}
	if err != nil {
		return nil, err
	}
	return kept.Values, nil
}

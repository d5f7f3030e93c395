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

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
)

// journalFile is the name of the journal in the directory of the agent's state.
const journalFile = "calls.log"

// lineMax is the size of a line of the journal: the values, and an envelope or two.
const lineMax = MaxValues + 256<<10

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
	// Undo is the compensation, with its templates; Values are what its templates name.
	Undo   *Call  `json:"undo,omitzero"`
	Values values `json:"values,omitzero"`
	// Probe asks for the effect of the call; Asked has what its templates name, but the key.
	Probe  *ToolProbe       `json:"probe,omitzero"`
	Asked  values           `json:"asked,omitzero"`
	Outbox []jsontext.Value `json:"outbox,omitzero"` // signed envelopes that the log may not have

	at int64 // where the newest line with values begins in the journal
}

// merge takes up a later line about the same execution.
func (r *record) merge(later *record) {
	if later.Progress != "" {
		r.Progress = later.Progress
	}
	if later.Values != nil {
		r.Values, r.at = later.Values, later.at
	}
	r.Outbox = later.Outbox
}

// kept reports whether the record is still of use: the log lacks entries of the call, or the call
// may have to be undone.
func (r *record) kept() bool {
	return r.Progress == "" || len(r.Outbox) > 0 || r.Effect == entry.EffectCompensable && r.Progress != entry.Cancelled
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

// journal keeps calls in a file. Lines are added, and the file is replaced when it is opened.
type journal struct {
	path   string
	file   *os.File
	size   int64
	failed error // nothing is written after it
}

// openJournal reads the journal of a directory, drops what is of no more use, and opens the file
// for what comes. A last line that was torn by a crash counts as never written.
func openJournal(dir string) (*journal, []*record, error) {
	path := filepath.Join(dir, journalFile)
	records, err := readJournal(path)
	if err != nil {
		return nil, nil, err
	}
	var text []byte
	var kept []*record
	for _, r := range records {
		if !r.kept() {
			continue
		}
		kept = append(kept, r)
		r.at = int64(len(text))
		if text, err = appendLine(text, r); err != nil {
			return nil, nil, err
		}
		r.Values = nil
	}
	if err := durable.Write(path, text, 0o600); err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	return &journal{path: path, file: f, size: int64(len(text))}, kept, nil
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

// appendLine adds a record as a line: CRC-32 of the JSON in hexadecimal, a space, the JSON.
func appendLine(text []byte, r *record) ([]byte, error) {
	content, err := json.Marshal(r, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("mcp: write the journal: %w", err)
	}
	return fmt.Appendf(text, "%08x %s\n", crc32.ChecksumIEEE(content), content), nil
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

// write adds a line, which the file has also after the end of this process. [journal.sync] puts it
// on stable storage. After an error the journal takes nothing more, since the contents of the file
// are not known then. In memory the record has no values afterwards, only the place of the line.
func (j *journal) write(r *record) error {
	if j.failed != nil {
		return j.failed
	}
	line, err := appendLine(nil, r)
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

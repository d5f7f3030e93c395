package notify

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/redact"
	"recoveryledger/merkle"
)

// cursor says what an endpoint was told.
type cursor struct {
	Index uint64           `json:"index"` // of the next entry
	Files map[string]int64 `json:"files"` // by the name of a file: the next byte
	sent  bool             // whether a message was sent since the cursor was kept
	fresh bool             // whether it is not kept, since where the log ends is not known
}

// The files beside the log that make events, by their names in a cursor.
const (
	evidenceFile = "evidence"
	forkFile     = "forks"
)

// load reads the cursor of an endpoint. A new endpoint begins at the end of the log and at the
// beginning of the files. A cursor beyond the end is that of a log that was replaced by an older
// copy.
func (n *Notifier) load(name string, size uint64) (c cursor, err error) {
	text, err := os.ReadFile(n.cursorPath(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cursor{Index: size, Files: map[string]int64{}, fresh: n.cfg.Closed}, nil
	case err != nil:
		return c, err
	}
	if err := json.Unmarshal(text, &c, json.RejectUnknownMembers(true)); err != nil {
		return c, fmt.Errorf("%s is no cursor: %w: remove the file, and the endpoint begins at the end of the log", n.cursorPath(name), err)
	}
	if c.Files == nil {
		c.Files = map[string]int64{}
	}
	if c.Index > size && !n.cfg.Closed {
		n.cfg.Logger.Warn("the log is shorter than what an endpoint was told of; it goes on at the end of the log", "endpoint", name, "index", c.Index, "size", size)
		c.Index = size
	}
	return c, nil
}

// keepEvery is the shortest time between two writes of a cursor while messages are sent. A crash
// sends those of that time again.
const keepEvery = 100 * time.Millisecond

// keepAtTimes keeps the cursor in the middle of a pass. The end of the pass tells its error.
func (f *follower) keepAtTimes() {
	if time.Since(f.triedAt) >= keepEvery {
		_ = f.keep()
	}
}

// idleLag is the number of entries without an event behind which a cursor may stay.
const idleLag = 1 << 12

// keep writes the cursor, if it says more than the disk. A crash here sends messages again.
func (f *follower) keep() error {
	if f.place.fresh {
		return nil
	}
	told := !f.keptAt.IsZero() && maps.Equal(f.place.Files, f.kept.Files)
	if told && (f.place.Index == f.kept.Index || !f.place.sent && f.place.Index-f.kept.Index < idleLag) {
		return nil
	}
	f.triedAt = time.Now()
	text, err := json.Marshal(f.place, json.Deterministic(true))
	if err != nil {
		return err
	}
	if err := durable.Write(f.cursorPath(f.endpoint.Name), append(text, '\n'), 0o600); err != nil {
		return err
	}
	f.place.sent = false
	f.kept = cursor{Index: f.place.Index, Files: maps.Clone(f.place.Files)}
	f.keptAt = time.Now()
	return nil
}

// files tells the endpoint of what stands in the files.
func (f *follower) files(ctx context.Context) error {
	if err := f.file(ctx, evidenceFile, f.cfg.Evidence, equivocation); err != nil {
		return err
	}
	return f.file(ctx, forkFile, f.forks(), fork)
}

// lineMax is the number of bytes of a line that is read: more than an envelope, and more than a
// fork.
const lineMax = 4 << 20

// file tells the endpoint of each whole line of a file from its cursor on. A line that is no event
// is passed over.
func (f *follower) file(ctx context.Context, name, path string, read func(line []byte) (Event, bool)) error {
	if path == "" {
		return nil
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if f.place.Files[name] > info.Size() { // an older copy
		f.place.Files[name] = info.Size()
	}
	if _, err := file.Seek(f.place.Files[name], io.SeekStart); err != nil {
		return err
	}
	lines := bufio.NewReader(io.LimitReader(file, info.Size()-f.place.Files[name]))
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // the rest is being written
			return nil
		}
		if err != nil {
			return err
		}
		if len(line) <= lineMax {
			if v, ok := read(line); ok {
				if err := f.tell(ctx, &v); err != nil {
					return err
				}
			}
		}
		f.place.Files[name] += int64(len(line))
		f.keepAtTimes()
	}
}

// hashOf tells lines of a file from each other.
func hashOf(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

// equivocation reads a line of the file of evidence (package server).
func equivocation(line []byte) (v Event, ok bool) {
	var record struct {
		Detail   string         `json:"detail"`
		Index    uint64         `json:"index"`
		Envelope jsontext.Value `json:"envelope"`
	}
	if json.Unmarshal(line, &record) != nil {
		return v, false
	}
	e, err := entry.Decode(record.Envelope)
	if err != nil {
		return v, false
	}
	return Event{Type: Equivocation, Subject: "log", Workflow: e.Header.Wid, of: hashOf(line), Index: record.Index,
		Says:    fmt.Sprintf("%s signed another object under the id of entry %d: %s", e.Header.Iss, record.Index, record.Detail),
		Command: "arl log evidence", Look: "arl entry get " + decimal(record.Index)}, true
}

// Contradiction is why a log contradicts itself: a line of the file of forks.
type Contradiction struct {
	Kind     string `json:"kind"`              // of the evidence, a word
	Detail   string `json:"detail"`            // in the ledger's words
	Evidence string `json:"evidence,omitzero"` // path of the file of the evidence; empty: there is none
	At       int64  `json:"at"`                // Unix milliseconds
}

func fork(line []byte) (v Event, ok bool) {
	var c Contradiction
	if json.Unmarshal(line, &c) != nil {
		return v, false
	}
	// The ledger has ended, so that no command answers that asks it.
	v = Event{Type: Fork, Subject: "log", At: c.At, of: hashOf(line), Command: "arl verify FILE",
		Says: fmt.Sprintf("The log contradicts itself (%s): %s", c.Kind, redact.Sparing(c.Detail, isRoot))}
	if c.Evidence != "" {
		v.Says += ". The evidence is in " + c.Evidence
		v.Command = "arl verify " + quoted(c.Evidence)
	}
	return v, true
}

// isRoot reports whether a word of an error is a root, which looks like a key.
func isRoot(word string) bool {
	var root merkle.Hash
	return root.UnmarshalText([]byte(word)) == nil
}

// forks returns the path of the file of forks.
func (n *Notifier) forks() string { return filepath.Join(n.cfg.Dir, "forks.ndjson") }

// Forked keeps that the log contradicts itself, and tells the endpoints for as long as ctx allows.
// The next Run tells those that were not reached. The error is that of the disk.
func (n *Notifier) Forked(ctx context.Context, c *Contradiction) error {
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(n.forks(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	// A crash may have left a line without its end.
	_, err = fmt.Fprintf(file, "\n%s\n", line)
	err = errors.Join(err, file.Sync(), file.Close(), durable.SyncDir(n.cfg.Dir))
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	errs := make([]error, len(n.endpoints))
	for i, f := range n.endpoints {
		all.Go(func() {
			if err := f.file(ctx, forkFile, n.forks(), fork); err != nil && ctx.Err() == nil {
				errs[i] = err
			}
			errs[i] = errors.Join(errs[i], f.keep())
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"recoveryledger/api"
	"recoveryledger/api/metrics"
	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// Evidence is a file of objects that convict their issuers. Each object has a valid signature
// and the id of an entry of the log, but other bytes (REG-2). The file is outside the log and
// its state. Each line is JSON, an [equivocation]. Kept objects are on stable storage. GET
// /v1/evidence serves each object with the receipts that make it a [verify.Evidence].
type Evidence struct {
	mu    sync.Mutex
	file  *os.File
	size  int64   // of whole lines
	lines []int64 // where each valid line begins
	max   int64

	kept map[[sha256.Size]byte]bool // by hash of the PAE, which holds iss and jti
	from map[entry.Principal]int    // objects kept, by issuer
	left map[[sha256.Size]byte]bool // objects that the file did not take, as kept; at most maxLeft
}

// equivocation is a line of the file.
type equivocation struct {
	Detail   string       `json:"detail"`
	Index    uint64       `json:"index"` // of the entry that has the id
	Envelope api.Envelope `json:"envelope"`
}

// OpenEvidence opens the file, or makes it. It cuts off a line that a crash left unfinished.
// The file keeps an object once, at most 16 objects of one issuer, and at most 64 MiB. So no
// issuer can fill the disk, or fill the file at the cost of other issuers.
func OpenEvidence(path string) (*Evidence, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("server: open evidence: %w", err)
	}
	e := newEvidence(file)
	err = e.load(file)
	if err == nil {
		err = file.Truncate(e.size)
	}
	if err := errors.Join(err, durable.SyncDir(filepath.Dir(path))); err != nil {
		return nil, errors.Join(fmt.Errorf("server: open evidence: %w", err), file.Close())
	}
	return e, nil
}

func newEvidence(file *os.File) *Evidence {
	return &Evidence{file: file, max: maxEvidence, kept: map[[sha256.Size]byte]bool{}, from: map[entry.Principal]int{}, left: map[[sha256.Size]byte]bool{}}
}

// Close closes the file.
func (e *Evidence) Close() error { return e.file.Close() }

// load reads the file up to the end of the last whole line. It ignores a line that this
// package did not write.
func (e *Evidence) load(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, object, err := readEquivocation(line); err == nil {
			e.note(object, e.size)
		}
		e.size += int64(len(line))
	}
}

func readEquivocation(line []byte) (*equivocation, *entry.Entry, error) {
	var record struct {
		equivocation
		Envelope jsontext.Value `json:"envelope"`
	}
	if err := json.Unmarshal(line, &record); err != nil {
		return nil, nil, err
	}
	object, err := entry.Decode(record.Envelope)
	return &record.equivocation, object, err
}

// note takes up an object that is in the file.
func (e *Evidence) note(object *entry.Entry, at int64) {
	e.kept[sha256.Sum256(object.PAE())] = true
	e.from[object.Header.Iss]++
	e.lines = append(e.lines, at)
}

// read returns a valid line and its object; io.EOF after the last line.
func (e *Evidence) read(number uint64) (*equivocation, *entry.Entry, error) {
	e.mu.Lock()
	if number >= uint64(len(e.lines)) {
		e.mu.Unlock()
		return nil, nil, io.EOF
	}
	at, end := e.lines[number], e.size
	e.mu.Unlock()
	line, err := bufio.NewReader(io.NewSectionReader(e.file, at, end-at)).ReadBytes('\n')
	if err != nil {
		return nil, nil, err
	}
	return readEquivocation(line)
}

// keep appends an object whose id an entry of the log has. known says that the object came before;
// kept says that the file has the object now, and is false if the file has no room.
func (e *Evidence) keep(object *entry.Entry, refused *entry.Refusal) (known, kept bool, err error) {
	var line bytes.Buffer
	if err := json.MarshalWrite(&line, equivocation{refused.Detail, refused.Against, api.NewEnvelope(object)}); err != nil {
		return false, false, err
	}
	line.WriteByte('\n')
	e.mu.Lock()
	defer e.mu.Unlock()
	hash := sha256.Sum256(object.PAE())
	if e.kept[hash] {
		return true, true, nil
	}
	known = e.left[hash]
	if len(e.left) == maxLeft {
		clear(e.left)
	}
	e.left[hash] = true
	if e.from[object.Header.Iss] >= maxIssuerEvidence || e.size+int64(line.Len()) > e.max {
		return known, false, nil
	}
	_, err = e.file.WriteAt(line.Bytes(), e.size)
	if err == nil {
		err = e.file.Sync()
	}
	if err != nil { // half a line would spoil the next one
		return known, false, errors.Join(err, e.file.Truncate(e.size))
	}
	delete(e.left, hash)
	e.note(object, e.size)
	e.size += int64(line.Len())
	return known, true, nil
}

// keepEvidence keeps an entry that was refused as id-conflict, if a key of its issuer signed
// it. Such an entry is equivocation, even if the key no longer counts. A second idempotency key is
// counted alone: the entry has an id of its own.
func (s *Server) keepEvidence(c echo.Context, e *entry.Entry, refused *entry.Refusal) {
	if refused.Problem == entry.StateConflict && refused.Against != 0 {
		s.metrics.Violated(metrics.ExecutedTwice)
	}
	if refused.Problem != entry.IDConflict || !s.coord.View().Chain.SignedByIssuer(e) {
		return // any client can claim an id
	}
	known, kept := false, false
	var err error
	if s.cfg.Evidence != nil {
		known, kept, err = s.cfg.Evidence.keep(e, refused)
	}
	if !known { // also if the file has no room for it
		s.metrics.Violated(metrics.Equivocated)
	}
	write, level := s.sampled, slog.LevelWarn
	switch {
	case err != nil:
		level = slog.LevelError
	case kept && !known:
		write = s.record // the limits of the file bound these records
	}
	write(c, sample{message: "equivocation", name: string(refused.Problem), level: level}, func() []slog.Attr {
		return []slog.Attr{slog.String("iss", string(e.Header.Iss)), slog.String("jti", e.Header.JTI),
			slog.String("detail", clip(refused.Detail)), slog.Bool("kept", kept), slog.Any("error", err)}
	})
}

// getEvidence is GET /v1/evidence.
func (s *Server) getEvidence(ctx context.Context, r *request) (*api.EvidencePage, error) {
	rest := *queryOf[api.EvidenceQuery](r)
	page := &api.EvidencePage{Evidence: []verify.Evidence{}}
	for s.cfg.Evidence != nil {
		line, object, err := s.cfg.Evidence.read(rest.From)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(page.Evidence) == rest.Limit {
			page.Next = api.URL(api.PathEvidence, &rest)
			break
		}
		found, err := s.convict(line, object)
		if err != nil {
			return nil, err
		}
		if found != nil {
			page.Evidence = append(page.Evidence, *found)
		}
		rest.From++
	}
	return page, nil
}

// convict makes evidence from a line and the log. It returns nil if the log has no such entry,
// because the power failed before the entry was durable.
func (s *Server) convict(line *equivocation, object *entry.Entry) (*verify.Evidence, error) {
	if line.Index >= s.log.Head().Size {
		return nil, nil
	}
	receipt, err := s.log.Receipt(line.Index)
	if err != nil {
		return nil, err
	}
	first, _, err := entry.DecodeLeaf(receipt.Leaf)
	if err != nil || first.Header.Iss != object.Header.Iss || first.Header.JTI != object.Header.JTI {
		return nil, err
	}
	receipts, err := s.withLinks(receipt)
	if err != nil {
		return nil, err
	}
	return &verify.Evidence{Kind: verify.EvidenceEquivocation, Detail: line.Detail, Receipts: receipts, Envelope: object.AppendEnvelope(nil)}, nil
}

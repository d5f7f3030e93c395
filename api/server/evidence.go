package server

import (
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// Evidence is a file of objects that convict their issuers: validly signed
// under an id that the log has with other bytes (REG-2). It stands outside the
// log and its state. Each line is JSON: {"detail": where the other object
// stands, "envelope": the object}.
type Evidence struct {
	mu   sync.Mutex
	file *os.File
	size int64
	max  int64
}

// OpenEvidence opens the file, or makes it. Beyond 64 MiB nothing is added, so
// that nobody can fill the disk with it.
func OpenEvidence(path string) (*Evidence, error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("server: open evidence: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("server: open evidence: %w", err)
	}
	return &Evidence{file: file, size: info.Size(), max: maxEvidence}, nil
}

// Close closes the file.
func (e *Evidence) Close() error { return e.file.Close() }

// keep appends an object and reports false if the file is full.
func (e *Evidence) keep(object *entry.Entry, detail string) (bool, error) {
	line, err := json.Marshal(struct {
		Detail   string       `json:"detail"`
		Envelope api.Envelope `json:"envelope"`
	}{detail, api.NewEnvelope(object)})
	if err != nil {
		return false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.size+int64(len(line))+1 > e.max {
		return false, nil
	}
	n, err := e.file.Write(append(line, '\n'))
	e.size += int64(n)
	return err == nil, err
}

// keepEvidence keeps an entry that was refused as id-conflict, if its signature
// makes it equivocation.
func (s *Server) keepEvidence(e *entry.Entry, refused *entry.Refusal) {
	if refused.Problem != entry.IDConflict {
		return
	}
	signer, err := s.coord.View().Chain.Signer(e)
	if err != nil || verify.Signature(signer.Key, e.PAE(), e.Sig) != nil {
		return // anybody can claim an id
	}
	kept := false
	if s.cfg.Evidence != nil {
		kept, err = s.cfg.Evidence.keep(e, refused.Detail)
	}
	s.cfg.Logger.Warn("equivocation", slog.String("iss", string(e.Header.Iss)), slog.String("jti", e.Header.JTI),
		slog.String("detail", refused.Detail), slog.Bool("kept", kept), slog.Any("error", err))
}

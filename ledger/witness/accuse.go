package witness

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/durable"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// pathEvidence is the path of the evidence that a witness keeps.
const pathEvidence = "/v1/evidence"

// Evidence is what GET /v1/evidence of a witness answers, in the form of the ledger's own
// answer there.
type Evidence struct {
	Evidence []verify.Evidence `json:"evidence"`
	Next     string            `json:"next,omitempty"` // always empty: there is one page
}

// forkOf returns a fork, without its notes, if the head that was cosigned last, the head of
// a request and the proof of that request convict the log; else nil. A proof that fails may
// be anybody's fault. A proof that leads from another root to the head is the log's fault:
// the newer tree itself says then that it began otherwise.
func forkOf(before, head merkle.Head, proof []merkle.Hash) *verify.ForkError {
	fork := new(verify.ForkError)
	if before.Size == head.Size {
		if before.Root == head.Root {
			return nil
		}
		fork.Detail = fmt.Sprintf("two signed roots of size %d: %s and %s", head.Size, before.Root, head.Root)
		return fork
	}
	began, ok := merkle.BeganWith(before.Size, head, proof)
	if !ok || began == before.Root {
		return nil
	}
	fork.Root, fork.Path = &began, proof
	fork.Detail = fmt.Sprintf("the tree of size %d began with root %s at size %d, where the ledger signed %s", head.Size, began, before.Size, before.Root)
	return fork
}

// Accuse keeps evidence against a log, and has GET /v1/evidence serve it. The first
// evidence of a kind is enough: a witness keeps no other about the same log. The error is
// that of the disk.
func (w *Witness) Accuse(origin string, e *verify.Evidence) error {
	path := w.evidencePath(origin, e.Kind)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	content, err := json.Marshal(e, json.Deterministic(true))
	if err == nil {
		err = durable.Write(path, append(content, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("witness: keep evidence: %w", err)
	}
	select {
	case w.accused <- e:
	default: // nobody listens, and the file is there
	}
	return nil
}

// Accused sends each piece of evidence that the witness keeps, once, those of earlier
// processes first.
func (w *Witness) Accused() <-chan *verify.Evidence { return w.accused }

// evidenceKinds are the kinds of evidence against a log.
var evidenceKinds = []verify.EvidenceKind{verify.EvidenceFork, verify.EvidenceEntry, verify.EvidenceIndex}

func (w *Witness) evidencePath(origin string, kind verify.EvidenceKind) string {
	sum := sha256.Sum256([]byte(origin))
	return filepath.Join(filepath.Dir(w.path), fmt.Sprintf("evidence-%s-%s.json", kind, hex.EncodeToString(sum[:8])))
}

// Evidence returns the evidence that the witness keeps against a log, or against all that it
// knows if the origin is empty.
func (w *Witness) Evidence(origin string) (list []verify.Evidence, err error) {
	for _, of := range w.Logs() {
		if origin != "" && origin != of {
			continue
		}
		for _, kind := range evidenceKinds {
			var e verify.Evidence
			content, err := os.ReadFile(w.evidencePath(of, kind))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				err = json.Unmarshal(content, &e, json.RejectUnknownMembers(true))
			}
			if err != nil {
				return nil, fmt.Errorf("witness: read evidence: %w", err)
			}
			list = append(list, e)
		}
	}
	return slices.Clip(list), nil
}

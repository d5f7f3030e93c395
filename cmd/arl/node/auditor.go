package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/coord/audit"
	"recoveryledger/ledger/witness"
	"recoveryledger/verify"
)

// AuditorPath is the path of the auditor, below the URL of the witness.
const AuditorPath = "/audit"

// OpenWitness opens the state directory of a witness.
func OpenWitness(c *witness.Config) (*witness.Witness, error) {
	w, err := witness.Open(c)
	switch {
	case errors.Is(err, witness.ErrLog):
		return nil, exit.Usagef("--log: %w", err)
	case errors.Is(err, witness.ErrInUse):
		return nil, exit.With(exit.Conflict, err)
	case errors.Is(err, witness.ErrState):
		return nil, exit.Remedied("begin a new witness in an empty directory, with another --name, and write its key into the policies of the "+
			"ledgers: a witness that forgot its cosignatures could cosign a fork", exit.With(exit.Config, err))
	case errors.Is(err, fs.ErrNotExist):
		return nil, exit.Remedied("pass --name NAME to make a new witness", exit.With(exit.Config, fmt.Errorf("no witness in %s", c.Dir)))
	case err != nil:
		return nil, exit.KeyFile(err)
	}
	return w, nil
}

// Auditing says which log an auditor reads.
type Auditing struct {
	Source audit.Source
	Root   verify.Root
	Logger *slog.Logger
	Keep   func(kind string, evidence any) (path string, err error) // keeps evidence
}

// OpenAuditor opens the auditor of a witness. The auditor is a cosigner with a key of its own. It
// cosigns a head only if the audit of all entries under the head found no error. The auditor's
// state lies in the directory of the witness. c is the configuration of the witness.
func OpenAuditor(w *witness.Witness, c *witness.Config, from Auditing) (*witness.Witness, error) {
	own := *c
	own.Dir, own.Name, own.Logs = filepath.Join(c.Dir, "audit"), w.Name()+"/audit", nil
	for _, l := range c.Logs {
		if l.Origin == from.Root.Origin {
			own.Logs = append(own.Logs, l)
		}
	}
	if own.Logs == nil {
		return nil, exit.Usagef("--audit: no --log names a key of the ledger %s", from.Root.Origin)
	}
	gate := &audit.Gate{Source: from.Source, Root: from.Root, Place: audit.Place{Path: filepath.Join(own.Dir, "fold"), Root: from.Root},
		Found: func(err error) {
			found := audit.Evidence(err)
			path, failed := from.Keep("audit", found)
			failed = errors.Join(failed, w.Accuse(from.Root.Origin, found))
			from.Logger.Error("THE AUDITOR COSIGNS NOTHING MORE: the log is wrong", "error", err.Error(), "evidence", path, "kept", failed == nil)
		},
		Failed: func(err error) { from.Logger.Warn("audit", "error", err.Error()) }}
	own.Gate = func(signed string) error { return gate.Pass(context.Background(), signed) }
	return OpenWitness(&own)
}

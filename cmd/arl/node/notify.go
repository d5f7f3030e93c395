package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"recoveryledger/api/metrics"
	"recoveryledger/api/notify"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger/backup"
)

// Notifying tells the endpoints of a notification file what happens in a ledger.
type Notifying struct {
	// Keep writes the evidence of a contradiction to a file, and returns its path. Required by
	// [Notifying.Join].
	Keep func(kind string, evidence any) (path string, err error)

	path     string
	file     *notify.File
	notifier *notify.Notifier // nil: the log was not opened
}

// Register adds the flag.
func (y *Notifying) Register(flags *pflag.FlagSet) {
	flags.StringVar(&y.path, "notify", "", "file of endpoints to notify of what people have to know (docs/notifications.md)")
}

// Check reads the notification file with read, and looks for what it names, so that a mistake
// leaves nothing behind.
func (y *Notifying) Check(read func(name string, limit int64) ([]byte, error)) error {
	if y.path == "" {
		return nil
	}
	text, err := read(y.path, notify.MaxFile)
	if err != nil {
		return exit.With(exit.Config, exit.Remedied("pass --notify with a file of endpoints, as docs/notifications.md shows", err))
	}
	if y.file, err = notify.Parse(y.path, text); err == nil {
		err = y.file.CheckFiles(y.path, text)
	}
	return exit.With(exit.Config, err)
}

// Begin reads the cursors of the endpoints of an open ledger, and shows in m how late they are.
func (y *Notifying) Begin(n *Node, m *metrics.Metrics) (err error) {
	if y.file == nil {
		m.Notifications(func() map[string]time.Duration { return map[string]time.Duration{"": 0} })
		return nil
	}
	c := y.config(n)
	c.Log, c.Replica, c.Logger, c.Failed = n.Log, n.Replica, n.Logger, m.Damaged
	if y.notifier, err = notify.New(c, n.Log.Size()); err == nil {
		m.Notifications(y.notifier.Late)
	}
	return exit.With(exit.Config, err)
}

func (y *Notifying) config(n *Node) *notify.Config {
	return &notify.Config{File: y.file, Dir: filepath.Join(n.Dir, "notify"), Origin: n.Origin, Evidence: n.EvidenceFile()}
}

// EvidenceFile returns the path of the file of evidence about other ledgers' heads.
func (n *Node) EvidenceFile() string { return filepath.Join(n.Dir, backup.EvidenceName) }

// Run tells the endpoints until ctx ends. A cursor that is not kept at the end is logged: it ends
// no ledger.
func (y *Notifying) Run(ctx context.Context, logger *slog.Logger) {
	if y.notifier == nil {
		return
	}
	if err := y.notifier.Run(ctx); err != nil {
		logger.Warn("some notifications come again at the next start", "error", err.Error())
	}
}

// forkTime is the time in which endpoints are told why the ledger ends. Those that were not reached
// are told at the next start.
const forkTime = 10 * time.Second

// Join tells the endpoints of the error with which a ledger ended, if the log contradicts itself.
// It returns that error, joined with its own.
func (y *Notifying) Join(ctx context.Context, dir, anchor string, logger *slog.Logger, err error) error {
	found, ok := exit.Contradicted(err)
	if !ok || y.file == nil {
		return err
	}
	if y.notifier == nil {
		n, failed := Look(dir, anchor)
		if failed != nil {
			return errors.Join(err, failed)
		}
		c := y.config(n)
		c.Logger, c.Closed = logger, true
		if y.notifier, failed = notify.New(c, 0); failed != nil {
			return errors.Join(err, failed)
		}
	}
	c := notify.Contradiction{Kind: found.Kind, Detail: found.Error(), At: time.Now().UnixMilli()}
	path, failed := y.Keep(found.Kind, found.Evidence)
	if failed == nil {
		c.Evidence, failed = filepath.Abs(path)
	}
	if failed != nil { // the endpoints are told all the same
		logger.Error("the evidence could not be kept", "error", failed.Error())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forkTime)
	defer cancel()
	if failed := y.notifier.Forked(ctx, &c); failed != nil {
		return errors.Join(err, fmt.Errorf("tell the endpoints of --notify: %w", failed))
	}
	return err
}

package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"recoveryledger/api/server"
	"recoveryledger/ledger"
)

// life tells the log when a process that serves begins, is ready and ends, and
// which ledger it serves: what whoever reads the log afterwards needs to know.
type life struct {
	logger *slog.Logger
	remedy string // of a damaged log
	began  time.Time
	opened atomic.Pointer[ledger.Log]
}

// opening is told before the data directory is opened, which may take long.
func (l *life) opening(o *serveOptions, e *entrance) {
	build := thisBuild()
	l.logger.Info("opening", "version", build.Version, "revision", build.Revision, "go", build.Go, "pid", os.Getpid(),
		"data", o.data, "address", e.listener.Addr().String())
}

// start tells which ledger was opened, and where it stands.
func (l *life) start(n *node, e *entrance) {
	l.opened.Store(n.log)
	_, policy := n.replica.View().Chain.Policy()
	build, head := thisBuild(), n.log.Head()
	attrs := []any{"version", build.Version, "revision", build.Revision, "origin", n.origin, "data", n.dir, "anchor", n.anchor,
		"address", e.listener.Addr().String(), "size", head.Size, "root", base64.StdEncoding.EncodeToString(head.Root[:]),
		"policy", policy.Index, "keys", strings.Join(n.fingerprints(), " ")}
	if n.signer != nil {
		attrs = append(attrs, "coordinator", n.signer.Public().KeyID())
	}
	l.logger.Info("start", attrs...)
}

// fingerprints are the names and hashes of the ledger's keys, as signature lines
// of its heads begin.
func (n *node) fingerprints() (all []string) {
	for _, k := range n.keys {
		for _, key := range k.VerifierKeys {
			if parts := strings.SplitN(key, "+", 3); len(parts) == 3 { // the key itself may have more of them
				all = append(all, parts[0]+"+"+parts[1])
			}
		}
	}
	return all
}

// ready tells when entries are taken, unless ctx ends before.
func (l *life) ready(ctx context.Context, n *node, e *entrance) {
	if n.log.Prepared(ctx) != nil {
		return // the order says why
	}
	l.logger.Info("ready", "url", e.url, "size", n.log.Head().Size, "took", time.Since(l.began).Round(time.Millisecond).String())
}

// stop tells why the process ends, and where it leaves the log.
func (l *life) stop(n *node, why, err error) {
	head := n.log.Head()
	attrs := []any{"reason", fmt.Sprint(why), "origin", n.origin, "size", head.Size, "root", base64.StdEncoding.EncodeToString(head.Root[:]),
		"served", time.Since(l.began).Round(time.Millisecond).String()}
	if err != nil {
		l.logger.Error("stop", append(attrs, "error", err.Error())...)
		return
	}
	l.logger.Info("stop", attrs...)
}

// fatal ends the process at once: a write that failed must leave no trace in
// memory, and the next start reads what is on disk.
func (l *life) fatal(err error) {
	attrs := []any{"error", err.Error()}
	if log := l.opened.Load(); log != nil {
		attrs = append(attrs, "size", log.Head().Size)
	}
	if errors.Is(err, ledger.ErrCorrupt) {
		attrs = append(attrs, "remedy", l.remedy)
	}
	l.logger.Error("fatal: the ledger stops, nothing more is answered", attrs...)
	os.Exit(exitCode(brokenLog(err)))
}

// hangup handles SIGHUP until release is called. With TLS the certificates are read
// again, and connections stay; without it there is nothing to read again, and the
// process ends in order, as its terminal has.
func (l *life) hangup(ctx context.Context, t *server.TLS) (_ context.Context, release func()) {
	if t == nil {
		return signal.NotifyContext(ctx, syscall.SIGHUP)
	}
	heard, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(heard, syscall.SIGHUP)
	go func() {
		for {
			select {
			case <-heard:
				l.reload(t)
			case <-done:
				return
			}
		}
	}()
	return ctx, func() { signal.Stop(heard); close(done) }
}

// reload reads the certificates again. Files that cannot be used change nothing.
func (l *life) reload(t *server.TLS) {
	if err := t.Reload(time.Now()); err != nil {
		l.logger.Error("reload: the certificates before stay in use", "error", err.Error())
		return
	}
	leaf := t.Leaf()
	l.logger.Info("reload", "certificate", leaf.Subject.String(), "serial", leaf.SerialNumber.Text(16), "not_after", leaf.NotAfter.UTC().Format(time.RFC3339))
}

// errEnded is why serving ends without a signal or an error.
var errEnded = errors.New("the order of entries ended")

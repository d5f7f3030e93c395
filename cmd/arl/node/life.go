package node

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"recoveryledger/api/certificate"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/service"
	"recoveryledger/ledger"
	"recoveryledger/ledger/agreement"
)

// Life writes lines to the process log when a server begins, is ready and ends, and says which
// ledger it serves. A person who reads the process log later needs these lines.
type Life struct {
	Logger            *slog.Logger
	Version, Revision string // of the program
	Data, Anchor      string // as in Options
	Address           string // address of the listener
	Began             time.Time
	// Halt is called before the process ends, because its node of a cluster is not like the others
	// ([agreement.ErrDiverged]), or the order has met damage of its log ([ledger.ErrCorrupt]). It
	// may take minutes. Nil: nothing is called.
	Halt func(err error)
	// Bar shows the progress of the opening to a person at a terminal. Nil: nobody sits there, and
	// the process log has a line every 10 seconds.
	Bar func(name string) (tell func(done, total uint64), end func())

	opened atomic.Pointer[ledger.Log]
	ending sync.Mutex // held by the call of Fatal that ends the process
}

// Opening writes a line before the data directory is opened, because the opening may take long.
func (l *Life) Opening() {
	l.Logger.Info("opening", "version", l.Version, "revision", l.Revision, "go", runtime.Version(), "pid", os.Getpid(),
		"data", l.Data, "address", l.Address)
	_ = service.Status("opens " + l.Data) // Ready reports a service manager that cannot be told
}

// progressEvery is the time between two lines about a long opening.
const progressEvery = 10 * time.Second

// Progress is [Options.Progress] of a server: it shows a bar at a terminal, and otherwise writes a
// line every 10 seconds. Every 10 seconds it tells the service manager the same.
func (l *Life) Progress(name string) (tell func(done, total uint64), end func()) {
	show := func(done, total uint64) {}
	if end = func() {}; l.Bar != nil {
		show, end = l.Bar(name)
	}
	last := time.Now()
	return func(done, total uint64) {
		show(done, total)
		if time.Since(last) < progressEvery {
			return
		}
		last = time.Now()
		if l.Bar == nil {
			l.Logger.Info("opening: the state is built again from the entries", "done", done, "total", total)
		}
		_ = service.Status(fmt.Sprintf("%s: %d of %d entries", name, done, total)) // Ready reports the error
	}, end
}

// Start writes which ledger was opened, and its tree head.
func (l *Life) Start(n *Node) {
	l.opened.Store(n.Log)
	_, policy := n.Replica.View().Chain.Policy()
	head := n.Log.Head()
	attrs := []any{"version", l.Version, "revision", l.Revision, "origin", n.Origin, "data", n.Dir, "anchor", n.Anchor,
		"address", l.Address, "size", head.Size, "root", base64.StdEncoding.EncodeToString(head.Root[:]),
		"policy", policy.Index, "keys", strings.Join(n.fingerprints(), " ")}
	if n.signer != nil {
		attrs = append(attrs, "coordinator", n.signer.Public().KeyID())
	}
	l.Logger.Info("start", attrs...)
}

// fingerprints returns the names and hashes of the ledger's keys. The signature lines of its heads
// begin in the same form.
func (n *Node) fingerprints() (all []string) {
	for _, k := range n.Keys {
		for _, key := range k.VerifierKeys {
			if parts := strings.SplitN(key, "+", 3); len(parts) == 3 { // the key itself may have plus signs
				all = append(all, parts[0]+"+"+parts[1])
			}
		}
	}
	return all
}

// Ready writes a line when the ledger takes entries, unless ctx ends before. The service manager is
// told the same, and until ctx ends that the ledger is alive.
func (l *Life) Ready(ctx context.Context, n *Node, url string) {
	if n.Log.Prepared(ctx) != nil {
		return // Log.Run reports the reason
	}
	if says := n.restored(); says != "" {
		l.Logger.Warn("this ledger was restored from a backup", "says", says)
	}
	l.Logger.Info("ready", "url", url, "size", n.Log.Head().Size, "took", time.Since(l.Began).Round(time.Millisecond).String())
	if err := service.Ready(ctx, "takes entries at "+url, n.alive); err != nil {
		l.Logger.Warn("the service manager is not told that the ledger is alive", "error", err.Error())
	}
}

// alive returns nil once the order has answered and the state can be read. A full disk and a wrong
// clock are no error: a restart would not mend them. The listener is not asked, so that clients who
// hold all its connections cannot have the service manager end the ledger.
func (n *Node) alive(ctx context.Context) error {
	n.Replica.View()
	return n.Log.Alive(ctx)
}

// Stop writes why the process ends, and the tree head at the end.
func (l *Life) Stop(n *Node, why, err error) {
	head := n.Log.Head()
	attrs := []any{"reason", fmt.Sprint(why), "origin", n.Origin, "size", head.Size, "root", base64.StdEncoding.EncodeToString(head.Root[:]),
		"served", time.Since(l.Began).Round(time.Millisecond).String()}
	if err != nil {
		l.Logger.Error("stop", append(attrs, "error", err.Error())...)
		return
	}
	l.Logger.Info("stop", attrs...)
}

// Fatal ends the process. A failed write must leave no trace in memory, and the next start reads
// the state on disk. The process ends at once, unless the order itself has met damage, or is not
// that of the other nodes: nothing is registered while the order waits here, so that Halt has the
// time to show the last metrics. The storage engine meets damage in goroutines beside the order.
func (l *Life) Fatal(err error) {
	l.ending.Lock()
	attrs := []any{"error", err.Error()}
	if log := l.opened.Load(); log != nil {
		attrs = append(attrs, "size", log.Head().Size)
	}
	if errors.Is(err, ledger.ErrCorrupt) {
		attrs = append(attrs, "remedy", damageRemedy(l.Data, cmp.Or(l.Anchor, l.Data+".anchor")))
	}
	l.Logger.Error("fatal: the ledger stops and answers no more requests", attrs...)
	_, beside := errors.AsType[*ledger.EngineError](err)
	if l.Halt != nil && !beside && (errors.Is(err, agreement.ErrDiverged) || errors.Is(err, ledger.ErrCorrupt)) {
		// The watchdog asks the goroutine that orders entries, which is the one that is here.
		_ = service.Stopping() // the process ends in any case
		l.Halt(err)
	}
	os.Exit(exit.Code(Broken(err)))
}

// Hangup handles SIGHUP until release is called. With TLS it reads the certificates again, and the
// connections stay. Without TLS there is nothing to read again: the process ends in order, because
// its terminal has ended. A service has no terminal, and goes on.
func (l *Life) Hangup(ctx context.Context, t *certificate.Files) (_ context.Context, release func()) {
	if t == nil && !service.Managed() {
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
func (l *Life) reload(t *certificate.Files) {
	if t == nil {
		l.Logger.Info("reload: without TLS there is nothing to read again")
		return
	}
	if err := t.Reload(time.Now()); err != nil {
		l.Logger.Error("reload: the previous certificates stay in use", "error", err.Error())
		return
	}
	leaf := t.Leaf()
	l.Logger.Info("reload", "certificate", leaf.Subject.String(), "serial", leaf.SerialNumber.Text(16), "not_after", leaf.NotAfter.UTC().Format(time.RFC3339))
}

// ListenURL returns the URL of the server for this machine. Its host is the host of the listen
// address, or loopback if the server listens on every address.
func ListenURL(listen string, bound net.Addr, encrypted bool) string {
	scheme := "http://"
	if encrypted {
		scheme = "https://"
	}
	host, _, _ := net.SplitHostPort(listen) // the server listens on it: it is valid
	_, port, _ := net.SplitHostPort(bound.String())
	switch ip := net.ParseIP(host); {
	case host == "" || ip.Equal(net.IPv4zero):
		host = "127.0.0.1"
	case ip.Equal(net.IPv6unspecified):
		host = "::1"
	}
	return scheme + net.JoinHostPort(host, port)
}

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
)

// KeyURIs name the keys of a ledger that are in a KMS. A key without a URI is in its file.
type KeyURIs struct{ Ledger, Coordinator string }

// Register adds the flags.
func (u *KeyURIs) Register(flags *pflag.FlagSet) {
	flags.StringVar(&u.Ledger, "key", "", "URI of the key in a KMS that signs the tree heads of a new ledger (docs/keys.md)")
	flags.StringVar(&u.Coordinator, "coordinator-key", "", "URI of the coordinator's key in a KMS")
}

// The names of a ledger's keys in its log and metrics.
const (
	keyLedger      = "ledger"
	keyCoordinator = "coordinator"
	keyEngine      = "engine"
)

// tryEvery is how often a key in a KMS is tried, so that people hear of a KMS that is away before
// its key is needed.
const tryEvery = 10 * time.Second

// checkURI refuses a URI that is not of one of the ledger's keys.
func (n *Node) checkURI(uri string) error {
	if uri == "" {
		return nil
	}
	for _, k := range n.Keys {
		if k.URI == uri {
			return nil
		}
	}
	return exit.With(exit.Config, exit.Remedied("start without --key, and make that key the next: arl key next --data "+n.Dir+" --key URI",
		fmt.Errorf("--key %.200q: the keys in %s are others", uri, n.KeysDir())))
}

// loadCoordinatorKey loads the coordinator's key. If uri is set, the key is in a KMS, and its file
// names it from now on.
func (n *Node) loadCoordinatorKey(uri string) (*keys.Signer, error) {
	path := n.CoordinatorKey()
	signer, err := keys.Load(path, n.passphrase)
	switch {
	case uri == "" || err != nil && !errors.Is(err, fs.ErrNotExist):
		return signer, err
	case err == nil && signer.URI() == uri:
		return signer, nil
	case err == nil:
		return nil, exit.With(exit.Config, exit.Remedied("move the file away, and start again; enrol the key in the KMS first (arl agent enrol --principal "+string(Coordinator)+")",
			fmt.Errorf("--coordinator-key %.200q: %s has another key", uri, path)))
	}
	if signer, err = keys.Load(uri, nil); err != nil {
		return nil, err
	}
	return signer, nil
}

// keepCoordinatorKey has the file of the coordinator's key name a key in a KMS, if no file is
// there.
func (n *Node) keepCoordinatorKey() error {
	if n.signer.URI() == "" {
		return nil
	}
	if err := keys.Refer(n.CoordinatorKey(), n.signer); err != nil && !errors.Is(err, fs.ErrExist) {
		return exit.With(exit.IO, err)
	}
	return nil
}

// sealing returns what signs entries with a key of the ledger. A key that is away is a refusal:
// whoever wants the signature goes on, and tries again.
func sealing(name string, signer *keys.Signer) func(*entry.Entry) error {
	return func(e *entry.Entry) error {
		err := signer.Sign(e)
		if _, away := errors.AsType[*keys.KMSError](err); away {
			return entry.Refuse(entry.NotReady, "", "the %s's key does not sign: %v", name, err)
		}
		return err
	}
}

// watched is a key in a KMS that is used and tried while the ledger runs.
type watched struct {
	name   string
	uri    string
	try    func() error
	logger *slog.Logger

	mu   sync.Mutex
	used time.Time // the last question
	away time.Time // since when; zero: it signs
}

// watch has a key in a KMS counted, and its failures logged.
func (n *Node) watch(name, uri string, try func() error, listen func(keys.Used)) {
	if uri == "" {
		return
	}
	w := &watched{name: name, uri: uri, try: try, logger: n.Logger}
	listen(func(took time.Duration, err error) {
		w.heard(time.Now(), err)
		n.metrics.KeyUsed(name, took, err)
	})
	n.watched = append(n.watched, w)
}

// heard logs the first failure after a signature, and the first signature after a failure.
func (w *watched) heard(now time.Time, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used = now
	switch {
	case err != nil && w.away.IsZero():
		w.away = now
		w.logger.Error("a key does not sign", "key", w.name, "uri", w.uri, "error", err.Error(), "remedy", exit.Remedy(err))
	case err == nil && !w.away.IsZero():
		w.logger.Warn("a key signs again", "key", w.name, "uri", w.uri, "away", now.Sub(w.away).Round(time.Millisecond).String())
		w.away = time.Time{}
	}
}

// tryKeys tries the keys in a KMS that nobody uses, until ctx ends.
func (n *Node) tryKeys(ctx context.Context) {
	if len(n.watched) == 0 {
		return
	}
	tick := time.NewTicker(tryEvery)
	defer tick.Stop()
	for {
		for _, w := range n.watched {
			w.mu.Lock()
			idle := time.Since(w.used) >= tryEvery
			w.mu.Unlock()
			if idle {
				_ = w.try() // whoever watches the key is told
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

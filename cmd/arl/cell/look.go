package cell

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger"
	"recoveryledger/ledger/cluster"
	"recoveryledger/ledger/cluster/site"
)

// aloneTime is how long a node may take to reach itself: it elects itself.
const aloneTime = 20 * time.Second

// load reads the site of a data directory.
func (a *asking) load() (*site.Site, error) {
	s, err := site.Load(a.data)
	if err != nil {
		return nil, loading(err)
	}
	return s, unended(s, a.data)
}

// loading returns the error of a site that was not read.
func loading(err error) error {
	if errors.Is(err, site.ErrNone) {
		return exit.With(exit.NotFound, err)
	}
	return exit.With(exit.Config, err)
}

// unended refuses a node that began its cluster again and was interrupted.
func unended(s *site.Site, data string) error {
	if !s.Reseeds {
		return nil
	}
	return exit.With(exit.Conflict, fmt.Errorf("%s begins its cluster again: end that with arl cluster reseed --data %s", data, data))
}

// look opens the log of a node that does not run, to read it. The caller closes it.
func (a *asking) look(ctx context.Context, s *site.Site) (*node.Node, error) {
	options := a.options()
	options.Cluster = node.StandsStill(s)
	return node.Open(ctx, options)
}

func (a *asking) options() node.Options {
	return node.Options{Dir: a.data, Passphrase: terminal.Once(a.t.Passphrase), Fatal: func(err error) { panic(err) }}
}

// single makes the database that of a single ledger. The node has everything that was registered.
func (a *asking) single() error {
	options := a.options()
	n, err := node.Prepare(options)
	if err != nil {
		return err
	}
	_, err = ledger.Convert(n.Database(), n.LedgerConfig(options))
	return err
}

// inEtcd opens the node's own etcd, and calls use.
func (a *asking) inEtcd(ctx context.Context, s *site.Site, use func(context.Context, *cluster.Node) error) error {
	ctx, cancel := context.WithTimeout(ctx, aloneTime)
	defer cancel()
	failed := make(chan error, 1)
	n, err := cluster.Open(configOf(s, nil, func(err error) { failed <- err; select {} }, slog.New(slog.DiscardHandler)))
	if err != nil {
		return opening(err)
	}
	used := make(chan error, 1)
	go func() { used <- use(ctx, n) }()
	select {
	case err := <-failed: // etcd cannot go on, so it is not closed
		return exit.With(exit.Config, err)
	case err := <-used:
		return errors.Join(err, n.Close())
	}
}

// opening returns the error of a node's etcd that does not open.
func opening(err error) error {
	if errors.Is(err, cluster.ErrRuns) {
		return exit.Remedied("wait until that process has ended, or end it", exit.With(exit.Unavailable, err))
	}
	return exit.With(exit.Config, err)
}

// behind refuses a log that lacks batches that the node's etcd has.
func behind(data string, has, needs uint64) error {
	if needs <= has {
		return nil
	}
	return exit.Remedied(fmt.Sprintf("start it with arl serve --cluster --data %s, so that it takes them, and end it in order", data),
		exit.With(exit.Conflict, fmt.Errorf("the log of %s has %s of the %d that are registered", data, words.Counted(has, "entry"), needs)))
}

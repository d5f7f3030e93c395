package node

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/pflag"

	"recoveryledger/api/metrics"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger/publish"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// Publishing publishes a ledger's log as static files while the ledger runs.
type Publishing struct {
	to        string
	every     time.Duration
	target    publish.Target
	publisher *publish.Publisher
}

// checkTime is how long the start waits for the target of --publish.
const checkTime = 10 * time.Second

// Register adds the flags.
func (p *Publishing) Register(flags *pflag.FlagSet) {
	flags.StringVar(&p.to, "publish", "", "publish the log for readers: s3://BUCKET/PREFIX or file:///DIRECTORY (docs/publishing.md)")
	flags.DurationVar(&p.every, "publish-every", time.Second, "pause between two rounds of --publish")
}

// Check reads the location, so that a mistake leaves nothing behind.
func (p *Publishing) Check() (err error) {
	if p.to == "" {
		return nil
	}
	if p.every <= 0 {
		return exit.Usagef("--publish-every %s: want a time above 0", p.every)
	}
	p.target, err = publish.Open(p.to, os.Getenv)
	return exit.With(exit.Config, err)
}

// Begin compares what is published with the log, and shows in m how far that is. A head that is
// published and that the log does not have is an error. A target that does not answer is none: Run
// asks again.
func (p *Publishing) Begin(ctx context.Context, n *Node, m *metrics.Metrics, root verify.Root, checkpoint func() (string, error)) (err error) {
	if p.target == nil {
		m.Publishing(func() (uint64, time.Duration) { return 0, 0 })
		return nil
	}
	open := func(signed []byte) (merkle.Head, error) { return root.Follow(n.Replica.View().Chain).Head(signed) }
	p.publisher, err = publish.New(&publish.Config{Target: p.target, Source: &published{n, open, checkpoint}, Open: open, Size: n.Log.Size,
		Reach: n.Reach, Logger: n.Logger, Failed: m.Damaged})
	if err != nil {
		return err
	}
	m.Publishing(p.publisher.Status)
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	if err = p.publisher.Check(ctx); err == nil || publish.Conflicts(err) {
		return p.conflict(err)
	}
	n.Logger.Warn("publishing failed: it is tried again", slog.String("to", p.to), slog.String("error", err.Error()))
	return nil
}

// Run publishes until ctx ends. A published head that the log does not have is an error, which Run
// hands to halt, too: the ledger must end.
func (p *Publishing) Run(ctx context.Context, halt func(error)) error {
	if p.publisher == nil {
		return nil
	}
	err := p.conflict(p.publisher.Run(ctx, p.every))
	if err != nil {
		halt(err)
	}
	return err
}

func (p *Publishing) conflict(err error) error {
	if err == nil {
		return nil
	}
	return exit.With(exit.Inconsistent, fmt.Errorf("--publish %s: %w", p.to, err))
}

// published is the log as the server shows it.
type published struct {
	node       *Node
	open       func(signed []byte) (merkle.Head, error)
	checkpoint func() (string, error)
}

// Published implements [export.Source].
func (p *published) Published() (verify.SignedHead, error) {
	signed, err := p.checkpoint()
	if err != nil {
		return verify.SignedHead{}, err
	}
	head, err := p.open([]byte(signed))
	return verify.SignedHead{Head: head, Note: signed}, err
}

// Tile implements [export.Source].
func (p *published) Tile(t merkle.Tile) ([]byte, error) { return p.node.Log.Tile(t) }

package node

import (
	"cmp"
	"context"
	"errors"
	"os"
	"runtime"
	"runtime/debug"

	"golang.org/x/sync/errgroup"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger"
)

// Run orders entries until use returns, and then closes the log. With decides, the coordinator
// decides meanwhile. Before Run closes the log, it answers all entries that use has submitted. The
// context of use ends when the ordering ends, because nothing is registered after that. why is the
// cause of that end, or else the error of use.
func (n *Node) Run(ctx context.Context, decides bool, use func(context.Context) error) (why, err error) {
	defer tuneRuntime(n.serves, n.Term != nil)()
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	using, end := context.WithCancelCause(ctx)
	defer end(nil)
	var order errgroup.Group
	order.Go(func() error {
		err := n.Log.Run(running)
		if err != nil {
			n.Logger.Error("the ledger stopped ordering entries, and registers nothing more", "error", err.Error())
			n.failed(err)
		}
		end(cmp.Or(err, errEnded))
		return n.damaged(Broken(err))
	})
	if decides || n.Term != nil {
		order.Go(func() error {
			err := n.terms(using, decides)
			if err != nil {
				n.failed(err)
			}
			end(cmp.Or(err, errEnded))
			if errors.Is(err, ledger.ErrStopped) {
				return nil // Log.Run reports the reason
			}
			return n.damaged(Broken(err))
		})
	}
	if n.Index != nil {
		order.Go(func() error {
			if err := n.Index.Run(using); err != nil {
				n.metrics.Damaged(err)
			}
			return nil // the index logs its error; a stopped index ends no ledger
		})
	}
	order.Go(func() error { n.tryKeys(using); return nil })
	err = use(using)
	why = cmp.Or(context.Cause(using), err)
	stop() // only now: use has answered every accepted request
	return why, errors.Join(err, order.Wait(), n.damaged(Broken(n.Log.Close())))
}

// errEnded is the cause of the end of use without a signal or an error.
var errEnded = errors.New("the ledger stopped ordering entries")

// Broken gives the exit code to an error of the log under a running server. An error that is no
// damage is an error of the disk.
func Broken(err error) error {
	if err != nil && exit.Code(err) == exit.Internal {
		return exit.With(exit.IO, err)
	}
	return err
}

// tuneRuntime sets the Go runtime up for a ledger until restore is called. GOGC and GOMAXPROCS
// override its settings.
//
// The data that a ledger keeps about its entries is large, long-lived and without pointers.
// Frequent garbage collection of such data costs little, and less memory waits to be freed. A
// ledger that is opened in place serves a program that makes the entries, most of whose data is
// short-lived, as in a node of a cluster: there a [collector] sees to it.
//
// Two threads nearly always wait for the disk: one in the sync of a commit, one in the sync of the
// anchor. The runtime takes as long as a sync to notice such a wait, and counts the thread as
// running until then. Each of the two threads therefore gets a processor of its own, so that no
// other thread lacks one.
func tuneRuntime(serves, clustered bool) (restore func()) {
	restore = func() {}
	if os.Getenv("GOGC") == "" {
		var before int
		stop := func() {}
		if serves && !clustered {
			before = debug.SetGCPercent(25)
		} else {
			least := percentMin
			if clustered {
				least = percentNode
			}
			var c *collector
			c, before = startCollector(least)
			stop = c.stop
		}
		restore = func() { stop(); debug.SetGCPercent(before) }
	}
	if os.Getenv("GOMAXPROCS") == "" {
		const syncing = 2
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + syncing)
		collect := restore
		restore = func() { collect(); runtime.SetDefaultGOMAXPROCS() }
	}
	return restore
}

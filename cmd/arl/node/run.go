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

// Run orders entries, and with decides lets the coordinator decide, for as long as
// use takes; then it closes the log. What use has submitted is answered before. The
// context of use ends with the order, without which nothing is registered. run also
// returns why that context ended, if it did.
func (n *Node) Run(ctx context.Context, decides bool, use func(context.Context) error) (why, err error) {
	defer tuneRuntime()()
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	using, end := context.WithCancelCause(ctx)
	defer end(nil)
	var order errgroup.Group
	order.Go(func() error {
		err := n.Log.Run(running)
		if err != nil {
			n.Logger.Error("the ledger stopped ordering entries, and registers nothing more", "error", err.Error())
		}
		end(cmp.Or(err, errEnded))
		return n.damaged(Broken(err))
	})
	if decides {
		order.Go(func() error {
			err := n.coordinator().Run(using)
			end(cmp.Or(err, errEnded))
			if errors.Is(err, ledger.ErrStopped) {
				return nil // the order says why
			}
			return n.damaged(Broken(err))
		})
	}
	if n.Index != nil {
		order.Go(func() error {
			_ = n.Index.Run(using) // it tells the log: an index that stops ends no ledger
			return nil
		})
	}
	err = use(using)
	why = cmp.Or(context.Cause(using), err)
	stop() // only now: use has answered every accepted request
	return why, errors.Join(err, order.Wait(), n.damaged(Broken(n.Log.Close())))
}

// errEnded is why use ends without a signal or an error.
var errEnded = errors.New("the ledger stopped ordering entries")

// Broken is an error of the log under a running server. An error that is no damage is an error of
// the disk.
func Broken(err error) error {
	if err != nil && exit.Code(err) == exit.Internal {
		return exit.With(exit.IO, err)
	}
	return err
}

// tuneRuntime sets the Go runtime up for a ledger, unless GOGC and GOMAXPROCS say
// otherwise, until restore is called.
//
// What a ledger keeps of its entries is much, lives long and holds no pointers:
// to look it through often costs little, and less memory waits to be freed.
//
// Two threads wait for the disk nearly always, in the sync of a commit and in that
// of the anchor. To the runtime they run, until it finds out, which takes as long
// as a sync does: each has a processor of its own, so that nobody else goes
// without.
func tuneRuntime() (restore func()) {
	restore = func() {}
	if os.Getenv("GOGC") == "" {
		before := debug.SetGCPercent(25)
		restore = func() { debug.SetGCPercent(before) }
	}
	if os.Getenv("GOMAXPROCS") == "" {
		const syncing = 2
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + syncing)
		collect := restore
		restore = func() { collect(); runtime.SetDefaultGOMAXPROCS() }
	}
	return restore
}

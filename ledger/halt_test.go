package ledger_test

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"recoveryledger/ledger"
)

// TestNothingIsSignedAfterAHalt halts a log while many submit. What was answered is in the
// log, all else is ErrStopped, and the head stays what it was: no entry and no signature is
// made afterwards, and reads go on.
func TestNothingIsSignedAfterAHalt(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	disk := vfs.NewMem()
	r := start(t, "log", config(t, disk))
	answered := submitUntilStopped(t, r.Log)
	r.Halt()
	head := r.Head()
	all := answered()
	if _, err := r.Submit(t.Context(), newEntry(t)); !errors.Is(err, ledger.ErrStopped) || !errors.Is(r.Ready(), ledger.ErrStopped) {
		t.Errorf("after the halt: %v", err)
	}
	if _, err := r.Countersign(head.SignedHead); !errors.Is(err, ledger.ErrStopped) {
		t.Errorf("countersigned after the halt: %v", err)
	}
	if published, err := r.Published(); err != nil || published.Size > head.Size || r.Head() != head {
		t.Errorf("published %+v, %v; head %+v, was %+v", published, err, r.Head(), head)
	}
	if _, err := r.Receipt(head.Size - 1); err != nil {
		t.Errorf("reads: %v", err)
	}
	r.stop()
	r = start(t, "log", config(t, disk))
	defer r.stop()
	if r.Head().Size != head.Size {
		t.Errorf("%d entries, %d at the halt", r.Head().Size, head.Size)
	}
	r.allThere(all)
}

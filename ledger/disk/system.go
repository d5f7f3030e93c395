package disk

import (
	"errors"
	"fmt"
)

// ErrSystem reports a system on which no log can be written.
var ErrSystem = errors.New("disk: no ledger runs on this system")

// CheckSystem returns an [ErrSystem] if logs cannot be written on a system, which is
// named as in [runtime.GOOS]. Windows has no sync of a directory: a file whose name a
// crash takes away is no stable storage, and a receipt would promise more than there
// is. A log is checked and read everywhere.
func CheckSystem(goos string) error {
	if goos == "windows" {
		return fmt.Errorf("%w, Windows: it has no sync of a directory, so that a crash could lose what a receipt promises; "+
			"run the ledger on Linux or macOS, or in WSL, and use it from here with --url", ErrSystem)
	}
	return nil
}

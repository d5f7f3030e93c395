package bundle

import "recoveryledger/ledger/entry"

// Raise is raise of an epoch, for its tests.
func Raise(e Epoch, d *entry.Decision) Epoch { return e.raise(d) }

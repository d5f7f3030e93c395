package simulation

import "recoveryledger/verify"

// mischief asks for what hostile parties do.
func (w *world) mischief() {}

// mutate changes a bundle, as a hostile server could.
func (w *world) mutate(_ *node, b *verify.Bundle) *verify.Bundle { return b }

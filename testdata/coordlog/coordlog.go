// Package coordlog is a ledger as its coordinator sees it, for tests and benchmarks alone. It lies
// in testdata so that the product cannot depend on it: cmd/arl/node has the one of the product.
package coordlog

import (
	"context"

	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
)

// Log implements the Log of coord/coordinator by a ledger.
type Log struct{ *ledger.Log }

// Submit registers entries in order. taken is how many were registered. The error is the
// [*entry.Refusal] of the entry after these, or that of the ledger.
func (l Log) Submit(ctx context.Context, entries ...*entry.Entry) (taken int, err error) {
	answer, err := l.Log.Submit(ctx, entries...)
	if err != nil {
		return 0, err
	}
	if answer.Refused != nil {
		err = answer.Refused
	}
	return len(answer.Registered), err
}

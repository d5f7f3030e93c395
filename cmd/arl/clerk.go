package main

import (
	"context"
	"log/slog"

	"recoveryledger/coord"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
)

// clerk returns who writes what the coordinator decides, with the key that the
// genesis enrolled for it. It knows nothing but the log: whatever a crash left
// undone, the next start finds undone and does.
func (n *node) clerk() *coord.Clerk {
	return &coord.Clerk{
		Coordinator: n.coordinator,
		Log:         clerkLog{n.log},
		Principal:   principalCoordinator,
		Seal:        n.signer.Sign,
		Refused: func(body entry.Body, refusal *entry.Refusal) {
			n.logger.Warn("the coordinator's entry was refused", slog.String("kind", string(body.Kind())),
				slog.String("problem", string(refusal.Problem)), slog.String("field", refusal.Field), slog.String("detail", refusal.Detail))
		},
	}
}

// clerkLog is a ledger as the coordinator writes to it.
type clerkLog struct{ *ledger.Log }

// Submit implements [coord.Log].
func (l clerkLog) Submit(ctx context.Context, e *entry.Entry) error {
	answer, err := l.Log.Submit(ctx, e)
	if err == nil && answer.Refused != nil {
		return answer.Refused
	}
	return err
}

package main

import (
	"context"
	"fmt"
	"log/slog"

	"recoveryledger/coord"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
)

// coordinator returns who writes what the coordinator decides, with the key that the
// genesis enrolled for it. It knows nothing but the log: whatever a crash left
// undone, the next start finds undone and does.
func (n *node) coordinator() *coord.Coordinator {
	return &coord.Coordinator{
		Replica:   n.replica,
		Log:       coordinatorLog{n.log},
		Principal: principalCoordinator,
		Seal:      n.signer.Sign,
		Silent: func(d *entry.Decision) {
			what, remedy := "an incident was dismissed: nobody answered in time, and nothing is undone", "arl escalation acknowledge %d"
			if d.Act != entry.ActDeny {
				what, remedy = "an amend was dropped: nobody answered in time, and what it would have added stands", "arl incident escalate %d proposes it again"
			}
			n.logger.Warn(what, slog.Uint64("incident", d.Incident),
				slog.String("workflow", string(d.Wid)), slog.String("remedy", fmt.Sprintf(remedy, d.Incident)))
		},
		Refused: func(body entry.Body, refusal *entry.Refusal) {
			n.logger.Warn("the coordinator's entry was refused", slog.String("kind", string(body.Kind())),
				slog.String("problem", string(refusal.Problem)), slog.String("field", refusal.Field), slog.String("detail", refusal.Detail))
		},
	}
}

// warnOfPolicy warns of what a policy in force asks for that no ledger could do: it
// came into force before it was refused.
func (n *node) warnOfPolicy(policy *entry.Policy, index uint64) {
	if refusal := coord.CheckPolicy(policy); refusal != nil {
		n.logger.Warn("the policy in force cannot be obeyed: apply one that can", slog.Uint64("entry", index),
			slog.String("field", refusal.Field), slog.String("detail", refusal.Detail), slog.String("remedy", refusal.Remedy))
	}
}

// coordinatorLog is a ledger as the coordinator writes to it.
type coordinatorLog struct{ *ledger.Log }

// Submit implements [coord.Log].
func (l coordinatorLog) Submit(ctx context.Context, e *entry.Entry) error {
	answer, err := l.Log.Submit(ctx, e)
	if err == nil && answer.Refused != nil {
		return answer.Refused
	}
	return err
}

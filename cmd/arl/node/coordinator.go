package node

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"recoveryledger/api/metrics"
	"recoveryledger/coord"
	"recoveryledger/coord/coordinator"
	"recoveryledger/coord/sound"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
)

// coordinator returns the coordinator that writes its decisions with the key that the genesis
// enrolled. It knows only the log. After a crash, the next start finds the work that is not done,
// and does it.
func (n *Node) coordinator() *coordinator.Coordinator {
	return &coordinator.Coordinator{
		Replica:   n.Replica,
		Log:       coordinatorLog{n.Log},
		Principal: Coordinator,
		Seal:      sealing(keyCoordinator, n.signer),
		Has:       n.Log.Has,
		Silent: func(of coord.Silence) {
			what := "an incident was dismissed: no approver answered in time, and nothing is undone"
			if of.Amend {
				what = "an amend was dropped: no approver answered in time, and the executions of the amend are not undone"
			}
			n.Logger.Warn(what, slog.Uint64("incident", of.Incident),
				slog.String("workflow", string(of.Wid)), slog.String("remedy", fmt.Sprintf("arl escalation acknowledge %d", of.Incident)))
		},
		Refused: (&refusals{logger: n.Logger, metrics: n.metrics, told: map[refused]time.Time{}, beyond: map[wanted]time.Time{}}).tell,
	}
}

// refusedEvery is how often the same refusal of the coordinator's entries is logged. A full disk
// refuses the same entry every second, for hours.
const refusedEvery = 10 * time.Minute

// refused is what makes two refusals the same.
type refused struct {
	kind    entry.Kind
	problem entry.Problem
	field   string
}

// refusals logs why the coordinator's entries are refused, and counts the decisions that are beyond
// the limits. The coordinator's goroutine owns it.
type refusals struct {
	logger  *slog.Logger
	metrics *metrics.Metrics
	told    map[refused]time.Time
	beyond  map[wanted]time.Time // decisions that were refused as scope-exceeds-policy within again
}

// again is the time within which a coordinator that is wrong has the same decision refused again:
// it drafts every second.
const again = 10 * time.Second

// wanted is what makes two decisions the same.
type wanted struct {
	incident uint64
	act      entry.Act
}

func (r *refusals) tell(body entry.Body, refusal *entry.Refusal) {
	same, now := refused{body.Kind(), refusal.Problem, refusal.Field}, time.Now()
	if d, ok := body.(*entry.Decision); ok && refusal.Problem == entry.ScopeExceedsPolicy {
		r.exceeded(wanted{d.Incident, d.Act}, now)
	}
	if at, known := r.told[same]; known && now.Sub(at) < refusedEvery {
		return
	}
	r.told[same] = now
	r.logger.Warn("the coordinator's entry was refused", slog.String("kind", string(same.kind)),
		slog.String("problem", string(same.problem)), slog.String("field", same.field), slog.String("detail", refusal.Detail))
}

// exceeded counts a decision that is refused twice. One refusal does not prove that the coordinator
// is wrong, because an entry that the coordinator had not read may have used up the limits. The
// coordinator then reads that entry, and drafts no such decision again.
func (r *refusals) exceeded(d wanted, now time.Time) {
	maps.DeleteFunc(r.beyond, func(_ wanted, at time.Time) bool { return now.Sub(at) >= again })
	if _, known := r.beyond[d]; known {
		r.metrics.Violated(metrics.BeyondLimits)
	}
	r.beyond[d] = now
}

// WarnOfPolicy warns if no ledger can obey the policy in force. Such a policy came into force
// before ledgers refused it.
func (n *Node) WarnOfPolicy(policy *entry.Policy, index uint64) {
	if refusal := sound.Policy(policy); refusal != nil {
		n.Logger.Warn("the coordinator cannot obey the policy in force: apply another policy", slog.Uint64("entry", index),
			slog.String("field", refusal.Field), slog.String("detail", refusal.Detail), slog.String("remedy", refusal.Remedy))
	}
}

// coordinatorLog is a ledger in the view of the coordinator.
type coordinatorLog struct{ *ledger.Log }

// Submit implements [coordinator.Log].
func (l coordinatorLog) Submit(ctx context.Context, entries ...*entry.Entry) (taken int, err error) {
	answer, err := l.Log.Submit(ctx, entries...)
	if err != nil {
		return 0, err
	}
	if answer.Refused != nil {
		err = answer.Refused
	}
	return len(answer.Registered), err
}

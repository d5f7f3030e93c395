package server

import (
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"recoveryledger/api/metrics"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
)

// turn is a request that writes, in the lane of its client. The lane becomes narrow when the
// ledger refuses many entries of the client for which no proven key answers.
type turn struct {
	server *Server
	client string
	leave  func(refused bool) // nil: the lane is wide
	blamed bool
}

// enter waits for the request's turn. The caller must end the turn.
func (s *Server) enter(c echo.Context) (*turn, error) {
	t := &turn{server: s, client: clientOf(c)}
	var err error
	t.leave, err = s.lanes.Enter(c.Request().Context(), t.client)
	return t, err
}

// end gives back the room in a narrow lane.
func (t *turn) end() {
	if t.leave != nil {
		t.leave(t.blamed)
		t.leave = nil
	}
}

// taken counts one entry that was taken, which makes up for one refusal.
func (t *turn) taken() { t.server.lanes.Taken(t.client) }

// refused counts n refusals against the client.
func (t *turn) refused(n int) {
	t.blamed = true
	t.server.lanes.Refused(t.client, n)
}

// submit submits entries. A refused entry without a proven key counts against the client, since
// any client can claim a key.
func (t *turn) submit(c echo.Context, entries ...*entry.Entry) (*ledger.Answer, error) {
	for _, e := range entries {
		if err := t.server.tryWitnesses(c.Request().Context(), e); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	answer, err := t.server.log.SubmitOrDoubt(c.Request().Context(), entries...)
	t.server.metrics.Submitted(outcomeOf(answer, err), time.Since(began))
	if err != nil {
		return nil, err
	}
	for i := range answer.Registered {
		if !answer.Registered[i].Duplicate {
			t.taken()
		}
	}
	if answer.Refused != nil && len(answer.Registered) < len(entries) && !answer.Proven {
		switch answer.Refused.Problem {
		case entry.RateLimited, entry.NotReady, entry.InsufficientStorage: // the entry is not the cause
		default:
			t.refused(len(entries) - len(answer.Registered)) // later entries were checked for nothing
		}
	}
	return answer, nil
}

// outcomeOf returns how a submission ended, for the metrics.
func outcomeOf(answer *ledger.Answer, err error) string {
	switch {
	case err != nil:
		return metrics.FailedSubmission
	case answer.Refused != nil:
		return metrics.Refused
	case slices.ContainsFunc(answer.Registered, func(r ledger.Registration) bool { return !r.Duplicate }):
		return metrics.Registered
	}
	return metrics.Known
}

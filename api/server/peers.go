package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"recoveryledger/api"
	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/entry"
)

// Peers are the other nodes of a cluster, as the server of one node sees them.
type Peers interface {
	// Forward passes a request on once or answers nothing; [agreement.ErrLeading]: this node leads.
	Forward(w http.ResponseWriter, r *http.Request) error
	// Reach returns nil when this node has everything that was registered when the call began.
	Reach(ctx context.Context) error
	// Ready returns nil if this node lately had what the others have, and another takes entries.
	Ready(ctx context.Context) error
	// Fresh returns until when no other node can order the log, if this node does.
	Fresh(ctx context.Context) (until time.Time, err error)
}

// clustered passes what only the node that orders the log may answer on to that node, and says of
// nothing that the log does not have it before this node has reached what the others registered.
func (s *Server) clustered() echo.MiddlewareFunc {
	ordered := map[string]bool{}
	for _, route := range api.Routes() {
		if route.Ordered {
			ordered[route.Method+" "+routerPath(route.Path)] = true
		}
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		if s.cfg.Peers == nil {
			return next
		}
		return func(c echo.Context) error {
			ctx := c.Request().Context()
			here := ordered[c.Request().Method+" "+c.Path()]
			if here && !s.log.Leads() {
				if err := s.cfg.Peers.Forward(c.Response(), c.Request()); !errors.Is(err, agreement.ErrLeading) {
					return apart(err)
				}
			}
			if here && c.Path() != api.PathEntries { // about entries the order itself asks the others
				if _, err := s.fresh(ctx); err != nil {
					return err
				}
			}
			size := s.log.Size()
			err := next(c)
			if err == nil || c.Response().Committed || asFailure(err).Status != http.StatusNotFound || c.Path() == "" {
				return err
			}
			if behind := s.cfg.Peers.Reach(ctx); behind != nil {
				return apart(behind)
			}
			switch {
			case s.log.Size() == size:
				return err
			case c.Request().Method == http.MethodPost: // its body is read
				return apart(agreement.ErrNotLeading)
			}
			s.setSize(c)
			return next(c)
		}
	}
}

// fresh returns until when this node speaks for the coordinator for certain; zero: for ever, since
// it is in no cluster.
func (s *Server) fresh(ctx context.Context) (until time.Time, _ error) {
	if s.cfg.Peers == nil {
		return until, nil
	}
	until, err := s.cfg.Peers.Fresh(ctx)
	return until, apart(err)
}

// apart is the problem of a node that the others do not answer.
func apart(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	why, after := "no majority of the cluster answers this node", int64(0)
	if errors.Is(err, agreement.ErrOvertaken) || errors.Is(err, agreement.ErrNotLeading) {
		why, after = "this node orders the log no more, or not yet", reachAgainMS
	}
	refusal := entry.Refuse(entry.NotReady, "", "%s", why).WithRemedy("send the same request again, to this node later or to another one")
	refusal.RetryAfterMS = after
	return &failure{api.NewProblem(refusal), err}
}

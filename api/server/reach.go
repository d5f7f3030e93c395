package server

import (
	"context"
	"math"
	"strconv"

	"github.com/labstack/echo/v4"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// reach waits until the log has the size that the request needs, and says the size in the
// answer. The log had this size before the handler began, so the answer is from no older state.
// A node that is behind is not ready: it must never say of an entry that the log does not have it.
func (s *Server) reach(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if text := c.Request().Header.Get(api.HeaderMinLogSize); text != "" {
			least, err := api.ParseNumber(text, math.MaxUint64)
			if err != nil {
				return entry.Refuse(entry.Malformed, api.HeaderMinLogSize, "%.40q is not a size of the log", text).
					WithRemedy("write a decimal number without leading zeros, or leave the header out")
			}
			if err := s.await(c.Request().Context(), least); err != nil {
				return err
			}
		}
		s.setSize(c)
		return next(c)
	}
}

// await waits for a size of the log.
func (s *Server) await(ctx context.Context, least uint64) error {
	if s.coord.View().Size >= least {
		return nil
	}
	ctx, cancel := until(ctx, s.draining)
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, s.cfg.ReachWait)
	defer stop()
	if err := s.log.Wait(ctx, least); err != nil {
		size := s.log.Size()
		refusal := entry.Refuse(entry.NotReady, api.HeaderMinLogSize, "the log has size %d here, and the request needs %d", size, least).
			WithRemedy("ask again, or ask another node; if this node stays behind, its ledger may have lost entries: compare its tree head with the last accepted one")
		refusal.RetryAfterMS = reachAgainMS // it has waited already
		return refusal
	}
	return nil
}

// setSize writes the size of the log into the header of an answer.
func (s *Server) setSize(c echo.Context) {
	c.Response().Header().Set(api.HeaderLogSize, strconv.FormatUint(s.log.Size(), 10))
}

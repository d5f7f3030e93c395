package server

import (
	"cmp"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"recoveryledger/api"
)

// observe gives a request its id and runs it. Then it counts and logs the request.
func (s *Server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		began := time.Now()
		id := c.Request().Header.Get(api.HeaderRequestID)
		if !validRequestID(id) {
			id = newRequestID()
			c.Request().Header.Set(api.HeaderRequestID, id)
		}
		header := c.Response().Header()
		header.Set(api.HeaderRequestID, id)
		header.Set(echo.HeaderCacheControl, cacheNever)
		s.setSize(c)
		answer := &watched{ResponseWriter: c.Response().Writer}
		c.Response().Writer = answer
		if err := next(c); err != nil {
			c.Error(err)
		}
		s.countGone(c, answer)
		route, status, took := routeOf(c), c.Response().Status, time.Since(began)
		s.metrics.Request(c.Request().Method, route, status, took)
		ctx := c.Request().Context()
		if s.cfg.Tracer != nil {
			trace.SpanFromContext(ctx).SetAttributes(attribute.String("request.id", id))
		}
		if s.cfg.Logger.Enabled(ctx, slog.LevelDebug) {
			s.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "request", slog.String("request", id), slog.String("client", c.RealIP()),
				slog.String("method", c.Request().Method), slog.String("path", c.Request().URL.Path),
				slog.Int("status", status), slog.Int64("bytes", c.Response().Size), slog.Duration("took", took))
		}
		return nil
	}
}

// routeOf returns the pattern that the request's path matches.
func routeOf(c echo.Context) string {
	return cmp.Or(c.Path(), "other")
}

// validRequestID keeps a caller's id harmless in logs and URIs.
func validRequestID(id string) bool {
	return id != "" && len(id) <= maxRequestID && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}

// requestID returns the id that [Server.observe] gave the request.
func requestID(c echo.Context) string { return c.Request().Header.Get(api.HeaderRequestID) }

func newRequestID() string { return uuid.Must(uuid.NewV7()).String() }

// clientOf returns the client of a request.
func clientOf(c echo.Context) string { return clientAt(c.Request().RemoteAddr) }

// clientAt returns the client of an address, as every limit counts clients: an IPv4 address,
// or the /64 of an IPv6 address. All other addresses are one client.
func clientAt(remote string) string {
	address, _ := netip.ParseAddrPort(remote)
	ip := address.Addr().Unmap()
	if !ip.Is6() {
		return ip.String()
	}
	prefix, _ := ip.Prefix(64) // every IPv6 address has one
	return prefix.String()
}

package server

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"go.opentelemetry.io/contrib/instrumentation/github.com/labstack/echo/otelecho"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"golang.org/x/time/rate"

	"recoveryledger/api"
	"recoveryledger/api/openapi"
	"recoveryledger/ledger/entry"
)

// handler is a function that answers a request.
type handler func(*request) error

// handlers returns the handler of each route of [api.Routes] by its name.
func (s *Server) handlers() map[string]handler {
	metrics := s.metrics.Handler()
	return map[string]handler{
		"submit":        s.postEntries,
		"list":          plain(s, s.getEntries),
		"entry":         plain(s, s.getEntry),
		"receipt":       s.getReceipt,
		"cose":          s.getCOSE,
		"consistency":   plain(s, s.getConsistency),
		"log":           plain(s, s.getLog),
		"round":         plain(s, s.getRound),
		"cosign":        s.postCosignatures,
		"complete":      s.getComplete,
		"evidence":      plain(s, s.getEvidence),
		"events":        s.getEvents,
		"checkpoint":    s.getCheckpoint,
		"tile":          s.getTile,
		"bundle":        s.getTile,
		"agents":        taggedAs(s, s.getAgents, func(a api.Agents) any { a.Size = 0; return a }),
		"agent":         tagged(s, s.getAgent),
		"history":       taggedAs(s, s.getHistory, sameHistory),
		"commands":      plain(s, s.getCommands),
		"authorization": s.getBundle,
		"news":          s.getNews,
		"incidents":     plain(s, s.getIncidents),
		"incident":      tagged(s, s.getIncident),
		"why":           tagged(s, s.getWhy),
		"escalations":   plain(s, s.getEscalations),
		"plan":          tagged(s, s.getPlan),
		"graph":         tagged(s, s.getGraph),
		"tasks":         plain(s, s.getTasks),
		"task":          tagged(s, s.getTask),
		"lease":         s.postLease,
		"leases":        s.postLeases,
		"recover":       s.postRecovery,
		"decide":        s.byRules(api.MaxQuestion, (*rules).decided),
		"recoverBatch":  s.postRecoveries,
		"rollouts":      taggedAs(s, s.getRollouts, func(a api.Rollouts) any { a.Size = 0; return a }),
		"rollout":       taggedAs(s, s.getRollout, func(a api.OneRollout) any { a.Size = 0; return a }),
		"health":        plain(s, s.getHealth),
		"ready":         plain(s, s.getReady),
		"leader":        plain(s, s.getLeader),
		"cluster":       plain(s, s.getCluster),
		"metrics":       func(r *request) error { metrics.ServeHTTP(r.c.Response(), r.c.Request()); return nil },
		"openapi":       s.getDocument(),
	}
}

// routes makes the handler of all paths.
func (s *Server) routes() error {
	e := echo.New()
	e.HTTPErrorHandler = s.answerError
	e.IPExtractor = echo.ExtractIPDirect() // a header may lie
	s.middleware(e)
	s.router, s.handler = e, withHead(e)
	if s.cfg.Pages != nil {
		for _, path := range s.cfg.Pages.Paths() {
			if show := echo.WrapHandler(s.cfg.Pages); slices.Contains(s.cfg.Pages.Streams(), path) {
				e.GET(routerPath(path), s.streaming(show))
			} else {
				e.GET(routerPath(path), show)
			}
		}
	}
	return bind(e, api.Routes(), s.handlers())
}

// getDocument answers with the OpenAPI document. The first request makes it: that takes longer than
// everything else in the start of a server.
func (s *Server) getDocument() handler {
	document := sync.OnceValues(func() ([]byte, error) { return openapi.Document(s.cfg.Version) })
	return func(r *request) error {
		text, err := document()
		if err != nil {
			return err
		}
		return s.answerTagged(r.c, api.MediaOpenAPI, tagOf(text), text)
	}
}

// bind gives every route its handler. A route without one is an error, and so is a
// handler without a route.
func bind(e *echo.Echo, routes []api.Route, handlers map[string]handler) error {
	for i := range routes {
		handle := handlers[routes[i].Name]
		if handle == nil {
			return fmt.Errorf("server: route %s has no handler", routes[i].Name)
		}
		delete(handlers, routes[i].Name)
		e.Add(routes[i].Method, routerPath(routes[i].Path), parsed(&routes[i], handle))
	}
	if len(handlers) > 0 {
		return fmt.Errorf("server: handlers without a route: %v", slices.Sorted(maps.Keys(handlers)))
	}
	return nil
}

// parsed reads the query of a request before its handler sees it.
func parsed(route *api.Route, handle handler) echo.HandlerFunc {
	takes := route.TakesQuery()
	return func(c echo.Context) error {
		r := &request{c: c}
		if route.Query != nil {
			r.asked = route.Query()
		}
		if takes {
			if err := api.ParseQuery(r.asked, c.Request().URL.RawQuery); err != nil {
				return err
			}
		}
		return handle(r)
	}
}

// routerPath returns a path in the spelling of the router.
func routerPath(path string) string {
	return strings.NewReplacer("{path}", "*", "{", ":", "}", "").Replace(path)
}

// middleware returns the middleware that every request passes, the outermost first.
func (s *Server) middleware(e *echo.Echo) {
	if s.cfg.Tracer != nil {
		e.Use(otelecho.Middleware("", otelecho.WithTracerProvider(s.cfg.Tracer),
			otelecho.WithMeterProvider(noop.NewMeterProvider()), otelecho.WithPropagators(propagation.TraceContext{})))
	}
	e.Use(s.observe)
	secure := middleware.SecureConfig{
		XSSProtection: "0", ContentTypeNosniff: "nosniff", XFrameOptions: "DENY", ReferrerPolicy: "no-referrer",
		ContentSecurityPolicy: "default-src 'none'; frame-ancestors 'none'",
	}
	if s.cfg.TLS != nil {
		secure.HSTSMaxAge = 31536000
	}
	e.Use(middleware.SecureWithConfig(secure))
	e.Use(middleware.RecoverWithConfig(middleware.RecoverConfig{
		DisableStackAll: true,
		LogErrorFunc: func(c echo.Context, err error, stack []byte) error {
			s.sampled(c, sample{message: "panic", level: slog.LevelError}, func() []slog.Attr {
				return []slog.Attr{slog.String("error", clip(err.Error())), slog.String("stack", string(stack))}
			})
			return err
		},
	}))
	e.Use(s.ownHost, allowHead, shared(), s.compressed(), readsBody)
	defer e.Use(s.reach, s.clustered()) // after the limits
	if s.cfg.Rate < 0 {
		return
	}
	e.Use(middleware.RateLimiterWithConfig(middleware.RateLimiterConfig{
		Store: middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{
			Rate: rate.Limit(s.cfg.Rate), ExpiresIn: rateMemory,
		}),
		IdentifierExtractor: func(c echo.Context) (string, error) { return clientOf(c), nil },
		DenyHandler: func(_ echo.Context, client string, _ error) error {
			return entry.Refuse(entry.RateLimited, "", "more than %g requests a second from %s", s.cfg.Rate, client)
		},
	}))
}

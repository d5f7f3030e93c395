package server

import (
	"context"
	"io"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"golang.org/x/time/rate"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

const (
	entriesPath = "/v1/entries"
	agentsPath  = "/v1/agents"
	eventsPath  = "/v1/events"

	incidentsPath = "/v1/incidents"
)

// routes makes the handler of all paths, and the document that describes them.
func (s *Server) routes() error {
	e := echo.New()
	e.HTTPErrorHandler = s.answerError
	e.IPExtractor = echo.ExtractIPDirect() // never what a header claims
	s.middleware(e)

	doc := humaecho.New(e, s.humaConfig())
	get(doc, opList(), s.getEntries)
	get(doc, opEntry(), s.getEntry)
	get(doc, opConsistency(), s.getConsistency)
	get(doc, opLog(), s.getLog)
	get(doc, opCommands(doc), s.getCommands)
	get(doc, opIncidents(), s.getIncidents)
	get(doc, opTasks(), s.getTasks)
	get(doc, opHealth(), s.getHealth)
	get(doc, opReady(), s.getReady)
	huma.Register(doc, *opEvents(doc), func(ctx context.Context, r *input) (*huma.StreamResponse, error) {
		stream, err := s.getEvents(ctx, &r.request)
		if err != nil {
			return nil, asFailure(err)
		}
		return stream, nil
	})

	e.POST(entriesPath, s.postEntries)
	e.POST(recoveriesPath, s.postRecovery)
	e.POST(batchPath, s.postRecoveries)
	e.GET(receiptRoute, s.getReceipt)
	e.GET(tasksPath+"/:id", tagged(s, s.getTask))
	e.POST(tasksPath+"/:id/lease", s.postLease)
	e.POST(leasesPath, s.postLeases)
	e.GET(incidentsPath+"/:id", tagged(s, s.getIncident))
	e.GET(incidentsPath+"/:id/plan", tagged(s, s.getPlan))
	e.GET(incidentsPath+"/:id/bundle", s.getBundle)
	e.GET(agentsPath+"/:id/news", s.getNews)
	e.GET("/v1/workflows/:wid/graph", tagged(s, s.getGraph))
	e.GET(agentsPath, taggedAs(s, s.getAgents, func(a api.Agents) any { a.Size = 0; return a }))
	e.GET(agentsPath+"/:id", tagged(s, s.getAgent))
	e.GET(agentsPath+"/:id/history", taggedAs(s, s.getHistory, sameHistory))
	e.GET(checkpointPath, s.getCheckpoint)
	e.GET(tileRoute, s.getTile)
	e.GET(entryTileRoute, s.getTile)
	e.GET(metricsPath, echo.WrapHandler(s.metrics.handler()))
	for _, op := range []*huma.Operation{opSubmit(doc), opRecover(doc), opRecoverBatch(doc), opReceipt(doc), opTask(doc), opLease(doc), opLeases(doc), opIncident(doc), opPlan(doc), opAuthorization(), opNews(), opGraph(doc), opAgents(doc), opAgent(doc), opHistory(doc),
		opCheckpoint(), opTile(), opBundle(), opMetrics(), opDocument()} {
		doc.OpenAPI().AddOperation(op)
	}
	document, err := encodeDocument(doc)
	if err != nil {
		return err
	}
	e.GET("/openapi.json", func(c echo.Context) error { return s.answerTagged(c, mediaOpenAPI, tagOf(document), document) })
	s.router, s.handler = e, s.traced(withHead(e))
	return nil
}

// middleware is what every request passes, the outermost first.
func (s *Server) middleware(e *echo.Echo) {
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
			if hasLeft(c, err) { // huma panics when an answer cannot be written
				return err
			}
			s.sampled(c, sample{message: "panic", level: slog.LevelError}, func() []slog.Attr {
				return []slog.Attr{slog.String("error", clip(err.Error())), slog.String("stack", string(stack))}
			})
			return err
		},
	}))
	e.Use(allowHead, shared, compressed(), readsBody)
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

// traced makes spans of requests if there is somebody to take them.
func (s *Server) traced(next http.Handler) http.Handler {
	if s.cfg.Tracer == nil {
		return next
	}
	return otelhttp.NewHandler(next, "http", otelhttp.WithTracerProvider(s.cfg.Tracer),
		otelhttp.WithMeterProvider(noop.NewMeterProvider()), otelhttp.WithPropagators(propagation.TraceContext{}))
}

// input is what huma passes to a handler: the request. Parameters are read by
// the handler, which refuses the unknown ones.
type input struct{ request }

// Resolve implements [huma.Resolver].
func (i *input) Resolve(ctx huma.Context) []error {
	i.c = humaecho.Unwrap(ctx)
	return nil
}

type output[T any] struct{ Body *T }

// get registers the handler of a JSON resource.
func get[T any](doc huma.API, op *huma.Operation, handle func(context.Context, *request) (*T, error)) {
	huma.Register(doc, *op, func(ctx context.Context, r *input) (*output[T], error) {
		body, err := handle(ctx, &r.request)
		if err != nil {
			return nil, asFailure(err)
		}
		return &output[T]{body}, nil
	})
}

// humaConfig keeps huma to JSON, to our problems and to no paths of its own.
func (s *Server) humaConfig() huma.Config {
	format := huma.Format{
		Marshal: func(w io.Writer, v any) error {
			body, err := json.Marshal(v)
			if err == nil {
				_, _ = w.Write(body) // huma would panic because a client is gone
			}
			return err
		},
		Unmarshal: func(data []byte, v any) error { return json.Unmarshal(data, v) },
	}
	return huma.Config{
		OpenAPI:       s.openAPI(),
		Formats:       map[string]huma.Format{api.MediaJSON: format, "json": format},
		DefaultFormat: api.MediaJSON,
		Transformers:  []huma.Transformer{s.transform},
	}
}

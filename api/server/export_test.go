package server

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"recoveryledger/ledger/fair"
)

// Routes returns the routes of the server as method and path, in the spelling
// of OpenAPI.
func (s *Server) Routes() (routes []string) {
	for _, r := range s.router.Routes() {
		var path []string
		for part := range strings.SplitSeq(r.Path, "/") {
			if name, ok := strings.CutPrefix(part, ":"); ok {
				part = "{" + name + "}"
			} else if part == "*" {
				part = "{path}"
			}
			path = append(path, part)
		}
		routes = append(routes, r.Method+" "+strings.Join(path, "/"))
	}
	return routes
}

// SetMax bounds the evidence file.
func (e *Evidence) SetMax(maxBytes int64) { e.max = maxBytes }

// Break adds a path whose handler panics.
func (s *Server) Break(path string) {
	s.router.GET(path, func(echo.Context) error { panic("broken on purpose") })
}

// Fail adds a path whose handler returns an error.
func (s *Server) Fail(path string, err error) {
	s.router.GET(path, func(echo.Context) error { return err })
}

// MaxIssuerEvidence is the number of objects kept of one issuer.
const MaxIssuerEvidence = maxIssuerEvidence

// SetBatchMemory bounds what the batches under way take, together and of one
// client.
func (s *Server) SetBatchMemory(limit, clientLimit int64) {
	s.batches = fair.NewBudget(limit, clientLimit)
}

// SetStreams bounds the event streams, together and of one client.
func (s *Server) SetStreams(limit, clientLimit int64) { s.streams = fair.NewBudget(limit, clientLimit) }

// MaxScan is the number of entries that one page looks at.
const MaxScan = maxScan

// TakeBatchMemory takes bytes as a batch of the client that is under way, or
// reports false.
func (s *Server) TakeBatchMemory(client string, n int64) bool { return s.batches.Take(client, n) }

// FlushRefusals writes how many refusals the log has not told one by one.
func (s *Server) FlushRefusals(now time.Time) { s.samples.flush(now) }

// What the log of refusals may hold.
const (
	MaxSamples       = maxSamples
	MaxClientSamples = maxClientSamples
	SampleInterval   = sampleInterval
)

// Sampler is a sampler by itself.
type Sampler struct{ s *sampler }

// NewSampler returns a sampler that writes counts to the logger.
func NewSampler(logger *slog.Logger) *Sampler { return &Sampler{newSampler(logger)} }

// First asks about a refusal of a client by a problem.
func (s *Sampler) First(client, problem string, now time.Time) bool {
	return s.s.first(sample{message: "refused", client: client, name: problem}, "r", now)
}

// Held is how many sorts of records the sampler remembers.
func (s *Sampler) Held() int { return len(s.s.counts) }

// Narrow reports whether the lane of a client is narrow.
func (s *Server) Narrow(ctx context.Context, client string) bool {
	leave, err := s.lanes.Enter(ctx, client)
	if leave != nil {
		leave(false)
	}
	return leave != nil || err != nil
}

package server

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"recoveryledger/ledger/fair"
)

// sample is a sort of record that clients cause. Routes and names are from closed sets. Keys
// are enrolled keys.
type sample struct {
	message string
	level   slog.Level
	client  string // empty: all clients for which there was no room
	key     string // that an entry claims; empty: none, or a key that is not enrolled
	route   string
	name    string // of the problem
}

// sampler keeps clients from filling a disk with records of their refusals. It writes the
// first record of each sort and counts the others. It writes the count at the end of the
// interval. The number of records in an interval is bounded, for one client and for all.
type sampler struct {
	logger *slog.Logger

	mu     sync.Mutex
	room   *fair.Budget
	since  time.Time // the begin of the interval
	counts map[sample]*repeated
}

// repeated counts the records of a sort that were not written.
type repeated struct {
	count uint64
	last  string // request
}

func newSampler(logger *slog.Logger) *sampler {
	return &sampler{logger: logger, room: fair.NewBudget(maxSamples, maxClientSamples), counts: map[sample]*repeated{}}
}

// first reports whether a record is the first of its sort in this interval. If not, first
// counts the record.
func (s *sampler) first(of sample, request string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.since) >= sampleInterval {
		s.writeCounts()
		s.since = now
	}
	known := s.counts[of]
	if known == nil && s.room.Take(of.client, 1) {
		s.counts[of] = &repeated{}
		return true
	}
	if known == nil {
		of = sample{message: of.message, level: of.level, name: of.name}
		if known = s.counts[of]; known == nil {
			known = &repeated{}
			s.counts[of] = known
		}
	}
	known.count++
	known.last = request
	return false
}

// flush ends the interval.
func (s *sampler) flush(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeCounts()
	s.since = now
}

// writeCounts writes the counts and begins anew. The caller holds mu.
func (s *sampler) writeCounts() {
	var sorts []sample
	for of, again := range s.counts {
		if again.count > 0 {
			sorts = append(sorts, of)
		}
	}
	slices.SortFunc(sorts, func(a, b sample) int {
		return cmp.Or(cmp.Compare(a.client, b.client), cmp.Compare(a.name, b.name), cmp.Compare(a.route, b.route), cmp.Compare(a.key, b.key),
			cmp.Compare(a.message, b.message), cmp.Compare(a.level, b.level))
	})
	for _, of := range sorts {
		again := s.counts[of]
		s.logger.LogAttrs(context.Background(), of.level, of.message+" again", slog.Uint64("count", again.count),
			slog.String("client", cmp.Or(of.client, "others")), slog.String("route", of.route), slog.String("key", of.key),
			slog.String("problem", of.name), slog.String("last_request", again.last))
	}
	s.room = fair.NewBudget(maxSamples, maxClientSamples)
	clear(s.counts)
}

// run ends one interval after the other until ctx ends.
func (s *sampler) run(ctx context.Context) {
	tick := time.NewTicker(sampleInterval)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			s.flush(now)
		case <-ctx.Done():
			return
		}
	}
}

// sampled writes a record about a request, with the client, key and route of the request. If a
// record of the same sort was written in this interval, the new one is at debug.
func (s *Server) sampled(c echo.Context, of sample, attrs func() []slog.Attr) {
	of.client, of.key, of.route = clientOf(c), keyOf(c), routeOf(c)
	if !s.samples.first(of, requestID(c), time.Now()) {
		of.level = slog.LevelDebug
	}
	if s.cfg.Logger.Enabled(c.Request().Context(), of.level) {
		s.record(c, of, attrs)
	}
}

// record writes a record about a request.
func (s *Server) record(c echo.Context, of sample, attrs func() []slog.Attr) {
	all := []slog.Attr{slog.String("request", requestID(c)), slog.String("client", c.RealIP()), slog.String("path", clip(c.Request().URL.Path)),
		slog.String("problem", of.name)}
	if key := keyOf(c); key != "" {
		all = append(all, slog.String("key", key))
	}
	s.cfg.Logger.LogAttrs(c.Request().Context(), of.level, of.message, append(all, attrs()...)...)
}

// clip bounds a client's text in a record.
func clip(text string) string {
	if len(text) > maxLogged {
		return text[:maxLogged] + "…"
	}
	return text
}

// keyKey is the name under which a request's context holds the key that its entry claims.
const keyKey = "arl.key"

// setKey notes the key that an entry of the request claims. It does not note a key that is not
// enrolled, since a client can make up any number of keys.
func (s *Server) setKey(c echo.Context, keyID string) {
	if _, known := s.coord.View().Chain.KeyInfo(keyID); known {
		c.Set(keyKey, keyID)
	}
}

func keyOf(c echo.Context) string {
	key, _ := c.Get(keyKey).(string)
	return key
}

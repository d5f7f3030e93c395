package server

import (
	"context"
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"recoveryledger/api"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// getEntries is GET /v1/entries.
func (s *Server) getEntries(ctx context.Context, r *request) (*api.Page, error) {
	q, err := parseListQuery(r.query())
	if err != nil {
		return nil, err
	}
	head := s.log.Head()
	lo, hi := q.from, min(q.before, head.Size)
	if q.since > 0 {
		first, err := s.log.FirstAt(int64(q.since))
		if err != nil {
			return nil, err
		}
		lo = max(lo, first)
	}
	if q.until > 0 {
		first, err := s.log.FirstAt(int64(q.until))
		if err != nil {
			return nil, err
		}
		hi = min(hi, first)
	}
	page := &api.Page{Head: head.Note, Entries: []api.Item{}}
	scanned := 0
	for index, err := range s.candidates(&q, lo, hi) {
		if err != nil {
			return nil, err
		}
		if len(page.Entries) == q.limit || scanned == maxScan || ctx.Err() != nil {
			page.Next = q.after(index, lo, hi)
			break
		}
		scanned++
		logged, err := s.log.Entry(index)
		if err != nil {
			return nil, err
		}
		if !q.matches(logged.Entry, index) {
			continue
		}
		item, err := s.item(logged, head.Head)
		if err != nil {
			return nil, err
		}
		page.Entries = append(page.Entries, *item)
	}
	return page, nil
}

// after returns the path of the page that begins at index. Bounds of time have
// become bounds of the index.
func (q *listQuery) after(index, lo, hi uint64) string {
	next := *q
	next.since, next.until, next.from, next.before = 0, 0, index, hi
	if q.newest {
		next.from, next.before = lo, index+1
	}
	if !q.newest && q.before == math.MaxUint64 && q.until == 0 {
		next.before = math.MaxUint64 // open-ended: what comes meanwhile belongs to it
	}
	return next.path()
}

// candidates yields the indexes from lo to below hi that the query's rarest
// filter finds, in its order.
func (s *Server) candidates(q *listQuery, lo, hi uint64) iter.Seq2[uint64, error] {
	return func(yield func(uint64, error) bool) {
		for lo < hi {
			chunk, err := s.chunk(q, lo, hi)
			if err != nil {
				yield(0, err)
				return
			}
			for _, index := range chunk {
				if !yield(index, nil) {
					return
				}
			}
			switch {
			case len(chunk) < streamBlock:
				return
			case q.newest:
				hi = chunk[len(chunk)-1]
			default:
				lo = chunk[len(chunk)-1] + 1
			}
		}
	}
}

// chunk returns the first candidates.
func (s *Server) chunk(q *listQuery, lo, hi uint64) ([]uint64, error) {
	switch {
	case len(q.tags) > 0:
		return s.log.Find(q.find(q.tags[0], lo, hi, streamBlock))
	case len(q.kinds) > 0:
		return s.chunkOfKinds(q, lo, hi)
	}
	chunk := make([]uint64, min(streamBlock, hi-lo))
	for i := range chunk {
		if chunk[i] = lo + uint64(i); q.newest {
			chunk[i] = hi - 1 - uint64(i)
		}
	}
	return chunk, nil
}

// chunkOfKinds merges what the index has of each kind. What a kind has beyond
// streamBlock entries lies behind that many of its own, so that the first
// streamBlock of the union are complete.
func (s *Server) chunkOfKinds(q *listQuery, lo, hi uint64) ([]uint64, error) {
	var chunk []uint64
	for _, kind := range q.kinds {
		found, err := s.log.Find(q.find(kind, lo, hi, streamBlock))
		if err != nil {
			return nil, err
		}
		chunk = append(chunk, found...)
	}
	slices.Sort(chunk) // an entry has one kind: none is here twice
	if q.newest {
		slices.Reverse(chunk)
	}
	return chunk[:min(len(chunk), streamBlock)], nil
}

// item returns an entry with its proof under head, checked: nothing damaged
// leaves under a signature.
func (s *Server) item(e *entry.Registered, head merkle.Head) (*api.Item, error) {
	proof, err := s.log.Inclusion(e.Index, head.Size)
	if err != nil {
		return nil, err
	}
	item := &api.Item{Entry: entryOf(e), Proof: proof}
	if err := merkle.CheckInclusion(e.Index, item.LeafHash, head, proof); err != nil {
		return nil, fmt.Errorf("%w: entry %d: %v", ledger.ErrCorrupt, e.Index, err)
	}
	return item, nil
}

func entryOf(e *entry.Registered) api.Entry {
	return api.Entry{
		Index: e.Index, RegisteredAt: e.RegisteredAt, LeafHash: e.LeafHash(),
		Envelope: api.NewEnvelope(e.Entry),
	}
}

// getEntry is GET /v1/entries/{index}.
func (s *Server) getEntry(_ context.Context, r *request) (*api.Entry, error) {
	index, err := r.number("index")
	if err != nil {
		return nil, err
	}
	logged, err := s.log.Entry(index)
	if err != nil {
		return nil, err
	}
	r.header().Set(echo.HeaderCacheControl, cacheForever)
	found := entryOf(logged)
	return &found, nil
}

// getReceipt is GET /v1/entries/{index}/receipt.
func (s *Server) getReceipt(c echo.Context) error {
	r := &request{c}
	links, err := linksWanted(r.query())
	if err != nil {
		return err
	}
	index, err := r.pathNumber("index")
	if err != nil {
		return err
	}
	receipt, err := s.log.Receipt(index)
	if err != nil {
		return err
	}
	if links {
		return s.answerLinks(c, http.StatusOK, receipt)
	}
	return s.answer(c, http.StatusOK, api.MediaJSON, appendReceipt(nil, receipt))
}

// getConsistency is GET /v1/consistency/{old}/{new}.
func (s *Server) getConsistency(_ context.Context, r *request) (*verify.Consistency, error) {
	older, err := r.number("old")
	if err != nil {
		return nil, err
	}
	newer, err := r.number("new")
	if err != nil {
		return nil, err
	}
	if older > newer {
		return nil, entry.Refuse(entry.Malformed, "old", "%d is more than %d", older, newer).WithRemedy("put the smaller size first")
	}
	path, err := s.log.Consistency(older, newer)
	if err != nil {
		return nil, err
	}
	r.header().Set(echo.HeaderCacheControl, cacheForever)
	return &verify.Consistency{Old: older, New: newer, Path: path}, nil
}

// getLog is GET /v1/log.
func (s *Server) getLog(_ context.Context, r *request) (*api.Log, error) {
	if err := noParams(r.query()); err != nil {
		return nil, err
	}
	keys := s.coord.View().Chain.LedgerKeys()
	if len(keys) == 0 {
		keys = s.cfg.VerifierKeys
	}
	return &api.Log{Origin: s.cfg.Origin, VerifierKeys: keys, Size: s.log.Head().Size}, nil
}

// request is what a handler sees of a request.
type request struct{ c echo.Context }

func (r *request) query() string { return r.c.Request().URL.RawQuery }

// header returns the header of the answer.
func (r *request) header() http.Header { return r.c.Response().Header() }

// number returns a path parameter that is a number, on a path without a query.
func (r *request) number(name string) (uint64, error) {
	if err := noParams(r.query()); err != nil {
		return 0, err
	}
	return r.pathNumber(name)
}

// pathNumber is number on a path whose query is read elsewhere.
func (r *request) pathNumber(name string) (uint64, error) {
	text := r.c.Param(name)
	value, err := parseNumber(text, math.MaxUint64)
	if err != nil {
		return 0, entry.Refuse(entry.Malformed, name, "%s is not a number from 0 to %d", strconv.QuoteToASCII(text[:min(len(text), 40)]), uint64(math.MaxUint64)).
			WithRemedy("write a decimal number without leading zeros")
	}
	return value, nil
}

// pathName returns a path parameter that is a name, percent-encoded.
func (r *request) pathName(name string) (string, error) {
	text, err := url.PathUnescape(r.c.Param(name))
	if err != nil {
		return "", entry.Refuse(entry.Malformed, name, "%v", err)
	}
	return text, nil
}

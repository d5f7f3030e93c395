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
	q := newListing(queryOf[api.ListQuery](r))
	head := s.log.Head()
	lo, hi := q.From, head.Size
	if q.Before != nil {
		hi = min(hi, *q.Before)
	}
	if q.Since > 0 {
		first, err := s.log.FirstAt(q.Since)
		if err != nil {
			return nil, err
		}
		lo = max(lo, first)
	}
	if q.Until > 0 {
		first, err := s.log.FirstAt(q.Until)
		if err != nil {
			return nil, err
		}
		hi = min(hi, first)
	}
	page := &api.Page{Head: head.Note, Entries: []api.Item{}}
	scanned := 0
	for index, err := range s.candidates(q, lo, hi) {
		if err != nil {
			return nil, err
		}
		if len(page.Entries) == q.Limit || scanned == maxScan || ctx.Err() != nil {
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

// after returns the path of the page that begins at index. The path has bounds of the index
// in place of bounds of time.
func (l *listing) after(index, lo, hi uint64) string {
	next := *l.ListQuery
	next.Since, next.Until, next.From, next.Before = 0, 0, index, &hi
	switch {
	case l.Newest:
		end := index + 1
		next.From, next.Before = lo, &end
	case l.Before == nil && l.Until == 0:
		next.Before = nil // open-ended: new entries belong to the list
	}
	if next.Limit == api.PageDefault {
		next.Limit = 0
	}
	return api.URL(api.PathEntries, &next)
}

// candidates yields the indexes from lo to below hi that the query's rarest filter finds, in
// the order of the query.
func (s *Server) candidates(q *listing, lo, hi uint64) iter.Seq2[uint64, error] {
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
			case q.Newest:
				hi = chunk[len(chunk)-1]
			default:
				lo = chunk[len(chunk)-1] + 1
			}
		}
	}
}

// chunk returns the first candidates, streamBlock at most.
func (s *Server) chunk(q *listing, lo, hi uint64) ([]uint64, error) {
	switch {
	case len(q.tags) > 0:
		return s.log.Find(q.find(q.tags[0], lo, hi, streamBlock))
	case len(q.kinds) > 0:
		return s.chunkOfKinds(q, lo, hi)
	}
	chunk := make([]uint64, min(streamBlock, hi-lo))
	for i := range chunk {
		if chunk[i] = lo + uint64(i); q.Newest {
			chunk[i] = hi - 1 - uint64(i)
		}
	}
	return chunk, nil
}

// chunkOfKinds merges the first streamBlock entries of each kind. A kind's further entries
// come after streamBlock entries of that kind. So the first streamBlock entries of the union
// are complete.
func (s *Server) chunkOfKinds(q *listing, lo, hi uint64) ([]uint64, error) {
	var chunk []uint64
	for _, kind := range q.kinds {
		found, err := s.log.Find(q.find(kind, lo, hi, streamBlock))
		if err != nil {
			return nil, err
		}
		chunk = append(chunk, found...)
	}
	slices.Sort(chunk) // an entry has one kind, so no index is here twice
	if q.Newest {
		slices.Reverse(chunk)
	}
	return chunk[:min(len(chunk), streamBlock)], nil
}

// item returns an entry with its proof under head. It checks the proof, so that no damaged
// entry leaves under a signature.
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
func (s *Server) getReceipt(r *request) error {
	index, err := r.number("index")
	if err != nil {
		return err
	}
	receipt, err := s.log.Receipt(index)
	if err != nil {
		return err
	}
	if receipt, err = s.upgrade(r.c.Request().Context(), r, receipt); err != nil {
		return err
	}
	if queryOf[api.ReceiptQuery](r).Links {
		return s.answerLinks(r.c, http.StatusOK, receipt)
	}
	return s.answer(r.c, http.StatusOK, api.MediaJSON, appendReceipt(nil, receipt))
}

// getCOSE is GET /v1/entries/{index}/receipt/cose.
func (s *Server) getCOSE(r *request) error {
	index, err := r.number("index")
	if err != nil {
		return err
	}
	if s.cfg.COSE == nil {
		return entry.Refuse(entry.NotFound, "", "the server has no key to sign COSE receipts").WithRemedy("ask for GET " + api.PathReceipt)
	}
	content, err := s.cfg.COSE(index)
	if err != nil {
		return err
	}
	return s.answer(r.c, http.StatusOK, api.MediaCOSE, content)
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
func (s *Server) getLog(context.Context, *request) (*api.Log, error) {
	keys := s.coord.View().Chain.LedgerKeys()
	if len(keys) == 0 {
		keys = s.cfg.VerifierKeys
	}
	return &api.Log{Origin: s.cfg.Origin, VerifierKeys: keys, Size: s.log.Head().Size, Witnessed: s.witnessing(), Index: s.indexStatus()}, nil
}

// request is a request as a handler sees it.
type request struct {
	c     echo.Context
	asked api.Query // of the type that the route names; nil: the route has no query
}

// queryOf returns the query of a request, of the type that its route names.
func queryOf[Q any](r *request) *Q {
	q, _ := any(r.asked).(*Q)
	return q
}

// header returns the header of the answer.
func (r *request) header() http.Header { return r.c.Response().Header() }

// number returns a path parameter that is a number.
func (r *request) number(name string) (uint64, error) {
	text := r.c.Param(name)
	value, err := api.ParseNumber(text, math.MaxUint64)
	if err != nil {
		return 0, entry.Refuse(entry.Malformed, name, "%s is not a number from 0 to %d", strconv.QuoteToASCII(text[:min(len(text), 40)]), uint64(math.MaxUint64)).
			WithRemedy("write a decimal number without leading zeros")
	}
	return value, nil
}

// name returns a path parameter that is a name, percent-encoded.
func (r *request) name(name string) (string, error) {
	text, err := url.PathUnescape(r.c.Param(name))
	if err != nil {
		return "", entry.Refuse(entry.Malformed, name, "%v", err)
	}
	return text, nil
}

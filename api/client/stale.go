package client

import (
	"errors"
	"fmt"
	"math"
	"net/http"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// StaleError reports a node whose log is smaller than the log that the client has accepted. The
// node is behind, or its ledger has lost entries. No answer of such a node counts, and none is
// evidence of a fork. A StaleError is an [*api.Problem], not-ready.
type StaleError struct {
	URL   string
	Size  uint64 // of the log at the node, by its word
	Least uint64 // size that the answer needs
	// Published is the smaller tree head that the node shows, under the ledger's signature, and
	// Accepted the larger one that it does not reach. Both are empty if the node showed no head.
	Published, Accepted string

	problem *api.Problem
}

// Error implements error.
func (e *StaleError) Error() string {
	shown := ""
	if e.Published != "" {
		shown = ", under the ledger's signature"
	}
	return fmt.Sprintf("%s is stale: its log has size %d%s, and a log of size %d was signed before: the node is behind, or its ledger has lost entries",
		e.URL, e.Size, shown, e.Least)
}

// Unwrap returns the problem, not-ready.
func (e *StaleError) Unwrap() error { return e.problem }

// stale returns the error for a node that answered with err where least entries are needed.
func stale(url string, size, least uint64, err error) *StaleError {
	e := &StaleError{URL: url, Size: size, Least: least}
	if problem, ok := errors.AsType[*api.Problem](err); ok && problem.Name() == entry.NotReady {
		e.problem = problem
		return e
	}
	e.problem = api.NewProblem(entry.Refuse(entry.NotReady, api.HeaderMinLogSize, "the log has size %d there, and the answer needs %d", size, least).
		WithRemedy("ask again, or ask another node; if the node stays behind, compare its tree head with the last accepted one"))
	return e
}

// lagging returns err, or a [*StaleError] if the refusal only says that the node has not reached
// the size that the answer needs.
func lagging(response *http.Response, base string, least uint64, err error) error {
	size, malformed := api.ParseNumber(response.Header.Get(api.HeaderLogSize), math.MaxUint64)
	refused := response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusServiceUnavailable
	if malformed != nil || !refused || size >= least {
		return err
	}
	return stale(base, size, least, err)
}

// unreached returns the [*StaleError] for a node that showed older and did not prove that newer
// continues it, or nil if err is not of that sort.
func (c *Client) unreached(older, newer verify.SignedHead, err error) error {
	found, ok := errors.AsType[*StaleError](err)
	problem, answered := errors.AsType[*api.Problem](err)
	if !ok && !errors.Is(err, ErrNotServed) && (!answered || problem.Name() != entry.NotFound) {
		return nil
	}
	if !ok {
		found = stale(c.url(), older.Size, newer.Size, err)
	}
	found.Published, found.Accepted = older.Note, newer.Note
	return found
}

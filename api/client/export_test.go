package client

import (
	"fmt"

	"recoveryledger/api"
)

// ScanMin is the limit of that name.
const ScanMin = scanMin

// SetMaxEvidence bounds the documents in a list of evidence.
func (c *Client) SetMaxEvidence(n int) { c.maxEvidence = n }

// MaxAnswer is the limit of that name.
const MaxAnswer = maxAnswer

// GoesOn reports whether a page without entries may go on after so many of the
// entries of a log.
func GoesOn(newest bool, size, looked uint64) bool {
	next := fmt.Sprintf("/v1/entries?from=%d", looked)
	if newest {
		next = fmt.Sprintf("/v1/entries?before=%d&newest=true", size-looked)
	}
	return furtherEntries(newest, api.URL(api.PathEntries, &api.ListQuery{Newest: newest}), &page{next: next}, size) == nil
}

package client

import "fmt"

// ScanMin is the limit of that name.
const ScanMin = scanMin

// GoesOn reports whether a page without entries may go on after so many of the
// entries of a log.
func GoesOn(newest bool, size, looked uint64) bool {
	q := Query{Newest: newest}
	next := fmt.Sprintf("/v1/entries?from=%d", looked)
	if newest {
		next = fmt.Sprintf("/v1/entries?before=%d&newest=true", size-looked)
	}
	return q.further(q.path(), &page{next: next}, size) == nil
}

package server

import (
	"io"

	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/fair"
)

// budgetReader reads a body, and takes the bytes that have arrived from a budget until
// release. A client that announces much and sends little keeps no other client out.
type budgetReader struct {
	body   io.Reader
	budget *fair.Budget
	client string
	held   int64
}

// Read implements [io.Reader]. The error is an [*entry.Refusal], rate-limited,
// if the budget is used up.
func (r *budgetReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if !r.budget.Take(r.client, int64(n)) {
		all, one := r.budget.Bounds()
		return 0, entry.Refuse(entry.RateLimited, "", "the batches under way hold %d bytes together, or those of %s %d",
			all, r.client, one)
	}
	r.held += int64(n)
	return n, err
}

func (r *budgetReader) release() { r.budget.Give(r.client, r.held) }

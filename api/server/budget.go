package server

import (
	"io"
	"sync"

	"recoveryledger/ledger/entry"
)

// budget bounds what all clients take together, and the part that one client takes. It counts
// bytes of batches, connections or event streams.
type budget struct {
	max, maxClient int64

	mu     sync.Mutex
	total  int64
	client map[string]int64
}

func newBudget(limit, clientLimit int64) *budget {
	return &budget{max: limit, maxClient: clientLimit, client: map[string]int64{}}
}

// take adds n to the client's share. If a bound forbids that, take reports false and adds
// nothing.
func (b *budget) take(client string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.total+n > b.max || b.client[client]+n > b.maxClient {
		return false
	}
	b.total += n
	b.client[client] += n
	return true
}

// give gives back n of the client's share.
func (b *budget) give(client string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total -= n
	if b.client[client] -= n; b.client[client] == 0 {
		delete(b.client, client)
	}
}

// budgetReader reads a body, and takes the bytes that have arrived from a budget until
// release. A client that announces much and sends little keeps no other client out.
type budgetReader struct {
	body   io.Reader
	budget *budget
	client string
	held   int64
}

// Read implements [io.Reader]. The error is an [*entry.Refusal], rate-limited,
// if the budget is used up.
func (r *budgetReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if !r.budget.take(r.client, int64(n)) {
		return 0, entry.Refuse(entry.RateLimited, "", "the batches under way hold %d bytes together, or those of %s %d",
			r.budget.max, r.client, r.budget.maxClient)
	}
	r.held += int64(n)
	return n, err
}

func (r *budgetReader) release() { r.budget.give(r.client, r.held) }

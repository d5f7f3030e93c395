package fair

import (
	"io"
	"sync"

	"recoveryledger/ledger/entry"
)

// Budget bounds what all clients take together, and the part that one client takes.
type Budget struct {
	max, maxClient int64

	mu     sync.Mutex
	total  int64
	client map[string]int64
}

// NewBudget returns a budget of which nothing is taken.
func NewBudget(limit, clientLimit int64) *Budget {
	return &Budget{max: limit, maxClient: clientLimit, client: map[string]int64{}}
}

// Bounds returns what all clients may take together, and what one may.
func (b *Budget) Bounds() (all, client int64) { return b.max, b.maxClient }

// Take adds n to the client's share. If a bound forbids that, Take reports false and adds nothing.
func (b *Budget) Take(client string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.total+n > b.max || b.client[client]+n > b.maxClient {
		return false
	}
	b.total += n
	b.client[client] += n
	return true
}

// Give gives back n of the client's share.
func (b *Budget) Give(client string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total -= n
	if b.client[client] -= n; b.client[client] == 0 {
		delete(b.client, client)
	}
}

// Body is a body under way. It takes the bytes that have arrived from the budget, until Release. A
// client that announces much and sends little keeps no other client out.
type Body struct {
	body   io.Reader
	budget *Budget
	client string
	held   int64
}

// Body returns a client's body, on the client's share.
func (b *Budget) Body(client string, body io.Reader) *Body { return &Body{body, b, client, 0} }

// Read implements [io.Reader]. The error is an [*entry.Refusal], rate-limited, if the budget is
// used up.
func (r *Body) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if !r.budget.Take(r.client, int64(n)) {
		all, one := r.budget.Bounds()
		return 0, entry.Refuse(entry.RateLimited, "", "the batches under way hold %d bytes together, or those of %s %d",
			all, r.client, one)
	}
	r.held += int64(n)
	return n, err
}

// Release gives the bytes back.
func (r *Body) Release() { r.budget.Give(r.client, r.held) }

package fair

import "sync"

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

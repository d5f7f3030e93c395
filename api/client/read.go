package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
	"recoveryledger/verify/cose"
)

// Entry is an entry of the log, signed by a key that counted at its index.
type Entry struct {
	verify.Entry
	Receipt verify.Receipt
}

// fetchReceipt fetches a receipt and checks only its form.
func (c *Client) fetchReceipt(ctx context.Context, index uint64) (verify.Receipt, error) {
	path := api.URL(api.PathReceipt, nil, index)
	r, err := c.do(ctx, call{method: http.MethodGet, path: path, limit: verify.MaxReceipt})
	if err != nil {
		return verify.Receipt{}, err
	}
	receipt, err := verify.DecodeReceipt(r.body)
	if err == nil && receipt.Index != index {
		err = malformed("the receipt of entry %d", receipt.Index)
	}
	if err != nil {
		return verify.Receipt{}, fmt.Errorf("client: GET %s: %w", path, err)
	}
	return receipt, nil
}

// Receipt returns the verified receipt of the entry at index, under a new tree head.
func (c *Client) Receipt(ctx context.Context, index uint64) (*verify.Receipt, error) {
	receipt, err := c.fetchReceipt(ctx, index)
	if err != nil {
		return nil, err
	}
	if _, err := c.prove(ctx, []verify.Receipt{receipt}); err != nil {
		return nil, err
	}
	return &receipt, nil
}

// COSE returns the receipt of the entry at index as a COSE receipt, verified, and in its usual
// form.
func (c *Client) COSE(ctx context.Context, index uint64) ([]byte, *verify.Receipt, error) {
	first, err := c.Receipt(ctx, index)
	if err != nil {
		return nil, nil, err
	}
	path := api.URL(api.PathCOSE, nil, index)
	r, err := c.do(ctx, call{method: http.MethodGet, path: path, limit: cose.MaxReceipt, answer: api.MediaCOSE})
	if err != nil {
		return nil, nil, err
	}
	receipt, err := cose.Open(r.body, first.Leaf, c.Root())
	if err == nil && receipt.Index != index {
		err = malformed("the receipt of entry %d", receipt.Index)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("client: GET %s: %w", path, err)
	}
	_, err = c.prove(ctx, []verify.Receipt{receipt})
	return r.body, &receipt, err
}

// CatchUp accepts the newest tree head of the log, which a receipt carries. The published head
// may be older. If the server has no receipts, as a mirror of an export, or if the log is
// empty, the published head is the newest.
func (c *Client) CatchUp(ctx context.Context) error {
	_, err := c.Receipt(ctx, 0)
	problem, answered := errors.AsType[*api.Problem](err)
	if answered && problem.Name() == entry.NotFound || errors.Is(err, ErrNotServed) {
		return nil
	}
	return err
}

// Entry returns the entry at index.
func (c *Client) Entry(ctx context.Context, index uint64) (*Entry, error) {
	receipt, err := c.fetchReceipt(ctx, index)
	if err != nil {
		return nil, err
	}
	found, err := c.entries(ctx, []verify.Receipt{receipt})
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

// entries proves receipts and checks the signatures of their entries.
func (c *Client) entries(ctx context.Context, receipts []verify.Receipt) ([]Entry, error) {
	proven, err := c.prove(ctx, receipts)
	if err != nil {
		return nil, err
	}
	list := make([]Entry, len(receipts))
	for i, receipt := range receipts {
		list[i] = Entry{proven[receipt.Index], receipt}
		if err := c.checkSigner(ctx, &list[i].Entry); err != nil {
			return nil, err
		}
		list[i].Signed = true
	}
	return list, nil
}

// check checks that a query asks for an entry, and that the entry comes after the one before.
func check(q *api.ListQuery, e *verify.Entry, previous *uint64) error {
	before := uint64(math.MaxUint64)
	if q.Before != nil {
		before = *q.Before
	}
	has := e.Tags(e.Index)
	switch {
	case e.Index < q.From || e.Index >= before,
		len(q.Kinds) > 0 && !slices.Contains(q.Kinds, e.Kind),
		e.RegisteredAt < q.Since || q.Until != 0 && e.RegisteredAt >= q.Until,
		slices.ContainsFunc(q.Tags(), func(tag entry.Tag) bool { return !slices.Contains(has, tag) }):
		return malformed("entry %d was not asked for", e.Index)
	case previous != nil && (*previous < e.Index) == q.Newest, previous != nil && *previous == e.Index:
		return malformed("entry %d behind %d", e.Index, *previous)
	}
	return nil
}

// Entries yields the entries that a query finds, in the order of the log or, if the query says
// so, backwards. Entries yields an error last. It does not prove that no entry was left out.
func (c *Client) Entries(ctx context.Context, q api.ListQuery) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		for item, err := range c.items(ctx, q) {
			if err != nil {
				yield(nil, err)
				return
			}
			if err := c.checkSigner(ctx, &item.Entry); err != nil {
				yield(nil, err)
				return
			}
			item.Signed = true
			if !yield(item, nil) {
				return
			}
		}
	}
}

// SignedSince returns the entries of a principal, from an index on, that a key has signed. If the
// key was compromised since that index, another party may have signed them (TRU-4). It does not
// prove that no entry was left out.
func (c *Client) SignedSince(ctx context.Context, p entry.Principal, keyID string, since uint64) (signed []*Entry, err error) {
	for e, err := range c.Entries(ctx, api.ListQuery{Agent: p, From: since, Limit: api.MaxPage}) {
		if err != nil {
			return nil, err
		}
		if e.KeyID == keyID {
			signed = append(signed, e)
		}
	}
	return signed, nil
}

// items yields the proven entries that a query finds. It does not check their signatures.
func (c *Client) items(ctx context.Context, q api.ListQuery) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		var previous *uint64
		for path := api.URL(api.PathEntries, &q); path != ""; {
			page, err := c.page(ctx, path)
			if err != nil {
				yield(nil, fmt.Errorf("client: list entries: %w", err))
				return
			}
			for i := range page.entries {
				e := &page.entries[i]
				if err := check(&q, &e.Entry, previous); err != nil {
					yield(nil, fmt.Errorf("client: list entries: %w", err))
					return
				}
				previous = &e.Index
				if !yield(e, nil) {
					return
				}
			}
			if err := furtherEntries(q.Newest, path, page, c.Accepted().Size); err != nil {
				yield(nil, fmt.Errorf("client: list entries: %w", err))
				return
			}
			path = page.next
		}
	}
}

// furtherEntries checks the path of the next page of a list. Each page must leave fewer entries
// of the log to look at. An empty page must leave many fewer, so that the list ends soon even if
// the server wants a long list.
func furtherEntries(newest bool, path string, p *page, size uint64) error {
	looked := uint64(len(p.entries))
	if looked == 0 {
		looked = scanMin
	}
	if p.next == "" || strings.HasPrefix(p.next, api.PathEntries+"?") && left(newest, p.next, size)+looked <= left(newest, path, size) {
		return nil
	}
	return malformed("the list goes on at %.200q", p.next)
}

// left returns the largest number of entries that a page and the pages after it may have. The
// log has size entries.
func left(newest bool, path string, size uint64) uint64 {
	_, query, _ := strings.Cut(path, "?")
	v, _ := url.ParseQuery(query) // a malformed number leaves all entries
	if !newest {
		from, _ := strconv.ParseUint(v.Get("from"), 10, 64)
		return size - min(from, size)
	}
	before, err := strconv.ParseUint(v.Get("before"), 10, 64)
	if err != nil {
		return size
	}
	return min(before, size)
}

// page is a page of proven entries.
type page struct {
	entries []Entry
	next    string
}

func (c *Client) page(ctx context.Context, path string) (*page, error) {
	answer, err := get[api.Page](ctx, c, path, maxAnswer)
	if err != nil {
		return nil, err
	}
	p := &page{next: answer.Next, entries: make([]Entry, len(answer.Entries))}
	receipts := make([]verify.Receipt, len(answer.Entries))
	for i := range answer.Entries {
		if receipts[i], err = answer.Entries[i].Receipt(answer.Head); err != nil {
			return nil, malformed("entry %d: %v", answer.Entries[i].Index, err)
		}
	}
	if len(receipts) == 0 {
		_, err := c.believe(ctx, answer.Head, nil)
		return p, err
	}
	proven, err := c.prove(ctx, receipts)
	for i := range receipts {
		p.entries[i] = Entry{proven[receipts[i].Index], receipts[i]}
	}
	return p, err
}

// Log returns the server's statement about the log. The origin is the pinned one. The keys are for
// people to compare.
func (c *Client) Log(ctx context.Context) (*api.Log, error) {
	log, err := get[api.Log](ctx, c, api.PathLog, maxValue)
	if err != nil {
		return nil, err
	}
	if log.Origin != c.Root().Origin {
		return nil, fmt.Errorf("client: the server at %s is the ledger %.140q, the pinned one is %q", c.url(), log.Origin, c.Root().Origin)
	}
	return log, nil
}

// Cluster returns the nodes that keep the log, as the node that answers knows them. The answer is
// the server's word. The error is a not-found [*api.Problem] if the ledger is no cluster.
func (c *Client) Cluster(ctx context.Context) (*api.Cluster, error) {
	return get[api.Cluster](ctx, c, api.PathCluster, maxValue)
}

// Ready returns nil if a node takes entries, else the [*api.Problem] that says why not. It asks
// each node once.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.round(ctx, call{method: http.MethodGet, path: api.PathReady, limit: maxValue})
	return err
}

// Metrics returns the metrics of the server, by its word, in the text format of Prometheus. It asks
// the server once.
func (c *Client) Metrics(ctx context.Context) ([]byte, error) {
	r, err := c.once(ctx, call{method: http.MethodGet, path: api.PathMetrics, limit: maxMetrics, answer: "text/plain"})
	if err != nil {
		return nil, fmt.Errorf("client: GET %s: %w", api.PathMetrics, err)
	}
	return r.body, nil
}

// Tile returns the bytes of a tile (c2sp.org/tlog-tiles). The bytes prove nothing until they
// hash to an accepted tree head. The error is an [*api.Problem], not-found, if the log has not
// reached the tile.
func (c *Client) Tile(ctx context.Context, t merkle.Tile) ([]byte, error) {
	r, err := c.do(ctx, call{method: http.MethodGet, path: "/" + t.Path(), limit: maxTile, static: true})
	if err != nil {
		return nil, err
	}
	return r.body, nil
}

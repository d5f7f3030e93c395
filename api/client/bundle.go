package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify/bundle"
)

// BundlePage is a page of a bundle, as the server gave it.
type BundlePage struct {
	*bundle.Bundle
	// Next is the value of After for the next page of the agent's members, or of the news.
	// Ask for it from the size that was accepted with this page. 0: there is no next page.
	Next uint64
}

// Bundle returns a page of the bundle that shows an agent what it must undo in an incident.
// Without such a decision it returns a page of news: the policies, keys and overrides that the
// agent must know. The page is well-formed and answers the query, but the client believes
// nothing in it. [bundle.Bundle.Check] gives the verdict, against what the agent has accepted.
func (c *Client) Bundle(ctx context.Context, q api.BundleQuery) (*BundlePage, error) {
	return c.bundle(ctx, q, false)
}

// BundleAnew is [Client.Bundle] over a new connection, past what caches keep: for a page that did
// not verify, and that a carrier may have altered.
func (c *Client) BundleAnew(ctx context.Context, q api.BundleQuery) (*BundlePage, error) {
	return c.bundle(ctx, q, true)
}

func (c *Client) bundle(ctx context.Context, q api.BundleQuery, anew bool) (*BundlePage, error) {
	path := q.URL()
	r, err := c.do(ctx, call{method: http.MethodGet, path: path, limit: bundle.MaxSize, anew: anew})
	if err != nil {
		return nil, err
	}
	refuse := func(format string, args ...any) (*BundlePage, error) {
		return nil, fmt.Errorf("client: GET %s: %w", path, malformed(format, args...))
	}
	b, err := bundle.Decode(r.body)
	switch {
	case err != nil:
		return refuse("%v", err)
	case b.Agent != q.Agent || b.From != q.From || q.Incident == 0 && b.Decision != 0:
		return refuse("a bundle of %s from %d, of decision %d", b.Agent, b.From, b.Decision)
	}
	page := &BundlePage{Bundle: b}
	link := r.header.Get("Link")
	if link == "" {
		return page, nil
	}
	target, rel, _ := strings.Cut(strings.TrimPrefix(link, "<"), ">;")
	next, err := url.Parse(target)
	if err != nil || strings.TrimSpace(rel) != `rel="next"` {
		return refuse("Link: %.200q", link)
	}
	if page.Next, err = strconv.ParseUint(next.Query().Get("after"), 10, 63); err != nil || page.Next <= q.After {
		return refuse("the page behind %d goes on at %.40q", q.After, next.Query().Get("after"))
	}
	return page, nil
}

// Commands returns the commands of an agent, by the server's word. They are a hint at the
// incidents for which to call [Client.Bundle]. With Wait, Commands returns when a new entry
// concerns the agent, or when the time is over.
func (c *Client) Commands(ctx context.Context, agent entry.Principal, q api.CommandsQuery) (*api.Commands, error) {
	q.Wait = max(0, min(q.Wait, api.MaxWait))
	commands, err := fetch[api.Commands](ctx, c, call{method: http.MethodGet, path: api.URL(api.PathCommands, &q, agent), limit: maxValue, least: q.From})
	if err == nil && (commands.Agent != agent || commands.Size < q.From) {
		err = malformed("commands of %.140q at size %d", commands.Agent, commands.Size)
	}
	return commands, err
}

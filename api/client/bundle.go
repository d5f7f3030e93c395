package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// BundleQuery says which authorization bundle is asked for.
type BundleQuery struct {
	Incident uint64          // index of its opening signal; 0: news alone
	Agent    entry.Principal // whose bundle it is to be
	// From is the size of the head that the agent accepted last: of its
	// [verify.Accepted]. 0: none.
	From uint64
	// After is where the page before ended: its Next. 0: the first page.
	After uint64
	// Whole asks for all policies and keys, whatever the agent accepted: some are
	// missing (TRU-2, TRU-3).
	Whole bool
	// Limit is how many of the agent's members a page may have. 0: as many as the
	// server likes.
	Limit int
}

// BundlePage is a bundle as the server gave it.
type BundlePage struct {
	*verify.Bundle
	// Next is where the agent's members, or the news, go on: ask again with After,
	// from the size that was accepted with this page. 0: this is all.
	Next uint64
}

func (q *BundleQuery) path() string {
	v := url.Values{"from": {strconv.FormatUint(q.From, 10)}}
	if q.After != 0 {
		v.Set("after", strconv.FormatUint(q.After, 10))
	}
	if q.Whole {
		v.Set("whole", "true")
	}
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.Incident == 0 {
		return pathOf("v1", "agents", q.Agent, "news") + "?" + v.Encode()
	}
	v.Set("agent", string(q.Agent))
	return pathOf("v1", "incidents", q.Incident, "bundle") + "?" + v.Encode()
}

// Bundle returns a page of what shows an agent that it is to undo something in an
// incident, or, if there is no such decision, of news: policies, keys and
// overrides that it is to know of. It is well-formed and as asked for, and nothing
// of it is believed: the verdict is that of [verify.Bundle.Check], against what
// the agent itself has accepted.
func (c *Client) Bundle(ctx context.Context, q BundleQuery) (*BundlePage, error) {
	path := q.path()
	r, err := c.do(ctx, call{method: http.MethodGet, path: path, limit: verify.MaxBundle})
	if err != nil {
		return nil, err
	}
	refuse := func(format string, args ...any) (*BundlePage, error) {
		return nil, fmt.Errorf("client: GET %s: %w", path, malformed(format, args...))
	}
	b, err := verify.DecodeBundle(r.body)
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

// CommandsQuery says since when and how long is waited for commands.
type CommandsQuery struct {
	// From is the size that the answer before had: only what was registered since
	// ends the waiting. 0: whatever there is.
	From uint64
	// Wait is how long the server may wait for something; it does so for 25 s at
	// most. 0: it answers at once.
	Wait time.Duration
}

// Commands returns what an agent has to do, by the server's word: a hint for
// which incidents [Client.Bundle] is to be asked. With Wait it answers when
// something concerns the agent, or when the time is over.
func (c *Client) Commands(ctx context.Context, agent entry.Principal, q CommandsQuery) (*api.Commands, error) {
	v := url.Values{"from": {strconv.FormatUint(q.From, 10)}}
	if q.Wait > 0 {
		v.Set("wait", strconv.FormatInt(min(q.Wait, waitCommands).Milliseconds(), 10))
	}
	commands, err := get[api.Commands](ctx, c, pathOf("v1", "agents", agent, "commands")+"?"+v.Encode(), maxValue)
	if err == nil && (commands.Agent != agent || commands.Size < q.From) {
		err = malformed("commands of %.140q at size %d", commands.Agent, commands.Size)
	}
	return commands, err
}

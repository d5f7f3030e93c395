package client

import (
	"context"
	"fmt"
	"net/http"

	"recoveryledger/api"
	"recoveryledger/verify"
)

// Complete is a complete history that was verified: which entries there are about a
// subject, and that there are no others.
type Complete struct {
	History *verify.History
	Report  verify.Report // with an answer for each label asked for, or one for all
}

// Complete asks for a complete history, and verifies that it answers the question: it
// proves every entry, and that none was left out, from the first index asked for up to
// the Size that the history has. If that is less than was asked for, the answer was cut
// at the limit: ask again with Since at that size. With Incidents, each incident that the
// server says the agent has to do with is proven whole, up to there.
func (c *Client) Complete(ctx context.Context, q api.CompleteQuery) (*Complete, error) {
	path := q.URL()
	r, err := c.do(ctx, call{method: http.MethodGet, path: path, limit: verify.MaxFile})
	if err != nil {
		return nil, err
	}
	h, err := verify.DecodeHistory(r.body)
	switch {
	case err != nil:
	case q.Size > 0 && (h.Size > q.Size || h.Size < q.Size && q.Limit == 0), h.Size <= q.Since:
		err = malformed("a history from %d up to %d", q.Since, h.Size)
	default:
		_, err = c.accept(ctx, h.Head, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("client: GET %s: %w", path, err)
	}
	m := verify.Material{Histories: []*verify.History{h}, Questions: q.Questions(h)}
	report, err := c.Root().Verify(m)
	if err == nil && len(report.Missing) > 0 {
		err = malformed("a history that lacks %s", report.Missing[0].What)
	}
	if err != nil {
		return nil, fmt.Errorf("client: GET %s: %w", path, err)
	}
	return &Complete{h, report}, nil
}

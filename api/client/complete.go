package client

import (
	"context"
	"fmt"
	"net/http"

	"recoveryledger/api"
	"recoveryledger/verify"
)

// Complete is a verified complete history: the entries about a subject, and the proof that
// there are no others.
type Complete struct {
	History *verify.History
	Report  verify.Report // with an answer for each label of the query, or one for all labels
}

// Complete asks for a complete history, and verifies that it answers the query. The history
// proves every entry, and that none was left out, from the first index of the query up to the
// Size of the history. If that Size is less than the query's, the answer was cut at the limit:
// ask again with Since at that Size. With Incidents, the history proves whole, up to its Size,
// each incident that by the server's word involves the agent.
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

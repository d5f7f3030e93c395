package client

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
)

// Decide asks what to do about the failure with which a history ends. The question and the decision
// are JSON in the form of package ask in coord/recovery. The rules are those of the policy in
// force. The answer is the word of the server. The same question under the policy that Rules names
// gets the same decision, which package ask derives again. A refused question is an [*api.Problem].
func (c *Client) Decide(ctx context.Context, question []byte) (*api.Decided, error) {
	got, err := c.do(ctx, call{method: http.MethodPost, path: api.PathDecide, mediaType: api.MediaJSON, body: question, limit: maxValue})
	if err != nil {
		return nil, fmt.Errorf("client: decide: %w", err)
	}
	decided := new(api.Decided)
	if err := json.Unmarshal(got.body, decided); err != nil || decided.Decision.Kind() != '{' {
		return nil, fmt.Errorf("client: decide: %w", malformed("no decision: %v", err))
	}
	return decided, nil
}

package client

import (
	"context"

	"recoveryledger/api"
)

// Rollouts returns the rollouts of candidate policies as the server shows them. Only the entries of
// kind rollout, and the attempts that name an arm, prove them.
func (c *Client) Rollouts(ctx context.Context) (*api.Rollouts, error) {
	return get[api.Rollouts](ctx, c, api.PathRollouts, maxAnswer)
}

// Rollout returns a rollout as the server shows it. The error is an [*api.Problem] of the type
// not-found if the log has no such rollout.
func (c *Client) Rollout(ctx context.Context, name string) (*api.OneRollout, error) {
	one, err := get[api.OneRollout](ctx, c, api.URL(api.PathRollout, nil, name), maxAnswer)
	if err != nil {
		return nil, err
	}
	is := ""
	switch {
	case one.Current != nil:
		is = one.Current.Rollout
	case one.Ended != nil:
		is = one.Ended.Rollout
	}
	if is != name {
		return nil, malformed("rollout %.140q in the place of %s", is, name)
	}
	return one, nil
}

package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// Tasks yields the tasks as the server shows them, the newest first. Only the entries of a task
// prove the task. Nothing proves its lease. Tasks yields an error last.
func (c *Client) Tasks(ctx context.Context, q api.TaskQuery) iter.Seq2[*api.Task, error] {
	return func(yield func(*api.Task, error) bool) {
		for path := api.URL(api.PathTasks, &q); path != ""; {
			page, err := get[api.Tasks](ctx, c, path, maxAnswer)
			if err == nil {
				err = further(path, page.Next, api.PathTasks+"?")
			}
			if err != nil {
				yield(nil, fmt.Errorf("client: list tasks: %w", err))
				return
			}
			for i := range page.Tasks {
				if !yield(&page.Tasks[i], nil) {
					return
				}
			}
			path = page.Next
		}
	}
}

// Task returns a task and its lease, as the server shows them.
func (c *Client) Task(ctx context.Context, ref entry.Ref) (*api.Task, error) {
	task, err := get[api.Task](ctx, c, api.URL(api.PathTask, nil, ref), maxAnswer)
	if err == nil && task.Task != ref {
		err = malformed("task %.280q in the place of %s", task.Task, ref)
	}
	return task, err
}

// Renew renews the lease of a task. The renewal names that lease alone: see [entry.Renewal].
// Renew sends it once. Without an answer, send a renewal with a larger seq. The error is an
// [*api.Problem] if the lease is lost, or if the coordinator has begun another session.
func (c *Client) Renew(ctx context.Context, r *entry.SignedRenewal) (*api.Lease, error) {
	if len(r.Leases) != 1 {
		return nil, fmt.Errorf("client: renew: %d leases, want 1", len(r.Leases))
	}
	lease := new(api.Lease)
	err := c.renew(ctx, api.URL(api.PathLease, nil, r.Leases[0].Task), r, lease)
	if err == nil {
		err = renewed(lease, r, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("client: renew %s: %w", r.Leases[0].Task, err)
	}
	return lease, nil
}

// RenewAll renews all leases that a renewal names, and returns the result for each, in the
// order of the renewal. RenewAll sends the renewal once. The error is an [*api.Problem] if the
// renewal does not count at all.
func (c *Client) RenewAll(ctx context.Context, r *entry.SignedRenewal) ([]api.RenewedLease, error) {
	var all api.Renewed
	if err := c.renew(ctx, api.PathLeases, r, &all); err != nil {
		return nil, fmt.Errorf("client: renew leases, %d in number: %w", len(r.Leases), err)
	}
	if len(all.Leases) != len(r.Leases) {
		return nil, fmt.Errorf("client: renew: %w", malformed("%d leases in the place of %d", len(all.Leases), len(r.Leases)))
	}
	for i := range all.Leases {
		one := &all.Leases[i]
		if (one.Lease == nil) == (one.Problem == nil) {
			return nil, fmt.Errorf("client: renew: %w", malformed("neither a lease nor a problem, or both, of %s", r.Leases[i].Task))
		}
		if one.Lease == nil {
			continue
		}
		if err := renewed(one.Lease, r, i); err != nil {
			return nil, fmt.Errorf("client: renew: %w", err)
		}
	}
	return all.Leases, nil
}

// renew posts a renewal.
func (c *Client) renew(ctx context.Context, path string, r *entry.SignedRenewal, answer any) error {
	body, err := entry.EncodeRenewal(r)
	if err != nil {
		return err
	}
	got, err := c.once(ctx, call{method: http.MethodPost, path: path, mediaType: api.MediaJSON, body: body, limit: maxValue})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(got.body, answer); err != nil {
		return malformed("%v", err)
	}
	return nil
}

// renewed checks a lease against the i-th lease of the renewal.
func renewed(lease *api.Lease, r *entry.SignedRenewal, i int) error {
	want := &r.Leases[i]
	if lease.Task != want.Task || lease.Epoch != want.Epoch || lease.Seq != r.Seq {
		return malformed("the lease of %.280s at epoch %d in the place of %s at %d", lease.Task, lease.Epoch, want.Task, want.Epoch)
	}
	return nil
}

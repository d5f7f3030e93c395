package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// TaskQuery says which tasks are asked for. The zero value is all of them.
type TaskQuery struct {
	State    string           // a state, open, closed, or operator: those that wait for one; empty: any
	Agent    entry.Principal  // only those whose newest claim is of it
	Workflow entry.WorkflowID // only those of it
	Page     int              // tasks fetched at once; 0: as many as the server likes
}

func (q *TaskQuery) path() string {
	v := url.Values{}
	for name, value := range map[string]string{"state": q.State, "agent": string(q.Agent), "workflow": string(q.Workflow)} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.Page != 0 {
		v.Set("limit", strconv.Itoa(q.Page))
	}
	if len(v) == 0 {
		return "/v1/tasks"
	}
	return "/v1/tasks?" + v.Encode()
}

// Tasks yields what the server says of tasks, the newest first. Nothing proves it
// but the entries of each, and of its lease nothing does. An error is the last
// that is yielded.
func (c *Client) Tasks(ctx context.Context, q TaskQuery) iter.Seq2[*api.Task, error] {
	return func(yield func(*api.Task, error) bool) {
		for path := q.path(); path != ""; {
			page, err := get[api.Tasks](ctx, c, path, maxAnswer)
			if err == nil {
				err = further(path, page.Next, "/v1/tasks?")
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

// Task returns what the server says of a task, and of its lease.
func (c *Client) Task(ctx context.Context, ref entry.Ref) (*api.Task, error) {
	task, err := get[api.Task](ctx, c, pathOf("v1", "tasks", ref), maxAnswer)
	if err == nil && task.Task != ref {
		err = malformed("task %.280q in the place of %s", task.Task, ref)
	}
	return task, err
}

// Renew renews the lease of a task: see [entry.Renewal]. It is sent once: if no
// answer comes, send one with a larger seq. The error is an [*api.Problem] if the
// lease is lost, or the coordinator has begun another session.
func (c *Client) Renew(ctx context.Context, r *entry.SignedRenewal) (*api.Lease, error) {
	body, err := entry.EncodeRenewal(r)
	if err != nil {
		return nil, err
	}
	answer, err := c.once(ctx, call{method: http.MethodPost, path: pathOf("v1", "tasks", r.Task, "lease"), mediaType: api.MediaJSON, body: body, limit: maxAnswer})
	if err != nil {
		return nil, fmt.Errorf("client: renew %s: %w", r.Task, err)
	}
	lease := new(api.Lease)
	if err := json.Unmarshal(answer.body, lease); err != nil {
		return nil, fmt.Errorf("client: renew %s: %w", r.Task, malformed("%v", err))
	}
	if lease.Task != r.Task || lease.Epoch != r.Epoch || lease.Seq != r.Seq {
		return nil, malformed("the lease of %.280s at epoch %d in the place of %s at %d", lease.Task, lease.Epoch, r.Task, r.Epoch)
	}
	return lease, nil
}

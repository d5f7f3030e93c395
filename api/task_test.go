package api_test

import (
	"testing"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// TestChoose: a reassign gives the task to the named agent, unless the policy excludes that
// agent, and without a name to the coordinator's choice.
func TestChoose(t *testing.T) {
	chosen := api.Reassignment{Agent: "b", Except: "a"}
	busy := api.Reassignment{Except: "a", Obstacle: api.ObstacleBusy}
	for _, c := range []struct {
		of       api.Reassignment
		named    entry.Principal
		agent    entry.Principal
		obstacle string
	}{
		{chosen, "", "b", ""},
		{chosen, "c", "c", ""},
		{chosen, "a", "", api.ObstacleExcept},
		{busy, "", "", api.ObstacleBusy},
		{busy, "c", "c", ""},
		{api.Reassignment{Agent: "a"}, "a", "a", ""},
	} {
		if agent, obstacle := c.of.Choose(c.named); agent != c.agent || obstacle != c.obstacle {
			t.Errorf("%+v for %q: %q, %q; want %q, %q", c.of, c.named, agent, obstacle, c.agent, c.obstacle)
		}
	}
}

// TestTaskByItself: a task changes by itself when its lease is lost, or when the policy
// lets it continue.
func TestTaskByItself(t *testing.T) {
	due := &api.TaskRecovery{Due: 7}
	for _, c := range []struct {
		of api.Task
		at int64
	}{
		{api.Task{Lease: &api.Lease{ExpiresAt: 5}, Recovery: due}, 5},
		{api.Task{Recovery: due, Waits: api.WaitsCoordinator, ChangedAt: 6}, 7},
		{api.Task{Recovery: due, Waits: api.WaitsCoordinator, ChangedAt: 7}, 0},
		{api.Task{Recovery: due, Waits: api.WaitsOperator, GivenBy: entry.TaskRelease}, 0},
	} {
		if at := c.of.NextAt(); at != c.at {
			t.Errorf("%+v: at %d", c.of, at)
		}
	}
}

// TestRetriesSpent: the first claim is no retry, and a task that was never claimed has spent none.
func TestRetriesSpent(t *testing.T) {
	for _, c := range []struct {
		epoch, count, most int64
		want               bool
	}{{0, 0, 0, false}, {1, 0, 0, true}, {1, 0, 1, false}, {2, 1, 1, true}} {
		task := api.Task{Epoch: c.epoch, RetryCount: c.count, MaxRetries: c.most}
		if got := task.RetriesSpent(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

package demo

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"recoveryledger/api/client/agent"
)

// hooks undo the work of the agent.
func (p *player) hooks() agent.Hooks {
	h := agent.Hooks{Probe: p.probe}
	switch p.name {
	case researcher, writer, pricer, publisher:
		h.Restore, h.Idempotent = p.restore, []agent.Hook{agent.Restore}
	case booker:
		h.Compensate = p.compensate
	case mailer:
		h.Cancel, h.Idempotent = p.cancel, []agent.Hook{agent.Cancel}
	}
	return h
}

// restore takes the line of the agent back to the checkpoint.
func (p *player) restore(_ context.Context, c *agent.Call) (*agent.Report, error) {
	if len(c.Standing) > 0 { // the only checkpoint of a line comes before its first execution
		return &agent.Report{Status: agent.Failed, Residual: "the state beside the checkpoint cannot be loaded"}, nil
	}
	state, err := os.ReadFile(p.checkpointFile(c.Members[0].Wid))
	if err == nil {
		err = p.dir.files(p.name, c.Members[0].Wid).restore(state)
	}
	if err != nil {
		return nil, err
	}
	return p.restored(c)
}

// restored reports the state that is there now.
func (p *player) restored(c *agent.Call) (*agent.Report, error) {
	now, err := p.dir.files(p.name, c.Members[0].Wid).snapshot()
	return &agent.Report{Status: agent.Done, Digest: stateDigest(p.secret, now)}, err
}

// compensate cancels a booking. A booking can be cancelled only once. In the part with a crash, the
// process dies after the cancellation and before its report.
func (p *player) compensate(_ context.Context, c *agent.Call) (*agent.Report, error) {
	exec := c.Members[0].Exec
	if err := p.dir.bookings().cancel(c.Key, exec, c.CompExec); err != nil {
		return nil, err
	}
	if exec == p.crash {
		p.out.say(line{Kind: "crashed", Text: "killed by SIGKILL in the middle of its compensation; started again"})
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		if err != nil {
			return nil, err
		}
		select {} // until the signal ends the process
	}
	return &agent.Report{Status: agent.Done}, nil
}

// cancel removes a queued mail from the queue.
func (p *player) cancel(_ context.Context, c *agent.Call) (*agent.Report, error) {
	if err := os.Remove(p.dir.queued(c.Members[0].Exec)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &agent.Report{Status: agent.Done}, nil
}

// probe reports whether a call before a crash had its effect.
func (p *player) probe(_ context.Context, c *agent.Call) (*agent.Report, error) {
	switch c.Of {
	case agent.Compensate:
		keys, err := p.dir.bookings().cancelled(c.Members[0].Exec)
		if slices.ContainsFunc(keys, func(key string) bool { return slices.Contains(c.Keys, key) }) {
			return &agent.Report{Status: agent.Done}, err
		}
		return &agent.Report{Status: agent.NoEffect}, err // a missing cancellation will not happen later
	case agent.Restore:
		if r, err := p.restored(c); err != nil || r.Digest == c.Digest {
			return r, err
		}
	}
	return &agent.Report{Status: agent.Unknown}, nil // the hook runs again
}

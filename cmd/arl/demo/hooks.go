package demo

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"recoveryledger/api/client/agent"
)

// hooks are what the agent can undo.
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

// restore takes the line back to the checkpoint.
func (p *player) restore(_ context.Context, c *agent.Call) (*agent.Report, error) {
	if len(c.Standing) > 0 { // the one checkpoint of a line comes before all that it does
		return &agent.Report{Status: agent.Failed, Residual: "what stands beside the checkpoint cannot be loaded"}, nil
	}
	_, id, _ := strings.Cut(string(c.Checkpoint), "#")
	state, err := os.ReadFile(p.dir.checkpoint(p.name, id))
	if err != nil {
		return nil, err
	}
	if err := p.reversible().restore(c.Members[0].Wid, state); err != nil {
		return nil, err
	}
	return p.restored(c)
}

// restored reports the state that is there now.
func (p *player) restored(c *agent.Call) (*agent.Report, error) {
	now, err := p.reversible().snapshot(c.Members[0].Wid)
	if err != nil {
		return nil, err
	}
	return &agent.Report{Status: agent.Done, Digest: p.stateDigest(now)}, nil
}

// compensate cancels a booking. It is not idempotent, and where the process is
// meant to crash, it is done and nobody has heard of it.
func (p *player) compensate(_ context.Context, c *agent.Call) (*agent.Report, error) {
	exec := c.Members[0].Exec
	if err := p.rows().cancel(c.Key, exec, c.CompExec); err != nil {
		return nil, err
	}
	if exec == p.crash {
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		if err != nil {
			return nil, err
		}
		select {} // until the signal is here
	}
	return &agent.Report{Status: agent.Done}, nil
}

// cancel takes out of the queue what was to be sent.
func (p *player) cancel(_ context.Context, c *agent.Call) (*agent.Report, error) {
	_, id, _ := strings.Cut(string(c.Members[0].Exec), "#")
	if err := os.Remove(p.dir.queued(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &agent.Report{Status: agent.Done}, nil
}

// probe looks what became of something that was begun before a crash.
func (p *player) probe(_ context.Context, c *agent.Call) (*agent.Report, error) {
	switch c.Of {
	case agent.Compensate:
		keys, err := p.rows().cancelled(c.Members[0].Exec)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(keys, func(key string) bool { return slices.Contains(c.Keys, key) }) {
			return &agent.Report{Status: agent.Done}, nil
		}
		return &agent.Report{Status: agent.NoEffect}, nil // a transaction that did not commit never will
	case agent.Restore:
		if r, err := p.restored(c); err != nil || r.Digest == c.Digest {
			return r, err
		}
	}
	return &agent.Report{Status: agent.Unknown}, nil // it runs again
}

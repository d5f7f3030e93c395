package server

import (
	"context"
	"slices"
	"time"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// getCommands is GET /v1/agents/{id}/commands: what an agent has to do, at once,
// or when something concerns it that was registered since.
func (s *Server) getCommands(ctx context.Context, r *request) (*api.Commands, error) {
	p := parseParams(r.query(), "from", "wait")
	from, wait := p.number("from", 0, entry.MaxInteger), p.number("wait", 0, uint64(maxWait.Milliseconds()))
	if err := p.err(); err != nil {
		return nil, err
	}
	id, err := r.pathName("id")
	if err != nil {
		return nil, err
	}
	client := clientOf(r.c)
	if wait > 0 && !s.streams.take(client, 1) {
		return nil, entry.Refuse(entry.RateLimited, "", "%d streams and questions are open, or %d of %s", s.streams.max, s.streams.maxClient, client)
	} else if wait > 0 {
		defer s.streams.give(client, 1)
		s.metrics.streams.Inc()
		defer s.metrics.streams.Dec()
	}
	ctx, cancel := s.untilDrained(ctx)
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, min(time.Duration(wait)*time.Millisecond, s.cfg.WriteTimeout/2))
	defer stop()
	for waited := wait == 0; ; {
		c, newest := s.commands(entry.Principal(id))
		switch {
		case c == nil:
			return nil, entry.Refuse(entry.NotFound, "id", "%.140q was never enrolled", id).WithRemedy("GET " + agentsPath + " lists the agents")
		case from > c.Size:
			return nil, entry.Refuse(entry.NotFound, "from", "the log has %d entries, not %d", c.Size, from).
				WithRemedy("a log never shrinks: compare with the tree head accepted last")
		case waited || newest >= from:
			return c, nil
		}
		waited = s.log.Wait(ctx, c.Size+1) != nil
	}
}

// commands returns what an agent has to do, and the index of the newest entry
// that concerns it; nil if it was never enrolled.
func (s *Server) commands(agent entry.Principal) (c *api.Commands, newest uint64) {
	s.coord.Read(func(state *coord.State) {
		if _, enrolled := state.Chain().Agent(agent); !enrolled {
			return
		}
		c = &api.Commands{Agent: agent, Size: state.Size(), Commands: []api.Command{}}
		c.News = slices.Max(append(state.News(agent, 0), state.Overrides(agent, 0)...))
		newest = c.News
		for _, command := range state.Commands(agent) {
			c.Commands = append(c.Commands, api.Command(command))
			newest = max(newest, command.Changed)
		}
	})
	return c, newest
}

package server

import (
	"context"
	"slices"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// getCommands is GET /v1/agents/{id}/commands: the commands of an agent. It answers at once,
// or when a newer entry concerns the agent.
func (s *Server) getCommands(ctx context.Context, r *request) (*api.Commands, error) {
	q := queryOf[api.CommandsQuery](r)
	id, err := r.name("id")
	if err != nil {
		return nil, err
	}
	client := clientOf(r.c)
	if q.Wait > 0 && !s.streams.Take(client, 1) {
		return nil, s.crowded("streams and waiting requests", client)
	} else if q.Wait > 0 {
		defer s.streams.Give(client, 1)
		s.metrics.Streams().Inc()
		defer s.metrics.Streams().Dec()
	}
	ctx, cancel := until(ctx, s.draining)
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, min(q.Wait, s.cfg.WriteTimeout/2))
	defer stop()
	for waited := q.Wait == 0; ; {
		c, newest := s.commands(entry.Principal(id))
		switch {
		case c == nil:
			return nil, entry.Refuse(entry.NotFound, "id", "%.140q was never enrolled", id).WithRemedy("GET " + api.PathAgents + " lists the agents")
		case q.From > c.Size:
			return nil, entry.Refuse(entry.NotFound, "from", "the log has size %d, not %d", c.Size, q.From).
				WithRemedy("a log never shrinks: compare it with the last accepted tree head")
		case waited || newest >= q.From:
			s.coord.SentBundles().Tell(c)
			return c, nil
		}
		waited = s.log.Wait(ctx, c.Size+1) != nil
	}
}

// commands returns the commands of an agent; nil if the agent was never enrolled. newest is
// the index of the newest entry that concerns the agent.
func (s *Server) commands(agent entry.Principal) (c *api.Commands, newest uint64) {
	s.coord.Read(func(state *coord.State) {
		if _, enrolled := state.Chain().Agent(agent); !enrolled {
			return
		}
		c = &api.Commands{Agent: agent, Size: state.Size(), Commands: state.Commands(agent)}
		c.News = slices.Max(append(state.News(agent, 0), state.Overrides(agent, 0)...))
		newest = c.News
		for i := range c.Commands {
			newest = max(newest, c.Commands[i].Changed)
		}
	})
	return c, newest
}

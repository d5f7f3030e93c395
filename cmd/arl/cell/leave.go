package cell

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/cluster"
	"recoveryledger/ledger/cluster/peer"
	"recoveryledger/ledger/cluster/site"
)

func leaveCommand(t *terminal.Terminal) *cobra.Command {
	return command(t, &cobra.Command{
		Use:   "leave",
		Short: "Make the last node a single ledger again",
		Long: "Make the last node of a cluster a single ledger again. The node must not run, and must have everything that is\n" +
			"registered. DIR/cluster is removed. Remove the other nodes before.",
		Example: "  arl cluster leave --data ./data",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, a *asking, _ []string) error {
		s, err := a.load()
		if err != nil {
			return err
		}
		if err := a.leave(ctx, s); err != nil {
			return err
		}
		if a.t.JSON() {
			return a.t.PrintJSON(map[string]string{"data": a.data, "origin": s.Origin})
		}
		return a.t.PrintText(fmt.Sprintf("%s is a single ledger: arl serve --data %s\n", s.Origin, a.data))
	})
}

// leave makes the node a single ledger. An interrupted run is ended by the next one.
func (a *asking) leave(ctx context.Context, s *site.Site) error {
	if !s.Left {
		n, err := a.look(ctx, s) // a node that runs holds its log
		if err != nil {
			return err
		}
		err = a.inEtcd(ctx, s, func(ctx context.Context, order *cluster.Node) error {
			if !order.Alone() {
				return exit.Remedied("remove the other nodes first: arl cluster remove",
					exit.With(exit.Conflict, fmt.Errorf("%s is not the last node of its cluster", s.Name)))
			}
			registered, err := reached(ctx, order)
			return errors.Join(err, behind(a.data, n.Log.Size(), registered))
		})
		if err := errors.Join(err, n.Log.Close()); err != nil {
			return err
		}
		s.Left = true
		if err := s.Save(); err != nil {
			return err
		}
	}
	if err := a.single(); err != nil {
		return err
	}
	return os.RemoveAll(s.Dir)
}

// reached waits until a node that is alone knows what is registered.
func reached(ctx context.Context, n *cluster.Node) (size uint64, err error) {
	for {
		size, err = n.Reached(ctx)
		if err == nil || ctx.Err() != nil {
			return size, exit.With(exit.Unavailable, err)
		}
	}
}

// proof is what a node shows of itself: the form of arl cluster evidence.
type proof struct {
	Shown    *cluster.Shown `json:"shown"`
	Evidence *peer.Evidence `json:"evidence,omitempty"` // of two roots of one size, if it was found
}

func evidenceCommand(t *terminal.Terminal) *cobra.Command {
	return command(t, &cobra.Command{
		Use:   "evidence",
		Short: "Show what a node has of the log",
		Long: "Print, as JSON, the newest signed tree head of a node, and what it found if it ended because another node has\n" +
			"another root of one size. The node may run or not. arl cluster reseed reads it with --head.",
		Example: "  arl cluster evidence --data ./data > n2.json",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, a *asking, _ []string) error {
		s, err := a.load()
		if err != nil {
			return err
		}
		p := new(proof)
		if p.Shown, err = a.shown(ctx, s); err != nil {
			return err
		}
		text, err := os.ReadFile(s.EvidenceFile())
		if err == nil {
			p.Evidence = new(peer.Evidence)
			err = json.Unmarshal(text, p.Evidence)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return a.t.PrintJSON(p)
	})
}

// shown asks the node, or reads its log if it does not run.
func (a *asking) shown(ctx context.Context, s *site.Site) (*cluster.Shown, error) {
	c, err := peer.NewClient(s)
	if err != nil {
		return nil, exit.With(exit.Config, err)
	}
	if told, err := c.Head(ctx, s.Peer, 0); err == nil {
		return told, nil
	}
	n, err := a.look(ctx, s)
	if err != nil {
		return nil, err
	}
	own, err := shown(s, n, 0)
	return own, errors.Join(err, n.Log.Close())
}

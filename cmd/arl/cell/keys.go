package cell

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/coord/sound"
	"recoveryledger/ledger/cluster/peer"
	"recoveryledger/ledger/entry"
)

// keysTime is how long the other nodes may take to say which keys they have.
const keysTime = 5 * time.Second

// keysEverywhere asks the other nodes for their keys if a policy names new keys of the ledger, see
// [sound.Signed].
func (s *Serving) keysEverywhere(n *node.Node, e *entry.Entry) error {
	if s.node == nil {
		return nil
	}
	fresh := n.NewKeys(e)
	if len(fresh) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), keysTime)
	defer cancel()
	members, err := s.node.Members(ctx)
	if err != nil {
		return err
	}
	var others []sound.Peer
	for i := range members {
		m := &members[i]
		if m.Name == s.node.Name() {
			continue
		}
		others = append(others, sound.Peer{Name: m.Name, Voter: m.Voter, Keys: func() ([]string, error) {
			shown, err := s.client.Head(ctx, m.Peer, 0)
			if err != nil {
				return nil, err
			}
			return shown.Keys, nil
		}})
	}
	return sound.Signed(fresh, others)
}

func keysCommand(t *terminal.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "keys",
		Short:   "Give the keys of the ledger to all nodes",
		Long:    "Give the keys of the ledger to all nodes of a cluster.",
		Example: "  arl cluster keys push --data ./data",
	}
	cmd.AddCommand(command(t, &cobra.Command{
		Use:   "push",
		Short: "Copy the keys of a node to the other nodes",
		Long: "Copy the key files of a node to the nodes that lack them, after arl key next. A node signs with them from its next\n" +
			"start on. A policy that names a key is refused until every node that votes signs with the key.",
		Example: "  arl cluster keys push --data ./data",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, a *asking, _ []string) error { return a.pushKeys(ctx) }))
	return cmd
}

// pushed is what a node lacked.
type pushed struct {
	Node  string   `json:"node"`
	Files []string `json:"files"`
}

func (a *asking) pushKeys(ctx context.Context) error {
	c, address, err := a.node()
	if err != nil {
		return err
	}
	status, err := c.Status(ctx, address)
	if err != nil {
		return refused(err)
	}
	n, err := node.Look(a.data, "")
	if n == nil {
		return err
	}
	files, err := peer.ReadKeys(n.KeysDir())
	if err != nil {
		return exit.With(exit.IO, err)
	}
	list := a.t.NewList("NODE", "TOOK")
	for _, m := range status.Members {
		if m.Name == status.Node {
			continue
		}
		taken, err := c.PushKeys(ctx, m.Peer, files)
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, refused(err))
		}
		if err := list.Add(pushed{m.Name, taken}, m.Name, strings.Join(taken, " ")); err != nil {
			return err
		}
	}
	return list.Close()
}

package cell

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/cluster"
	"recoveryledger/ledger/cluster/peer"
)

func upgradeCommand(t *terminal.Terminal) *cobra.Command {
	return command(t, &cobra.Command{
		Use:   "upgrade",
		Short: "Raise the format of the cluster, once all nodes know it",
		Long: "Raise the format in which the nodes agree, to the newest one that they know. It is refused while a node does not\n" +
			"know it, which is named: start every node with the newer version of arl first, one by one. Once the\n" +
			"format is raised, a node with an older version of arl does not start.",
		Example: "  arl cluster upgrade --data ./data",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, a *asking, _ []string) error {
		c, address, err := a.node()
		if err != nil {
			return err
		}
		done, err := c.Upgrade(ctx, address)
		if err != nil {
			return refused(err)
		}
		if a.t.JSON() {
			return a.t.PrintJSON(done)
		}
		if done.Before == done.Format {
			return a.t.PrintText(fmt.Sprintf("the cluster has format %d, the newest that its nodes know\n", done.Format))
		}
		return a.t.PrintText(fmt.Sprintf("the cluster has format %d, and had format %d\n", done.Format, done.Before))
	})
}

func compactCommand(t *terminal.Terminal) *cobra.Command {
	return command(t, &cobra.Command{
		Use:   "compact",
		Short: "Make etcd smaller, so that a cluster whose etcd was full takes entries again",
		Long: "If the node runs, remove from etcd the batches that the nodes have on their disks, and show the files of all nodes.\n" +
			"If etcd was full, the cluster takes entries again, unless a file is still as large as its quota, which is named.\n" +
			"If the node does not run, make the file of its etcd as small as its content. No node does that while it runs.",
		Example: "  arl cluster compact --data ./data",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, a *asking, _ []string) error {
		c, address, err := a.node()
		if err != nil {
			return err
		}
		done, err := c.Compact(ctx, address)
		if _, answered := errors.AsType[*peer.Refused](err); answered {
			return refused(err)
		}
		if err != nil {
			return a.defragment(err)
		}
		return a.compacted(done)
	})
}

// compacted shows the files of all nodes.
func (a *asking) compacted(done *peer.Compacted) error {
	list := a.t.NewList("NODE", "BYTES", "USED", "QUOTA")
	for i := range done.Nodes {
		n := &done.Nodes[i]
		if err := list.Add(n, n.Node, fmt.Sprint(n.Bytes), fmt.Sprint(n.Used), fmt.Sprint(n.Quota)); err != nil {
			return err
		}
	}
	if done.Disarmed {
		a.t.Tell("etcd was full: the cluster takes entries again")
	}
	return list.Close()
}

// smaller is what a node that does not run has of etcd.
type smaller struct {
	Before int64 `json:"before"` // bytes of the file
	Bytes  int64 `json:"bytes"`
}

// defragment makes the file of a node that does not run smaller. silent is why the node was not
// asked.
func (a *asking) defragment(silent error) error {
	s, err := a.load()
	if err != nil {
		return err
	}
	before, after, err := cluster.Defragment(s.EtcdDir())
	switch {
	case errors.Is(err, cluster.ErrRuns):
		return exit.Remedied("wait until it answers, or end its process", exit.With(exit.Unavailable, fmt.Errorf("%s runs, and does not answer: %w", s.Name, silent)))
	case err != nil:
		return err
	case a.t.JSON():
		return a.t.PrintJSON(smaller{before, after})
	}
	return a.t.PrintText(fmt.Sprintf("etcd of %s has %d bytes, and had %d: arl serve --cluster --data %s\n", s.Name, after, before, a.data))
}

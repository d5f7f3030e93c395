package cell

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/cluster/peer"
	"recoveryledger/ledger/cluster/site"
)

// asking is a command that asks the node of a data directory.
type asking struct {
	t    *terminal.Terminal
	data string
}

// Command returns arl cluster.
func Command(t *terminal.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Look after a cluster",
		Long: "Look after a cluster: several nodes that have one log (docs/cluster.md). The commands ask the running node of a\n" +
			"data directory on this machine, with the certificate that lies there.",
		Example: "  arl cluster status --data ./data",
	}
	cmd.AddCommand(startCommand(t), tokenCommand(t), statusCommand(t), removeCommand(t), leadCommand(t),
		leaveCommand(t), reseedCommand(t), evidenceCommand(t), keysCommand(t),
		compactCommand(t), upgradeCommand(t))
	return cmd
}

// command returns a command about a cluster.
func command(t *terminal.Terminal, use *cobra.Command, run func(ctx context.Context, a *asking, args []string) error) *cobra.Command {
	a := &asking{t: t}
	use.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), a, args) }
	use.Flags().StringVar(&a.data, "data", "", "data directory of a node on this machine (required)")
	_ = use.MarkFlagRequired("data") // the flag exists
	return use
}

// node returns the address of the node, and a client with its certificate.
func (a *asking) node() (*peer.Client, string, error) {
	s, err := site.Load(a.data)
	if errors.Is(err, site.ErrNone) {
		return nil, "", exit.With(exit.NotFound, fmt.Errorf("%w: found a cluster with arl serve --cluster --data %s", err, a.data))
	}
	if err != nil {
		return nil, "", exit.With(exit.Config, err)
	}
	c, err := peer.NewClient(s)
	return c, s.Peer, exit.With(exit.Config, err)
}

func tokenCommand(t *terminal.Terminal) *cobra.Command {
	return command(t, &cobra.Command{
		Use:   "token",
		Short: "Let one node join",
		Long: "Print a token with which one node may join within an hour: arl serve --cluster --join TOKEN. The node gets the\n" +
			"keys of the ledger, so keep the token as secret as they are.",
		Example: "  arl cluster token --data ./data",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, a *asking, _ []string) error {
		c, address, err := a.node()
		if err != nil {
			return err
		}
		token, err := c.Token(ctx, address)
		if err != nil {
			return refused(err)
		}
		if a.t.JSON() {
			return a.t.PrintJSON(map[string]string{"token": token})
		}
		return a.t.PrintText(token + "\n")
	})
}

func statusCommand(t *terminal.Terminal) *cobra.Command {
	return command(t, &cobra.Command{
		Use:   "status",
		Short: "Show the nodes",
		Long: "Show the nodes of the cluster, as one node knows them: who leads, who votes, and how many entries each has on its\n" +
			"disk. LAG is what a node lacks that another one has. GET /v1/cluster has the same.",
		Example: "  arl cluster status --data ./data",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, a *asking, _ []string) error {
		return a.shows(func(c *peer.Client, address string) (*peer.Status, error) { return c.Status(ctx, address) })
	})
}

func removeCommand(t *terminal.Terminal) *cobra.Command {
	return command(t, &cobra.Command{
		Use:   "remove NODE",
		Short: "Remove another node for good",
		Long: "Have a node remove another node from the cluster. The process of the removed node ends, and never starts again\n" +
			"with its data directory. The machine may join as a new node, with an empty directory. Among the nodes that\n" +
			"remain, a majority must run. Delete the directory of the removed node: it keeps the keys of the ledger and a\n" +
			"certificate of the cluster.",
		Example: "  arl cluster remove n2 --data ./data",
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, a *asking, args []string) error {
		err := a.shows(func(c *peer.Client, address string) (*peer.Status, error) { return c.Remove(ctx, address, args[0]) })
		if err == nil {
			a.t.Tell("%s is removed; its data directory keeps the keys of the ledger and a certificate of the cluster: delete it", args[0])
		}
		return err
	})
}

func leadCommand(t *terminal.Terminal) *cobra.Command {
	return command(t, &cobra.Command{
		Use:     "lead NODE",
		Short:   "Have a node order the log",
		Long:    "Have a node order the log, for example before the machine of the present leader is restarted.",
		Example: "  arl cluster lead n2 --data ./data",
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, a *asking, args []string) error {
		return a.shows(func(c *peer.Client, address string) (*peer.Status, error) {
			return c.Lead(ctx, address, args[0], false)
		})
	})
}

// shows asks the node, and shows the nodes as it answers.
func (a *asking) shows(ask func(c *peer.Client, address string) (*peer.Status, error)) error {
	c, address, err := a.node()
	if err != nil {
		return err
	}
	s, err := ask(c, address)
	if err != nil {
		return refused(err)
	}
	return a.print(s)
}

// print shows the nodes.
func (a *asking) print(s *peer.Status) error {
	list := a.t.NewList("NODE", "ROLE", "SIZE", "LAG", "VERSION", "URL", "PEERS")
	for i := range s.Members {
		m, role := &s.Members[i], "joins"
		switch {
		case m.Leader:
			role = "leads"
		case m.Voter:
			role = "follows"
		}
		if err := list.Add(m, m.Name, role, fmt.Sprint(m.Size), fmt.Sprint(m.Lag), m.Version, m.URL, m.Peer); err != nil {
			return err
		}
	}
	return list.Close()
}

// refused gives the answer of a node its exit code.
func refused(err error) error {
	if r, ok := errors.AsType[*peer.Refused](err); ok {
		switch r.Status {
		case http.StatusNotFound:
			return exit.With(exit.NotFound, err)
		case http.StatusServiceUnavailable:
			return exit.Remedied("run the command again: no node leads at the moment, or a machine is busy", exit.With(exit.Unavailable, err))
		}
		return exit.With(exit.Conflict, err)
	}
	return exit.Remedied("start the node of the data directory: arl serve --cluster", exit.With(exit.Unavailable, err))
}

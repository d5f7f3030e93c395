package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"recoveryledger/api"
	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/complete"
	"recoveryledger/ledger/entry"
)

// indexReport is the output of arl log index.
type indexReport struct {
	Origin string `json:"origin"`
	api.IndexStatus
	Checked string `json:"checked"`
}

func (a *app) logIndexCommand(o *access.Where) *cobra.Command {
	return &cobra.Command{
		Use:   "index",
		Short: "Show how far the index is, and its newest entry",
		Long: "Show the newest index entry: how many entries the index covers, its root, its subjects, and how many entries\n" +
			"of the log no index entry covers. The command checks that the index entry is in the log under the pinned root,\n" +
			"and shows what that entry says. Whether a running index has stopped is the server's word.\n" +
			"arl log audit derives the root itself.",
		Example: "  arl log index",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.machine().WithLog(cmd.Context(), o, func(l *access.Log) error { return a.logIndex(cmd.Context(), l) })
		},
	}
}

func (a *app) logIndex(ctx context.Context, l *access.Log) error {
	status, err := indexStatus(ctx, l)
	if err != nil {
		return err
	}
	r := indexReport{Origin: l.Root.Origin, IndexStatus: *status, Checked: "nothing: there is no index entry yet"}
	if status.Entry > 0 {
		said, err := readIndexEntry(ctx, l, status.Entry)
		if err != nil {
			return err
		}
		r.Size, r.Root, r.Subjects = said.Size, said.Root, said.Subjects
		r.Checked = fmt.Sprintf("entry %d is in the log, and says this size, root and number of subjects", status.Entry)
	}
	fields := []terminal.Field{{"origin", r.Origin}, {"index entry", decimal(r.Entry)}, {"size", decimal(r.Size)}, {"root", r.Root.String()},
		{"subjects", decimal(r.Subjects)}, {"lag", words.Counted(r.Lag, "entry")}, {"checked", r.Checked}}
	if r.Stopped != "" {
		fields = append(fields, terminal.Field{"stopped", "by the server's word, " + r.Stopped})
	}
	return a.PrintObject(r, fields...)
}

// indexStatus returns the state of the index: by the statement of a server, or from a stopped log.
func indexStatus(ctx context.Context, l *access.Log) (*api.IndexStatus, error) {
	switch of := l.Registry.(type) {
	case *access.Connection:
		info, err := of.Client.Log(ctx)
		if err == nil && info.Index == nil {
			err = exit.With(exit.NotFound, exit.Remedied("start the ledger with arl serve --index", errors.New("the ledger keeps no index")))
		}
		if err != nil {
			return nil, err
		}
		return info.Index, nil
	case *node.Node:
		newest, err := of.NewestIndexEntry()
		if err != nil {
			return nil, err
		}
		status := api.IndexStatus(complete.StatusOf(newest, of.Log.Size()))
		return &status, nil
	}
	return nil, fmt.Errorf("log index: no index is known of a %T", l.Registry)
}

// readIndexEntry returns an index entry that is proven to be in the log.
func readIndexEntry(ctx context.Context, l *access.Log, index uint64) (*entry.LogIndex, error) {
	receipt, err := l.Receipt(ctx, index)
	if err != nil {
		return nil, err
	}
	e, _, err := entry.DecodeLeaf(receipt.Leaf)
	if err != nil {
		return nil, err
	}
	said, ok := e.Body.(*entry.LogIndex)
	if !ok {
		return nil, exit.With(exit.Verification, fmt.Errorf("entry %d is the newest index entry by the server's word, and it is of kind %s", index, e.Kind))
	}
	return said, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"recoveryledger/cmd/arl/demo"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger/disk"
)

func (a *app) demoCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show real agents fail and be rolled back",
		Long: "Start a ledger, seven agents, a monitor, a mail gateway and two approvers as processes on this machine. Two\n" +
			"pipelines fail. The agents roll back files, bookings and a queue, and one agent is killed during the rollback.\n" +
			"At the end the demo verifies every receipt, audits the log, and compares what the agents did with what the log\n" +
			"says.",
		Example: "  arl demo",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), dir) },
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory for the files of the demo (default: a temporary one, removed if the demo is interrupted)")
	cmd.AddCommand(a.demoLedgerCommand(), a.demoAgentCommand())
	return cmd
}

func (a *app) demo(ctx context.Context, dir string) error {
	if err := disk.CheckSystem(runtime.GOOS); err != nil {
		return err
	}
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	made := dir == ""
	if made {
		dir, err = os.MkdirTemp("", "arl-demo-")
	} else {
		dir, err = newDirectory(dir)
	}
	if err != nil {
		return directoryError(err)
	}
	err = demo.Run(ctx, &demo.Config{Dir: dir, Binary: binary, Out: a.Out, JSON: a.JSON()})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		if made {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		return err
	case errors.Is(err, demo.ErrDiffers):
		err = exit.With(exit.Verification, err)
	case errors.Is(err, demo.ErrTimeout):
		err = exit.With(exit.Unavailable, err)
	}
	fmt.Fprintf(a.Err, "arl: the files of the demo are in %s\n", dir)
	return err
}

// newDirectory makes a directory, or takes an empty directory. The directory logs in it keeps
// another demo out.
func newDirectory(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return "", err
	}
	list, err := os.ReadDir(dir)
	if err == nil && len(list) == 0 {
		err = os.Mkdir(filepath.Join(dir, "logs"), 0o700)
	}
	if len(list) > 0 || errors.Is(err, fs.ErrExist) {
		err = exit.With(exit.Conflict, fmt.Errorf("%s is not empty: pass --dir with an empty directory, or with one that does not exist", dir))
	}
	return dir, err
}

// directoryError adds the remedy to an error of the demo's directory.
func directoryError(err error) error {
	if _, told := errors.AsType[*exit.Error](err); told {
		return err
	}
	return exit.With(exit.IO, fmt.Errorf("%w: pass --dir with a directory that can be made and written to", err))
}

// demoLedgerCommand is arl serve that also ends with its input. So it ends with the demo, however
// the demo ends.
func (a *app) demoLedgerCommand() *cobra.Command {
	cmd := a.serveCommand()
	serve := cmd.RunE
	cmd.Use, cmd.Short, cmd.Hidden = "ledger", "Run the ledger of the demo (the demo starts it)", true
	cmd.Example = "  arl demo ledger --data DIR"
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := demo.Until(cmd.Context(), a.In)
		defer cancel()
		cmd.SetContext(ctx)
		return serve(cmd, args)
	}
	return cmd
}

func (a *app) demoAgentCommand() *cobra.Command {
	cfg := demo.PlayerConfig{In: a.In, Out: a.Out}
	cmd := &cobra.Command{
		Use:     "agent NAME",
		Short:   "Run an agent of the demo (the demo starts it)",
		Example: "  arl demo agent booker --dir DIR",
		Args:    cobra.ExactArgs(1),
		Hidden:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg.Name = args[0]
			return demo.Play(cmd.Context(), &cfg)
		},
	}
	cmd.Flags().StringVar(&cfg.Dir, "dir", "", "the demo's directory (required)")
	cmd.Flags().StringVar(&cfg.Crash, "crash", "", "execution during whose compensation the process kills itself")
	_ = cmd.MarkFlagRequired("dir") // the flag exists
	return cmd
}

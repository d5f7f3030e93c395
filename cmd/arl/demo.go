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
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
)

func (a *app) demoCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See agents fail and be rolled back, for real",
		Long: "Start a ledger, seven agents, a monitor, a mail gateway and two approvers as processes on this machine. Two\n" +
			"pipelines go wrong, and what can be undone is: files, SQL rows, a queue; an agent is killed in the middle of it.\n" +
			"In the end every receipt is verified, the log audited, and what the agents did compared with what it says.",
		Example: "  arl demo",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), dir) },
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory to make, for all that the demo writes (default: a temporary one, removed if the demo is interrupted)")
	cmd.AddCommand(a.demoLedgerCommand(), a.demoAgentCommand(), a.demoSinkCommand())
	return cmd
}

func (a *app) demo(ctx context.Context, dir string) error {
	if err := ledger.CheckSystem(runtime.GOOS); err != nil {
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
	err = demo.Run(ctx, &demo.Config{Dir: dir, Binary: binary, Out: a.out, JSON: a.settings.output == outputJSON, Audit: a.demoAudit})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		if made {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		return err
	case errors.Is(err, demo.ErrDiffers):
		err = withExit(exitVerification, err)
	case errors.Is(err, demo.ErrTimeout):
		err = withExit(exitUnavailable, err)
	}
	fmt.Fprintf(a.err, "arl: all that it wrote is in %s\n", dir)
	return err
}

// newDirectory makes a directory, or takes one that is empty. What it makes in it
// keeps another demo out.
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
		err = withExit(exitConflict, fmt.Errorf("%s is not empty: pass --dir with a directory that is, or that is not there yet", dir))
	}
	return dir, err
}

// directoryError says what to do if there is no directory to be had.
func directoryError(err error) error {
	if _, told := errors.AsType[*exitError](err); told {
		return err
	}
	return withExit(exitIO, fmt.Errorf("%w: pass --dir with a directory that can be made and written to", err))
}

// demoAudit is arl log audit on the demo's ledger.
func (a *app) demoAudit(ctx context.Context, home string, see func(entry.Registered)) (audited demo.Audited, err error) {
	own := newApp(a.in, a.out, a.err)
	own.settings.home, own.settings.output = home, outputTable
	return audited, own.withLog(ctx, &logOptions{}, func(l *openLog) error {
		f, err := own.fold(ctx, l, "audit", see)
		if err == nil {
			audited = demo.Audited{Head: f.head.Head, State: f.State, Now: f.now}
		}
		return err
	})
}

// demoLedgerCommand is arl serve that ends with its input too: with the demo,
// however that ends.
func (a *app) demoLedgerCommand() *cobra.Command {
	cmd := a.serveCommand()
	serve := cmd.RunE
	cmd.Use, cmd.Short, cmd.Hidden = "ledger", "The ledger of the demo, which starts it", true
	cmd.Example = "  arl demo ledger --data DIR"
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := demo.Until(cmd.Context(), a.in)
		defer cancel()
		cmd.SetContext(ctx)
		return serve(cmd, args)
	}
	return cmd
}

func (a *app) demoAgentCommand() *cobra.Command {
	cfg := demo.PlayerConfig{In: a.in, Out: a.out}
	cmd := &cobra.Command{
		Use:     "agent NAME",
		Short:   "An agent of the demo, which starts it",
		Example: "  arl demo agent booker --dir DIR",
		Args:    cobra.ExactArgs(1),
		Hidden:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg.Name = args[0]
			return demo.Play(cmd.Context(), &cfg)
		},
	}
	cmd.Flags().StringVar(&cfg.Dir, "dir", "", "the demo's directory (mandatory)")
	cmd.Flags().StringVar(&cfg.Crash, "crash", "", "execution in whose compensation the process kills itself")
	_ = cmd.MarkFlagRequired("dir") // the flag exists
	return cmd
}

func (a *app) demoSinkCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:     "sink",
		Short:   "The mail gateway of the demo, which starts it",
		Example: "  arl demo sink --dir DIR",
		Args:    cobra.NoArgs,
		Hidden:  true,
		RunE:    func(cmd *cobra.Command, _ []string) error { return demo.Sink(cmd.Context(), dir, a.in, a.out) },
	}
	cmd.Flags().StringVar(&dir, "dir", "", "the demo's directory (mandatory)")
	_ = cmd.MarkFlagRequired("dir") // the flag exists
	return cmd
}

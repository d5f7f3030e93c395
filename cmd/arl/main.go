// Command arl is the agent recovery ledger: the server, and the tools for its operators, users and
// auditors.
//
// Machine output goes to stdout, everything else to stderr. The exit code says how the command
// ended; see [exit.Code].
package main

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"recoveryledger/cmd/arl/backups"
	"recoveryledger/cmd/arl/bridges"
	"recoveryledger/cmd/arl/cell"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/manual"
	"recoveryledger/cmd/arl/rollouts"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/entry"
)

// version and revision are set when the program is built (make build).
var (
	version  = "devel"
	revision string // the commit
)

func main() { os.Exit(execute()) }

// execute runs the command line and returns the exit code.
func execute() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := newApp(os.Stdin, os.Stdout, os.Stderr)
	root := a.rootCommand()
	a.watchOthers(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = a.helpErr
	}
	if err != nil {
		a.printError(a.Err, err)
	}
	switch {
	case err == nil:
		return exit.OK
	case !a.reached:
		return exit.Usage // only the command line was looked at
	case ctx.Err() != nil && exit.Code(err) == exit.Internal:
		return exit.Interrupted
	}
	return exit.Code(err)
}

// rootCommand assembles the commands, one noun a file.
func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "arl",
		Short: "The agent recovery ledger",
		Long: "arl records failure signals, rollback decisions and their outcomes as signed entries of a Merkle log,\n" +
			"and gives every entry a receipt that verifies offline.",
		Example:           "  arl serve --data ./data --listen 127.0.0.1:8087",
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.configure(cmd) },
		Version:           version,
		SilenceUsage:      true, // execute prints the error, with its remedy
		SilenceErrors:     true,
	}
	root.SetHelpFunc(a.showHelp)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	a.registerSettings(root.PersistentFlags())
	root.AddCommand(
		a.serveCommand(), a.consoleCommand(), a.witnessCommand(), a.keyCommand(), a.agentCommand(), a.policyCommand(),
		rollouts.Command(&a.Terminal, a.machine), a.entryCommand(), a.signalCommand(), a.incidentCommand(), a.taskCommand(), a.escalationCommand(),
		a.decideCommand(), a.classifyCommand(), a.recoverCommand(), a.replayCommand(), a.sweepCommand(), a.reportCommand(), a.scenarioCommand(),
		a.runCommand(), a.workCommand(), a.mcpCommand(), a.logCommand(), backups.BackupCommand(&a.Terminal, a.machine),
		backups.RestoreCommand(&a.Terminal, a.machine), a.ledgerCommand(), cell.Command(&a.Terminal), bridges.Command(&a.Terminal, a.machine),
		a.verifyCommand(), a.rootCommandOf(), a.profileCommand(), a.demoCommand(), a.doctorCommand(), a.conformanceCommand(), a.explainCommand(),
		a.manCommand(), a.metricsCommand(), a.versionCommand(),
	)
	root.SetFlagErrorFunc(flagError)
	a.watch(root)
	return root
}

// watchOthers lets the commands that the library adds refuse a mistyped word. Otherwise they would
// show their help without an error.
func (a *app) watchOthers(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			cmd.Args, cmd.RunE = cobra.ArbitraryArgs, a.missingVerb
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				if found, rest, err := root.Find(args); err != nil || len(rest) > 0 {
					return unknownVerb(found, rest)
				}
				return nil
			}
		}
	}
}

// watch lets every command note that its own code was reached: an earlier failure is an error of
// the command line. watch also handles a noun without its verb.
func (a *app) watch(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		a.watch(sub)
	}
	a.completeFlags(cmd)
	if cmd.RunE == nil {
		cmd.Use += " COMMAND"
		cmd.Args = cobra.ArbitraryArgs
		cmd.RunE = a.missingVerb
		return
	}
	if fit := cmd.Args; fit != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := fit(cmd, args); err != nil {
				return argumentError(cmd, args, err)
			}
			return nil
		}
	}
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.reached = true
		return run(cmd, args)
	}
}

// missingVerb handles a noun without a verb that exists. The program name alone shows the help.
func (a *app) missingVerb(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownVerb(cmd, args)
	}
	if !cmd.HasParent() {
		return cmd.Help()
	}
	_, _ = lipgloss.Fprint(a.Err, manual.Help(cmd, terminal.WidthDefault)+"\n") // only the returned error counts
	return exit.Usagef("%s needs a command: %s", cmd.CommandPath(), strings.Join(verbNames(cmd), ", "))
}

// unknownVerb returns the error of a word that is no command. It suggests a similar command.
func unknownVerb(cmd *cobra.Command, args []string) error {
	return exit.Usagef("unknown command %q for %q%s", args[0], cmd.CommandPath(), entry.Suggest(args[0], verbNames(cmd)))
}

func verbNames(cmd *cobra.Command) (names []string) {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// showHelp implements the help of cobra. Help about a command that does not exist is an error.
// execute reports this error, because cobra ignores it.
func (a *app) showHelp(cmd *cobra.Command, _ []string) {
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		a.helpErr = unknownVerb(cmd, words)
		return
	}
	width := terminal.Width(a.Out)
	if width == 0 {
		width = terminal.WidthDefault
	}
	if _, err := lipgloss.Fprint(a.Out, manual.Help(cmd, min(width, terminal.WidthHelp))); err != nil {
		a.helpErr = exit.With(exit.IO, err)
	}
}

func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man",
		Short:   "Write the manual page",
		Long:    "Write the manual page of all commands, for man.",
		Example: "  arl man > arl.1",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.PrintText(manual.Page(cmd.Root(), version)) },
	}
}

package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/cmd/arl/trust"

	"github.com/spf13/pflag"
)

// app has the streams and the settings that all commands share.
type app struct {
	terminal.Terminal
	settings settings
	reached  bool  // whether a command's own code was reached
	helpErr  error // error of showing help: cobra cannot return it
}

func newApp(in io.Reader, out, err io.Writer) *app {
	return &app{Terminal: terminal.Terminal{In: in, Out: out, Err: err}}
}

// settings are the flags of every command, without the form of output.
type settings struct {
	home string // ARL_HOME
}

func (a *app) registerSettings(flags *pflag.FlagSet) {
	flags.StringVar(&a.settings.home, "home", "", "directory of keys and profiles, ARL_HOME (default: arl in the user's configuration directory)")
	flags.StringVarP(&a.Output, "output", "o", terminal.OutputTable, "output for people or programs: table|json")
}

func (a *app) checkOutput() error {
	if !slices.Contains([]string{terminal.OutputTable, terminal.OutputJSON}, a.Output) {
		return exit.Usagef("--output %s: want %s or %s", a.Output, terminal.OutputTable, terminal.OutputJSON)
	}
	return nil
}

// homeDir returns ARL_HOME.
func (a *app) homeDir() (string, error) {
	if a.settings.home != "" {
		return a.settings.home, nil
	}
	if home := os.Getenv("ARL_HOME"); home != "" {
		return home, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", exit.With(exit.Config, fmt.Errorf("no directory for keys and profiles: %w: set ARL_HOME to a directory, or pass --home DIR", err))
	}
	return filepath.Join(dir, "arl"), nil
}

// trust returns the store of profiles, roots and tree heads of this machine.
func (a *app) trust() *trust.Store { return &trust.Store{Home: a.homeDir} }

// machine returns the machine from which this command opens ledgers.
func (a *app) machine() *access.Machine {
	return &access.Machine{Trust: a.trust(), Read: a.ReadInput, Passphrase: terminal.Once(a.Passphrase), NewPassphrase: a.ForNewKeys(terminal.PassphraseGiven()),
		Warn: a.Warn, Progress: a.Progress, Fatal: func(err error) {
			fmt.Fprintf(os.Stderr, "arl: %v\n", err)
			os.Exit(exit.Code(node.Broken(err)))
		}}
}

// logger writes structured lines to stderr.
func (a *app) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: level}))
}

package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"
)

// app is what all commands share: the streams and the settings.
type app struct {
	in       io.Reader
	out, err io.Writer
	settings settings
	reached  bool  // whether a command's own code was reached
	helpErr  error // why help could not be shown: cobra has no way to return it
}

func newApp(in io.Reader, out, err io.Writer) *app { return &app{in: in, out: out, err: err} }

// settings are the flags that every command has.
type settings struct {
	home   string // ARL_HOME
	output string // table or json
}

func (s *settings) register(flags *pflag.FlagSet) {
	flags.StringVar(&s.home, "home", "", "directory of keys and profiles, ARL_HOME (default: arl in the user's configuration directory)")
	flags.StringVarP(&s.output, "output", "o", outputTable, "output for people or programs: table|json")
}

// The forms of output. JSON is one object, or one a line for lists.
const (
	outputTable = "table"
	outputJSON  = "json"
)

func (s *settings) check() error {
	if !slices.Contains([]string{outputTable, outputJSON}, s.output) {
		return usage("--output %s: want %s or %s", s.output, outputTable, outputJSON)
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
		return "", withExit(exitConfig, fmt.Errorf("no directory for keys and profiles: %w: set ARL_HOME to one, or pass --home DIR", err))
	}
	return filepath.Join(dir, "arl"), nil
}

// warn tells of what does not change the answer.
func (a *app) warn(format string, args ...any) {
	a.tell("warning: "+format, args...)
}

// logger writes structured lines to stderr.
func (a *app) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level}))
}

// Package kits runs the kits of arl conformance, and prints their reports.
package kits

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"

	"recoveryledger/api/conformance"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/manual"
	"recoveryledger/cmd/arl/terminal"
)

// Options are the flags of the kits.
type Options struct {
	Vectors, JUnit string
	Limit          time.Duration
}

// RegisterVectors adds the flag of the kits that read vectors.
func (o *Options) RegisterVectors(flags *pflag.FlagSet) {
	flags.StringVar(&o.Vectors, "vectors", "testdata/vectors", "directory of the protocol vectors")
	manual.NameValue(flags, "vectors", "DIR")
}

// Register adds the flags that all kits have.
func (o *Options) Register(flags *pflag.FlagSet) {
	flags.StringVar(&o.JUnit, "junit", "", "also write the report as JUnit XML to a new file")
	manual.NameValue(flags, "junit", "FILE")
	flags.DurationVar(&o.Limit, "limit", 10*time.Second, "time for one answer")
}

// Target is the implementation that a kit tests.
type Target interface {
	Run(ctx context.Context) (*conformance.Report, error)
}

// Hold runs a kit, and prints its report. The error has the exit code of package exit.
func Hold(ctx context.Context, a *terminal.Terminal, o *Options, tested Target) error {
	if o.Limit <= 0 {
		return exit.Usagef("--limit %s: want a duration above 0, such as 10s", o.Limit)
	}
	if _, err := os.Lstat(o.JUnit); o.JUnit != "" && err == nil {
		return exit.With(exit.Conflict, fmt.Errorf("--junit %s: the file exists: remove it, or name another", o.JUnit))
	}
	report, err := tested.Run(ctx)
	if err != nil {
		if _, is := errors.AsType[*conformance.VectorError](err); is {
			return exit.Usagef("--vectors %s: %w", o.Vectors, err)
		}
		return err
	}
	if a.JSON() {
		err = a.PrintJSON(report)
	} else {
		err = a.PrintText(report.Text())
	}
	if o.JUnit != "" { // after the report: a failed write loses no report
		err = errors.Join(err, writeJUnit(o.JUnit, report))
	}
	if err == nil && report.Failed > 0 {
		err = exit.With(exit.Verification, fmt.Errorf("%d of %d cases failed", report.Failed, report.Passed+report.Failed))
	}
	return err
}

// writeJUnit writes a report to a new file.
func writeJUnit(path string, report *conformance.Report) (err error) {
	text, err := report.JUnit()
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return exit.Output(path, err)
	}
	_, err = file.Write(text)
	return exit.Output(path, errors.Join(err, file.Close()))
}

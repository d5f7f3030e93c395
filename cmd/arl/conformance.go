package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"recoveryledger/api/conformance"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/manual"
)

// conformanceOptions are the flags that arl conformance verifier and ledger have.
type conformanceOptions struct {
	vectors, junit string
	limit          time.Duration
}

// register adds the flags that both kits have.
func (o *conformanceOptions) register(flags *pflag.FlagSet) {
	flags.StringVar(&o.vectors, "vectors", "testdata/vectors", "directory of the protocol vectors")
	manual.NameValue(flags, "vectors", "DIR")
	flags.StringVar(&o.junit, "junit", "", "also write the report as JUnit XML to a new file")
	manual.NameValue(flags, "junit", "FILE")
	flags.DurationVar(&o.limit, "limit", 10*time.Second, "time for one answer")
}

func (a *app) conformanceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "conformance",
		Short:   "Hold another implementation to the Internet-Draft",
		Example: "  arl conformance verifier -- node verify/js/judge.js",
	}
	cmd.AddCommand(a.conformanceVerifierCommand(), a.conformanceLedgerCommand())
	return cmd
}

func (a *app) conformanceLedgerCommand() *cobra.Command {
	var o conformanceOptions
	var url string
	cmd := &cobra.Command{
		Use:   "ledger --url URL",
		Short: "Submit to a ledger what it must refuse",
		Long: "Submit to a ledger every envelope and payload that the protocol vectors say is refused before its signature is\n" +
			"looked at, and compare the problem. The ledger registers none of them, and the command needs no key. Each\n" +
			"failure names the statements of the Internet-Draft, what was sent, and what was expected.",
		Example: "  arl conformance ledger --url http://127.0.0.1:8087",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
				return exit.Usagef("--url %s: want the URL of a ledger, such as http://127.0.0.1:8087", url)
			}
			ledger := &conformance.Ledger{URL: strings.TrimSuffix(url, "/"), Vectors: os.DirFS(o.vectors), Limit: o.limit}
			return a.conformance(cmd.Context(), &o, ledger)
		},
	}
	cmd.Flags().StringVar(&url, "url", "", "URL of the ledger (required)")
	manual.NameValue(cmd.Flags(), "url", "URL")
	o.register(cmd.Flags())
	_ = cmd.MarkFlagRequired("url") // the flag exists
	return cmd
}

func (a *app) conformanceVerifierCommand() *cobra.Command {
	var o conformanceOptions
	cmd := &cobra.Command{
		Use:   "verifier -- PROGRAM ARGUMENT…",
		Short: "Ask a verifier every protocol vector",
		Long: "Ask a verifier every protocol vector. The program runs without a shell. It reads a question in each line of\n" +
			"standard input, as JSON, and writes one line with its verdict, as JSON, before it reads the next. Each failure\n" +
			"names the statements of the Internet-Draft, what was sent, and what was expected. A program that hangs,\n" +
			"crashes, or answers garbage fails the case, and is started again, five times at most.",
		Example: "  arl conformance verifier -- node verify/js/judge.js",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.conformance(cmd.Context(), &o, &conformance.Verifier{Argv: args, Vectors: os.DirFS(o.vectors), Limit: o.limit, Stderr: a.Err})
		},
	}
	o.register(cmd.Flags())
	return cmd
}

// target is what the kit tests.
type target interface {
	Run(ctx context.Context) (*conformance.Report, error)
}

func (a *app) conformance(ctx context.Context, o *conformanceOptions, tested target) error {
	if o.limit <= 0 {
		return exit.Usagef("--limit %s: want a duration above 0, such as 10s", o.limit)
	}
	if _, err := os.Lstat(o.junit); o.junit != "" && err == nil {
		return exit.With(exit.Conflict, fmt.Errorf("--junit %s: the file exists: remove it, or name another", o.junit))
	}
	report, err := tested.Run(ctx)
	if err != nil {
		if _, is := errors.AsType[*conformance.VectorError](err); is {
			return exit.Usagef("--vectors %s: %w", o.vectors, err)
		}
		return err
	}
	if o.junit != "" {
		if err := writeJUnit(o.junit, report); err != nil {
			return err
		}
	}
	if a.JSON() {
		err = a.PrintJSON(report)
	} else {
		err = a.PrintText(report.Text())
	}
	if err == nil && report.Failed > 0 {
		err = exit.With(exit.Verification, fmt.Errorf("%d of %d cases failed", report.Failed, report.Passed+report.Failed))
	}
	return err
}

// writeJUnit writes a report to a file that is not there yet.
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

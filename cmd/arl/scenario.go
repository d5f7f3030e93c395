package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/failures"
	"recoveryledger/cmd/arl/rollouts"
	"recoveryledger/coord/audit"
	"recoveryledger/coord/recovery/importer"
	"recoveryledger/coord/recovery/scenario"
)

func (a *app) scenarioCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "scenario",
		Short:   "Make scenarios from recorded runs",
		Long:    "Make scenarios, the input of arl recover, from recorded runs. docs/scenario.md describes the format.",
		Example: "  arl scenario import --format openai-chat transcripts.json > scenario.ndjson",
	}
	cmd.AddCommand(a.scenarioImportCommand(), a.scenarioToolsCommand(), rollouts.MutateCommand(&a.Terminal))
	return cmd
}

// scenarioOptions are the flags of arl scenario import.
type scenarioOptions struct {
	access.Where
	failures.Shape
	format, since string
	tags          []string
	keepGoing     bool
}

func (a *app) scenarioImportCommand() *cobra.Command {
	var o scenarioOptions
	cmd := &cobra.Command{
		Use:   "import [FILE…]",
		Short: "Turn recorded agent runs into scenario lines",
		Long: "Print each recorded run as one line of a scenario: its steps, the known facts of every attempt, and raw errors\n" +
			"as codes of the failure taxonomy. Unknown facts are left out, never invented. Files are read as streams; - is\n" +
			"standard input. Standard error says how many records of each file were taken, how many were left, and why.\n" +
			"The format ledger reads the incidents of a log instead: of the ledger at --url, or with --data\n" +
			"of a stopped one.\n" +
			"The exit code is 2 if something could not be used.",
		Example: "  arl scenario import --format otlp traces.json > scenario.ndjson",
		RunE:    func(cmd *cobra.Command, files []string) error { return a.importScenario(cmd.Context(), files, &o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.format, "format", "", "format of the files: "+importer.Names()+", or ledger (required)")
	flags.StringVar(&o.since, "since", "", "with ledger: incidents signalled at or after this time (RFC 3339)")
	o.Register(flags, true)
	flags.StringArrayVar(&o.tags, "tag", nil, "tag of every case, such as holdout; may be repeated")
	flags.BoolVar(&o.keepGoing, "keep-going", false, "skip records that cannot be used, and list them")
	o.Where.Register(flags)
	flags.StringVar(&o.Data, "data", "", "with ledger: data directory of a stopped one, instead of a server")
	flags.StringVar(&o.Anchor, "anchor", "", "anchor file of --data (default: the directory's name with .anchor)")
	_ = cmd.MarkFlagRequired("format") // the flag exists
	return cmd
}

func (a *app) importScenario(ctx context.Context, files []string, o *scenarioOptions) error {
	out := bufio.NewWriterSize(a.Out, 1<<16)
	w := &importer.Writer{Out: out, Tags: o.tags}
	if o.keepGoing {
		w.Refused = func(err error) { fmt.Fprintf(a.Err, "arl: %v\n", err) }
	}
	var err error
	if w.Shape, err = o.Read(&a.Terminal); err != nil {
		return err
	}
	if importer.Format(o.format) == importer.Ledger {
		err = a.importLedger(ctx, files, o, w)
	} else {
		err = a.importRuns(ctx, files, o, w)
	}
	if wrong, ok := errors.AsType[*scenario.Error](err); ok && wrong.Record > 0 && !o.keepGoing {
		err = fmt.Errorf("%w; or go on without what cannot be used: --keep-going", err)
	}
	err = errors.Join(err, exit.With(exit.IO, out.Flush()))
	if err == nil {
		failures.TellUndeclared(&a.Terminal, w, o.Tools)
		err = unusable(w)
	}
	return err
}

// unusable is the error of an import that passed over records.
func unusable(w *importer.Writer) error {
	if written, refused := w.Count(); refused > 0 {
		return exit.Usagef("records that could not be used: %d; cases written: %d", refused, written)
	}
	return nil
}

// importRuns imports the recorded runs in files.
func (a *app) importRuns(ctx context.Context, files []string, o *scenarioOptions, w *importer.Writer) error {
	switch {
	case len(files) == 0:
		return exit.Usagef("no file: name the files of recorded runs, or - for standard input")
	case o.since != "" || o.Data != "" || o.URL != "":
		return exit.Usagef("--since, --data and --url go with --format ledger: the format %s reads files", o.format)
	}
	total := int64(0)
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			total += info.Size()
		}
	}
	tell, end := a.Progress("import")
	defer end()
	read := int64(0)
	for _, file := range files {
		counts := &importer.Counts{NoInputs: !w.Inputs}
		w.Counts = counts
		err := a.WithInput(file, func(in io.Reader) error {
			defer func() { a.Tell("%s: %s", file, counts) }()
			counted := &importer.CountedReader{Reader: in, Count: &read}
			return w.All(ctx, file, importer.Import(importer.Format(o.format), file, counted, counts), func() { tell(uint64(read), uint64(max(total, read))) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// scenarioToolsCommand writes the beginning of a tools file.
func (a *app) scenarioToolsCommand() *cobra.Command {
	var o scenarioOptions
	cmd := &cobra.Command{
		Use:   "tools FILE…",
		Short: "Write the beginning of a tools file for recorded runs",
		Long: "Write the beginning of a tools file for recorded runs: every tool that they call, with the effect that its name\n" +
			"shows, otherwise undeclared, and how often it was called and failed. Correct the effects, and pass the file as\n" +
			"--tools to arl scenario import. The exit code is 2 if something could not be used.",
		Example: "  arl scenario tools --format openinference spans.json > tools.yaml",
		RunE: func(cmd *cobra.Command, files []string) error {
			w := &importer.Writer{Out: io.Discard, Refused: func(err error) { fmt.Fprintf(a.Err, "arl: %v\n", err) }}
			if err := a.importRuns(cmd.Context(), files, &o, w); err != nil {
				return err
			}
			if used := w.Used(); len(used) > 0 {
				return errors.Join(a.PrintText(importer.Starter(used)), unusable(w))
			}
			return unusable(w)
		},
	}
	cmd.Flags().StringVar(&o.format, "format", "", "format of the files, as of arl scenario import (required)")
	_ = cmd.MarkFlagRequired("format") // the flag exists
	return cmd
}

// importLedger imports the incidents of a log. All entries of the log are checked against its
// signed tree head.
func (a *app) importLedger(ctx context.Context, files []string, o *scenarioOptions, w *importer.Writer) error {
	since, err := parseInstant("since", o.since)
	switch {
	case err != nil:
		return err
	case len(files) > 0:
		return exit.Usagef("%s: the format ledger reads a log, of --url or --data", files[0])
	}
	return a.machine().WithLog(ctx, &o.Where, func(l *access.Log) error {
		head, err := l.Head(ctx)
		if err != nil {
			return err
		}
		tell, end := a.Progress("import")
		defer end()
		return w.All(ctx, l.Root.Origin, importer.FromLog(l.Root.Origin, audit.CheckedLeaves(ctx, l, head, tell), since), func() {})
	})
}

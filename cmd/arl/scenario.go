package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/spf13/cobra"

	"recoveryledger/coord/audit"
	"recoveryledger/coord/recovery/importer"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

func (a *app) scenarioCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "scenario",
		Short:   "Make scenarios of what agents did",
		Long:    "Make scenarios, the input of arl recover, of what agents did. docs/scenario.md describes the format.",
		Example: "  arl scenario import --format openai-chat transcripts.json > scenario.ndjson",
	}
	cmd.AddCommand(a.scenarioImportCommand())
	return cmd
}

// scenarioOptions are the flags of arl scenario import.
type scenarioOptions struct {
	logOptions
	format, since string
	tags          []string
	keepGoing     bool
}

func (a *app) scenarioImportCommand() *cobra.Command {
	var o scenarioOptions
	cmd := &cobra.Command{
		Use:   "import [FILE…]",
		Short: "Turn recorded agent runs into scenario lines",
		Long: "Print each recorded run as one line of a scenario: its steps, what is known of every attempt, raw errors put into\n" +
			"the failure taxonomy. Unknown is left out, never invented. Files are read as streams; - is standard input. The\n" +
			"format ledger takes the incidents of a log instead, of --url, or with --data of a stopped one.\n" +
			"The exit code is 2 if something could not be used.",
		Example: "  arl scenario import --format otlp traces.json > scenario.ndjson",
		RunE:    func(cmd *cobra.Command, files []string) error { return a.importScenario(cmd.Context(), files, &o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.format, "format", "", "form of the files: otlp|openai-chat|attempts|toolbench|galaxy|ledger (mandatory)")
	flags.StringVar(&o.since, "since", "", "with ledger: incidents signalled at or after this time (RFC 3339)")
	flags.StringArrayVar(&o.tags, "tag", nil, "tag of every case, such as holdout; may be given several times")
	flags.BoolVar(&o.keepGoing, "keep-going", false, "pass over records that cannot be used, and list them")
	o.register(flags)
	flags.StringVar(&o.data, "data", "", "with ledger: data directory of a stopped one, instead of a server")
	flags.StringVar(&o.anchor, "anchor", "", "anchor file of --data (default: the directory's name with .anchor)")
	_ = cmd.MarkFlagRequired("format") // the flag exists
	return cmd
}

func (a *app) importScenario(ctx context.Context, files []string, o *scenarioOptions) error {
	out := bufio.NewWriterSize(a.out, 1<<16)
	w := &scenarioWriter{app: a, o: o, out: out, seen: map[[16]byte]bool{}}
	var err error
	if importer.Format(o.format) == importer.Ledger {
		err = a.importLedger(ctx, files, o, w)
	} else {
		err = a.importRuns(ctx, files, o, w)
	}
	err = errors.Join(err, withExit(exitIO, out.Flush()))
	if err == nil && w.refused > 0 {
		err = usage("records that could not be used: %d; cases written: %d", w.refused, w.written)
	}
	return err
}

// importRuns reads files.
func (a *app) importRuns(ctx context.Context, files []string, o *scenarioOptions, w *scenarioWriter) error {
	switch {
	case len(files) == 0:
		return usage("no file: name the files of recorded runs, or - for standard input")
	case o.since != "" || o.data != "" || o.url != "":
		return usage("--since, --data and --url go with --format ledger: the format %s reads files", o.format)
	}
	total := int64(0)
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			total += info.Size()
		}
	}
	tell, end := a.progress("import")
	defer end()
	read := int64(0)
	for _, file := range files {
		err := a.withInput(file, func(in io.Reader) error {
			counted := &countedReader{in, &read}
			return w.all(ctx, file, importer.Import(importer.Format(o.format), file, counted), func() { tell(uint64(read), uint64(max(total, read))) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// withInput opens a file, or takes standard input.
func (a *app) withInput(file string, use func(io.Reader) error) error {
	if file == "-" {
		return use(a.in)
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	return use(f)
}

// importLedger reads the incidents of a log, all of whose entries are checked
// against its signed tree head.
func (a *app) importLedger(ctx context.Context, files []string, o *scenarioOptions, w *scenarioWriter) error {
	since, err := parseInstant("since", o.since)
	switch {
	case err != nil:
		return err
	case len(files) > 0:
		return usage("%s: the format ledger reads a log, of --url or --data", files[0])
	}
	return a.withLog(ctx, &o.logOptions, func(l *openLog) error {
		head, err := l.head(ctx)
		if err != nil {
			return err
		}
		tell, end := a.progress("import")
		defer end()
		return w.all(ctx, l.root.Origin, importer.FromLog(l.root.Origin, checkedLeaves(ctx, l, head.Head, tell), since), func() {})
	})
}

// checkedLeaves yields the leaves of a log, and after the last one an error if
// they are not those under the head.
func checkedLeaves(ctx context.Context, l *openLog, head merkle.Head, tell func(done, total uint64)) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		tree, err := merkle.NewFrontier(0, nil)
		if err != nil {
			yield(nil, err)
			return
		}
		done := uint64(0)
		for leaf, err := range audit.Leaves(ctx, l, 0, head.Size) {
			if err == nil {
				err = tree.Append(merkle.HashLeaf(leaf), func(uint, uint64, merkle.Hash) {})
			}
			if !yield(leaf, err) || err != nil {
				return
			}
			done++
			tell(done, head.Size)
		}
		computed, err := tree.Head()
		if err == nil && computed != head {
			err = withExit(exitInconsistent, fmt.Errorf("the entries of the log have the root %s, its signed tree head of size %d has %s", computed.Root, head.Size, head.Root))
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// scenarioWriter writes cases as lines. A record that cannot be used ends it,
// or is told and counted.
type scenarioWriter struct {
	app              *app
	o                *scenarioOptions
	out              *bufio.Writer
	seen             map[[16]byte]bool // hashes of the ids so far
	written, refused int
}

// all writes the cases of a file.
func (w *scenarioWriter) all(ctx context.Context, file string, cases iter.Seq2[scenario.Case, error], tell func()) error {
	record := 0
	for c, err := range cases {
		record++
		if err == nil {
			err = w.write(file, record, c)
		}
		var wrong *scenario.Error
		switch {
		case err == nil:
		case errors.As(err, &wrong) && w.o.keepGoing:
			fmt.Fprintf(w.app.err, "arl: %v\n", err)
			w.refused++
		default:
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		tell()
	}
	return nil
}

// write writes one case. Ids are unique over all files.
func (w *scenarioWriter) write(file string, record int, c scenario.Case) error {
	c.Tags = append(c.Tags, w.o.tags...)
	line, err := scenario.Encode(importer.MergeRetries(c))
	if wrong, ok := errors.AsType[*scenario.Error](err); ok {
		wrong.File, wrong.Record = file, record
	}
	if err != nil {
		return err
	}
	id := sha256.Sum256([]byte(c.ID))
	if w.seen[[16]byte(id[:16])] {
		return &scenario.Error{Problem: entry.IDConflict, File: file, Record: record, Detail: fmt.Sprintf("case %q already came from an earlier file", c.ID),
			Remedy: "import the files into scenarios of their own"}
	}
	w.seen[[16]byte(id[:16])] = true
	if _, err := w.out.Write(append(line, '\n')); err != nil {
		return withExit(exitIO, err)
	}
	w.written++
	return nil
}

package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	cosign "github.com/transparency-dev/formats/note"

	"recoveryledger/verify"
)

func (a *app) verifyCommand() *cobra.Command {
	var t target
	var b bundleFlags
	cmd := &cobra.Command{
		Use:   "verify FILE…",
		Short: "Check receipts and proofs offline",
		Long: "Check receipts, .tlog-proof files with their leaves, consistency proofs and tree heads offline, against a\n" +
			"pinned root: that of a profile, or of --root. The first line is the verdict; then comes what was checked, and what\n" +
			"was not. Where something needed was not given, the exit code is 14, and what to give is named. - is standard input.\n" +
			"The directory of a run that was recorded in a ledger is checked as a whole: report, traces, entries, tree head.\n" +
			"So is an authorization bundle: what it tells its agent to undo, and by which rules.",
		Example: "  arl verify receipt.json",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return a.verify(&t, b, args) },
	}
	t.registerRoot(cmd.Flags())
	cmd.Flags().StringVar(&b.accepted, "accepted", "", "file with what the agent has accepted before, for a bundle (default: nothing)")
	cmd.Flags().StringVar(&b.at, "at", "", "time at which the agent looks at a bundle, such as 2026-11-21T09:30:00Z (default: now)")
	return cmd
}

func (a *app) verify(t *target, b bundleFlags, files []string) error {
	if info, err := os.Stat(files[0]); err == nil && info.IsDir() {
		if len(files) > 1 {
			return usage("%s is the directory of a run: pass it alone", files[0])
		}
		return a.verifyRun(t, files[0])
	}
	root, err := a.pinnedRoot(t)
	if err != nil {
		return err
	}
	var m verify.Material
	for _, name := range files {
		data, err := a.readInput(name, verify.MaxFile)
		if err != nil {
			return err
		}
		if bundle, is := asBundle(data); is {
			if len(files) > 1 {
				return usage("%s: an authorization bundle is verified alone: pass one file", name)
			}
			return a.verifyBundle(root, b, name, bundle)
		}
		if err := m.Add(name, data); err != nil {
			return err
		}
	}
	report, err := root.Verify(m)
	if err != nil {
		return err
	}
	index, ok := asked(&m)
	out := newVerifyReport(&report, index, ok, root.Origin)
	if a.settings.output == outputJSON {
		err = a.printJSON(out)
	} else {
		err = a.printProse(out.text(&report))
	}
	if err != nil {
		return err
	}
	return inconclusive(report.Missing)
}

// inconclusive is the error of a verification that found nothing false, and not
// all of it true.
func inconclusive(missing []verify.Gap) error {
	if len(missing) == 0 {
		return nil
	}
	more := ""
	if n := len(missing) - 1; n > 0 {
		more = fmt.Sprintf("; and %d more", n)
	}
	return withExit(exitInconclusive, fmt.Errorf("inconclusive: nothing false was found, but not everything could be checked: %s%s", missing[0], more))
}

// withCosigner adds what checks the ledger's ML-DSA-44 signatures.
func withCosigner(root verify.Root) verify.Root {
	root.Cosigner = cosign.NewVerifierForCosignatureV1
	return root
}

// readInput reads a file, or standard input for "-", up to a limit in bytes.
func (a *app) readInput(name string, limit int64) ([]byte, error) {
	in := a.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close() //nolint:errcheck // only read
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, withExit(exitIO, err)
	}
	if int64(len(data)) > limit {
		return nil, usage("%s: larger than %d bytes", name, limit)
	}
	return data, nil
}

// instant is a registered_at for people.
func instant(unixMilli int64) string {
	return time.UnixMilli(unixMilli).UTC().Format("2006-01-02T15:04:05.000Z")
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	cosign "github.com/transparency-dev/formats/note"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

func (a *app) verifyCommand() *cobra.Command {
	var t target
	var b bundleFlags
	cmd := &cobra.Command{
		Use:   "verify FILE…",
		Short: "Check receipts and proofs offline",
		Long: "Check receipts, .tlog-proof files with their leaves, consistency proofs and tree heads offline, against a\n" +
			"pinned root: that of a profile, or of --root. Says what was checked and what was not. - is standard input.\n" +
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
	return a.printReport(&report)
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

// verifyReport is a [verify.Report] as it is printed.
type verifyReport struct {
	Entries    []verifiedEntry `json:"entries"`
	Heads      []headInfo      `json:"heads"`
	Checked    []checkedStep   `json:"checked"`
	NotChecked []string        `json:"not_checked"`
	Warnings   []string        `json:"warnings"`
}

type verifiedEntry struct {
	Index        uint64          `json:"index"`
	Kind         entry.Kind      `json:"kind"`
	Issuer       entry.Principal `json:"iss"`
	RegisteredAt int64           `json:"registered_at"`
	Signed       bool            `json:"signed"`
}

type headInfo struct {
	Size uint64      `json:"size"`
	Root merkle.Hash `json:"root"`
}

type checkedStep struct {
	Step   int    `json:"step"`
	Name   string `json:"name"`
	Count  int    `json:"count"`
	Detail string `json:"detail"`
}

func (a *app) printReport(r *verify.Report) error {
	out := verifyReport{Entries: []verifiedEntry{}, Heads: []headInfo{}, Checked: []checkedStep{},
		NotChecked: append([]string{}, r.NotChecked...), Warnings: append([]string{}, r.Warnings...)}
	for _, e := range r.Entries {
		out.Entries = append(out.Entries, verifiedEntry{e.Index, e.Kind, e.Header.Iss, e.RegisteredAt, e.Signed})
	}
	for _, h := range r.Heads {
		out.Heads = append(out.Heads, headInfo(h))
	}
	for _, c := range r.Checked {
		out.Checked = append(out.Checked, checkedStep{int(c.Step), c.Step.String(), c.Count, c.Detail})
	}
	if a.settings.output == outputJSON {
		return a.printJSON(out)
	}
	return a.printText(out.text(r))
}

func (out *verifyReport) text(r *verify.Report) string {
	var b strings.Builder
	for _, e := range out.Entries {
		signed := "signature checked"
		if !e.Signed {
			signed = "SIGNATURE NOT CHECKED"
		}
		fmt.Fprintf(&b, "entry %d: %s by %s, registered %s, %s\n", e.Index, e.Kind, e.Issuer, instant(e.RegisteredAt), signed)
	}
	for _, h := range out.Heads {
		fmt.Fprintf(&b, "tree head: size %d, root %s\n", h.Size, h.Root)
	}
	b.WriteString("\nchecked\n")
	for _, c := range r.Checked {
		fmt.Fprintf(&b, "  %s\n", c)
	}
	b.WriteString("\nnot checked\n")
	for _, text := range out.NotChecked {
		fmt.Fprintf(&b, "  - %s\n", text)
	}
	for _, text := range out.Warnings {
		fmt.Fprintf(&b, "\nWARNING: %s\n", text)
	}
	return b.String()
}

// instant is a registered_at for people.
func instant(unixMilli int64) string {
	return time.UnixMilli(unixMilli).UTC().Format("2006-01-02T15:04:05.000Z")
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

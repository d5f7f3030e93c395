package main

import (
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/histories"
	"recoveryledger/coord/audit"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

func (a *app) verifyCommand() *cobra.Command {
	var t access.Target
	var b bundleFlags
	var q access.Questions
	var witnessed bool
	var rows string
	cmd := &cobra.Command{
		Use:   "verify FILE…",
		Short: "Check receipts and proofs offline",
		Long: "Check receipts, .tlog-proof files with their leaves, consistency proofs, tree heads and evidence offline,\n" +
			"against a pinned root: the root of a profile, or of --root. The first line is the verdict. The next lines say\n" +
			"what was checked, and what was not. If an input is missing, the exit code is 14, and the command names the\n" +
			"input. - is standard input.\n" +
			"For the directory of a run that was recorded in a ledger, the command checks report, traces, entries and tree\n" +
			"head as a whole. For an authorization bundle, the command shows what the agent must undo, and by which rules.\n" +
			"A history proves which entries there are, or that there are none: --expect says what you want to know.",
		Example: "  arl verify receipt.json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			questions, err := q.All()
			if err != nil {
				return err
			}
			m := &verify.Material{Witnessed: witnessed, Questions: questions}
			return a.verify(&t, b, m, rows, args)
		},
	}
	t.RegisterRoot(cmd.Flags())
	cmd.Flags().StringVar(&b.accepted, "accepted", "", "file with what the agent has accepted before, for a bundle (default: nothing)")
	cmd.Flags().StringVar(&b.at, "at", "", "time to check a bundle at, such as 2026-11-21T09:30:00Z (default: now)")
	cmd.Flags().BoolVar(&witnessed, "witnessed", false, "fail with exit code 14 also where the pinned root names no witnesses")
	cmd.Flags().StringVar(&rows, "rows", "", "write what histories prove as a table: FILE.parquet, FILE.csv or FILE.ndjson")
	q.Register(cmd.Flags())
	return cmd
}

func (a *app) verify(t *access.Target, b bundleFlags, m *verify.Material, rows string, files []string) error {
	if info, err := os.Stat(files[0]); err == nil && info.IsDir() {
		if len(files) > 1 || rows != "" {
			return exit.Usagef("%s is the directory of a run: pass it alone", files[0])
		}
		return a.verifyRun(t, files[0])
	}
	root, err := a.rootWithHead(t)
	if err != nil {
		return err
	}
	var holders []string // the file of each document of evidence
	for _, name := range files {
		data, err := a.ReadInput(name, verify.MaxFile)
		if err != nil {
			return err
		}
		if text, is := bundle.Recognize(data); is {
			if len(files) > 1 {
				return exit.Usagef("%s: an authorization bundle is verified alone: pass one file", name)
			}
			if len(m.Questions) > 0 || rows != "" {
				return exit.Usagef("%s: an authorization bundle is no history: leave out --expect and --rows", name)
			}
			return a.verifyBundle(root, b, name, text)
		}
		if err := m.Add(name, data); err != nil {
			return err
		}
		for len(holders) < len(m.Evidence) {
			holders = append(holders, name)
		}
	}
	report, err := root.Verify(*m)
	if err != nil {
		return evident(m, holders, err)
	}
	out := newVerifyReport(&report, root.Origin)
	if a.JSON() {
		err = a.PrintJSON(out)
	} else {
		err = a.PrintProse(out.text())
	}
	if err != nil {
		return err
	}
	if err := verify.Conclusive(report.Missing); err != nil || rows == "" {
		return err
	}
	return histories.WriteRows(rows, m, &report)
}

// evident says of a contradiction that a given document already shows which file holds it, so that
// no other document is written about it. Standard input is no file.
func evident(m *verify.Material, holders []string, err error) error {
	found := audit.Evidence(err)
	for i := range m.Evidence {
		if found != nil && holders[i] != "-" && m.Evidence[i].Shows(found) {
			return exit.Evident(holders[i], err)
		}
	}
	return err
}

// rootWithHead returns the pinned root with the newest tree head: the head in the root, or the head
// that this machine has accepted. No material may contradict that head.
func (a *app) rootWithHead(t *access.Target) (verify.Root, error) {
	root, err := a.machine().PinnedRoot(t)
	if err != nil {
		return verify.Root{}, err
	}
	verifier, err := keys.NewVerifier(0)
	if err != nil {
		return root, err
	}
	root.Signature = verifier.Check // the entries of a history are of few keys
	head, err := a.machine().Trust.Head(root)
	if head != nil {
		root.Seen = head.Note
	}
	return root, err
}

// instant returns a time in the form for people.
func instant(unixMilli int64) string {
	return words.Instant(unixMilli)
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

package main

import (
	"fmt"
	"strings"

	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/coord/recovery/record"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// verifiedRun is what arl verify prints of a run's directory.
type verifiedRun struct {
	Verdict        string       `json:"verdict"`
	Run            string       `json:"run"`
	Issuer         string       `json:"iss"`
	Cases          int64        `json:"cases"`
	Entries        int64        `json:"entries"`
	RunRoot        merkle.Hash  `json:"run_root"`
	ReportDigest   entry.Digest `json:"report_digest"`
	Recommendation string       `json:"recommendation"`
	Head           merkle.Head  `json:"head"`
	Missing        []string     `json:"missing"`
	NotChecked     []string     `json:"not_checked"`
}

// verifyRun checks the directory of a run that was recorded in a ledger.
func (a *app) verifyRun(t *access.Target, dir string) error {
	root, err := a.machine().PinnedRoot(t)
	if err != nil {
		return err
	}
	p, err := record.Verify(root, dir)
	if err != nil {
		return err
	}
	v := &verifiedRun{Verdict: verdictVerified, Missing: []string{}, Run: p.Run, Issuer: string(p.Issuer), Cases: p.Cases, Entries: p.Entries,
		RunRoot: p.Report.RunRoot, ReportDigest: p.ReportDigest, Head: p.Head, Recommendation: string(p.Report.Recommendation), NotChecked: []string{
			"that the traces follow from scenario and policy: arl replay decides every case again",
			"that the record of the cases is true: entries say what the engine saw",
			"run.json: when and where the run ran; nothing depends on it",
		}}
	for _, gap := range p.Missing {
		v.Verdict, v.Missing = verdictInconclusive, append(v.Missing, gap.String())
	}
	if a.JSON() {
		err = a.PrintJSON(v)
	} else {
		err = a.PrintProse(v.text(p.Files))
	}
	if err != nil {
		return err
	}
	return inconclusive(p.Missing)
}

func (v *verifiedRun) text(said []string) string {
	signed := "signed, and "
	if len(v.Missing) > 0 {
		signed = ""
	}
	text := fmt.Sprintf("%s: run %s by %s: %s\n\nchecked\n", v.Verdict, v.Run, v.Issuer, v.Recommendation) +
		fmt.Sprintf("  %s: %sin the log of tree head %d, root %s\n", terminal.Counted(v.Entries, "entry"), signed, v.Head.Size, v.Head.Root) +
		fmt.Sprintf("  %s: each is the one in the entry of its case\n", terminal.Counted(v.Cases, "trace")) +
		fmt.Sprintf("  run root %s: over the traces, in the report and in the closing entry\n", v.RunRoot) +
		fmt.Sprintf("  report %s: in the closing entry, with configuration and scenario of the opening one\n", v.ReportDigest) +
		fmt.Sprintf("  %s: what the report says\n", strings.Join(said, ", "))
	if len(v.Missing) > 0 {
		text += "\nmissing\n  - " + strings.Join(v.Missing, "\n  - ") + "\n"
	}
	return text + "\nnot checked\n  - " + strings.Join(v.NotChecked, "\n  - ") + "\n"
}

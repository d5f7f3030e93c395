package main

import (
	"fmt"
	"strings"

	"recoveryledger/cmd/arl/access"
	"recoveryledger/coord/recovery/record"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// verifiedRun is the output of arl verify about a run's directory.
type verifiedRun struct {
	Verdict        verify.Verdict `json:"verdict"`
	Run            string         `json:"run"`
	Issuer         string         `json:"iss"`
	Cases          int64          `json:"cases"`
	Entries        int64          `json:"entries"`
	RunRoot        merkle.Hash    `json:"run_root"`
	ReportDigest   entry.Digest   `json:"report_digest"`
	Recommendation string         `json:"recommendation"`
	Head           merkle.Head    `json:"head"`
	Missing        []string       `json:"missing"`
	NotChecked     []string       `json:"not_checked"`
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
	v := &verifiedRun{Verdict: p.Verdict(), Missing: []string{}, Run: p.Run, Issuer: string(p.Issuer), Cases: p.Cases, Entries: p.Entries,
		RunRoot: p.Report.RunRoot, ReportDigest: p.ReportDigest, Head: p.Head, Recommendation: string(p.Report.Recommendation), NotChecked: p.NotChecked()}
	for _, gap := range p.Missing {
		v.Missing = append(v.Missing, gap.String())
	}
	if a.JSON() {
		err = a.PrintJSON(v)
	} else {
		err = a.PrintProse(v.text(p.Checked()))
	}
	if err != nil {
		return err
	}
	return verify.Conclusive(p.Missing)
}

func (v *verifiedRun) text(checked []string) string {
	text := fmt.Sprintf("%s: run %s by %s: %s\n\nchecked\n  %s\n", v.Verdict, v.Run, v.Issuer, v.Recommendation, strings.Join(checked, "\n  "))
	if len(v.Missing) > 0 {
		text += "\nmissing\n  - " + strings.Join(v.Missing, "\n  - ") + "\n"
	}
	return text + "\nnot checked\n  - " + strings.Join(v.NotChecked, "\n  - ") + "\n"
}

package main

import (
	"fmt"
	"strings"

	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/histories"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
	"recoveryledger/verify/tally"
)

// verifyReport is a [verify.Report] in the form of the output, with its verdict and a summary of
// each entry.
type verifyReport struct {
	Verdict verify.Verdict  `json:"verdict"`
	Subject string          `json:"subject"` // subject of the verdict
	Entries []verifiedEntry `json:"entries"`
	// Counts has the counts of each agent whose history is shown with all labels.
	Counts []tally.Counts `json:"counts,omitempty"`
	*verify.Report
}

type verifiedEntry struct {
	Index        uint64          `json:"index"`
	Kind         entry.Kind      `json:"kind"`
	Issuer       entry.Principal `json:"iss"`
	Says         string          `json:"says"`
	RegisteredAt int64           `json:"registered_at"`
	Signed       bool            `json:"signed"`
}

func describeEntry(e *verify.Entry) verifiedEntry {
	return verifiedEntry{e.Index, e.Kind, e.Header.Iss, words.Summary(e.Body), e.RegisteredAt, e.Signed}
}

func newVerifyReport(r *verify.Report, origin string) *verifyReport {
	out := &verifyReport{Verdict: r.Verdict(), Subject: words.Subject(r, origin), Entries: []verifiedEntry{}, Counts: tally.Of(r), Report: r}
	for i := range r.Entries {
		out.Entries = append(out.Entries, describeEntry(&r.Entries[i]))
	}
	return out
}

// among lists the first entries of an answer.
func among(indexes []uint64) string {
	const most = 12
	var texts []string
	for i, index := range indexes {
		if i == most {
			texts = append(texts, "…")
			break
		}
		texts = append(texts, decimal(index))
	}
	if len(texts) == 0 {
		return ""
	}
	return ": " + strings.Join(texts, ", ")
}

func (out *verifyReport) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", out.Verdict, out.Subject)
	for _, text := range out.Warnings {
		fmt.Fprintf(&b, "WARNING: %s\n", text)
	}
	b.WriteString("\n")
	for i := range out.Answers {
		fmt.Fprintf(&b, "%s%s\n", &out.Answers[i], among(out.Answers[i].Entries))
	}
	for i := range out.Counts {
		b.WriteString(histories.Counted(&out.Counts[i]))
	}
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
	for _, c := range out.Checked {
		fmt.Fprintf(&b, "  %s\n", c)
	}
	if len(out.Missing) > 0 {
		b.WriteString("\nmissing\n")
	}
	for _, g := range out.Missing {
		fmt.Fprintf(&b, "  - %s\n", g)
	}
	b.WriteString("\nnot checked\n")
	for _, text := range out.NotChecked {
		fmt.Fprintf(&b, "  - %s\n", text)
	}
	return b.String()
}

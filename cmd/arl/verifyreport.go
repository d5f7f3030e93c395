package main

import (
	"fmt"
	"slices"
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
	out := &verifyReport{Verdict: r.Verdict(), Subject: subject(r, origin), Entries: []verifiedEntry{}, Counts: tally.Of(r), Report: r}
	for i := range r.Entries {
		out.Entries = append(out.Entries, describeEntry(&r.Entries[i]))
	}
	return out
}

// subject names the subject of a verdict: the finding of evidence, the answer of a history, the
// requested entry, or else the newest tree head.
func subject(r *verify.Report, origin string) string {
	var text string
	var more int
	one, many := "entry", "entries"
	switch newest := r.Heads[len(r.Heads)-1]; {
	case len(r.Equivocations) > 0:
		text, more, one, many = r.Equivocations[0].String(), len(r.Equivocations)-1, "equivocation", "equivocations"
	case len(r.Answers) > 0:
		// The incidents of a history are answers, too, in the order of their keys.
		agent := slices.IndexFunc(r.Answers, func(a verify.Answer) bool { return a.Type == entry.SubjectAgent && a.Label == "" })
		text, more, one, many = r.Answers[max(agent, 0)].String(), len(r.Answers)-1, "answer", "answers"
	case r.Subject != nil:
		e := describeEntry(r.Subject)
		text, more = e.String(), len(r.Entries)-1
	default:
		text, more, one, many = fmt.Sprintf("tree head of %s, size %d, root %s", origin, newest.Size, newest.Root), len(r.Heads)-1, "head", "heads"
	}
	if more > 0 {
		text += fmt.Sprintf(" (and %s)", others(more, one, many))
	}
	return text
}

func others(n int, one, many string) string {
	if n == 1 {
		return "1 other " + one
	}
	return fmt.Sprintf("%d other %s", n, many)
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

// String returns the kind, the issuer and the content of an entry in words.
func (e *verifiedEntry) String() string {
	text := fmt.Sprintf("entry %d, %s by %s", e.Index, e.Kind, e.Issuer)
	if e.Says != "" {
		text += ": " + e.Says
	}
	return text
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

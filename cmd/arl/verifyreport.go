package main

import (
	"fmt"
	"slices"
	"strings"

	"recoveryledger/cmd/arl/glossary"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// The verdicts of arl verify on receipts, proofs and tree heads.
const (
	verdictVerified     = "verified"                     // every step that the material asks for
	verdictIncluded     = "included, signer not checked" // the entry asked for is in the log, by whomever
	verdictInconclusive = "inconclusive"                 // of something else that was given nothing is known
)

// verifyReport is a [verify.Report] as it is printed.
type verifyReport struct {
	Verdict string          `json:"verdict"`
	Subject string          `json:"subject"` // what the verdict is about
	Entries []verifiedEntry `json:"entries"`
	// Answers are those of histories: these entries and no others, or none.
	Answers []verify.Answer `json:"answers,omitempty"`
	// Equivocations are proven by evidence.
	Equivocations []verify.Equivocation `json:"equivocations,omitempty"`
	Heads         []merkle.Head         `json:"heads"`
	Checked       []checkedStep         `json:"checked"`
	Missing       []missingStep         `json:"missing"`
	NotChecked    []string              `json:"not_checked"`
	Warnings      []string              `json:"warnings"`
}

type verifiedEntry struct {
	Index        uint64          `json:"index"`
	Kind         entry.Kind      `json:"kind"`
	Issuer       entry.Principal `json:"iss"`
	Says         string          `json:"says"`
	RegisteredAt int64           `json:"registered_at"`
	Signed       bool            `json:"signed"`
}

type checkedStep struct {
	Step   int    `json:"step"`
	Name   string `json:"name"`
	Count  int    `json:"count"`
	Detail string `json:"detail"`
}

type missingStep struct {
	Step int    `json:"step"`
	Name string `json:"name"`
	What string `json:"what"`
	Give string `json:"give"`
}

// asked returns the index of the entry that a verification is about: receipts
// that were written together begin with the one that was asked for, and those of
// policies and keys follow.
func asked(m *verify.Material) (index uint64, ok bool) {
	if list := slices.Concat(m.Receipts, m.Proofs); len(list) > 0 {
		return list[0].Index, true
	}
	return 0, false
}

func newVerifyReport(r *verify.Report, index uint64, ok bool, origin string) *verifyReport {
	out := &verifyReport{Entries: []verifiedEntry{}, Heads: []merkle.Head{}, Checked: []checkedStep{}, Missing: []missingStep{},
		NotChecked: append([]string{}, r.NotChecked...), Warnings: append([]string{}, r.Warnings...)}
	var subject *verifiedEntry
	for _, e := range r.Entries {
		out.Entries = append(out.Entries, verifiedEntry{e.Index, e.Kind, e.Header.Iss, glossary.Summary(e.Body), e.RegisteredAt, e.Signed})
	}
	for i := range out.Entries {
		if e := &out.Entries[i]; ok && e.Index == index {
			subject = e
		}
	}
	out.Heads = append(out.Heads, r.Heads...)
	for _, c := range r.Checked {
		out.Checked = append(out.Checked, checkedStep{int(c.Step), c.Step.String(), c.Count, c.Detail})
	}
	for _, g := range r.Missing {
		out.Missing = append(out.Missing, missingStep{int(g.Step), g.Step.String(), g.What, g.Give})
	}
	out.Answers, out.Equivocations = r.Answers, r.Equivocations
	out.judge(subject, origin)
	return out
}

// judge says in a line what was found of what.
func (out *verifyReport) judge(subject *verifiedEntry, origin string) {
	switch {
	case subject != nil && !subject.Signed:
		out.Verdict = verdictIncluded
	case len(out.Missing) > 0:
		out.Verdict = verdictInconclusive
	default:
		out.Verdict = verdictVerified
	}
	switch newest := out.Heads[len(out.Heads)-1]; {
	case len(out.Equivocations) > 0:
		out.Subject = out.Equivocations[0].String()
		if n := len(out.Equivocations) - 1; n > 0 {
			out.Subject += fmt.Sprintf(" (and %s)", others(n, "equivocation", "equivocations"))
		}
	case len(out.Answers) > 0:
		out.Subject = out.Answers[0].String()
		if n := len(out.Answers) - 1; n > 0 {
			out.Subject += fmt.Sprintf(" (and %s)", others(n, "answer", "answers"))
		}
	case subject != nil:
		out.Subject = subject.String()
		if n := len(out.Entries) - 1; n > 0 {
			out.Subject += fmt.Sprintf(" (and %s)", others(n, "entry", "entries"))
		}
	default:
		out.Subject = fmt.Sprintf("tree head of %s, size %d, root %s", origin, newest.Size, newest.Root)
		if n := len(out.Heads) - 1; n > 0 {
			out.Subject += fmt.Sprintf(" (and %s)", others(n, "head", "heads"))
		}
	}
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

// String says what an entry is and says.
func (e *verifiedEntry) String() string {
	text := fmt.Sprintf("entry %d, %s by %s", e.Index, e.Kind, e.Issuer)
	if e.Says != "" {
		text += ": " + e.Says
	}
	return text
}

func (out *verifyReport) text(r *verify.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", out.Verdict, out.Subject)
	for _, text := range out.Warnings {
		fmt.Fprintf(&b, "WARNING: %s\n", text)
	}
	b.WriteString("\n")
	for i := range out.Answers {
		fmt.Fprintf(&b, "%s%s\n", &out.Answers[i], among(out.Answers[i].Entries))
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
	for _, c := range r.Checked {
		fmt.Fprintf(&b, "  %s\n", c)
	}
	if len(r.Missing) > 0 {
		b.WriteString("\nmissing\n")
	}
	for _, g := range r.Missing {
		fmt.Fprintf(&b, "  - %s\n", g)
	}
	b.WriteString("\nnot checked\n")
	for _, text := range out.NotChecked {
		fmt.Fprintf(&b, "  - %s\n", text)
	}
	return b.String()
}

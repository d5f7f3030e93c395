package words

import (
	"fmt"
	"slices"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// Subject names the subject of a verdict: the finding of evidence, the answer of a history, the
// requested entry, or else the newest tree head.
func Subject(r *verify.Report, origin string) string {
	var text, thing string
	var more int
	switch newest := r.Heads[len(r.Heads)-1]; {
	case len(r.Equivocations) > 0:
		text, more, thing = r.Equivocations[0].String(), len(r.Equivocations)-1, "equivocation"
	case len(r.Answers) > 0:
		// The incidents of a history are answers, too, in the order of their keys.
		agent := slices.IndexFunc(r.Answers, func(a verify.Answer) bool { return a.Type == entry.SubjectAgent && a.Label == "" })
		text, more, thing = r.Answers[max(agent, 0)].String(), len(r.Answers)-1, "answer"
	case r.Subject != nil:
		text, more, thing = entryOf(r.Subject), len(r.Entries)-1, "entry"
	default:
		text, more, thing = fmt.Sprintf("tree head of %s, size %d, root %s", origin, newest.Size, newest.Root), len(r.Heads)-1, "head"
	}
	if more > 0 {
		text += fmt.Sprintf(" (and %s)", Counted(more, "other "+thing))
	}
	return text
}

// entryOf returns the kind, the issuer and the content of an entry.
func entryOf(e *verify.Entry) string {
	text := fmt.Sprintf("entry %d, %s by %s", e.Index, e.Kind, e.Header.Iss)
	if says := Summary(e.Body); says != "" {
		text += ": " + says
	}
	return text
}

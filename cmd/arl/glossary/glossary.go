// Package glossary explains the words that arl prints: problem types, exit codes,
// rules of the protocol, and the states, results, reasons and failures that entries
// and traces hold.
package glossary

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"recoveryledger/api"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/docs/draft"
	"recoveryledger/ledger/entry"
)

// Explanation is the explanation of a code.
type Explanation struct {
	Code   string `json:"code"`
	Title  string `json:"title"`
	Text   string `json:"text,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

// Find finds the meanings of a code. A failure may be written class.code or class/code, or by its
// code alone. FAILED and failed are two words. If only one of them exists, any case will do.
func Find(code string) (found []Explanation, err error) {
	if problem, ok := api.Explain(code); ok {
		code = string(problem.Name)
	}
	failure := strings.ReplaceAll(code, "/", ".")
	all := All()
	for _, same := range []func(known, asked string) bool{func(known, asked string) bool { return known == asked }, strings.EqualFold} {
		var known []string
		for _, e := range all {
			_, ofClass, _ := strings.Cut(e.Code, ".")
			if same(e.Code, failure) || same(ofClass, code) && code != entry.ClassUnknown {
				found = append(found, e)
			}
			known = append(known, e.Code)
		}
		if found != nil {
			return found, nil
		}
		if words, ok := draft.Statement(code); ok {
			return []Explanation{{code, "statement of the Internet-Draft", words, ""}}, nil
		}
		err = exit.With(exit.NotFound, fmt.Errorf("%q is no problem type, exit code, rule or word that arl prints%s", code,
			cmp.Or(entry.Suggest(code, known), " (arl explain lists them)")))
	}
	return nil, err
}

// Prose returns the explanation for people.
func (e *Explanation) Prose() string {
	text := e.Code + ": " + e.Title + "\n"
	if e.Text != "" {
		text += "\n" + e.Text + "\n"
	}
	if e.Remedy != "" {
		text += "\nRemedy: " + e.Remedy + "\n"
	}
	return text
}

// All returns all explanations. A word with several meanings has one explanation for each meaning.
func All() []Explanation {
	var all []Explanation
	for _, t := range api.Types() {
		all = append(all, Explanation{string(t.Name), fmt.Sprintf("%s (HTTP %d)", t.Title, t.Status), t.Text, t.Remedy})
	}
	for _, e := range exit.Meanings() {
		all = append(all, Explanation{strconv.Itoa(e.Code), "exit code: " + e.Title, e.Text, ""})
	}
	return slices.Concat(all, entryRules(), workRules(), agentRules(), indexRules(), vocabulary())
}

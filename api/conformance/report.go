// Package conformance holds implementations that share no code with this repository to the
// statements of the Internet-Draft.
//
// The kit asks a verifier each protocol vector as a line of JSON, and compares the verdict in the
// line that comes back. It submits to a ledger what the vectors say is refused, and compares the
// problem.
package conformance

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
)

// An Outcome is what became of a case.
type Outcome string

// The outcomes of a case.
const (
	Passed        Outcome = "passed"
	Failed        Outcome = "failed"
	NotApplicable Outcome = "not_applicable" // the target says that it has no such part
)

// A Result is the outcome of one case.
type Result struct {
	Case       string   `json:"case"`
	Statements []string `json:"statements"` // ids of the draft; empty: docs/protocol.md alone has the rule
	About      string   `json:"about"`
	Outcome    Outcome  `json:"outcome"`
	Sent       string   `json:"sent,omitempty"`     // the question, where the case failed
	Expected   string   `json:"expected,omitempty"` // where the case failed
	Got        string   `json:"got,omitempty"`      // where the case failed; why, where it does not apply
}

// A Report is the outcome of a run.
type Report struct {
	Target        string   `json:"target"` // verifier or ledger
	Passed        int      `json:"passed"`
	Failed        int      `json:"failed"`
	NotApplicable int      `json:"not_applicable"`
	Statements    []string `json:"statements"` // ids of the draft that a case which passed or failed is about, sorted
	Results       []Result `json:"results"`
}

func newReport(target string, results []Result) *Report {
	r := &Report{Target: target, Statements: []string{}, Results: results}
	for _, result := range results {
		switch result.Outcome {
		case Passed:
			r.Passed++
		case Failed:
			r.Failed++
		case NotApplicable:
			r.NotApplicable++
			continue
		}
		r.Statements = append(r.Statements, result.Statements...)
	}
	slices.Sort(r.Statements)
	r.Statements = slices.Compact(r.Statements)
	return r
}

// maxShown is how much of a question or an answer the report for people shows, in bytes.
const maxShown = 300

func shortened(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return strings.ToValidUTF8(text[:maxShown], "") + fmt.Sprintf("… (%d bytes)", len(text))
}

// Text is the report for people: what failed, then the counts.
func (r *Report) Text() string {
	var b strings.Builder
	for _, result := range r.Results {
		if result.Outcome != Failed {
			continue
		}
		fmt.Fprintf(&b, "FAILED %s (%s): %s\n", result.Case, result.rule(), result.About)
		fmt.Fprintf(&b, "  sent      %s\n  expected  %s\n  got       %s\n", shortened(result.Sent), shortened(result.Expected), shortened(result.Got))
	}
	fmt.Fprintf(&b, "%s: %d passed, %d failed, %d not applicable; %d statements of the draft\n",
		r.Target, r.Passed, r.Failed, r.NotApplicable, len(r.Statements))
	return b.String()
}

// rule names the statements of a case.
func (r *Result) rule() string {
	if len(r.Statements) == 0 {
		return "no statement of the draft"
	}
	return strings.Join(r.Statements, ", ")
}

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"` // the statements
	Name    string        `xml:"name,attr"`
	Failure *junitMessage `xml:"failure"`
	Skipped *junitMessage `xml:"skipped"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit is the report in the XML that build servers read.
func (r *Report) JUnit() ([]byte, error) {
	suite := junitSuite{Name: "conformance " + r.Target, Tests: len(r.Results), Failures: r.Failed, Skipped: r.NotApplicable}
	for _, result := range r.Results {
		c := junitCase{Class: result.rule(), Name: result.Case}
		switch result.Outcome {
		case Passed:
		case Failed:
			c.Failure = &junitMessage{result.About, fmt.Sprintf("sent %s\nexpected %s\ngot %s\n", result.Sent, result.Expected, result.Got)}
		case NotApplicable:
			c.Skipped = &junitMessage{Message: result.Got}
		}
		suite.Cases = append(suite.Cases, c)
	}
	text, err := xml.MarshalIndent(suite, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("JUnit report: %w", err)
	}
	return append([]byte(xml.Header), append(text, '\n')...), nil
}

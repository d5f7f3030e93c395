package importer

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"recoveryledger/coord/recovery/scenario"
)

// Counts is what became of the records of a file: every record is taken, or left for a reason.
type Counts struct {
	// Records is the number of records that were read: spans of traces, otherwise runs or rows.
	Records int
	// Taken is the number of records that are in a case: as its steps, for spans.
	Taken int
	// Bare is the number of runs among them that have no step.
	Bare int
	// Left counts the other records by the reason.
	Left map[string]int

	// NoInputs is set before an import to leave out the inputs of calls in traces of spans: without
	// it, the inputs are in memory until their trace is whole.
	NoInputs bool

	unit    string // what a record is, in the plural; empty: records
	settled struct{ taken, bare int }
}

// settle ends a case. If the case is not given, the records that were taken for it are not taken.
func (c *Counts) settle(given bool) {
	if !given {
		c.Taken, c.Bare = c.settled.taken, c.settled.bare
	}
	c.settled.taken, c.settled.bare = c.Taken, c.Bare
}

// leave counts a record that is left.
func (c *Counts) leave(why string) {
	if c.Left == nil {
		c.Left = map[string]int{}
	}
	c.Left[why]++
}

// String says how many records were taken and left, and why, on one line.
func (c *Counts) String() string {
	unit := cmp.Or(c.unit, "records")
	text := fmt.Sprintf("%s taken: %d of %d", unit, c.Taken, c.Records)
	var reasons []string
	named := 0
	for _, why := range slices.Sorted(maps.Keys(c.Left)) {
		reasons = append(reasons, fmt.Sprintf("%d %s", c.Left[why], why))
		named += c.Left[why]
	}
	if rest := c.Records - c.Taken - named; rest > 0 {
		reasons = append(reasons, fmt.Sprintf("%d that could not be used", rest))
	}
	if reasons != nil {
		text += "; left: " + strings.Join(reasons, ", ")
	}
	if c.Bare > 0 {
		text += fmt.Sprintf("; without a step, because no tool is called: %d", c.Bare)
	}
	return text
}

// Tokens counts the tokens of [ImportTokens] by the cases that they are in.
func (c *Counts) Tokens(cases iter.Seq2[scenario.Case, error]) iter.Seq2[scenario.Case, error] {
	c.unit = "tokens"
	return func(yield func(scenario.Case, error) bool) {
		for one, err := range cases {
			if err == nil {
				c.Records, c.Taken = c.Records+len(one.Steps), c.Taken+len(one.Steps)
			}
			if !yield(one, err) {
				return
			}
		}
	}
}

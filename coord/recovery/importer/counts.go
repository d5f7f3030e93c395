package importer

import (
	"cmp"
	"errors"
	"fmt"
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
	// Unheld is the number of calls whose inputs were left out because the traces that were not
	// whole yet held inputsMax bytes of inputs.
	Unheld int
	// Items is the number of items of runs that were left because their type is not known, and Item
	// the first such type.
	Items int
	Item  string

	unit            string // what a record is, in the plural; empty: records
	settled, before sums   // after the last case, and before it
}

// sums is what the cases so far have taken.
type sums struct{ taken, bare int }

// settle ends a case. If the case is not given, the records that were taken for it are not taken.
func (c *Counts) settle(given bool) {
	if !given {
		c.Taken, c.Bare = c.settled.taken, c.settled.bare
	}
	c.before, c.settled = c.settled, sums{c.Taken, c.Bare}
}

// Refuse says that the case which was given last is not used: its records are not taken. If the
// error is not about the file, the import ends with it, and they do not count as read either.
func (c *Counts) Refuse(err error) {
	if _, wrong := errors.AsType[*scenario.Error](err); !wrong {
		c.Records -= c.settled.taken - c.before.taken
	}
	c.settled = c.before
	c.settle(false)
}

// leave counts a record that is left.
func (c *Counts) leave(why string) {
	if c.Left == nil {
		c.Left = map[string]int{}
	}
	c.Left[why]++
}

// unknown counts items of unknown types.
func (c *Counts) unknown(types []string) {
	if len(types) > 0 {
		c.Items, c.Item = c.Items+len(types), cmp.Or(c.Item, types[0])
	}
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
	if c.Items > 0 {
		text += fmt.Sprintf("; items left out of runs: %d, of types that the format does not name, such as %.40q", c.Items, c.Item)
	}
	if c.Unheld > 0 {
		text += fmt.Sprintf("; inputs left out of calls: %d, because more than %d MiB of inputs belong to traces that may go on in the file; to keep "+
			"the inputs, split the file by traces", c.Unheld, inputsMax>>20)
	}
	return text
}

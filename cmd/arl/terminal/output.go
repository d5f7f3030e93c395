// Package terminal reads the input and prints the output of a command: objects and lists for people
// or programs, text no wider than the terminal, questions, passphrases and progress.
package terminal

import (
	"fmt"
	"io"
	"strings"
	"time"

	"recoveryledger/cmd/arl/exit"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/x/ansi"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The forms of output. JSON is one object. A list is one object a line.
const (
	OutputTable = "table"
	OutputJSON  = "json"
)

// Terminal has the input and the output of a command.
type Terminal struct {
	In       io.Reader
	Out, Err io.Writer
	Output   string // table or json
	// LineEvery is the time between two lines about progress. 0: 10 s.
	LineEvery time.Duration
}

// JSON reports whether the output is for programs.
func (c *Terminal) JSON() bool { return c.Output == OutputJSON }

// Field is a line of an object that is printed for people: its name and its value.
type Field [2]string

// PrintObject writes v as JSON, or the fields as lines. A value that is wider than the terminal
// continues on further lines below its beginning.
func (c *Terminal) PrintObject(v any, fields ...Field) error {
	if c.JSON() {
		return c.PrintJSON(v)
	}
	width := 0
	for _, f := range fields {
		width = max(width, len(f[0]))
	}
	var b strings.Builder
	left, columns := width+2, Width(c.Out)
	for _, f := range fields {
		value := f[1]
		if columns > 0 && ansi.StringWidth(value) > columns-left {
			value = strings.ReplaceAll(wrapLine(value, columns-left), "\n", "\n"+strings.Repeat(" ", left))
		}
		fmt.Fprintf(&b, "%-*s  %s\n", width, f[0], value)
	}
	return c.PrintText(b.String())
}

// PrintJSON writes v as one line.
func (c *Terminal) PrintJSON(v any) error {
	line, err := json.Marshal(v, json.Deterministic(true), jsontext.EscapeForHTML(false))
	if err != nil {
		return err
	}
	return c.PrintText(string(line) + "\n")
}

// PrintText writes text unchanged.
func (c *Terminal) PrintText(text string) error {
	_, err := io.WriteString(c.Out, text)
	return exit.With(exit.IO, err)
}

// PrintProse writes lines of words, no wider than the terminal.
func (c *Terminal) PrintProse(text string) error { return c.PrintText(Fitted(c.Out, text)) }

// Tell writes a message for people to standard error, no wider than the terminal.
func (c *Terminal) Tell(format string, args ...any) {
	fmt.Fprint(c.Err, Fitted(c.Err, fmt.Sprintf("arl: "+format+"\n", args...)))
}

// Fitted breaks lines that are wider than their stream, between words. Such a line continues on
// further lines, indented as its first word. If no terminal gives a width, the text does not
// change.
func Fitted(stream any, text string) string {
	width := Width(stream)
	if width == 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		whole, ended := strings.CutSuffix(line, "\n")
		b.WriteString(wrapIndented(whole, width))
		if ended {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// wrapIndented breaks a line between words. Further lines are as far indented as the first word.
func wrapIndented(line string, width int) string {
	if ansi.StringWidth(line) <= width {
		return line
	}
	indent := len(line) - len(strings.TrimLeft(line, " -"))
	rest := wrapLine(line[indent:], width-indent)
	return line[:indent] + strings.ReplaceAll(rest, "\n", "\n"+strings.Repeat(" ", indent))
}

// List prints a list: each element at once as NDJSON, or all elements as a table in the end.
type List struct {
	on      *Terminal
	headers []string
	rows    [][]string
}

// NewList begins a list with the headers of its table.
func (c *Terminal) NewList(headers ...string) *List { return &List{on: c, headers: headers} }

// Add takes an element, as JSON and as the cells of its row.
func (l *List) Add(v any, cells ...string) error {
	if l.on.JSON() {
		return l.on.PrintJSON(v)
	}
	l.rows = append(l.rows, cells)
	return nil
}

// Close writes the table, no wider than the terminal.
func (l *List) Close() error {
	if l.on.JSON() {
		return nil
	}
	_, err := lipgloss.Fprint(l.on.Out, tableText(l.headers, l.rows, Width(l.on.Out)))
	return exit.With(exit.IO, err)
}

// tableGap is the space between two columns.
const tableGap = 2

// tableText lays out a table. If the table is wider than width, the cells of the widest columns
// continue on further lines, broken between words. If a word would have to be broken, each row
// becomes lines of a header and a cell instead, because a broken name or address cannot be copied.
// Width 0 is no limit.
func tableText(headers []string, rows [][]string, width int) string {
	columns, fits := columnWidths(headers, rows, width)
	if !fits {
		return recordsText(headers, rows, width)
	}
	cells := make([][]string, len(rows))
	for i, row := range rows {
		for j, cell := range row {
			cells[i] = append(cells[i], wrapCell(cell, columns[j]))
		}
	}
	cell := lipgloss.NewStyle().PaddingRight(tableGap)
	header := cell.Bold(true)
	t := table.New().Headers(headers...).Rows(cells...).
		Border(lipgloss.HiddenBorder()).BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).
		BorderColumn(false).BorderHeader(false).
		StyleFunc(func(row, _ int) lipgloss.Style {
			if row == table.HeaderRow {
				return header
			}
			return cell
		})
	var b strings.Builder
	for line := range strings.Lines(t.Render()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}

// recordsText lays out the rows of a table one below the other, with an empty
// line between them: a line for each cell that is not empty. A word that is wider
// than the terminal stays whole.
func recordsText(headers []string, rows [][]string, width int) string {
	left := 0
	for _, header := range headers {
		left = max(left, ansi.StringWidth(header)+tableGap)
	}
	name, beneath := lipgloss.NewStyle().Bold(true), "\n"+strings.Repeat(" ", left)
	var b strings.Builder
	for i, row := range rows {
		if i > 0 {
			b.WriteByte('\n')
		}
		for j, cell := range row {
			if cell == "" {
				continue
			}
			gap := strings.Repeat(" ", left-ansi.StringWidth(headers[j]))
			b.WriteString(name.Render(headers[j]) + gap + strings.ReplaceAll(wrapCell(cell, width-left), "\n", beneath) + "\n")
		}
	}
	return b.String()
}

// columnWidths divides the width of the terminal. Each column gets the width of its widest cell. If
// the table is too wide, the widest columns become narrower. fits reports whether every header and
// every word stays whole.
func columnWidths(headers []string, rows [][]string, width int) (columns []int, fits bool) {
	columns, least := make([]int, len(headers)), make([]int, len(headers))
	for i, header := range headers {
		columns[i], least[i] = ansi.StringWidth(header), ansi.StringWidth(header)
	}
	for _, row := range rows {
		for i, cell := range row {
			for line := range strings.Lines(cell) {
				columns[i] = max(columns[i], ansi.StringWidth(strings.TrimRight(line, "\n")))
			}
			for _, word := range cellWords(cell) {
				least[i] = max(least[i], ansi.StringWidth(word))
			}
		}
	}
	if width == 0 {
		return columns, true
	}
	total := tableGap * (len(columns) - 1)
	for _, n := range columns {
		total += n
	}
	for ; total > width; total-- {
		widest := -1
		for i, n := range columns {
			if n > least[i] && (widest < 0 || n > columns[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return nil, false
		}
		columns[widest]--
	}
	return columns, true
}

// cellWords returns the parts of a cell that stay whole: words, and the names in a list with
// commas.
func cellWords(cell string) (words []string) {
	for field := range strings.FieldsSeq(cell) {
		for part := range strings.SplitAfterSeq(field, ",") {
			if part != "" {
				words = append(words, part)
			}
		}
	}
	return words
}

// wrapCell breaks a cell that is wider than its column between words, and after
// the commas of a list.
func wrapCell(text string, width int) string {
	if ansi.StringWidth(text) <= width || strings.Contains(text, "\n") {
		return text
	}
	var b strings.Builder
	column, joined := 0, true // joined: no space stands before the next part
	for field := range strings.FieldsSeq(text) {
		for part := range strings.SplitAfterSeq(field, ",") {
			n := ansi.StringWidth(part)
			gap := 1
			if joined {
				gap = 0
			}
			switch {
			case n == 0:
				continue
			case column > 0 && column+gap+n > width:
				b.WriteByte('\n')
				column = 0
			default:
				b.WriteString(" "[:gap])
				column += gap
			}
			b.WriteString(part)
			column, joined = column+n, true
		}
		joined = false
	}
	return b.String()
}

// Warn prints a warning that does not change the answer.
func (c *Terminal) Warn(format string, args ...any) {
	c.Tell("warning: "+format, args...)
}

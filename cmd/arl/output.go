package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/x/ansi"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// field is a line of an object that is printed for people.
type field struct{ name, value string }

// printObject writes v as JSON, or the fields as lines. A value that is wider
// than the terminal goes on beneath its beginning.
func (a *app) printObject(v any, fields ...field) error {
	if a.settings.output == outputJSON {
		return a.printJSON(v)
	}
	width := 0
	for _, f := range fields {
		width = max(width, len(f.name))
	}
	var b strings.Builder
	left, columns := width+2, terminalWidth(a.out)
	for _, f := range fields {
		value := f.value
		if columns > 0 && ansi.StringWidth(value) > columns-left {
			value = strings.ReplaceAll(wrapLine(value, columns-left), "\n", "\n"+strings.Repeat(" ", left))
		}
		fmt.Fprintf(&b, "%-*s  %s\n", width, f.name, value)
	}
	return a.printText(b.String())
}

// printJSON writes v as one line.
func (a *app) printJSON(v any) error {
	line, err := json.Marshal(v, json.Deterministic(true), jsontext.EscapeForHTML(false))
	if err != nil {
		return err
	}
	return a.printText(string(line) + "\n")
}

// counted is a number of things, in words: 1 line, 2 lines.
func counted(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.FormatInt(n, 10) + " " + thing + "s"
}

func (a *app) printText(text string) error {
	_, err := io.WriteString(a.out, text)
	return withExit(exitIO, err)
}

// printProse writes lines of words, no wider than the terminal.
func (a *app) printProse(text string) error { return a.printText(fitted(a.out, text)) }

// tell writes a message for people to standard error, no wider than the terminal.
func (a *app) tell(format string, args ...any) {
	fmt.Fprint(a.err, fitted(a.err, fmt.Sprintf("arl: "+format+"\n", args...)))
}

// fitted breaks lines of words that are wider than the stream they are for, between
// words. Such a line goes on in further lines, as far indented as its first word.
// Where no terminal tells its width, the text stays as it is.
func fitted(stream any, text string) string {
	width := terminalWidth(stream)
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

func wrapIndented(line string, width int) string {
	if ansi.StringWidth(line) <= width {
		return line
	}
	indent := len(line) - len(strings.TrimLeft(line, " -"))
	rest := wrapLine(line[indent:], width-indent)
	return line[:indent] + strings.ReplaceAll(rest, "\n", "\n"+strings.Repeat(" ", indent))
}

// list is a list on its way out: NDJSON at once, or a table in the end.
type list struct {
	app     *app
	headers []string
	rows    [][]string
}

func (a *app) newList(headers ...string) *list { return &list{app: a, headers: headers} }

// add takes an element, as JSON and as the cells of its row.
func (l *list) add(v any, cells ...string) error {
	if l.app.settings.output == outputJSON {
		return l.app.printJSON(v)
	}
	l.rows = append(l.rows, cells)
	return nil
}

// close writes the table, no wider than the terminal.
func (l *list) close() error {
	if l.app.settings.output == outputJSON {
		return nil
	}
	_, err := lipgloss.Fprint(l.app.out, tableText(l.headers, l.rows, terminalWidth(l.app.out)))
	return withExit(exitIO, err)
}

// tableGap is the space between two columns.
const tableGap = 2

// tableText lays out a table. Where it is wider than width, the widest columns
// give way: their cells go on in further lines. Width 0 is no limit.
func tableText(headers []string, rows [][]string, width int) string {
	columns := columnWidths(headers, rows, width)
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

// columnWidths shares the width of the terminal: each column has what its
// widest cell needs, until the widest columns have to give way.
func columnWidths(headers []string, rows [][]string, width int) []int {
	columns, least := make([]int, len(headers)), make([]int, len(headers))
	for i, header := range headers {
		columns[i], least[i] = ansi.StringWidth(header), ansi.StringWidth(header)
	}
	for _, row := range rows {
		for i, cell := range row {
			for line := range strings.Lines(cell) {
				columns[i] = max(columns[i], ansi.StringWidth(line))
			}
		}
	}
	if width == 0 {
		return columns
	}
	total := tableGap * (len(columns) - 1)
	for _, n := range columns {
		total += n
	}
	for ; total > width; total-- {
		widest := -1
		for i, n := range columns {
			if n > max(least[i], cellMin) && (widest < 0 || n > columns[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break // headers alone are wider than the terminal
		}
		columns[widest]--
	}
	return columns
}

// cellMin is the width below which no column falls: a time of day fits.
const cellMin = 8

// wrapCell breaks a cell between words, and a word that does not fit anywhere.
func wrapCell(text string, width int) string {
	if ansi.StringWidth(text) <= width || strings.Contains(text, "\n") {
		return text
	}
	return ansi.Hardwrap(wrapLine(text, width), width, false)
}

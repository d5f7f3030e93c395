package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// field is a line of an object that is printed for people.
type field struct{ name, value string }

// printObject writes v as JSON, or the fields as lines.
func (a *app) printObject(v any, fields ...field) error {
	if a.settings.output == outputJSON {
		return a.printJSON(v)
	}
	width := 0
	for _, f := range fields {
		width = max(width, len(f.name))
	}
	var b strings.Builder
	for _, f := range fields {
		fmt.Fprintf(&b, "%-*s  %s\n", width, f.name, f.value)
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

// close writes the table.
func (l *list) close() error {
	if l.app.settings.output == outputJSON {
		return nil
	}
	cell := lipgloss.NewStyle().PaddingRight(2)
	header := cell.Bold(true)
	t := table.New().Headers(l.headers...).Rows(l.rows...).
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
	_, err := lipgloss.Fprint(l.app.out, b.String())
	return withExit(exitIO, err)
}

package terminal

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// The widths of text for people, in columns.
const (
	WidthDefault = 80  // if no terminal gives a width
	WidthHelp    = 100 // longer lines are hard to read
	widthMin     = 40  // narrower text would be one word a line
)

// Width returns the columns of a stream that is a terminal. COLUMNS overrides the terminal, as it
// does for other programs. Width returns 0 if neither gives a width.
func Width(stream any) int {
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && columns > 0 {
		return max(columns, widthMin)
	}
	if f, ok := stream.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return max(columns, widthMin)
		}
	}
	return 0
}

// WriteRows writes terms with their meanings beside them, or below a term that is too long.
func WriteRows(b *strings.Builder, rows [][2]string, width int) {
	const indent, gap, termMax = 2, 2, 30
	column := 0
	for _, row := range rows {
		if n := ansi.StringWidth(row[0]); n <= termMax {
			column = max(column, n)
		}
	}
	left := indent + column + gap
	for _, row := range rows {
		if row[1] == "" {
			fmt.Fprintf(b, "%*s%s\n", indent, "", row[0])
			continue
		}
		lines := strings.Split(wrapLine(row[1], width-left), "\n")
		if n := ansi.StringWidth(row[0]); n > column {
			fmt.Fprintf(b, "%*s%s\n", indent, "", row[0])
		} else {
			fmt.Fprintf(b, "%*s%s%*s%s\n", indent, "", row[0], column-n+gap, "", lines[0])
			lines = lines[1:]
		}
		for _, line := range lines {
			fmt.Fprintf(b, "%*s%s\n", left, "", line)
		}
	}
}

// WrapText wraps the paragraphs of a text. Lines that begin with a space stay
// as they are.
func WrapText(text string, width int) string {
	var out, paragraph []string
	flush := func() {
		if len(paragraph) > 0 {
			out = append(out, wrapLine(strings.Join(paragraph, " "), width))
			paragraph = nil
		}
	}
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		if line == "" || line[0] == ' ' {
			flush()
			out = append(out, line)
			continue
		}
		paragraph = append(paragraph, line)
	}
	flush()
	return strings.Join(out, "\n")
}

// wrapLine breaks a line between words. A word that is wider than the line
// stays whole: a broken path or flag cannot be copied.
func wrapLine(line string, width int) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(line) {
		n := ansi.StringWidth(word)
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// WrapCommand breaks a command line as a shell continues it, with a backslash, so that a copied
// command runs. A flag stays with its value, and a quoted text stays whole. All lines but the first
// are indented.
func WrapCommand(line string, width int) string {
	const indent = "      "
	if ansi.StringWidth(line) <= width-2 {
		return line
	}
	var b strings.Builder
	column := 2 // where the first line begins
	for i, part := range commandParts(line) {
		n := ansi.StringWidth(part)
		switch {
		case i == 0:
		case column+1+n+len(" \\") > width:
			b.WriteString(" \\\n" + indent)
			column = len(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(part)
		column += n
	}
	return b.String()
}

// commandParts splits a command line into parts. A line may be broken between two parts.
func commandParts(line string) (parts []string) {
	quoted := false
	for word := range strings.SplitSeq(line, " ") {
		last := len(parts) - 1
		switch {
		case last < 0 || !quoted && (strings.HasPrefix(word, "-") || !strings.HasPrefix(parts[last], "--") || strings.Contains(parts[last], " ")):
			parts = append(parts, word)
		default:
			parts[last] += " " + word
		}
		quoted = quoted != (strings.Count(word, "'")%2 == 1)
	}
	return parts
}

package terminal

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

// A word that is wider than a line stays whole, and a flag is never broken at
// its hyphens.
func TestWrapLine(t *testing.T) {
	got := wrapLine("pass --tls-client-ca and /a/path/that/is/long or nothing", 20)
	if want := "pass --tls-client-ca\nand\n/a/path/that/is/long\nor nothing"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A table takes the columns of the terminal: the widest column gives way, its
// text is broken between words, and no text is lost.
func TestTableFitsATerminal(t *testing.T) {
	headers := []string{"INDEX", "WHO", "WHAT"}
	rows := [][]string{{"7", "planner", strings.Repeat("the plan of a long day ", 6)}, {"8", "a", "enroller,approver,operator,monitor,coordinator"}}
	for _, width := range []int{40, 80, 100} {
		for line := range strings.Lines(tableText(headers, rows, width)) {
			if n := ansi.StringWidth(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("width %d: %d columns: %q", width, n, line)
			}
		}
	}
	whole := tableText(headers, rows, 0)
	if n := strings.Count(whole, "\n"); n != len(rows)+1 {
		t.Errorf("without a terminal: %d lines, want one a row:\n%s", n, whole)
	}
	narrow := ansi.Strip(tableText(headers, rows, 40))
	want := "INDEX  WHO      WHAT\n" +
		"7      planner  the plan of a long day\n" +
		"                the plan of a long day\n" +
		"                the plan of a long day\n" +
		"                the plan of a long day\n" +
		"                the plan of a long day\n" +
		"                the plan of a long day\n" +
		"8      a        enroller,approver,\n" +
		"                operator,monitor,\n" +
		"                coordinator\n"
	if narrow != want {
		t.Errorf("at 40 columns:\n%s\nwant\n%s", narrow, want)
	}
}

// Where the words of a table do not fit beside each other, each row becomes lines
// of a header and a cell: a name or an address is never broken. A cell that is
// empty has no line, and a word that is wider than the terminal stays whole.
func TestATableThatDoesNotFitBecomesRecords(t *testing.T) {
	headers := []string{"PROFILE", "URL", "KEYS OF"}
	rows := [][]string{
		{"production", "https://ledger.example:8087", "authority,operator,somebody-else"},
		{"tests", strings.Repeat("x", 50), ""},
	}
	got := ansi.Strip(tableText(headers, rows, 40))
	want := "PROFILE  production\n" +
		"URL      https://ledger.example:8087\n" +
		"KEYS OF  authority,operator,\n" +
		"         somebody-else\n" +
		"\n" +
		"PROFILE  tests\n" +
		"URL      " + strings.Repeat("x", 50) + "\n"
	if got != want {
		t.Errorf("at 40 columns:\n%s\nwant\n%s", got, want)
	}
}

// A line of a list goes on where its words begin.
func TestWrapIndented(t *testing.T) {
	if got, want := wrapIndented("  - one two three", 10), "  - one\n    two\n    three"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

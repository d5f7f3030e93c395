package manual

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"recoveryledger/cmd/arl/exit"

	"github.com/muesli/roff"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Page returns the help of every command on one page, in the language of man.
func Page(root *cobra.Command, version string) string {
	page := roff.NewDocument()
	page.Heading(1, root.Name(), root.Short, time.Time{})
	page.Section("Name")
	page.Text(root.Name() + " - " + root.Short)
	page.Section("Synopsis")
	page.TextBold(root.Name())
	page.Text(" COMMAND [flags]")
	page.Section("Description")
	page.Text(manText(root.Long))
	page.Section("Flags of every command")
	manFlags(page, root.PersistentFlags(), nil)
	page.Section("Commands")
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.HasParent() && cmd.IsAvailableCommand() && cmd.Use != cmd.Name()+" COMMAND" {
			manCommandText(page, cmd)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
	page.Section("Exit status")
	for _, e := range exit.Meanings() {
		manTerm(page, strconv.Itoa(e.Code), e.Title+". "+e.Text)
	}
	// The library writes a date. The page has the version instead.
	return strings.Replace(page.String(), time.Time{}.Format(time.DateOnly), version, 1)
}

// manCommandText describes one command.
func manCommandText(page *roff.Document, cmd *cobra.Command) {
	page.Paragraph()
	page.TextBold(usageLine(cmd))
	page.Indent(4)
	page.Text(manText(cmp.Or(cmd.Long, cmd.Short+".")))
	manFlags(page, commandFlags(cmd), cmd.Root().PersistentFlags())
	if cmd.Example != "" {
		page.Paragraph()
		page.Text("Example: ")
		page.TextItalic(strings.TrimSpace(cmd.Example))
	}
	page.IndentEnd()
}

func manFlags(page *roff.Document, flags, without *pflag.FlagSet) {
	for _, row := range flagRows(flags, without) {
		manTerm(page, strings.TrimSpace(row[0]), row[1])
	}
}

// manTerm writes a term with its meaning indented below.
func manTerm(page *roff.Document, term, text string) {
	page.TaggedParagraph(4)
	page.TextBold(manText(term))
	page.EndSection() // ends the line: the term is that line
	page.Text(manText(text))
}

// manText joins the lines of a text, because man breaks lines itself. It doubles percent signs,
// because the library uses the text as a format.
func manText(text string) string {
	return strings.NewReplacer("\n", " ", "%", "%%").Replace(text)
}

package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// The widths of text for people, in columns.
const (
	widthDefault = 80  // where no terminal tells its width
	widthHelp    = 100 // longer lines are hard to read
	widthMin     = 40  // narrower text would be one word a line
)

// terminalWidth returns the columns of a stream that is a terminal. COLUMNS
// overrules the terminal, as it does for other programs. It returns 0 where
// neither tells.
func terminalWidth(stream any) int {
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

// showHelp implements the help of cobra. Help about a command that does not
// exist is an error, which execute reports: cobra passes it over.
func (a *app) showHelp(cmd *cobra.Command, _ []string) {
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		a.helpErr = unknownVerb(cmd, words)
		return
	}
	width := terminalWidth(a.out)
	if width == 0 {
		width = widthDefault
	}
	if _, err := lipgloss.Fprint(a.out, helpText(cmd, min(width, widthHelp))); err != nil {
		a.helpErr = withExit(exitIO, err)
	}
}

// helpText is the help of a command, no line wider than width unless one word
// is.
func helpText(cmd *cobra.Command, width int) string {
	var b strings.Builder
	long := cmd.Long
	if long == "" {
		long = cmd.Short + "."
	}
	b.WriteString(wrapText(long, width) + "\n")
	section := func(title string, rows [][2]string) {
		if len(rows) > 0 {
			b.WriteString("\n" + lipgloss.NewStyle().Bold(true).Render(title) + "\n")
			writeRows(&b, rows, width)
		}
	}
	section("Usage:", [][2]string{{usageLine(cmd), ""}})
	if cmd.Example != "" {
		section("Example:", [][2]string{{wrapCommand(strings.TrimSpace(cmd.Example), width), ""}})
	}
	var verbs [][2]string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			verbs = append(verbs, [2]string{sub.Name(), sub.Short})
		}
	}
	section("Commands:", verbs)
	section("Flags:", flagRows(commandFlags(cmd), cmd.Root().PersistentFlags()))
	section("Flags of every command:", flagRows(cmd.Root().PersistentFlags(), nil))
	return b.String()
}

// usageLine is the form of a command line. Flags stand before two dashes.
func usageLine(cmd *cobra.Command) string {
	line := strings.TrimSuffix(cmd.UseLine(), " [flags]")
	if before, after, ok := strings.Cut(line, " -- "); ok {
		return before + " [flags] -- " + after
	}
	return line + " [flags]"
}

// commandFlags are the flags of a command and of the nouns above it.
func commandFlags(cmd *cobra.Command) *pflag.FlagSet {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	all.AddFlagSet(cmd.LocalFlags())
	all.AddFlagSet(cmd.InheritedFlags())
	return all
}

// flagRows describes flags that are not among those to leave out.
func flagRows(flags, without *pflag.FlagSet) (rows [][2]string) {
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || without != nil && without.Lookup(flag.Name) != nil {
			return
		}
		name := "    --" + flag.Name
		if flag.Shorthand != "" {
			name = "-" + flag.Shorthand + ", --" + flag.Name
		}
		if value := placeholder(flag); value != "" {
			name += " " + value
		}
		rows = append(rows, [2]string{name, flagUsage(flag)})
	})
	return rows
}

// flagUsage is what a flag is for, with its default once.
func flagUsage(flag *pflag.Flag) string {
	text := flag.Usage
	value := strings.Trim(flag.DefValue, "[]")
	if strings.Contains(text, "default") || value == "" || value == "0" || value == "0s" || value == "false" {
		return text
	}
	return text + " (default " + value + ")"
}

// placeholder stands for the value of a flag in help: what kind of thing it is.
// It is empty for a flag that takes none.
func placeholder(flag *pflag.Flag) string {
	if named, ok := flag.Value.(*headFile); ok {
		return named.Type()
	}
	if named := flag.Annotations[valueAnnotation]; len(named) == 1 {
		return named[0]
	}
	if known, ok := placeholders[flag.Name]; ok && flag.Value.Type() != "bool" {
		return known
	}
	switch kind := flag.Value.Type(); {
	case kind == "bool":
		return ""
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"):
		return "N"
	case kind == "float64":
		return "NUMBER"
	case kind == "duration":
		return "DURATION"
	}
	return ""
}

// valueAnnotation is the annotation of a flag that has what [nameValue] says.
const valueAnnotation = "arl_value"

// nameValue says what kind of value a flag of one command takes, where flags of
// its name take another kind in other commands.
func nameValue(flags *pflag.FlagSet, flag, value string) {
	_ = flags.SetAnnotation(flag, valueAnnotation, []string{value}) // the flag exists
}

// placeholders names the value of each flag that takes text. A flag means the
// same kind of thing in every command, but for those of [nameValue].
var placeholders = map[string]string{
	"accepted": "FILE", "after": "INDEX", "agent": "PRINCIPAL", "algorithm": "NAME", "anchor": "FILE", "at": "TIME",
	"baseline": "FILE", "capabilities": "WORD,…", "case": "FILE", "class": "CLASS", "code": "CODE",
	"before": "INDEX", "compromised-since": "INDEX", "confirm": "SOURCE", "corroborated": "INDEX,…", "crash": "EXECUTION",
	"data": "DIR", "detail": "TEXT", "dir": "DIR", "domain": "NAME", "effect": "EFFECT",
	"effects": "EFFECTS", "evidence": "DIGEST,…", "exec": "PROGRAM", "format": "FORMAT", "from": "INDEX",
	"home": "DIR", "hooks": "NAME,…", "idempotent": "NAME,…", "incident": "INDEX", "index": "INDEX",
	"instance": "NAME", "key": "FILE", "keyid": "FINGERPRINT", "kind": "KIND,…", "last-known-good": "REF",
	"ledger": "DIR|URL", "listen": "ADDRESS", "live": "FILE", "member": "EXECUTION,…", "monitor": "URL", "newest": "HEAD",
	"origin": "NAME", "out": "FILE", "output": "FORM", "param": "NAME=FIRST..LAST", "payload": "FILE",
	"policy": "FILE", "principal": "PRINCIPAL", "probe": "COMMAND", "profile": "NAME",
	"public-key": "BASE64", "reason": "TEXT", "replay-safety": "WORD", "reserve": "BYTES", "roles": "ROLE,…", "root": "FILE",
	"scenario": "FILE", "secret": "FILE", "severity": "WORD", "signer": "FILE", "simulate": "FILE",
	"since": "WHEN", "span": "SPAN", "standing": "STANDING", "state": "STATE", "status": "WORD",
	"strategies": "FILE", "strategy": "COMMAND", "subject": "EXECUTION", "supersedes": "INDEX",
	"tag": "TAG", "task": "TASK", "tls-ca": "FILE", "tls-cert": "FILE", "tls-client-ca": "FILE",
	"tls-key": "FILE", "type": "CAPABILITY", "unfounded": "INDEX,…", "until": "TIME", "url": "URL",
	"workflow": "ID",
}

// writeRows writes terms with what they mean beside them, or beneath a term
// that is too long.
func writeRows(b *strings.Builder, rows [][2]string, width int) {
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

// wrapText wraps the paragraphs of a text. Lines that begin with a space stay
// as they are.
func wrapText(text string, width int) string {
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

// wrapCommand breaks a command line as a shell continues it, with a backslash:
// what is copied runs. A flag stays with its value, and what is quoted stays
// whole. Lines but the first are indented.
func wrapCommand(line string, width int) string {
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

// commandParts splits a command line where it may be broken.
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

// writeHelp is the help of a noun that came without its verb: it is no answer,
// so that it goes beside the error.
func writeHelp(w io.Writer, cmd *cobra.Command) {
	_, _ = lipgloss.Fprint(w, helpText(cmd, widthDefault)+"\n") // the error behind it is what counts
}

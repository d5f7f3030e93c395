package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"

	"recoveryledger/api/words"
)

//go:embed report.html
var page string

// sheet renders a report as HTML. html/template escapes every text for its place.
// It is parsed at the first use: most commands render no report.
var sheet = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("report.html").Funcs(template.FuncMap{"text": words.Legible, "instant": words.Instant, "basis": entriesText}).Parse(page))
})

// HTML writes the page for a browser or a printer. It loads nothing and has no script.
func (r *Report) HTML(w io.Writer) error { return sheet().Execute(w, r) }

// Markdown returns the page as Markdown (CommonMark). No text of an entry has a meaning in it.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Incident %d of %s: %s\n\n", r.Incident, escaped(r.Origin), escaped(r.Stands))
	fmt.Fprintf(&b, "Workflow %s. This page follows from the first %s of the log, with the root `%s`.\n", escaped(string(r.Wid)), words.Counted(r.Head.Size, "entry"), r.Head.Root)
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "\n## %s\n\n", s.Title)
		if len(s.Statements) == 0 {
			b.WriteString("Nothing.\n")
		}
		for _, one := range s.Statements {
			when := ""
			if one.At != 0 {
				when = words.Instant(one.At) + " · "
			}
			fmt.Fprintf(&b, "* %s%s (%s: `%s`)\n", when, escaped(one.Says), entriesText(one.Entries), strings.Join(one.Commands, "`, `"))
		}
	}
	b.WriteString("\n## How to verify\n\n")
	for _, s := range r.Verify {
		fmt.Fprintf(&b, "* %s `%s`\n", s.Says, s.Command)
	}
	return b.String()
}

// marked puts a backslash before what Markdown, with the extensions of GitHub, gives a meaning to
// inside a line.
var marked = strings.NewReplacer("\\", `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", `\<`, ">", `\>`, "&", `\&`, "~", `\~`, "@", `\@`,
	"$", `\$`, "://", `:\//`, "www.", `www\.`)

// escaped is a text in which Markdown and HTML see nothing but text. A URL is no link. The text
// does not begin a line.
func escaped(text string) string { return marked.Replace(words.Legible(text)) }

package draft

import (
	_ "embed" // the draft
	"regexp"
	"strings"
)

//go:embed draft-arl-agent-recovery-00.md
var text string

// Statement returns the words of a normative statement, such as RPL-1, in the source of the draft:
// from the begin of its paragraph, list item or preceding statement to its id. It reports false for
// an id that the draft does not have.
func Statement(id string) (words string, ok bool) {
	_, body, _ := strings.Cut(text, "--- middle")
	before, _, ok := strings.Cut(body, " ("+id+")")
	if !ok {
		before, _, ok = strings.Cut(body, "\n("+id+")")
	}
	if !ok {
		return "", false
	}
	paragraph := before[strings.LastIndex(before, "\n\n")+1:]
	if i := strings.LastIndex(paragraph, "\n* "); i >= 0 {
		paragraph = paragraph[i:]
	}
	for {
		at := strings.LastIndex(paragraph, "). ")
		if at < 0 {
			break
		}
		paragraph = paragraph[at+len("). "):]
	}
	words = strings.Join(strings.Fields(paragraph), " ")
	words = named.ReplaceAllString(sections.ReplaceAllString(words, ""), "[$1]")
	return strings.TrimPrefix(words, "* "), words != ""
}

// sections are the references to sections and tables of the draft, whose names are in lower case.
// named are those to other documents, such as RFC9162.
var (
	sections = regexp.MustCompile(` \(\{\{[a-z-]+\}\}\)`)
	named    = regexp.MustCompile(`\{\{([^{}]+)\}\}`)
)

package scenario

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"
)

// causesText is causes.yaml as JSON (TestTablesAreTheYAML): every process that classifies a failure
// reads it, and YAML takes twenty times as long.
//
//go:embed causes.json
var causesText []byte

// rows is a table of the classifier: the place in the taxonomy by cause.
type rows map[string]Label

// of is the place of a cause; unknown for one that the table does not have.
func (r rows) of(cause string) Label {
	if label, ok := r[cause]; ok {
		return label
	}
	return UnknownLabel()
}

// message is a message of a known shape.
type message struct {
	Shape   string `json:"shape"`
	Label   string `json:"label"`
	Refused bool   `json:"refused"`
	From    string `json:"from"` // the data in which it was found; empty: none of ours
	label   Label
	parts   []string // of the shape, between its stars
}

// fits reports whether a text has the shape.
func (m *message) fits(text string) bool {
	first, last := m.parts[0], len(m.parts)-1
	rest, ok := strings.CutPrefix(text, first)
	if !ok || last == 0 {
		return ok && rest == ""
	}
	for _, part := range m.parts[1:last] {
		if _, rest, ok = strings.Cut(rest, part); !ok {
			return false
		}
	}
	return strings.HasSuffix(rest, m.parts[last])
}

// phrase is words of a message: parts between stars, in this order.
type phrase struct {
	Words string   `json:"words"`
	Label string   `json:"label"`
	From  []string `json:"from"` // the data from which it was learned; nil: none that is left out

	family string // the words of the table, before alternatives were written out
	label  Label
	parts  []string
	grams  []uint16 // of the parts
}

// causeTables are the tables as the classifier asks them.
type causeTables struct {
	version                               int64
	codes, exceptions, grpc, status, exit rows
	harness                               map[string]bool // codes of the data sets themselves
	messages                              []message
	phrases                               []phrase
	same                                  [][2]string // words that are replaced before phrases are looked for, in this order
	evidence                              *allEvidence
}

// causes returns the tables, which are read once.
var causes = sync.OnceValue(func() *causeTables {
	t, err := readCauses(causesText)
	if err == nil {
		t.evidence, err = readEvidence(evidenceText, t.phrases)
	}
	if err != nil {
		panic(err) // a constant, tested
	}
	return t
})

// readCauses reads the tables of causes.yaml from JSON. A cause that stands in two rows is an
// error.
func readCauses(text []byte) (*causeTables, error) {
	type byLabel map[string][]string
	var doc struct {
		Version    int64              `json:"version"`
		Errno      byLabel            `json:"errno"`
		Exit       map[string][]int64 `json:"exit"`
		Same       [][2]string        `json:"same"`
		Phrase     []phrase           `json:"phrase"`
		Provider   byLabel            `json:"provider"`
		ErrorType  byLabel            `json:"error_type"`
		Harness    byLabel            `json:"harness"`
		JSONRPC    byLabel            `json:"json_rpc"`
		Exception  byLabel            `json:"exception"`
		GRPC       byLabel            `json:"grpc"`
		HTTPStatus map[string][]int64 `json:"http_status"`
		Message    []message          `json:"message"`
	}
	if wrong := (Document{What: "the tables of the classifier"}).DecodeJSON(text, &doc); wrong != nil {
		return nil, wrong
	}
	t := &causeTables{version: doc.Version, codes: rows{}, exceptions: rows{}, grpc: rows{}, status: rows{}, exit: rows{}, harness: map[string]bool{},
		messages: doc.Message, same: doc.Same}
	for _, codes := range doc.Harness {
		for _, code := range codes {
			t.harness[code] = true
		}
	}
	add := func(to rows, label, cause string) error {
		if before, twice := to[cause]; twice {
			return fmt.Errorf("scenario: cause %s is %s and %s", cause, before, label)
		}
		to[cause] = labelOf(label)
		return nil
	}
	for _, table := range []struct {
		to   rows
		from byLabel
	}{{t.codes, doc.Provider}, {t.codes, doc.ErrorType}, {t.codes, doc.Harness}, {t.codes, doc.JSONRPC}, {t.codes, doc.Errno}, {t.exceptions, doc.Exception}, {t.grpc, doc.GRPC}} {
		for label, all := range table.from {
			for _, cause := range all {
				if err := add(table.to, label, cause); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, table := range []struct {
		to   rows
		from map[string][]int64
	}{{t.status, doc.HTTPStatus}, {t.exit, doc.Exit}} {
		for label, all := range table.from {
			for _, number := range all {
				if err := add(table.to, label, fmt.Sprint(number)); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, family := range doc.Phrase {
		for _, words := range alternatives(family.Words) {
			p := family
			p.family, p.Words, p.label, p.parts = family.Words, words, labelOf(family.Label), strings.Split(t.sameWords(words), "*")
			p.grams = gramsOf(p.parts)
			t.phrases = append(t.phrases, p)
		}
	}
	for i := range t.messages {
		m := &t.messages[i]
		m.label, m.parts = labelOf(m.Label), strings.Split(m.Shape, "*")
	}
	return t, nil
}

// alternatives writes a family of phrases out: {a|b} stands for a in one phrase, and for b in the
// next.
func alternatives(words string) []string {
	before, rest, open := strings.Cut(words, "{")
	choice, after, closed := strings.Cut(rest, "}")
	if !open || !closed {
		return []string{words}
	}
	var all []string
	for one := range strings.SplitSeq(choice, "|") {
		all = append(all, alternatives(before+one+after)...)
	}
	return all
}

// sameWords replaces words of a text in small letters by others that say the same.
func (t *causeTables) sameWords(text string) string {
	for _, pair := range t.same {
		text = strings.ReplaceAll(text, pair[0], pair[1])
	}
	return text
}

// labelOf reads class.code.
func labelOf(text string) Label {
	class, code, _ := strings.Cut(text, ".")
	return Label{Class: class, Code: code}
}

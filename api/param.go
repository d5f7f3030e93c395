package api

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"recoveryledger/ledger/entry"
)

// Query is the query of a path: a type that the client encodes, the server parses and the OpenAPI
// document describes.
type Query interface {
	// Params returns the parameters, bound to the members of the query. Their order is
	// that of the document.
	Params() []Param
}

// Param is a parameter of a request.
type Param struct {
	Name     string // name of the parameter in the request
	In       string // "path", "query" or "header"
	Doc      string // a phrase for the OpenAPI document
	Required bool
	Schema   string // JSON Schema
	Example  any    // of its value

	fallback string                           // meaning of an absent parameter; empty: the zero value
	parse    func(text string) (wrong string) // sets the member; empty: nothing is wrong
	format   func() string                    // the value as text; empty: it is left out
}

// JSON Schemas of parameters and headers.
const (
	schemaText   = `{"type":"string"}`
	schemaNumber = `{"type":"integer","format":"int64","minimum":0}`
	schemaFlag   = `{"type":"boolean","default":false}`
)

// URL returns a path of the interface with its parameters, which are in the order of
// the path, and a query; nil: none.
func URL(path string, q Query, args ...any) string {
	for _, arg := range args {
		before, rest, _ := strings.Cut(path, "{")
		_, after, _ := strings.Cut(rest, "}")
		path = before + url.PathEscape(fmt.Sprint(arg)) + after
	}
	if q == nil {
		return path
	}
	values := url.Values{}
	for _, p := range q.Params() {
		if text := p.format(); text != "" {
			values.Set(p.Name, text)
		}
	}
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

// checked is a query with rules that hold between its parameters.
type checked interface{ check() *entry.Refusal }

// ParseQuery reads a query into q; nil takes no parameter. Each parameter stands at
// most once, in one spelling. The error is an [*entry.Refusal], malformed.
func ParseQuery(q Query, rawQuery string) error {
	var params []Param
	if q != nil {
		params = q.Params()
	}
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return entry.Refuse(entry.Malformed, "", "the query is not well-formed: %v", err)
	}
	if err := checkNames(params, values); err != nil {
		return err
	}
	for i := range params {
		p := &params[i]
		switch {
		case values.Has(p.Name) && (!p.Required || values.Get(p.Name) != ""):
			err = p.read(values.Get(p.Name))
		case p.Required:
			err = refuseParam(p.Name, p.Name+" is required")
		case p.fallback != "":
			err = p.read(p.fallback)
		}
		if err != nil {
			return err
		}
	}
	if c, ok := q.(checked); ok {
		if refusal := c.check(); refusal != nil {
			return refusal
		}
	}
	return nil
}

// read sets the member that a parameter is bound to.
func (p *Param) read(text string) error {
	if wrong := p.parse(text); wrong != "" {
		return refuseParam(p.Name, wrong)
	}
	return nil
}

// checkNames refuses unknown and repeated parameters.
func checkNames(params []Param, values url.Values) error {
	known := make([]string, len(params))
	for i := range params {
		known[i] = params[i].Name
	}
	for name, given := range values {
		switch {
		case !slices.Contains(known, name):
			return refuseParam(name, "this path has no parameter of this name").WithRemedy(suggest(name, known))
		case len(given) > 1:
			return refuseParam(name, fmt.Sprintf("given %d times", len(given)))
		}
	}
	return nil
}

func refuseParam(name, wrong string) *entry.Refusal {
	if len(name) > entry.MaxName {
		name = ""
	}
	return entry.Refuse(entry.Malformed, name, "%s", wrong)
}

// suggest names the known parameter that looks most like the given one, or all.
func suggest(name string, known []string) string {
	if len(known) == 0 {
		return "this path takes no parameters"
	}
	if near := entry.Nearest(name, known); near != "" {
		return "did you mean " + near + "?"
	}
	return "use " + strings.Join(known, ", ")
}

// named is a parameter that is an id or a reference.
func named[T ~string](name string, to *T, example, doc string) Param {
	return Param{
		Name: name, In: "query", Doc: doc, Schema: schemaText, Example: example,
		parse: func(text string) string {
			if *to = T(text); !ValidName(text) {
				return fmt.Sprintf("%.140q is not 1 to %d characters of A–Z a–z 0–9 . _ : / @ - #", text, 2*entry.MaxName+1)
			}
			return ""
		},
		format: func() string { return string(*to) },
	}
}

// ValidName reports whether text is made like an id or a reference.
func ValidName(text string) bool {
	return text != "" && len(text) <= 2*entry.MaxName+1 &&
		strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/@-#") == ""
}

// choice is a parameter whose value is one of a few words, or empty.
func choice(name string, to *string, words []string, example, doc string) Param {
	return Param{
		Name: name, In: "query", Doc: doc, Schema: `{"type":"string","enum":["` + strings.Join(words, `","`) + `"]}`, Example: example,
		parse: func(text string) string {
			if *to = text; text != "" && !slices.Contains(words, text) {
				return fmt.Sprintf("%.40q is none of %s", text, strings.Join(words, ", "))
			}
			return ""
		},
		format: func() string { return *to },
	}
}

// number is a parameter that is a number from 0 to limit. 0 is left out.
func number[T ~int64 | ~uint64](name string, to *T, limit uint64, example int64, doc string) Param {
	return Param{
		Name: name, In: "query", Doc: doc, Schema: schemaNumber, Example: example,
		parse: func(text string) string {
			value, wrong := parseUpTo(text, 0, limit)
			*to = T(value)
			return wrong
		},
		format: func() string {
			if *to == 0 {
				return ""
			}
			return strconv.FormatUint(uint64(*to), 10)
		},
	}
}

// optional is a number whose absence differs from 0.
func optional(name string, to **uint64, limit uint64, example int64, doc string) Param {
	return Param{
		Name: name, In: "query", Doc: doc, Schema: schemaNumber, Example: example,
		parse: func(text string) string {
			value, wrong := parseUpTo(text, 0, limit)
			*to = &value
			return wrong
		},
		format: func() string {
			if *to == nil {
				return ""
			}
			return strconv.FormatUint(**to, 10)
		},
	}
}

// pageLimit is how many elements a page may have.
func pageLimit(to *int, fallback, most int, doc string) Param {
	return Param{
		Name: "limit", In: "query", Doc: doc, Example: 10, fallback: strconv.Itoa(fallback),
		Schema: fmt.Sprintf(`{"type":"integer","minimum":1,"maximum":%d,"default":%d}`, most, fallback),
		parse: func(text string) string {
			value, wrong := parseUpTo(text, 1, uint64(most))
			*to = int(value)
			return wrong
		},
		format: func() string { return formatCount(*to) },
	}
}

func formatCount(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// waiting is the parameter of how long an answer may wait, at most [MaxWait], in whole
// milliseconds. Of a time below a millisecond nothing is left.
func waiting(to *time.Duration, doc string) Param {
	return Param{
		Name: "wait", In: "query", Doc: doc, Schema: schemaNumber, Example: 0,
		parse: func(text string) string {
			value, wrong := parseUpTo(text, 0, uint64(MaxWait.Milliseconds()))
			*to = time.Duration(value) * time.Millisecond
			return wrong
		},
		format: func() string { return formatCount(int(to.Milliseconds())) },
	}
}

// flag is a parameter that is true or false.
func flag(name string, to *bool, doc string) Param {
	return Param{
		Name: name, In: "query", Doc: doc, Schema: schemaFlag, Example: true,
		parse: func(text string) string {
			if *to = text == "true"; !*to && text != "false" {
				return fmt.Sprintf("%.40q is neither true nor false", text)
			}
			return ""
		},
		format: func() string {
			if *to {
				return "true"
			}
			return ""
		},
	}
}

// numbers is a list of numbers with commas between them.
func numbers(name string, to *[]uint64, example, doc string) Param {
	return Param{
		Name: name, In: "query", Doc: doc, Schema: schemaText, Example: example,
		parse: func(text string) string {
			*to = nil
			for part := range strings.SplitSeq(text, ",") {
				value, wrong := parseUpTo(part, 0, entry.MaxInteger)
				if wrong != "" || len(*to) == entry.MaxList {
					return fmt.Sprintf("not a list of at most %d numbers, such as 17,23", entry.MaxList)
				}
				*to = append(*to, value)
			}
			return ""
		},
		format: func() string {
			texts := make([]string, len(*to))
			for i, value := range *to {
				texts[i] = strconv.FormatUint(value, 10)
			}
			return strings.Join(texts, ",")
		},
	}
}

// kinds is a list of kinds of entries with commas between them, each once.
func kinds(to *[]entry.Kind, doc string) Param {
	return Param{
		Name: "kind", In: "query", Doc: doc, Schema: schemaText, Example: "execution,signal",
		parse: func(text string) string {
			*to = nil
			for part := range strings.SplitSeq(text, ",") {
				switch kind := entry.Kind(part); {
				case !slices.Contains(entry.Kinds(), kind):
					return fmt.Sprintf("%.60q is not a kind of entry", part)
				case slices.Contains(*to, kind):
					return part + " is given twice"
				default:
					*to = append(*to, kind)
				}
			}
			return ""
		},
		format: func() string {
			texts := make([]string, len(*to))
			for i, kind := range *to {
				texts[i] = string(kind)
			}
			return strings.Join(texts, ",")
		},
	}
}

// parseUpTo reads a number within bounds.
func parseUpTo(text string, least, most uint64) (value uint64, wrong string) {
	value, err := ParseNumber(text, most)
	if err != nil || value < least {
		return 0, fmt.Sprintf("%.40q is not a number from %d to %d", text, least, most)
	}
	return value, ""
}

// ParseNumber reads a decimal number without leading zeros, up to limit.
func ParseNumber(text string, limit uint64) (uint64, error) {
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil || value > limit || strconv.FormatUint(value, 10) != text {
		return 0, cmp.Or(err, strconv.ErrSyntax)
	}
	return value, nil
}

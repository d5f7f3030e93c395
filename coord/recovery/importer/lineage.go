package importer

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// lineage finds the data edges between the tool calls of one run. A call that uses an id from an
// earlier answer depends on the call that gave the id.
//
// An id in a call's arguments has up to two producers. The first call with the id in its answer is
// the origin of the id. The last call with an effect and with the id in its answer left the named
// object in its present state. A failed call gave nothing. An id that only the user wrote has no
// producer.
type lineage struct {
	first map[string]int
	wrote map[string]int
}

func newLineage() *lineage {
	return &lineage{first: map[string]int{}, wrote: map[string]int{}}
}

// learn records the ids in the answer of a call that succeeded.
func (l *lineage) learn(step int, answer string, effect entry.Effect) {
	for id := range ids(answer) {
		if _, ok := l.first[id]; !ok {
			l.first[id] = step
		}
		if effect != entry.EffectNone {
			l.wrote[id] = step
		}
	}
}

// parents returns the edges of the next step: a hard edge to each producer of an id in its
// arguments, and a soft edge to the previous step. The agent had read the answer of that step.
func (l *lineage) parents(next int, arguments string) []scenario.Parent {
	var producers []int
	for _, id := range argumentIDs(arguments) {
		if step, ok := l.first[id]; ok {
			producers = append(producers, step)
		}
		if step, ok := l.wrote[id]; ok {
			producers = append(producers, step)
		}
	}
	slices.Sort(producers)
	producers = slices.Compact(producers)
	var parents []scenario.Parent
	for _, step := range producers {
		parents = append(parents, scenario.Parent{Step: strconv.Itoa(step), Dep: entry.Hard})
	}
	if before := next - 1; before >= 0 && !slices.Contains(producers, before) {
		parents = append(parents, scenario.Parent{Step: strconv.Itoa(before), Dep: entry.Soft})
	}
	return parents
}

// argumentIDs gives the string values of JSON arguments that are ids as a whole. A model may write
// arguments that are not JSON. The values before the mistake count.
func argumentIDs(arguments string) []string {
	var found []string
	dec := jsontext.NewDecoder(strings.NewReader(arguments), jsontext.AllowDuplicateNames(true))
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return found
		}
		in, length := dec.StackIndex(dec.StackDepth())
		isName := in == '{' && length%2 == 1
		if token.Kind() == '"' && !isName && isID(token.String()) {
			found = append(found, token.String())
		}
	}
}

// ids yields the words of a text that are ids. A word is a run of letters, digits, _, - and #. The
// characters after a backslash are an escape, and not a word.
func ids(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start := 0
		for at := 0; at <= len(text); at++ {
			if at < len(text) && isWord(text[at]) {
				continue
			}
			if word := text[start:at]; isID(word) && !yield(word) {
				return
			}
			if at < len(text) && text[at] == '\\' {
				at++
			}
			start = at + 1
		}
	}
}

func isWord(c byte) bool {
	return isDecimal(c) || isLetter(c) || c == '_' || c == '-' || c == '#'
}

func isDecimal(c byte) bool { return '0' <= c && c <= '9' }

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// isID says whether a word looks like an identifier rather than like a word
// of a language, a date or an amount: 4 to 64 characters that mix letters and
// digits, or at least 5 capitals, or at least 6 digits.
func isID(word string) bool {
	if len(word) < 4 || len(word) > 64 {
		return false
	}
	letters, capitals, digits := 0, 0, 0
	for i := range len(word) {
		switch c := word[i]; {
		case !isWord(c):
			return false
		case isDecimal(c):
			digits++
		case 'A' <= c && c <= 'Z':
			letters, capitals = letters+1, capitals+1
		case isLetter(c):
			letters++
		}
	}
	switch {
	case letters > 0 && digits > 0:
		return true
	case capitals == len(word):
		return capitals >= 5
	default:
		return digits == len(word) && digits >= 6
	}
}

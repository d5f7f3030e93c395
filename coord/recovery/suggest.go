package recovery

import (
	"fmt"
	"strings"

	"recoveryledger/ledger/entry"
)

// oneOf is the remedy for an unknown word: the list of the known words.
func oneOf(word string, known []string) string {
	if near := entry.Nearest(word, known); near != "" {
		return "did you mean " + near + "?"
	}
	return "choose " + strings.Join(quoted(known), ", ")
}

func quoted(words []string) []string {
	all := make([]string, len(words))
	for i, word := range words {
		all[i] = word
		if word == "" {
			all[i] = fmt.Sprintf("%q", word)
		}
	}
	return all
}

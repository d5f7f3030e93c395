package recovery

import (
	"fmt"
	"strings"
)

// oneOf is the remedy for a word that is none of those known.
func oneOf(word string, known []string) string {
	if near := nearest(word, known); near != "" {
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

// nearest returns the known word that is nearest to a mistyped one, or nothing
// if none is near.
func nearest(mistyped string, known []string) string {
	best, distance := "", 1+max(1, len(mistyped)/3)
	for _, word := range known {
		if d := editDistance(mistyped, word); d < distance && word != "" {
			best, distance = word, d
		}
	}
	return best
}

// editDistance is the number of bytes to insert, delete or replace to get from a
// to b (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

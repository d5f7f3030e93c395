package main

import "fmt"

// suggest returns " (did you mean WORD?)" with the known word that is nearest to
// a mistyped one, or nothing if none is near.
func suggest(mistyped string, known []string) string {
	best, distance := "", 1+max(1, len(mistyped)/3)
	for _, word := range known {
		if d := editDistance(mistyped, word); d < distance {
			best, distance = word, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
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

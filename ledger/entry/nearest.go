package entry

import "strings"

// Nearest returns the known word that is nearest to a mistyped one, for a
// remedy to suggest; empty if none is near.
func Nearest(mistyped string, known []string) string {
	if len(mistyped) > MaxName {
		return ""
	}
	best, distance := "", 1+max(1, len(mistyped)/3)
	for _, word := range known {
		if d := editDistance(mistyped, word); d < distance && word != "" {
			best, distance = word, d
		}
	}
	return best
}

// Suggest returns " (did you mean WORD?)" with the known word that is nearest to
// a mistyped one, for the end of an error; empty if none is near.
func Suggest(mistyped string, known []string) string {
	near := Nearest(mistyped, known)
	if near == "" {
		return ""
	}
	return " (did you mean " + near + "?)"
}

// Among is [Suggest] that lists the known words where none is near.
func Among(mistyped string, known []string) string {
	near := Suggest(mistyped, known)
	if near == "" && len(known) > 0 {
		near = " (there are " + strings.Join(known, ", ") + ")"
	}
	return near
}

// editDistance is the number of bytes to insert, delete, replace, or swap with
// the next, to get from a to b (optimal string alignment).
func editDistance(a, b string) int {
	older, old, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		older, old, row = old, row, older
		row[0] = i + 1
		for j := range len(b) {
			replaced := old[j]
			if a[i] != b[j] {
				replaced++
			}
			row[j+1] = min(replaced, old[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], older[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

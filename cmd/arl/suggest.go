package main

import (
	"fmt"
	"strings"

	"recoveryledger/ledger/entry"
)

// among is suggest that lists the known words where none is near.
func among(mistyped string, known []string) string {
	near := suggest(mistyped, known)
	if near == "" && len(known) > 0 {
		near = fmt.Sprintf(" (there are %s)", strings.Join(known, ", "))
	}
	return near
}

// suggest returns " (did you mean WORD?)" with the known word that is nearest to
// a mistyped one, or nothing if none is near.
func suggest(mistyped string, known []string) string {
	near := entry.Nearest(mistyped, known)
	if near == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", near)
}

package main

import (
	"fmt"

	"recoveryledger/ledger/entry"
)

// suggest returns " (did you mean WORD?)" with the known word that is nearest to
// a mistyped one, or nothing if none is near.
func suggest(mistyped string, known []string) string {
	near := entry.Nearest(mistyped, known)
	if near == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", near)
}

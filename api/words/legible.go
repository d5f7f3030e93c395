package words

import (
	"fmt"
	"strings"
	"unicode"
)

// Legible is the text of a value. It spells out what would hide in the text or reorder it: control
// characters, marks of writing direction, and others without a shape.
func Legible(value any) string {
	var b strings.Builder
	for _, r := range fmt.Sprint(value) {
		if r == unicode.ReplacementChar || r != ' ' && !unicode.IsGraphic(r) {
			fmt.Fprintf(&b, "[U+%04X]", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

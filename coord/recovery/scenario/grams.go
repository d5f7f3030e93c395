package scenario

// grams is a set of the groups of three bytes that stand in a text. It says quickly of most phrases
// that a text does not have them, since there are many phrases and few in one text.
type grams [1 << 16 / 64]uint64

// gram is the place of three bytes in the set. Several groups share a place.
func gram(a, b, c byte) uint16 { return uint16(a)<<11 ^ uint16(b)<<5 ^ uint16(c) }

// gramsIn returns the set of a text.
func gramsIn(text string) *grams {
	in := new(grams)
	for i := 2; i < len(text); i++ {
		place := gram(text[i-2], text[i-1], text[i])
		in[place/64] |= 1 << (place % 64)
	}
	return in
}

// gramsOf returns the places of all groups in the parts of a phrase.
func gramsOf(parts []string) (all []uint16) {
	for _, part := range parts {
		for i := 2; i < len(part); i++ {
			all = append(all, gram(part[i-2], part[i-1], part[i]))
		}
	}
	return all
}

// mayHave is false where a text lacks one of the groups, and thus the phrase.
func (in *grams) mayHave(all []uint16) bool {
	for _, place := range all {
		if in[place/64]&(1<<(place%64)) == 0 {
			return false
		}
	}
	return true
}

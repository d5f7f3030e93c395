package redact

// Limits, each tested at the limit and one past it.
const (
	// textMax is the length in bytes of a redacted text: the length of a detail or a reason in an
	// entry.
	textMax = 1 << 10
	// secretMin is the length in bytes of the shortest secret that is looked for.
	secretMin = 6
	// quoteMax is the length in bytes of a quote that is left: a name, not a
	// sentence.
	quoteMax = 32
	// inputMax is how much of a text is looked at, in bytes.
	inputMax = 8 << 10
)

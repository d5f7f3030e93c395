package ask

// Everything that a question holds has a limit.
const (
	// tagsMax is the number of tags of a case.
	tagsMax = 32
	// rungsMax is the number of earlier actions. A ladder has at most 64 attempts of one kind in a
	// row.
	rungsMax = 1024
)

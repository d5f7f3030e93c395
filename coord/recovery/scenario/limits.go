package scenario

// Everything read from outside has a limit. A case beyond one of them is not
// an agent run but a data set, and is refused with TooLarge.
const (
	// CaseBytesMax is the size of one record of an input in bytes.
	CaseBytesMax = 32 << 20
	// StepsMax is the number of steps in a case.
	StepsMax = 10_000
	// ParentsMax is the number of parents of a step; as references they
	// still fit an entry of 48 KiB.
	ParentsMax = 128
	// ToolMax is the length of a tool's name in bytes.
	ToolMax = 256
	// TextMax is the length in bytes to which the text of a raw error is cut.
	TextMax = 4096
	// CodeMax is the length in bytes of a word, as a class, a code or a tag.
	CodeMax = 64
	// AnswersMax is the number of answers of an external strategy in a case.
	AnswersMax = 256
	// causesMax is the number of errors inside one another that are looked
	// into for the innermost.
	causesMax = 16
	// checksMax is the number of checks of an output, weightMax the weight of
	// one: together they cannot overflow a score.
	checksMax = 64
	weightMax = 1_000_000
	// tagsMax is the number of tags of a case.
	tagsMax = 32
	// attemptsMax is the number of recorded attempts of a step after the first.
	attemptsMax = 256
	// citationsMax is the number of citations of an attempt, citationMax the
	// length of one in bytes.
	citationsMax = 64
	citationMax  = 1024
	// PayloadMax is the size of a payload in bytes. A trace has the digest of a larger one alone.
	PayloadMax = 16 << 10
)

package run

// Everything read from outside has a limit. A case beyond one of them is not
// an agent run but a data set, and is refused with TooLarge.
const (
	// caseBytesMax is the size of one record of an input in bytes.
	caseBytesMax = 32 << 20
	// stepsMax is the number of steps in a case.
	stepsMax = 10_000
	// parentsMax is the number of parents of a step; as references they
	// still fit an entry of 48 KiB.
	parentsMax = 128
	// graphsMax is the number of graphs inside one another in a workflow.
	graphsMax = 16
	// toolMax is the length of a tool's name in bytes.
	toolMax = 256
	// textMax is the length in bytes to which the text of a raw error is cut.
	textMax = 4096
)

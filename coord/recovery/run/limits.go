package run

// Everything read from outside has a limit. A case beyond one of them is not
// an agent run but a data set, and is refused with TooLarge.
const (
	// CaseBytesMax is the size of one record of an input in bytes.
	CaseBytesMax = 32 << 20
	// stepsMax is the number of steps in a case.
	stepsMax = 10_000
	// parentsMax is the number of parents of a step; as references they
	// still fit an entry of 48 KiB.
	parentsMax = 128
	// graphsMax is the number of graphs inside one another in a workflow.
	graphsMax = 16
	// toolMax is the length of a tool's name in bytes.
	toolMax = 256
	// spansMax is the number of spans in a trace, spanDepthMax that of spans
	// inside one another.
	spansMax     = 100_000
	spanDepthMax = 1_000
	// tracesIdleMax is the number of batches after which a trace that none of
	// them brought a span of is taken to be whole.
	tracesIdleMax = 1_000
	// causesMax is the number of errors inside one another that are looked
	// into for the innermost.
	causesMax = 16
	// pastMax is the number of executions of a log that incidents are imported
	// from: they are held in memory.
	pastMax = 10_000_000
	// checksMax is the number of checks of an output, weightMax the weight of
	// one: together they cannot overflow a score.
	checksMax = 64
	weightMax = 1_000_000
	// outputMax is the size in bytes of what a tool or model answers in a live
	// run; liveBytesMax that of the configuration of one.
	outputMax    = 4 << 20
	liveBytesMax = 1 << 20
	// inputDepthMax is the number of values inside one another in the input of
	// a step; probesMax how often a probe that cannot be reached is asked.
	inputDepthMax = 64
	probesMax     = 3
	// textMax is the length in bytes to which the text of a raw error is cut.
	textMax = 4096
	// codeMax is the length in bytes of a word, as a class, a code or a tag.
	codeMax = 64
	// tagsMax is the number of tags of a case.
	tagsMax = 32
	// attemptsMax is the number of recorded attempts of a step after the first.
	attemptsMax = 256
	// citationsMax is the number of citations of an attempt, citationMax the
	// length of one in bytes.
	citationsMax = 64
	citationMax  = 1024
	// modelBytesMax is the size of an outcome model in bytes, outcomesMax the
	// number of its lines.
	modelBytesMax = 1 << 20
	outcomesMax   = 10_000
	// idsMax is how many case ids a report names in one place, rejectionsMax how
	// many rejected lines.
	idsMax        = 10
	rejectionsMax = 100
	// rungsMax is how many rungs of a case its entry holds: with them it is
	// smaller than an entry may be.
	rungsMax = 48
	// valueMax is the length in bytes to which a value is cut that a replay found
	// to differ.
	valueMax = 200
	// sweepMax is the number of values in a sweep, flipsMax how many cases it
	// names between two of them.
	sweepMax = 1000
	flipsMax = 100
	// answerMax is the size in bytes of what an external strategy answers,
	// answersMax the number of its answers in a case.
	answerMax  = 64 << 10
	answersMax = 256
	// strategiesBytesMax is the size in bytes of a file of strategies.
	strategiesBytesMax = 64 << 10
)

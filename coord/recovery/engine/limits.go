package engine

const (
	// ReportBytesMax is the size of a report in bytes.
	ReportBytesMax = 64 << 20
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
	rungsMax = 32
	// factsMax is the size of the facts of a case in bytes, and attemptMax the size of an entry
	// with them: smaller than an entry may be.
	factsMax   = 8 << 10
	attemptMax = 32 << 10
	// valueMax is the length in bytes to which a value is cut that a replay found
	// to differ.
	valueMax = 200
	// sweepMax is the number of values in a sweep, flipsMax how many cases it
	// names between two of them.
	sweepMax = 1000
	flipsMax = 100
)

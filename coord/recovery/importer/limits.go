package importer

const (
	// graphsMax is the number of graphs inside one another in a workflow.
	graphsMax = 16
	// spansMax is the number of spans in a trace, spanDepthMax that of spans
	// inside one another.
	spansMax     = 100_000
	spanDepthMax = 1_000
	// tracesIdleMax is the number of batches after which a trace that none of
	// them brought a span of is taken to be whole.
	tracesIdleMax = 1_000
	// rowsIdleMax is tracesIdleMax where a record is one span.
	rowsIdleMax = 64 * tracesIdleMax
	// inputsMax is the number of bytes of inputs of calls that an import holds of traces of spans
	// which are not whole yet.
	inputsMax = 16 << 20
	// toolsBytesMax is the size of a tools file, usesMax the number of tools that a Writer counts.
	toolsBytesMax = 1 << 20
	usesMax       = 10_000
	// executionsMax is the number of executions of a log that incidents are imported
	// from: they are held in memory.
	executionsMax = 10_000_000
	// tokensMax is the number of execution context tokens in a file, which are held in memory, and
	// tokenMax the size of one in bytes.
	tokensMax = 100_000
	tokenMax  = 64 << 10
)

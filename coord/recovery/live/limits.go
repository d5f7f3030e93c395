package live

const (
	// outputMax is the size in bytes of what a tool or model answers;
	// configBytesMax that of the configuration.
	outputMax      = 4 << 20
	configBytesMax = 1 << 20
	// inputDepthMax is the number of values inside one another in the input of
	// a step; probesMax how often a probe that cannot be reached is asked.
	inputDepthMax = 64
	probesMax     = 3
)

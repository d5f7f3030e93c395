package worker

import "time"

// Limits on what comes from programs and from the kernel, each tested at the
// limit and one past it.
const (
	// OutputMax is how much of the end of a program's standard error is kept, in
	// bytes.
	OutputMax = 16 << 10
	// kernelMax is how much of a file of the kernel is read, in bytes.
	kernelMax = 16 << 10
	// drainMax is how long the pipes of a program that has ended are waited for:
	// it may have left children that hold them.
	drainMax = 2 * time.Second
)

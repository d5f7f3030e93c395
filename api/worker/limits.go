package worker

import "time"

// Limits on input from programs and from the kernel. Tests check each limit at its value
// and one past it.
const (
	// OutputMax is the size, in bytes, of the end of a program's standard error that an
	// ending keeps.
	OutputMax = 16 << 10
	// kernelMax is the number of bytes read from a file of the kernel.
	kernelMax = 16 << 10
	// drainMax is the longest wait for the pipes of a program that has ended. The program
	// may have left children that hold the pipes.
	drainMax = 2 * time.Second
)

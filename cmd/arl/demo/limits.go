package demo

// Limits of input from other processes, in bytes.
const (
	MaxMail = 64 << 10 // a request to the mail gateway
	MaxLine = 64 << 10 // a line that a child prints
)

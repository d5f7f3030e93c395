package demo

// Limits of input from other processes, in bytes.
const (
	maxMail = 64 << 10 // a request to the mail gateway
	maxLine = 64 << 10 // a line that a child prints
)

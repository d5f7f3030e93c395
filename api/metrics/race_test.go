//go:build race

package metrics

// raceFactor is how much slower the race detector makes a test.
const raceFactor = 20

//go:build !race

package program

// raced says whether the race detector watches the tests.
const raced = false

//go:build race

package budget

// raced says whether the race detector watches the tests.
const raced = true

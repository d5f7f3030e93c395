package cluster_test

import (
	"testing"

	"recoveryledger/testdata/bugs"
)

// TestChaosBugs plants each of the bugs in testdata/bugs, which the test that its patch names has
// to find.
func TestChaosBugs(t *testing.T) { bugs.Find(t, "../..") }

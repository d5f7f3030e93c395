package firsts_test

import (
	"os"
	"strconv"
	"testing"

	"recoveryledger/coord/recovery/scenario/firsts"
)

// first fails the test if an id did not stand first on a line; 0: nowhere.
func first(t *testing.T, l *firsts.Lines, id string, line, want int32) {
	t.Helper()
	if got, err := l.First(id, line); got != want || err != nil {
		t.Fatalf("id %s on line %d: first on %d, %v, want %d", id, line, got, err, want)
	}
}

// TestFirst has ids in memory and in two runs: each is found on its first line, and nothing is left
// in the directory of temporary files.
func TestFirst(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir)
	many(t)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestNoDirectory: without a directory for the file, ids stay in memory.
func TestNoDirectory(t *testing.T) {
	missing := t.TempDir() + "/missing"
	t.Setenv("TMPDIR", missing)
	t.Setenv("TMP", missing)
	many(t)
}

func many(t *testing.T) {
	t.Helper()
	const ids = 5 * firsts.RunIDs / 2
	var l firsts.Lines
	for i := range int32(ids) {
		first(t, &l, strconv.Itoa(int(i)), i+1, 0)
	}
	for i := int32(0); i < ids; i += 97 {
		first(t, &l, strconv.Itoa(int(i)), ids+1, i+1)
	}
	first(t, &l, strconv.Itoa(ids-1), ids+1, ids)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

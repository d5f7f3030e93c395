package node

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"recoveryledger/api/server"
)

// TestUnitWaitsForTheLastWord wants the service manager to wait for a ledger that halted. The
// ledger says that it stops, answers the requests that it has accepted, tells the endpoints of a
// fork, and shows its last metrics. A ledger that is killed before would be started again, since
// its exit code 10 is what forbids that.
func TestUnitWaitsForTheLastWord(t *testing.T) {
	unit, err := os.ReadFile(filepath.Join("..", "packages", "arl.service"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+)$`).FindSubmatch(unit)
	if found == nil {
		t.Fatal("the unit has no TimeoutStopSec")
	}
	seconds, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	const flush = 30 * time.Second // of the database, and of a monitor or two
	if most := server.Grace + forkTime + lastWordMost + flush; time.Duration(seconds)*time.Second < most {
		t.Errorf("the unit ends a ledger that stops after %d seconds, and it may take %v", seconds, most)
	}
}

package ledger_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"recoveryledger/ledger"
)

// TestCheckSystem: Windows is refused with what to do, and where these tests run a log
// is written.
func TestCheckSystem(t *testing.T) {
	for _, system := range []string{"linux", "darwin", runtime.GOOS} {
		if err := ledger.CheckSystem(system); err != nil && system != "windows" {
			t.Errorf("%s: %v", system, err)
		}
	}
	if err := ledger.CheckSystem("windows"); !errors.Is(err, ledger.ErrSystem) || !strings.Contains(err.Error(), "--url") {
		t.Errorf("windows: %v", err)
	}
}

// TestFreeSpace: a directory has some, and one that is not there is named.
func TestFreeSpace(t *testing.T) {
	dir := t.TempDir()
	if free, err := ledger.FreeSpace(dir); err != nil || free == 0 {
		t.Errorf("%d bytes, %v", free, err)
	}
	if _, err := ledger.FreeSpace(dir + "/no"); err == nil || !strings.Contains(err.Error(), dir+"/no") {
		t.Errorf("no directory: %v", err)
	}
}

package disk_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"recoveryledger/ledger/disk"
)

// TestCheckSystem: Windows is refused with what to do, and where these tests run a log
// is written.
func TestCheckSystem(t *testing.T) {
	for _, system := range []string{"linux", "darwin", runtime.GOOS} {
		if err := disk.CheckSystem(system); err != nil && system != "windows" {
			t.Errorf("%s: %v", system, err)
		}
	}
	if err := disk.CheckSystem("windows"); !errors.Is(err, disk.ErrSystem) || !strings.Contains(err.Error(), "--url") {
		t.Errorf("windows: %v", err)
	}
}

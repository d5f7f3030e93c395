//go:build unix

package live

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"recoveryledger/coord/recovery/scenario"
)

// A process that hangs is killed with its children when its time is over: the
// pipe that a child holds open comes to its end.
func TestLiveProcessHangs(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := os.ReadFile(pipe)
		ended <- err
	}()
	config := shellTool("sleep 600 > " + pipe + " & wait")
	tool := config.Tools["tool"]
	tool.TimeoutMS = 500
	config.Tools["tool"] = tool
	if got := told(try(t, newLive(t, config), toolStep(`1`), scenario.Variation{})); got != "failed transient.timeout unknown unknown timeout" {
		t.Errorf("attempt %s", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

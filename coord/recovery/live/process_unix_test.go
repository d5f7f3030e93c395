//go:build unix

package live

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"recoveryledger/coord/recovery/scenario"
)

// A process that hangs is killed with its children when its time is over: the
// pipe that a child holds open comes to its end.
func TestLiveProcessHangs(t *testing.T) {
	pipe, begun := filepath.Join(t.TempDir(), "pipe"), filepath.Join(t.TempDir(), "begun")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	end, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0) // waits for nobody who writes
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	config := shellTool("(: > " + begun + "; exec sleep 600) > " + pipe + " & wait")
	tool := config.Tools["tool"]
	for tool.TimeoutMS = 500; ; tool.TimeoutMS *= 2 { // on a busy machine the child may not have begun
		config.Tools["tool"] = tool
		if got := told(try(t, newLive(t, config), toolStep(`1`), scenario.Variation{})); got != "failed transient.timeout unknown unknown timeout" {
			t.Fatalf("attempt %s", got)
		}
		if _, err := os.Stat(begun); err == nil {
			break
		}
	}
	if _, err := io.ReadAll(end); err != nil {
		t.Error(err)
	}
}

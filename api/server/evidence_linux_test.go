package server_test

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
)

// rlimitFileSize is RLIMIT_FSIZE of setrlimit(2).
const rlimitFileSize = 1

// When the disk takes only a part of a line, nothing of it stays: the next
// object stands on a line of its own. The limit on the size of files holds for
// a whole process, so the test runs in one of its own.
func TestEvidenceShortWrite(t *testing.T) {
	const child = "SHORT_WRITE_CHILD"
	if os.Getenv(child) == "" {
		command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEvidenceShortWrite$")
		command.Env = append(os.Environ(), child+"=1")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	c := newCourt(t)
	x := c.taken("agent-1", c.agent)
	if !c.conflict(other(t, c.agent, x, "other-1")) {
		t.Fatal("not kept")
	}
	info, err := os.Stat(c.path)
	must(t, err)
	signal.Ignore(syscall.SIGXFSZ)
	var was syscall.Rlimit
	must(t, syscall.Getrlimit(rlimitFileSize, &was))
	limit := was
	limit.Cur = uint64(info.Size()) + 100
	must(t, syscall.Setrlimit(rlimitFileSize, &limit))
	kept := c.conflict(other(t, c.agent, x, "other-2"))
	must(t, syscall.Setrlimit(rlimitFileSize, &was))
	if kept || len(c.kept()) != 1 {
		t.Fatal("a part of a line was kept")
	}
	if records := c.log.records(t, "equivocation"); records[1]["kept"] != false || records[1]["error"] == nil {
		t.Fatalf("record %v", records[1])
	}
	if !c.conflict(other(t, c.agent, x, "other-3")) || len(c.kept()) != 2 {
		t.Fatal("the next one was not kept")
	}
}

package ledger_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger"
)

// counting counts the signatures that are made.
type counting struct {
	note.Signer
	made atomic.Int64
}

func (c *counting) Sign(msg []byte) ([]byte, error) {
	c.made.Add(1)
	return c.Signer.Sign(msg)
}

// logOf makes a log of n entries and returns its disk.
func logOf(t *testing.T, n int) *vfs.MemFS {
	t.Helper()
	disk := vfs.NewCrashableMem()
	r := start(t, "log", config(t, disk))
	r.add(n)
	r.stop()
	return disk
}

// A database that is older than the last signed tree head must not be continued:
// it would sign a second root for a size that it has signed before.
func TestAnOlderDatabaseIsRefused(t *testing.T) {
	older := logOf(t, 10)
	disk := snapshotOf(older)
	cfg := config(t, disk)
	r := start(t, "log", cfg)
	r.add(5)
	signed := r.Head()
	r.stop()

	copyTo(t, older, disk, "log")
	signer := &counting{Signer: cfg.Keys[0].Signer}
	cfg.Keys[0].Signer = signer
	for _, accept := range []bool{false, true} { // a readable anchor is never put aside
		cfg.AcceptAnchor = accept
		_, err := ledger.Open("log", cfg)
		if !errors.Is(err, ledger.ErrRolledBack) {
			t.Fatalf("accept=%v: %v", accept, err)
		}
		for _, part := range []string{"has size 10", "but its anchor has a signed tree head of 15", "new origin"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
	}
	if _, err := ledger.Check(t.Context(), "log", cfg, nil); !errors.Is(err, ledger.ErrRolledBack) {
		t.Fatalf("check: %v", err)
	}
	if n := signer.made.Load(); n != 0 {
		t.Fatalf("%d signatures were made over a database older than %v", n, signed.Head)
	}
}

// The same number of entries, or more, do not help if they are others.
func TestAnotherHistoryIsRefused(t *testing.T) {
	base := logOf(t, 300)
	one, other := snapshotOf(base), snapshotOf(base)
	for disk, n := range map[*vfs.MemFS]int{one: 3, other: 5} {
		r := start(t, "log", config(t, disk))
		r.add(n)
		r.stop()
	}
	copyTo(t, other, one, "log")
	_, err := ledger.Open("log", config(t, one))
	if !errors.Is(err, ledger.ErrRolledBack) || !strings.Contains(err.Error(), "another history") {
		t.Fatalf("open: %v", err)
	}
	if _, err := ledger.Check(t.Context(), "log", config(t, one), nil); !errors.Is(err, ledger.ErrRolledBack) {
		t.Fatalf("check: %v", err)
	}
}

// A database that is gone altogether is not an empty log.
func TestALostDatabaseIsRefused(t *testing.T) {
	disk := logOf(t, 3)
	must(t, disk.RemoveAll("log"))
	for _, accept := range []bool{false, true} {
		cfg := config(t, disk)
		cfg.AcceptAnchor = accept
		_, err := ledger.Open("log", cfg)
		if !errors.Is(err, ledger.ErrRolledBack) || !strings.Contains(err.Error(), "log.anchor") {
			t.Fatalf("accept=%v: %v", accept, err)
		}
	}
}

func TestAMissingAnchorIsRefusedUntilAccepted(t *testing.T) {
	disk := logOf(t, 3)
	must(t, disk.Remove("log.anchor"))
	cfg := config(t, disk)
	_, err := ledger.Open("log", cfg)
	if !errors.Is(err, ledger.ErrAnchor) || !strings.Contains(err.Error(), "--accept-anchor") {
		t.Fatalf("open: %v", err)
	}
	if _, err := ledger.Check(t.Context(), "log", cfg, nil); !errors.Is(err, ledger.ErrAnchor) {
		t.Fatalf("check: %v", err)
	}
	cfg.AcceptAnchor = true
	start(t, "log", cfg).stop()
	cfg.AcceptAnchor = false
	r := start(t, "log", cfg)
	r.add(1)
	r.checkAll()
}

// A crash tears at most the slot that is being written; the other one counts.
func TestATornAnchorSlotIsTolerated(t *testing.T) {
	base := logOf(t, 3)
	const slot = 512
	for _, torn := range [][]int{{0}, {1}, {0, 1}} {
		disk := snapshotOf(base)
		content, err := disk.UnsafeGetFileDataBuffer("log.anchor")
		must(t, err)
		for _, i := range torn {
			clear(content[i*slot+100 : (i+1)*slot])
		}
		log, err := ledger.Open("log", config(t, disk))
		if len(torn) == 2 {
			if !errors.Is(err, ledger.ErrAnchor) {
				t.Fatalf("both slots torn: %v", err)
			}
			continue
		}
		must(t, err)
		must(t, log.Close())
		fsck(t, "log", config(t, disk))
	}
}

// The anchor of another ledger proves nothing.
func TestAnAnchorOfAnotherOriginIsRefused(t *testing.T) {
	disk := logOf(t, 3)
	content, err := disk.UnsafeGetFileDataBuffer("log.anchor")
	must(t, err)
	copy(content, strings.Replace(string(content), origin, strings.ToUpper(origin), 2))
	if _, err := ledger.Open("log", config(t, disk)); !errors.Is(err, ledger.ErrAnchor) {
		t.Fatal(err)
	}
}

// A lost database is told by Check as by Open: not as damage, and not in words of
// the engine. Check makes nothing.
func TestCheckTellsALostDatabase(t *testing.T) {
	disk := logOf(t, 3)
	must(t, disk.RemoveAll("log"))
	_, opened := ledger.Open("log", config(t, disk))
	_, checked := ledger.Check(t.Context(), "log", config(t, disk), nil)
	if !errors.Is(checked, ledger.ErrRolledBack) || checked.Error() != opened.Error() {
		t.Errorf("check says %v, open %v", checked, opened)
	}
	must(t, disk.Remove("log.anchor"))
	if _, err := ledger.Check(t.Context(), "log", config(t, disk), nil); !errors.Is(err, ledger.ErrNotFound) || strings.Contains(err.Error(), "pebble") {
		t.Errorf("without an anchor: %v", err)
	}
	if _, err := disk.Stat("log"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("log: %v", err)
	}
}

// Another origin, another format: which of the two, and what to do.
func TestADatabaseOfAnotherLedgerOrVersionIsRefused(t *testing.T) {
	disk := logOf(t, 3)
	other := config(t, disk)
	other.Origin = "ledger.example/other"
	_, err := ledger.Open("log", other)
	if !errors.Is(err, ledger.ErrOrigin) || !strings.Contains(err.Error(), "restore the keys of "+origin) {
		t.Errorf("another origin: %v", err)
	}
	for _, format := range []string{"1", "4", "6"} {
		db, err := pebble.Open("log", &pebble.Options{FS: disk, FormatMajorVersion: pebble.FormatNewest})
		must(t, err)
		must(t, db.Set([]byte{'m'}, []byte(`{"format":`+format+`,"origin":"`+origin+`"}`), pebble.Sync))
		must(t, db.Close())
		_, err = ledger.Open("log", config(t, disk))
		if !errors.Is(err, ledger.ErrFormat) || !strings.Contains(err.Error(), "has format "+format+", want 5: open the ledger with the version of arl that made it") {
			t.Errorf("another format: %v", err)
		}
	}
}

// TestADatabaseOfANewerEngine refuses what a newer version of the storage engine wrote, and does
// not call it damage: nothing is to be restored. Nothing in the directory changes.
func TestADatabaseOfANewerEngine(t *testing.T) {
	disk := logOf(t, 3)
	format, was, err := atomicfs.LocateMarker(disk, "log", "format-version")
	must(t, err)
	must(t, format.Move("999"))
	before, err := disk.List("log")
	must(t, err)
	_, opened := ledger.Open("log", config(t, disk))
	_, checked := ledger.Check(t.Context(), "log", config(t, disk), nil)
	for _, err := range []error{opened, checked} {
		if !errors.Is(err, ledger.ErrFormat) || errors.Is(err, ledger.ErrCorrupt) || !strings.Contains(err.Error(), "log has format 999 of the storage engine") {
			t.Errorf("a newer engine: %v", err)
		}
	}
	after, err := disk.List("log")
	slices.Sort(before)
	slices.Sort(after)
	if err != nil || !slices.Equal(before, after) {
		t.Errorf("%v, %v before, %v after", err, before, after)
	}
	must(t, format.Move(was))
	start(t, "log", config(t, disk)).add(1)
}

func TestADirectoryIsOpenOnce(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"memory": vfs.NewMem(), "disk": vfs.Default} {
		t.Run(name, func(t *testing.T) {
			dir := "log"
			if fs == vfs.Default {
				dir = t.TempDir() + "/log"
			}
			r := start(t, dir, config(t, fs))
			r.add(1)
			refusesSecond(t, dir, config(t, fs))
			r.add(1)
		})
	}
}

func refusesSecond(t *testing.T, dir string, cfg *ledger.Config) {
	t.Helper()
	if _, err := ledger.Open(dir, cfg); !errors.Is(err, ledger.ErrInUse) {
		t.Errorf("second open: %v", err)
	}
	if _, err := ledger.Check(t.Context(), dir, cfg, nil); !errors.Is(err, ledger.ErrInUse) {
		t.Errorf("check while open: %v", err)
	}
}

// holdVariable makes the test binary the process that holds a directory.
const holdVariable = "ARL_TEST_HOLD"

// TestASecondProcessIsRefused starts this test again as another process, which
// opens a log and holds it until its input ends.
func TestASecondProcessIsRefused(t *testing.T) {
	if dir := os.Getenv(holdVariable); dir != "" {
		r := start(t, dir, config(t, nil))
		r.add(1)
		_, err := os.Stdout.WriteString("held\n")
		must(t, err)
		_, err = io.Copy(io.Discard, os.Stdin)
		must(t, err)
		return
	}
	dir := t.TempDir() + "/log"
	holder := exec.CommandContext(context.Background(), os.Args[0], "-test.run=^TestASecondProcessIsRefused$")
	holder.Env = append(os.Environ(), holdVariable+"="+dir)
	stdin, err := holder.StdinPipe()
	must(t, err)
	stdout, err := holder.StdoutPipe()
	must(t, err)
	must(t, holder.Start())
	output := bufio.NewReader(stdout)
	if line, err := output.ReadString('\n'); line != "held\n" {
		t.Fatalf("the holder says %q, %v", line, err)
	}
	refusesSecond(t, dir, config(t, nil))
	must(t, stdin.Close())
	_, err = io.Copy(io.Discard, output)
	must(t, err)
	must(t, holder.Wait())
	fsck(t, dir, config(t, nil))
}

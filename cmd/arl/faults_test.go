//go:build unix

package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"recoveryledger/cmd/arl/node"
	"recoveryledger/testdata/program"
)

// clockKey is the environment variable with a file that says how far the wall clock of a ledger is
// off.
const clockKey = "TEST_CLOCK"

// clocked is the program under the clock of a script.
func clocked() {
	if path := os.Getenv(clockKey); path != "" {
		node.WallClock = func() time.Time {
			text, err := os.ReadFile(path)
			if err != nil {
				panic(err)
			}
			off, err := time.ParseDuration(strings.TrimSpace(string(text)))
			if err != nil {
				return time.Now() // the file is being written
			}
			return time.Now().Add(off)
		}
	}
	main()
}

type (
	idleKey struct{}
	sinkKey struct{}
)

// idleFiles is how many files a test keeps for itself.
const idleFiles = 1000

// scriptIdle holds connections that do nothing, from an address of its own. The ledger closes those
// that are too many.
func scriptIdle(ts *testscript.TestScript, _ bool, args []string) {
	held, _ := ts.Value(idleKey{}).(*[]net.Conn)
	for _, c := range *held {
		_ = c.Close() // the ledger may have closed it
	}
	*held = nil
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	ts.Check(letOpen(uint64(n) + idleFiles))
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: 10 * time.Second}
	for range n {
		c, err := dialer.Dial("tcp", strings.TrimPrefix(ts.Getenv("URL"), "http://"))
		ts.Check(err)
		*held = append(*held, c)
	}
}

// letOpen lets the process open as many files. Root may raise the hard limit, others the soft one.
func letOpen(files uint64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur >= files {
		return err
	}
	limit = unix.Rlimit{Cur: files, Max: max(limit.Max, files)}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("missing: %d open files: raise the limit (ulimit -n): %w", files, err)
	}
	return nil
}

// sink is an endpoint of notifications.
type sink struct {
	server *httptest.Server
	hears  atomic.Bool
	ended  chan struct{}
	heard  sync.Map // by id: a message that it answered
}

// has reports whether the endpoint has answered a message.
func (s *sink) has() (found bool) {
	s.heard.Range(func(_, _ any) bool { found = true; return false })
	return found
}

// scriptSink starts an endpoint, changes what it does, or waits until it has answered a message.
func scriptSink(ts *testscript.TestScript, _ bool, args []string) {
	s, _ := ts.Value(sinkKey{}).(*sink)
	if s.server == nil {
		s.ended = make(chan struct{})
		s.server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if !s.hears.Load() {
				select {
				case <-r.Context().Done():
				case <-s.ended:
				}
				return
			}
			s.heard.Store(r.Header.Get("Webhook-Id"), true)
		}))
		ts.Defer(func() { close(s.ended); s.server.Close() })
		ts.Setenv("SINK", s.server.URL)
	}
	if args[0] != "heard" {
		s.hears.Store(args[0] == "hears")
		return
	}
	if !waitFor(time.Minute, s.has) {
		ts.Fatalf("the endpoint has answered no message")
	}
}

// canMount reports whether a file system in a file can be mounted here, and made to fail. With CI
// set it has to be.
func canMount() (bool, error) {
	err := tryMount()
	if err != nil && os.Getenv("CI") != "" {
		return false, fmt.Errorf("missing: a file system of the test's own: %w", err)
	}
	return err == nil, nil
}

// tryMount mounts a file system in a file. That needs root, a loop device, and a /sys that can be
// written to.
func tryMount() error {
	if os.Geteuid() != 0 {
		return errors.New("only root mounts one")
	}
	for _, program := range []string{"mkfs.ext4", "fsck.ext4", "resize2fs", "mount", "umount", "findmnt"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("install the packages e2fsprogs and mount: %w", err)
		}
	}
	dir, err := os.MkdirTemp("", "disk-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	device, err := mountFile(dir, "4M")
	if err != nil {
		return err
	}
	return errors.Join(unix.Access(failurePath(device), unix.W_OK), exec.Command("umount", filepath.Join(dir, "disk")).Run())
}

// mountFile mounts a file system in a new file of dir at disk in dir, and returns its device.
func mountFile(dir, size string) (device string, err error) {
	image, mount := filepath.Join(dir, "disk.img"), filepath.Join(dir, "disk")
	for _, command := range [][]string{
		{"mkfs.ext4", "-q", image, size}, {"mkdir", mount}, {"mount", "-o", "loop,errors=remount-ro", image, mount},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%q: %w: %s", command, err, out)
		}
	}
	found, err := exec.Command("findmnt", "--noheadings", "--output", "SOURCE", "--mountpoint", mount).Output()
	return strings.TrimSpace(string(found)), err
}

// failurePath is where the kernel is told that a file system has an error. It makes the file system
// read-only then, as after an error of the disk.
func failurePath(device string) string {
	return "/sys/fs/ext4/" + filepath.Base(device) + "/trigger_fs_error"
}

// scriptDisk makes a file system, fills it, has it fail, and mends it as an operator does.
func scriptDisk(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.Getenv("WORK")
	mount, image := filepath.Join(dir, "disk"), filepath.Join(dir, "disk.img")
	switch args[0] {
	case "made":
		device, err := mountFile(dir, "128M")
		ts.Check(err)
		ts.Setenv("DEVICE", device)
		ts.Defer(func() { _ = exec.Command("umount", "--lazy", mount).Run() }) // nothing stays behind the test
	case "filled":
		ts.Check(fill(filepath.Join(mount, "junk")))
	case "grown":
		ts.Check(exec.Command("umount", mount).Run())
		for _, command := range [][]string{{"truncate", "--size=+128M", image}, {"fsck.ext4", "-f", "-p", image}, {"resize2fs", image}, {"mount", "-o", "loop", image, mount}} {
			if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
				ts.Fatalf("%q: %v: %s", command, err, out)
			}
		}
	case "failed":
		ts.Check(os.WriteFile(failurePath(ts.Getenv("DEVICE")), []byte("1"), 0o600))
	case "mended":
		ts.Check(exec.Command("umount", mount).Run())
		const repaired = 1
		if code := exitCode(ts, exec.Command("fsck.ext4", "-p", image).Run()); code != 0 && code != repaired {
			ts.Fatalf("fsck.ext4: exit code %d", code)
		}
		ts.Check(exec.Command("mount", "-o", "loop", image, mount).Run())
	default:
		ts.Fatalf("disk made, filled, grown, failed or mended, not %s", args[0])
	}
}

// fill writes a file until not a byte more goes onto its disk.
func fill(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	for size := 1 << 20; size > 0; {
		switch _, err := file.Write(make([]byte, size)); {
		case errors.Is(err, unix.ENOSPC):
			size /= 2
		case err != nil:
			return err
		}
	}
	return file.Sync()
}

// exitCode is the exit code of a program that ended with err. What is no end of a program fails the
// script.
func exitCode(ts *testscript.TestScript, err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	ts.Check(err)
	return 0
}

// scriptEnded waits until the server ends by itself, and wants its exit code. Its words are in
// serve.log.
func scriptEnded(ts *testscript.TestScript, _ bool, args []string) {
	s, _ := ts.Value(serverKey{}).(*scriptServer)
	s.end(ts, "serve.log", args[0])
}

// end waits until the process ends, keeps its words, and wants its exit code.
func (s *scriptServer) end(ts *testscript.TestScript, log, code string) {
	err := s.process.Wait()
	s.process = nil
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("WORK"), log), []byte(s.stderr.String()), 0o600))
	if got := strconv.Itoa(exitCode(ts, err)); got != code {
		ts.Fatalf("exit code %s, want %s\n%s", got, code, s.stderr.String())
	}
}

// scriptNewer builds another program of the same tree.
func scriptNewer(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Setenv("NEWER", ts.MkAbs("newer"))
	ts.Check(program.Build(ts.Getenv("NEWER"), "newer"))
}

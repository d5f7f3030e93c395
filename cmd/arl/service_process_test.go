//go:build unix

package main_test

import (
	"bufio"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"recoveryledger/testdata/program"
)

// TestServeAsService is the service manager of a ledger: it opens the listener, hears that the
// ledger is ready, alive and stopping, and sends SIGHUP, which a service outlives.
func TestServeAsService(t *testing.T) {
	dir := t.TempDir()
	data, path := filepath.Join(dir, "data"), filepath.Join(dir, "notify")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must(err)
	defer socket.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	file, err := listener.(*net.TCPListener).File()
	must(err)
	s := &served{t: t, process: exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0" serve --data "$1" --listen 192.0.2.1:1`, program.Arl(t), data)}
	s.process.Env = append(os.Environ(), "ARL_HOME="+filepath.Join(dir, "home"), "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=20000", "LISTEN_FDS=1")
	s.process.ExtraFiles = []*os.File{file}
	stderr, err := s.process.StderrPipe()
	must(err)
	s.log = bufio.NewScanner(stderr)
	must(s.process.Start())
	t.Cleanup(func() { _ = s.process.Process.Kill(); _ = s.process.Wait() }) // it may have ended
	url := "http://" + listener.Addr().String()
	must(file.Close())
	must(listener.Close())

	expect := func(want string) {
		t.Helper()
		must(socket.SetReadDeadline(time.Now().Add(time.Minute)))
		for buf := make([]byte, 4096); ; {
			n, err := socket.Read(buf)
			if err != nil {
				t.Fatalf("waiting for %q: %v", want, err)
			}
			if strings.HasPrefix(string(buf[:n]), want) {
				return
			}
		}
	}
	expect("STATUS=opens " + data)
	expect("READY=1\nSTATUS=takes entries at " + url)
	expect("WATCHDOG=1")
	s.signal(syscall.SIGHUP)
	s.until("reload: without TLS there is nothing to read again")
	expect("WATCHDOG=1")
	answer, err := http.Get(url + "/readyz")
	must(err)
	must(answer.Body.Close())
	if answer.StatusCode != http.StatusOK {
		t.Errorf("status %d on the listener of the manager", answer.StatusCode)
	}
	s.signal(syscall.SIGTERM)
	expect("STOPPING=1")
	s.ends()
}

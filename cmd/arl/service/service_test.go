//go:build unix

package service

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// manager is the service manager's end of the socket.
type manager struct {
	t      *testing.T
	socket *net.UnixConn
}

// manage makes this process a service whose watchdog waits for the time given, in microseconds.
func manage(t *testing.T, watchdog string) *manager {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", watchdog)
	t.Setenv("WATCHDOG_PID", "")
	return &manager{t, socket}
}

// expect reads the next message.
func (m *manager) expect(want string) {
	m.t.Helper()
	if err := m.socket.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		m.t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := m.socket.Read(buf)
	if err != nil {
		m.t.Fatalf("waiting for %q: %v", want, err)
	}
	if got := string(buf[:n]); got != want {
		m.t.Fatalf("told %q, want %q", got, want)
	}
}

// TestReady follows a service that is healthy, then is not, and stops. The check says each time
// that it was called, so that an answer is given for each.
func TestReady(t *testing.T) {
	m := manage(t, "2000") // a check each millisecond
	ctx, stop := context.WithCancel(t.Context())
	answers, ended := make(chan error), make(chan error)
	go func() {
		ended <- Ready(ctx, "takes entries", func(context.Context) error { return <-answers })
	}()
	m.expect("READY=1\nSTATUS=takes entries")
	for range 3 {
		answers <- nil
		m.expect("WATCHDOG=1")
	}
	answers <- errors.New("sick")
	answers <- errors.New("sick")
	answers <- nil
	m.expect("WATCHDOG=1") // and none for the checks before
	stop()
	m.expect("STOPPING=1") // though a check may not return
	var err error
	select {
	case answers <- errors.New("sick"):
		err = <-ended
	case err = <-ended: // it was between two checks
	}
	if err != nil {
		t.Error(err)
	}
}

// foreign is a context of a kind that package context does not know: who waits for its end hears
// of it at the same time as what is to run then.
type foreign struct{ context.Context }

func (f foreign) Value(any) any { return nil }

// TestReadyWithoutWatchdog tells of the beginning and the end alone, and checks nothing. It tells
// the end whoever hears first that the context has ended.
func TestReadyWithoutWatchdog(t *testing.T) {
	m := manage(t, "")
	for range 200 {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- Ready(foreign{ctx}, "", nil) }()
		m.expect("READY=1\nSTATUS=")
		stop()
		m.expect("STOPPING=1")
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadyRefused gives the error of a manager that is away, and of a watchdog time that is none.
func TestReadyRefused(t *testing.T) {
	m := manage(t, "soon")
	if err := Ready(t.Context(), "", nil); err == nil {
		t.Error("no error for a time that is none")
	}
	m.expect("READY=1\nSTATUS=")
	if err := m.socket.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Status("opens"); err == nil {
		t.Error("no error for a socket that nobody reads")
	}
}

// TestUnmanaged tells nobody anything, and opens the listener itself.
func TestUnmanaged(t *testing.T) {
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS"} {
		t.Setenv(name, "")
	}
	if Managed() {
		t.Error("a service without a socket")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := errors.Join(Status("opens"), Ready(ctx, "", nil)); err != nil {
		t.Error(err)
	}
	listener, asked, err := Listen(t.Context(), "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if asked != "localhost:0" {
		t.Errorf("asked for %s", asked)
	}
	if _, _, err := Listen(t.Context(), listener.Addr().String()); err == nil {
		t.Error("a second listener on one address")
	}
}

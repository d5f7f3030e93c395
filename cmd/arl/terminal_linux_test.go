package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/testdata/needs"
)

// openTerminal opens a pseudo-terminal of 100 columns: what is written to the
// user's end can be read from the other.
func openTerminal(t *testing.T) (user, other *os.File) {
	t.Helper()
	other, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		needs.Missing(t, err.Error(), "mount devpts", "no terminal is tried")
	}
	t.Cleanup(func() { other.Close() })
	control := func(request uintptr, argument unsafe.Pointer) {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, other.Fd(), request, uintptr(argument)); errno != 0 {
			t.Fatal(errno)
		}
	}
	var number, unlocked uint32
	control(syscall.TIOCGPTN, unsafe.Pointer(&number))
	control(syscall.TIOCSPTLCK, unsafe.Pointer(&unlocked))
	size := [4]uint16{30, 100} // rows, columns, pixels
	control(syscall.TIOCSWINSZ, unsafe.Pointer(&size))
	user, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { user.Close() })
	return user, other
}

// awaitBar reads what a terminal shows until the bar of that name stands at 1 of 3.
func awaitBar(t *testing.T, terminal io.Reader, name string) {
	t.Helper()
	lines := bufio.NewReader(terminal)
	for shown := ""; !strings.Contains(shown, "1 of 3"); {
		part, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if shown = part; !strings.Contains(shown, name) {
			t.Fatalf("shown: %q", shown)
		}
	}
}

// Progress shows on a terminal, and nowhere else.
func TestProgressShowsOnATerminal(t *testing.T) {
	user, other := openTerminal(t)
	tell, end := newApp(nil, nil, user).Progress("counting")
	tell(1, 3)
	awaitBar(t, other, "counting")
	end()

	var file bytes.Buffer
	tell, end = newApp(nil, nil, &file).Progress("counting")
	tell(1, 3)
	end()
	if file.Len() > 0 {
		t.Errorf("a file has %q", file.String())
	}
}

// TestRebuildShowsABar: at a terminal arl serve shows how far the state is built again, with a bar
// in place of lines of the log. Elsewhere it has no bar.
func TestRebuildShowsABar(t *testing.T) {
	user, other := openTerminal(t)
	var log bytes.Buffer
	life := node.Life{Logger: slog.New(slog.NewTextHandler(&log, nil)), Bar: newApp(nil, nil, user).Bar()}
	tell, end := life.Progress("rebuild")
	tell(1, 3)
	awaitBar(t, other, "rebuild")
	end()
	if log.Len() > 0 {
		t.Errorf("the log has %q", log.String())
	}
	if newApp(nil, nil, &log).Bar() != nil {
		t.Error("a file has a bar")
	}
}

// A long error is broken between words on a terminal, and stays one line in a file.
func TestErrorsFitTheTerminal(t *testing.T) {
	t.Setenv("COLUMNS", "")
	user, other := openTerminal(t)
	long := exit.Remedied(strings.Repeat("do this ", 20)+"last.", errors.New(strings.Repeat("went wrong ", 20)+"at a/path#5"))
	newApp(nil, nil, user).printError(user, long)
	lines, shown := bufio.NewReader(other), ""
	for !strings.Contains(shown, "last.") {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line = strings.TrimRight(line, "\r\n"); len(line) > 100 {
			t.Errorf("%d columns: %s", len(line), line)
		}
		shown += line + " "
	}
	var file bytes.Buffer
	newApp(nil, nil, &file).printError(&file, long)
	if want := strings.Fields(file.String()); strings.Count(file.String(), "\n") != 2 || strings.Join(strings.Fields(shown), " ") != strings.Join(want, " ") {
		t.Errorf("the terminal shows %q, a file has %q", shown, file.String())
	}
}

package cell_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// links is what nodes say to one another: each node has proxies before its ports for the others. A
// proxy asks the kernel which process calls, so that each pair of nodes can be cut off alone.
type links struct {
	mu      sync.Mutex
	changed *sync.Cond
	pids    map[string]int // of the nodes
	cuts    map[string]cut // by pair
	open    map[*link]bool
}

// cut is how a pair of nodes is cut off.
type cut int

const (
	whole   cut = iota
	dropped     // connections end, and none begins
	stalled     // nothing arrives, until the cut is mended
)

// link is a connection through a proxy.
type link struct {
	pair  string
	sides [2]net.Conn
}

func pairOf(a, b string) string { return min(a, b) + "-" + max(a, b) }

func newLinks() *links {
	l := &links{pids: map[string]int{}, cuts: map[string]cut{}, open: map[*link]bool{}}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// runs notes the process of a node.
func (l *links) runs(node string, pid int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pids[node] = pid
}

// set cuts two nodes off from one another, or mends the cut.
func (l *links) set(a, b string, how cut) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cuts[pairOf(a, b)] = how
	for one := range l.open {
		if how == dropped && one.pair == pairOf(a, b) {
			one.close()
		}
	}
	l.changed.Broadcast()
}

func (l *link) close() {
	for _, side := range l.sides {
		_ = side.Close() // it may be closed
	}
}

// serve passes what arrives at an address on to a node's port, until the test ends.
func (l *links) serve(t *testing.T, node, at, to string) {
	t.Helper()
	listener, err := net.Listen("tcp", at)
	must(t, err)
	t.Cleanup(func() {
		must(t, listener.Close())
		l.mu.Lock()
		defer l.mu.Unlock()
		for one := range l.open {
			one.close()
		}
		clear(l.cuts)
		l.changed.Broadcast()
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the test ends
			}
			go l.pass(conn, node, to)
		}
	}()
}

// pass joins a connection to the port of a node.
func (l *links) pass(from net.Conn, node, to string) {
	defer from.Close()
	one := &link{pair: pairOf(l.caller(from), node)}
	l.mu.Lock()
	refused := l.cuts[one.pair] == dropped
	l.mu.Unlock()
	if refused {
		return
	}
	target, err := net.DialTimeout("tcp", to, time.Second)
	if err != nil {
		return // the node is away
	}
	defer target.Close()
	one.sides = [2]net.Conn{from, target}
	l.mu.Lock()
	l.open[one] = true
	l.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { l.copy(one, 0) })
	both.Go(func() { l.copy(one, 1) })
	both.Wait()
	l.mu.Lock()
	delete(l.open, one)
	l.mu.Unlock()
}

// copy copies from one side to the other one, and holds back what arrives while the pair stalls.
func (l *links) copy(one *link, side int) {
	defer one.close()
	buf := make([]byte, 32<<10)
	for {
		n, err := one.sides[side].Read(buf)
		l.mu.Lock()
		for l.cuts[one.pair] == stalled {
			l.changed.Wait()
		}
		l.mu.Unlock()
		if _, failed := one.sides[1-side].Write(buf[:n]); err != nil || failed != nil {
			return // io.EOF is no exception
		}
	}
}

// caller names the node that has made a connection; empty: none has.
func (l *links) caller(conn net.Conn) string {
	inode := inodeOf(conn.RemoteAddr(), conn.LocalAddr())
	l.mu.Lock()
	defer l.mu.Unlock()
	for node, pid := range l.pids {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // the pattern is well formed
		if slices.ContainsFunc(files, func(file string) bool {
			target, err := os.Readlink(file)
			return err == nil && target == "socket:["+inode+"]"
		}) {
			return node
		}
	}
	return ""
}

// inodeOf returns what the kernel calls the socket of a connection.
func inodeOf(from, to net.Addr) string {
	table, err := os.Open("/proc/net/tcp")
	if err != nil {
		return ""
	}
	defer table.Close()
	text, err := io.ReadAll(table)
	if err != nil {
		return ""
	}
	wanted := kernelName(from) + " " + kernelName(to)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 9 && fields[1]+" "+fields[2] == wanted {
			return fields[9]
		}
	}
	return ""
}

// kernelName writes an address as /proc/net/tcp does.
func kernelName(a net.Addr) string {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return ""
	}
	ip := at.Addr().As4()
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(ip[:]), at.Port())
}

// TestLinks: a proxy knows who calls, and cuts off that pair alone. What stalls arrives later.
func TestLinks(t *testing.T) {
	l, own := newLinks(), hostOf(host(t))
	echo, err := net.Listen("tcp", own+":7001")
	must(t, err)
	t.Cleanup(func() { must(t, echo.Close()) })
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn) // the other side ends it
				_ = conn.Close()
			}()
		}
	}()
	l.serve(t, "b", own+":7002", own+":7001")
	l.runs("a", os.Getpid())
	say := func(conn net.Conn, within time.Duration) error {
		must(t, conn.SetDeadline(time.Now().Add(within)))
		if _, err := conn.Write([]byte("x")); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, make([]byte, 1))
		return err
	}
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", own+":7002")
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	conn := dial()
	must(t, say(conn, time.Minute))
	l.set("b", "c", dropped)
	must(t, say(conn, time.Minute))
	l.set("a", "b", stalled)
	if err := say(conn, 50*time.Millisecond); !os.IsTimeout(err) {
		t.Errorf("a pair that stalls: %v", err)
	}
	l.set("a", "b", whole)
	must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.ReadFull(conn, make([]byte, 1))
	must(t, err)
	l.set("b", "a", dropped)
	for _, one := range []net.Conn{conn, dial()} {
		if err := say(one, time.Minute); err == nil || os.IsTimeout(err) {
			t.Errorf("a pair that is cut off: %v", err)
		}
	}
	l.set("a", "b", whole)
	must(t, say(dial(), time.Minute))
}

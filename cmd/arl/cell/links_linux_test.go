package cell_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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

// inodeOf returns what the kernel calls the socket of a connection, from its own address to another
// one. The kernel looks that one socket up (sock_diag(7)): /proc/net/tcp lists those of the whole
// machine, and reading it took a tenth of the processor time of these tests.
func inodeOf(from, to net.Addr) string {
	conn, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return ""
	}
	defer unix.Close(conn)
	const request = unix.NLMSG_HDRLEN + 8 + 48 // of struct inet_diag_req_v2: its head, and the socket
	ask := binary.NativeEndian.AppendUint32(nil, request)
	ask = binary.NativeEndian.AppendUint16(ask, unix.SOCK_DIAG_BY_FAMILY)
	ask = binary.NativeEndian.AppendUint16(ask, unix.NLM_F_REQUEST)
	ask = append(ask, make([]byte, 8)...) // sequence and port
	ask = append(ask, unix.AF_INET, unix.IPPROTO_TCP, 0, 0, 0xff, 0xff, 0xff, 0xff)
	socket := append(port(from), port(to)...)
	for _, addr := range []net.Addr{from, to} {
		socket = append(socket, addr.(*net.TCPAddr).IP.To4()...)
		socket = append(socket, make([]byte, 12)...) // as long as an address of IPv6
	}
	ask = append(append(ask, socket...), make([]byte, 4)...)          // any interface
	ask = append(ask, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff) // any cookie
	answer := make([]byte, 4096)
	if err := unix.Sendto(conn, ask, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return ""
	}
	n, _, err := unix.Recvfrom(conn, answer, 0)
	// struct inet_diag_msg: a head, the socket as in the request, four numbers, and the inode. A
	// socket that listens has no other end.
	const found = unix.NLMSG_HDRLEN + 4
	if err != nil || n < found+68 || binary.NativeEndian.Uint16(answer[4:]) != unix.SOCK_DIAG_BY_FAMILY || !bytes.HasPrefix(answer[found:], socket) {
		return "" // it is closed
	}
	return fmt.Sprint(binary.NativeEndian.Uint32(answer[found+64:]))
}

// port writes the port of an address as the network does.
func port(a net.Addr) []byte {
	return binary.BigEndian.AppendUint16(nil, uint16(a.(*net.TCPAddr).Port))
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

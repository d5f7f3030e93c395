//go:build unix

package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"recoveryledger/cmd/arl/node"
)

// clockKey is the environment variable with a file that says how far the wall clock of a ledger is off.
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
	var limit unix.Rlimit
	ts.Check(unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	n = min(n, int(min(limit.Cur, 1<<20))-idleFiles)
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: 10 * time.Second}
	for range n {
		c, err := dialer.Dial("tcp", strings.TrimPrefix(ts.Getenv("URL"), "http://"))
		ts.Check(err)
		*held = append(*held, c)
	}
}

// sink is an endpoint of notifications.
type sink struct {
	server *httptest.Server
	hears  atomic.Bool
	ended  chan struct{}
}

// scriptSink starts an endpoint, or changes what it does.
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
			}
		}))
		ts.Defer(func() { close(s.ended); s.server.Close() })
		ts.Setenv("SINK", s.server.URL)
	}
	s.hears.Store(args[0] == "hears")
}

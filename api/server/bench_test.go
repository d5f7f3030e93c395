//go:build unix

package server_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/labstack/echo/v4"

	"recoveryledger/api"
	"recoveryledger/api/server"
	"recoveryledger/ledger/entry"
)

// BenchmarkPost measures one entry a request: this server on the real disk,
// and a bare Echo handler that decodes the same JSON and answers a line. The
// client is the smallest that keeps a connection, so that the servers' share of
// the processors is large.
func BenchmarkPost(b *testing.B) {
	for _, connections := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("echo/connections=%d", connections), func(b *testing.B) {
			e := echo.New()
			e.POST("/v1/entries", func(c echo.Context) error {
				var envelope api.Envelope
				if err := c.Bind(&envelope); err != nil {
					return err
				}
				return c.JSON(http.StatusCreated, map[string]int{"index": len(envelope.Payload)})
			})
			web := httptest.NewServer(e)
			defer web.Close()
			n := startDisk(b)
			load(b, web.Listener.Addr().String(), connections, requests(b.N, n.good()))
		})
		b.Run(fmt.Sprintf("ledger/connections=%d", connections), func(b *testing.B) {
			n := startDisk(b)
			entries := make([]*entry.Entry, b.N)
			for i := range entries {
				entries[i] = n.good()
			}
			load(b, n.url[len("http://"):], connections, requests(b.N, entries...))
		})
	}
}

// BenchmarkBatch measures NDJSON batches of 256 against the same entries
// submitted in process.
func BenchmarkBatch(b *testing.B) {
	const size = 256
	bodies := func(b *testing.B, n *node) [][]byte {
		b.Helper()
		out := make([][]byte, b.N)
		for i := range out {
			for range size {
				out[i] = append(out[i], batchOf(n.good())...)
			}
		}
		return out
	}
	b.Run("process", func(b *testing.B) {
		n := startDisk(b)
		bodies := bodies(b, n)
		measure(b, size, 8, func(i int) {
			var batch []*entry.Entry
			for envelope := range bytes.Lines(bodies[i]) {
				e, err := entry.Decode(envelope)
				must(b, err)
				batch = append(batch, e)
			}
			answer, err := n.log.Submit(b.Context(), batch...)
			must(b, err)
			for _, registered := range answer.Registered {
				_, err := answer.Proof(registered.Index)
				must(b, err)
			}
		})
	})
	b.Run("ndjson", func(b *testing.B) {
		n := startDisk(b)
		bodies := bodies(b, n)
		measure(b, size, 8, func(i int) {
			response, err := http.Post(n.url+"/v1/entries", api.MediaNDJSON, bytes.NewReader(bodies[i]))
			must(b, err)
			count, err := io.Copy(io.Discard, response.Body)
			must(b, err)
			response.Body.Close()
			if response.StatusCode != http.StatusOK || count < size*100 {
				b.Fatalf("%s, %d bytes", response.Status, count)
			}
		})
	})
}

// startDisk returns a node on the real disk without a rate limit.
func startDisk(b *testing.B) *node {
	b.Helper()
	return startDiskWith(b, func(*server.Config) {})
}

// startDiskWith is startDisk with a configuration that is changed further.
func startDiskWith(b *testing.B, change func(*server.Config)) *node {
	b.Helper()
	n := newNode(b, vfs.Default, b.TempDir()+"/db", func(c *server.Config) { c.Rate = -1; change(c) })
	n.found()
	return n
}

func requests(n int, entries ...*entry.Entry) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		body := entries[i%len(entries)].AppendEnvelope(nil)
		out[i] = append([]byte("POST /v1/entries HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "+
			strconv.Itoa(len(body))+"\r\n\r\n"), body...)
	}
	return out
}

// measure runs work b.N times in so many goroutines and reports the rate of
// entries and what each costs.
func measure(b *testing.B, entries, workers int, work func(i int)) {
	b.Helper()
	var next atomic.Int64
	var wait sync.WaitGroup
	var before, after syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &before))
	b.ResetTimer()
	for range workers {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
				work(int(i))
			}
		})
	}
	wait.Wait()
	b.StopTimer()
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
	cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	b.ReportMetric(float64(cpu)/float64(b.N*entries)/1e3, "cpu-µs/entry")
	b.ReportMetric(float64(b.N*entries)/b.Elapsed().Seconds(), "entries/s")
}

// load sends the requests over so many connections and wants 201 for each.
func load(b *testing.B, address string, connections int, requests [][]byte) {
	b.Helper()
	pool := make(chan *connection, connections)
	for range connections {
		conn, err := net.Dial("tcp", address)
		must(b, err)
		b.Cleanup(func() { conn.Close() })
		pool <- &connection{conn, bufio.NewReaderSize(conn, 16<<10)}
	}
	measure(b, 1, connections, func(i int) {
		c := <-pool
		defer func() { pool <- c }()
		_, err := c.Write(requests[i])
		must(b, err)
		must(b, c.readCreated())
	})
}

type connection struct {
	net.Conn
	in *bufio.Reader
}

// readCreated reads one answer with a Content-Length.
func (c *connection) readCreated() error {
	status, err := c.in.ReadSlice('\n')
	if err != nil || !bytes.HasPrefix(status, []byte("HTTP/1.1 201")) {
		return fmt.Errorf("status %q: %v", status, err)
	}
	length := 0
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			_, err = c.in.Discard(length)
			return err
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
	}
}

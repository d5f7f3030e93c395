package server_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"recoveryledger/api"
	"recoveryledger/api/server"
	"recoveryledger/ledger/entry"
)

// slowBatch begins a batch and returns when its handler reads the body, of
// which nothing has been sent.
func slowBatch(t *testing.T, address, length string) io.Writer {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(conn, "POST /v1/entries HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"+
		"Expect: 100-continue\r\n"+length+"\r\n\r\n")
	must(t, err)
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("%q, %v", line, err)
	}
	return conn
}

// Clients that announce large batches and send nothing, or little, keep nobody
// out, whether or not they tell the length.
func TestSlowBatchesKeepNobodyOut(t *testing.T) {
	n := start(t, nil)
	address, _ := n.serve(func(*server.Config) {})
	n.url = "http://" + address
	for _, length := range []string{"Transfer-Encoding: chunked", "Content-Length: " + strconv.Itoa(api.MaxBatchBytes)} {
		for range 8 {
			slow := slowBatch(t, address, length)
			_, err := io.WriteString(slow, "1\r\n{\r\n")
			must(t, err)
		}
		sent := []*entry.Entry{n.good(), n.good()}
		if results, problem := n.readBatchAnswer(n.post(api.MediaNDJSON, batchOf(sent...)), sent); problem != nil || len(results) != 2 {
			t.Fatalf("%s: %d results, problem %v", length, len(results), problem)
		}
	}
}

// The batches under way share a bound of memory, of which one client gets a
// part: up to the byte, and not one more. What a batch held is free when it is
// answered, well or ill.
func TestBatchMemory(t *testing.T) {
	n := start(t, nil)
	s := n.again()
	sent := []*entry.Entry{n.good(), n.good()}
	batch := batchOf(sent...)
	size := int64(len(batch))
	for _, c := range []struct {
		desc                 string
		limit, client, other int64 // other: held by another client
		taken                bool
	}{
		{"at the limit of one", 2 * size, size, size, true},
		{"one past the limit of one", 2 * size, size - 1, 0, false},
		{"at the limit of all", 2 * size, 2 * size, size, true},
		{"one past the limit of all", 2 * size, 2 * size, size + 1, false},
	} {
		t.Run(c.desc, func(t *testing.T) {
			s.SetBatchMemory(c.limit, c.client)
			if !s.TakeBatchMemory("192.0.2.1", c.other) {
				t.Fatal("the other client got nothing")
			}
			before := n.log.Head().Size
			if a := n.post(api.MediaNDJSON, batch); c.taken {
				_, _ = n.readBatchAnswer(a, sent) // verifies every proof
			} else {
				n.problem(a, entry.RateLimited, http.StatusTooManyRequests)
				if n.log.Head().Size != before {
					t.Fatal("something was appended")
				}
			}
			if rest := min(c.client, c.limit-c.other); !s.TakeBatchMemory("127.0.0.1", rest) || s.TakeBatchMemory("127.0.0.1", 1) {
				t.Fatalf("not just %d bytes are free again", rest)
			}
			n.register(n.good()) // single entries need no share
		})
	}
}

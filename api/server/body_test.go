package server_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"recoveryledger/api"
	"recoveryledger/api/server"
	"recoveryledger/ledger/entry"
)

// writing is a route that reads a body: a target, a media type that it takes, and
// the beginning of a good body.
type writing struct{ target, mediaType, begin string }

// writings returns every route that the document of a node describes with a body.
func writings(t *testing.T, n *node) (all []writing) {
	t.Helper()
	for path, methods := range object(readDocument(t, n).root, "paths") {
		for method, operation := range methods.(map[string]any) {
			content := object(operation, "requestBody", "content")
			if method != "get" && content == nil {
				t.Errorf("%s %s has no body", method, path)
			}
			for mediaType := range content {
				w := writing{strings.Replace(path, "{id}", "a%23b", 1), mediaType, `{"`}
				if path == "/v1/recoveries/batch" {
					w.begin = oneCase[:40]
				}
				all = append(all, w)
			}
		}
	}
	if !slices.ContainsFunc(all, func(w writing) bool { return w.mediaType == api.MediaNDJSON }) || len(all) < 6 {
		t.Fatalf("routes %v", all)
	}
	return all
}

// brokenBodies are the ways in which a body ends badly: what follows the first
// lines of the header.
func brokenBodies(begin string) map[string]string {
	chunk := fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(begin), begin)
	return map[string]string{
		"fewer bytes than announced":  fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(begin)+9, begin),
		"no byte":                     "Content-Length: 9\r\n\r\n",
		"no last chunk":               chunk,
		"half a chunk":                strings.TrimSuffix(strings.Replace(chunk, "\r\n\r\n", "\r\n\r\nf", 1), "\r\n"),
		"a length that is no number":  chunk + "xyz\r\n",
		"a length beyond all numbers": chunk + strings.Repeat("f", 17) + "\r\n",
		"more than its length":        chunk + "1\r\nabcdefgh\r\n",
		"a header line as a chunk":    chunk + "Content-Length: 0\r\n",
		"a trailer that is none":      chunk + "0\r\n: \x00\r\n\r\n",
	}
}

// listenTo is serve with a log, for clients that speak no HTTP.
func (n *node) listenTo(log *lockedBuffer) (address string, stop func()) {
	return n.serve(func(c *server.Config) {
		c.Rate = -1
		c.Logger = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
}

// speak opens a connection to a server and sends the beginning of a request.
func speak(t *testing.T, address string, w writing, rest string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\n%s", w.target, w.mediaType, rest)
	must(t, err)
	return conn.(*net.TCPConn)
}

// A body that ends early or is badly chunked is the client's mistake on every
// route that reads one: it is answered so, nothing is registered, and the log has
// it among the refusals, not among the failures.
func TestABrokenBodyIsMalformed(t *testing.T) {
	n := start(t, nil)
	var log lockedBuffer
	address, stop := n.listenTo(&log)
	size, sent := n.log.Head().Size, 0
	for _, w := range writings(t, n) {
		for desc, rest := range brokenBodies(w.begin) {
			conn := speak(t, address, w, rest)
			must(t, conn.CloseWrite())
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("%v, %s: %v", w, desc, err)
			}
			body, err := io.ReadAll(response.Body)
			must(t, err)
			must(t, response.Body.Close())
			if response.StatusCode != http.StatusBadRequest {
				t.Errorf("%v, %s: %s: %s", w, desc, response.Status, body)
				continue
			}
			n.problem(&answer{response, body}, entry.Malformed, http.StatusBadRequest)
			sent++
		}
	}
	stop()
	wantRefusals(t, &log, sent)
	if n.log.Head().Size != size {
		t.Error("something was appended")
	}
}

// wantRefusals wants so many refusals in a log, all of them malformed and none of
// them a failure.
func wantRefusals(t *testing.T, log *lockedBuffer, count int) {
	t.Helper()
	refused := log.records(t, "refused")
	for _, r := range refused {
		if r["level"] != "INFO" && r["level"] != "DEBUG" || r["problem"] != string(entry.Malformed) || strings.Contains(r["detail"].(string), "127.0.0.1") {
			t.Errorf("record %v", r)
		}
	}
	if len(refused) != count {
		t.Errorf("%d records, want %d", len(refused), count)
	}
}

// So is a connection that breaks: nobody is there to be answered, and it is no
// failure of the server.
func TestABrokenConnectionIsMalformed(t *testing.T) {
	n := start(t, nil)
	var log lockedBuffer
	address, stop := n.listenTo(&log)
	all := writings(t, n)
	for _, w := range all {
		conn := speak(t, address, w, "Expect: 100-continue\r\nContent-Length: 99\r\n\r\n")
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
			t.Fatalf("%v: %q, %v", w, line, err) // its handler is reading the body now
		}
		must(t, conn.SetLinger(0)) // a reset instead of an end
		must(t, conn.Close())
	}
	stop()
	wantRefusals(t, &log, len(all))
}

// A batch of recoveries that breaks off after its first answers says so in a line
// of its own and in its end, which is not whole.
func TestABrokenBatchOfRecoveriesSaysSo(t *testing.T) {
	n := start(t, nil)
	var log lockedBuffer
	address, stop := n.listenTo(&log)
	body := oneCase + "\n" + oneCase[:9]
	for _, rest := range []string{
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body)+9, body),
		fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\nxyz\r\n", len(body), body),
	} {
		conn := speak(t, address, writing{target: "/v1/recoveries/batch", mediaType: api.MediaNDJSON}, rest)
		must(t, conn.CloseWrite())
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		must(t, err)
		text, err := io.ReadAll(response.Body)
		must(t, err)
		must(t, response.Body.Close())
		lines := recoveryLines(t, &answer{response, text})
		if len(lines) != 3 || lines[0].Trace == nil || lines[1].Problem == nil || lines[1].Problem.Name() != entry.Malformed || lines[1].Line != 2 ||
			lines[2].End == nil || lines[2].End.Partial != "interrupted" || lines[2].End.Cases != 1 || lines[2].End.Refused != 1 {
			t.Errorf("lines %s", text)
		}
	}
	stop()
	wantRefusals(t, &log, 2)
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/labstack/echo/v4"

	"recoveryledger/api/server"
	"recoveryledger/ledger/entry"
)

// httpSingle compares one entry a request with a bare Echo handler that decodes
// the same JSON and answers as many bytes. Client and server share the machine
// on both sides.
func httpSingle(ctx context.Context, b *bench) error {
	for _, connections := range []int{64, 256} {
		mine, theirs, err := b.turns(func(dir string) (float64, error) {
			return overHTTP(ctx, b, dir, connections, 1)
		}, func(string) (float64, error) { return bareEcho(ctx, b, connections) })
		if err != nil {
			return err
		}
		b.print(row{name: fmt.Sprintf("over HTTP, one entry a request, %d connections", connections), value: mine / theirs,
			unit: "× bare echo", target: 0.35, detail: fmt.Sprintf("%.0f and %.0f requests/s", mine, theirs)})
	}
	return nil
}

// httpBatch compares NDJSON batches with the rate of as many submitters in
// process.
func httpBatch(ctx context.Context, b *bench) error {
	const perRequest, connections = 256, 8
	mine, theirs, err := b.turns(func(dir string) (float64, error) {
		rate, err := overHTTP(ctx, b, dir, connections, perRequest)
		return rate * perRequest, err
	}, func(dir string) (float64, error) {
		r, err := runOurs(ctx, b, dir, 1024)
		return r.rate, err
	})
	if err != nil {
		return err
	}
	b.print(row{name: "over HTTP, NDJSON batches of 256", value: mine / theirs, unit: "× in process", target: 0.8,
		detail: fmt.Sprintf("%.0f and %.0f entries/s", mine, theirs)})
	return nil
}

// overHTTP returns the requests a second that a served ledger takes.
func overHTTP(ctx context.Context, b *bench, dir string, connections, perRequest int) (float64, error) {
	t, err := openLedger(ctx, dir)
	if err != nil {
		return 0, err
	}
	s, err := server.New(&server.Config{Origin: origin, VerifierKeys: t.keys.VerifierKeys[:], Log: t.Log, Replica: t.replica, Rate: -1})
	if err != nil {
		return 0, err
	}
	one, err := t.envelopes(int(b.time.Seconds() * poolRate))
	if err != nil {
		return 0, err
	}
	next, contentType := one, "application/json"
	if perRequest > 1 {
		next, contentType = joined(one, perRequest), "application/x-ndjson"
	}
	ctx, cancel := context.WithCancel(ctx)
	rate, err := request(ctx, b, load{connections, contentType, next}, s.Run)
	cancel()
	if err != nil {
		return 0, err
	}
	return rate, t.stop()
}

// joined hands out n entries at a time.
func joined(one func() []byte, n int) func() []byte {
	return func() []byte {
		var body []byte
		for range n {
			envelope := one()
			if envelope == nil {
				return nil
			}
			body = append(append(body, envelope...), '\n')
		}
		return body
	}
}

// load is what is posted over a number of connections: bodies until next returns
// none.
type load struct {
	connections int
	contentType string
	next        func() []byte
}

// request serves through run and posts the load; it returns the requests a
// second.
func request(ctx context.Context, b *bench, l load, run func(context.Context, net.Listener) error) (float64, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- run(ctx, listener) }()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: l.connections, DisableCompression: true}}
	url := "http://" + listener.Addr().String() + "/v1/entries"
	done, elapsed, err := closedLoop(l.connections, b.time, l.next, func(body []byte) error {
		response, err := client.Post(url, l.contentType, bytes.NewReader(body))
		if err != nil {
			return err
		}
		answer, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode >= 300 {
			err = fmt.Errorf("%s: %s", response.Status, answer)
		}
		if err == nil && l.contentType == "application/x-ndjson" && bytes.Contains(answer, []byte(`"status"`)) {
			err = fmt.Errorf("refused: %.300s", answer[bytes.Index(answer, []byte(`"status"`)):])
		}
		return errorsJoin(err, response.Body.Close())
	})
	cancel()
	client.CloseIdleConnections()
	if err = errorsJoin(err, <-served); err != nil {
		return 0, err
	}
	return float64(done) / elapsed.Seconds(), nil
}

func errorsJoin(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// bareEcho answers every request with as many bytes as a receipt has, after
// decoding the envelope and the payload in it with encoding/json.
func bareEcho(ctx context.Context, b *bench, connections int) (float64, error) {
	dir := filepath.Join(b.dir, "pool")
	t, err := openLedger(ctx, dir)
	if err != nil {
		return 0, err
	}
	next, err := t.envelopes(int(b.time.Seconds() * poolRate))
	if err != nil {
		return 0, err
	}
	if err := errorsJoin(t.stop(), os.RemoveAll(dir)); err != nil {
		return 0, err
	}
	e := echo.New()
	answer := bytes.Repeat([]byte("x"), 3000)
	e.POST("/v1/entries", func(c echo.Context) error {
		var envelope struct {
			Payload     []byte
			PayloadType string
			Signatures  []struct {
				KeyID string
				Sig   []byte
			}
		}
		if err := json.NewDecoder(c.Request().Body).Decode(&envelope); err != nil {
			return err
		}
		var body entry.Execution
		if err := json.Unmarshal(envelope.Payload, &body); err != nil {
			return err
		}
		return c.Blob(http.StatusCreated, "application/json", answer)
	})
	return request(ctx, b, load{connections, "application/json", next}, serveHandler(e))
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"recoveryledger/api"
	"recoveryledger/api/server"
	"recoveryledger/coord/recovery/ask"
)

// questions are what live loops ask: typed and raw errors, at the first failure and after others.
var questions = []string{
	`{"history":{"case":"order-%d","step":"charge","effect":"compensable","idempotent":true},"error":{"http_status":503},"elapsed_ms":1500}`,
	`{"history":{"case":"search-%d","step":"search","effect":"none"},"error":{"text":"Error code: 429 - {'error': {'message': 'Rate limit reached for requests'}}"}}`,
	`{"history":{"case":"write-%d","step":"write","effect":"irrevocable"},"error":{"text":"Traceback (most recent call last):\n  File \"a.py\", line ` +
		`3, in <module>\nTimeoutError: the read operation timed out"}}`,
	`{"history":{"case":"model-%d","step":"plan","effect":"none","failure":{"class":"output","code":"malformed"},"rungs":[{"class":"output","code":"malformed",` +
		`"rule":{"id":"output.malformed","rung":0},"strategy":"retry_altered","result":"failed"}]},"explain":true}`,
}

// decideOverHTTP measures POST /v1/decide, one question at a time as a live loop asks, against a
// bare Echo handler that decodes the same questions and answers as many bytes.
func decideOverHTTP(ctx context.Context, b *bench) error {
	size := 0
	mine, theirs, err := b.turns(func(dir string) (float64, error) {
		t, err := openLedger(ctx, dir)
		if err != nil {
			return 0, err
		}
		s, err := server.New(&server.Config{Origin: origin, VerifierKeys: t.keys.VerifierKeys[:], Log: t.Log, Replica: t.replica, Rate: -1})
		if err != nil {
			return 0, err
		}
		p99, answered, err := decideP99(ctx, b, s.Run)
		size = answered
		return p99, errors.Join(err, t.stop())
	}, func(string) (float64, error) {
		e := echo.New()
		answer := bytes.Repeat([]byte("x"), size)
		e.POST(api.PathDecide, func(c echo.Context) error {
			var q ask.Question
			if err := json.NewDecoder(c.Request().Body).Decode(&q); err != nil {
				return err
			}
			return c.Blob(http.StatusOK, api.MediaJSON, answer)
		})
		p99, _, err := decideP99(ctx, b, serveHandler(e))
		return p99, err
	})
	if err != nil {
		return err
	}
	b.print(row{name: "POST /v1/decide over HTTP, p99", value: mine, unit: "ms", target: 1, atMost: true,
		detail: fmt.Sprintf("%.2f × bare echo, which took %.3f ms", mine/theirs, theirs)})
	return nil
}

// decideP99 asks over one connection, and returns the p99 in milliseconds and the bytes of an
// answer.
func decideP99(ctx context.Context, b *bench, run func(context.Context, net.Listener) error) (p99 float64, size int, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- run(ctx, listener) }()
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	var n atomic.Int64
	times, err := timedLoop(1, b.time, func() []byte {
		i := int(n.Add(1))
		return fmt.Appendf(nil, questions[i%len(questions)], i)
	}, func(body []byte) error {
		response, err := client.Post("http://"+listener.Addr().String()+api.PathDecide, api.MediaJSON, bytes.NewReader(body))
		if err != nil {
			return err
		}
		answer, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", response.Status, answer)
		}
		size = len(answer)
		return errors.Join(err, response.Body.Close())
	})
	cancel()
	client.CloseIdleConnections()
	if err = errors.Join(err, <-served); err != nil {
		return 0, 0, err
	}
	return percentile(times, 99) / 1e3, size, nil
}

// serveHandler returns what serves a handler until a context ends.
func serveHandler(handler http.Handler) func(context.Context, net.Listener) error {
	return func(ctx context.Context, l net.Listener) error {
		h := &http.Server{Handler: handler, ReadHeaderTimeout: time.Second}
		go func() {
			<-ctx.Done()
			_ = h.Shutdown(context.WithoutCancel(ctx)) // Serve reports the end
		}()
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}
}

// proxyCalls runs the benchmark of calls through arl mcp, which calls the same server directly,
// too, in turn.
func proxyCalls(ctx context.Context, b *bench) error {
	test := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkCall$", "-benchtime", b.time.String(), "./api/mcp")
	test.Dir, test.Env = filepath.Join("..", ".."), append(os.Environ(), "TMPDIR="+b.dir)
	out, err := test.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	rows := 0
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || !strings.HasPrefix(fields[0], "BenchmarkCall/") {
			continue
		}
		figures := map[string]float64{}
		for _, unit := range []string{"overhead-p50-ms", "bare-p50-ms", "proxy-p50-ms", "entry-p50-ms"} {
			var figure float64
			if at := slices.Index(fields, unit); at < 1 {
				return fmt.Errorf("no %s in: %s", unit, line)
			} else if _, err := fmt.Sscan(fields[at-1], &figure); err != nil {
				return err
			}
			figures[unit] = figure
		}
		tool := map[bool]string{true: "with an effect", false: "that reads"}[strings.Contains(fields[0], "/mail")]
		b.print(row{name: "arl mcp, a call " + tool + ", p50 beyond the entry's sync", value: figures["overhead-p50-ms"], unit: "ms", target: 2, atMost: true,
			detail: fmt.Sprintf("%.1f × the call alone: %.2f and %.2f ms, of which the entry takes %.2f", figures["proxy-p50-ms"]/figures["bare-p50-ms"],
				figures["proxy-p50-ms"], figures["bare-p50-ms"], figures["entry-p50-ms"])})
		rows++
	}
	if rows != 2 {
		return fmt.Errorf("%d rows in: %s", rows, out)
	}
	return nil
}

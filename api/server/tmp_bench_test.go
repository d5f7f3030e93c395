package server_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

func BenchmarkTmp(b *testing.B) {
	for _, connections := range []int{64, 256} {
		run := func(b *testing.B, url string, entries []*entry.Entry) {
			bodies := make([][]byte, len(entries))
			for i := range entries { bodies[i] = entries[i].AppendEnvelope(nil) }
			c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}}
			measure(b, 1, connections, func(i int) {
				r, err := c.Post(url+"/v1/entries", "application/json", bytes.NewReader(bodies[i%len(bodies)]))
				must(b, err)
				_, _ = io.Copy(io.Discard, r.Body)
				r.Body.Close()
				if r.StatusCode != 201 { b.Fatal(r.Status) }
			})
		}
		b.Run(fmt.Sprintf("echo/%d", connections), func(b *testing.B) {
			e := echo.New()
			e.POST("/v1/entries", func(c echo.Context) error {
				var envelope api.Envelope
				if err := c.Bind(&envelope); err != nil { return err }
				return c.JSON(http.StatusCreated, map[string]int{"index": len(envelope.Payload)})
			})
			web := httptest.NewServer(e)
			defer web.Close()
			n := startDisk(b)
			run(b, web.URL, []*entry.Entry{n.good()})
		})
		b.Run(fmt.Sprintf("ledger/%d", connections), func(b *testing.B) {
			n := startDisk(b)
			entries := make([]*entry.Entry, b.N)
			for i := range entries { entries[i] = n.good() }
			run(b, n.url, entries)
		})
	}
}

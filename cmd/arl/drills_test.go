//go:build unix

package main

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// drillTime is how long a drill waits for a metric.
const drillTime = 20 * time.Second

// scriptMetric waits until a sample of the ledger's metrics has a value; !VALUE wants another one,
// and >VALUE a greater one. A drill sees by it what the alert of its runbook sees.
func scriptMetric(ts *testscript.TestScript, _ bool, args []string) {
	sample, want := args[0], args[1]
	other, not := strings.CutPrefix(want, "!")
	least, greater := strings.CutPrefix(want, ">")
	value := ""
	if !waitFor(drillTime, func() bool {
		value = readSample(ts, ts.Getenv("URL")+"/metrics", sample)
		if greater {
			return value != "" && number(ts, value) > number(ts, least)
		}
		return not && value != "" && value != other || !not && value == want
	}) {
		ts.Fatalf("%s is %q, want %s", sample, value, want)
	}
}

func number(ts *testscript.TestScript, text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	ts.Check(err)
	return n
}

// readSample returns the value of a sample; empty: there is none.
func readSample(ts *testscript.TestScript, url, sample string) string {
	response, err := http.Get(url)
	ts.Check(err)
	body, err := io.ReadAll(response.Body)
	ts.Check(err)
	ts.Check(response.Body.Close())
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, sample+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

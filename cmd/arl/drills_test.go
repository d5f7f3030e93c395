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
// >VALUE a greater one, and <VALUE a smaller one. A drill sees by it what the alert of its runbook
// sees.
func scriptMetric(ts *testscript.TestScript, _ bool, args []string) {
	sample, want := args[0], args[1]
	other, not := strings.CutPrefix(want, "!")
	least, greater := strings.CutPrefix(want, ">")
	most, smaller := strings.CutPrefix(want, "<")
	value := ""
	if !waitFor(drillTime, func() bool {
		value = readSample(ts, ts.Getenv("URL")+"/metrics", sample)
		switch {
		case value == "":
			return false
		case greater:
			return number(ts, value) > number(ts, least)
		case smaller:
			return number(ts, value) < number(ts, most)
		}
		return not && value != other || !not && value == want
	}) {
		ts.Fatalf("%s is %q, want %s", sample, value, want)
	}
}

func number(ts *testscript.TestScript, text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	ts.Check(err)
	return n
}

// readSample returns the value of a sample; empty: there is none, or nobody answers.
func readSample(ts *testscript.TestScript, url, sample string) string {
	response, err := http.Get(url)
	if err != nil {
		return "" // between a halt and the last word nobody listens
	}
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

//go:build unix

package main_test

import (
	"html"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestConsoleHealth compares the page of the console with arl doctor, line by line, and has the
// ledger say how it stands without a path of its machine.
func TestConsoleHealth(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.enrol()
	c := m.console()
	text := func(page string) string {
		return regexp.MustCompile(`(<[^>]*>|\s)+`).ReplaceAllString(html.UnescapeString(page), " ")
	}
	// Others write to the disk, too: how much is free may differ by a GiB between the two.
	free := regexp.MustCompile(`(\d+) MiB free`)
	said := m.arl("doctor")
	_, shown := c.get("/health")
	for line := range strings.Lines(strings.SplitN(said, "\n", 2)[1]) {
		for _, column := range regexp.MustCompile(`  +`).Split(strings.TrimSpace(line), -1) {
			if !strings.Contains(free.ReplaceAllString(text(shown), "MiB free"), free.ReplaceAllString(column, "MiB free")) {
				t.Errorf("the page does not say what arl doctor says: %s: %s", column, text(shown))
			}
		}
	}
	var numbers [2]int
	for i, words := range []string{said, text(shown)} {
		found := free.FindStringSubmatch(words)
		if found == nil {
			t.Fatalf("no free space: %s", words)
		}
		numbers[i], _ = strconv.Atoi(found[1]) // it has digits alone
	}
	if off := numbers[0] - numbers[1]; max(off, -off) > 1024 {
		t.Errorf("arl doctor says %d MiB free, the page %d", numbers[0], numbers[1])
	}
	m.arl("backup", t.TempDir(), "--data", m.data)
	response, err := http.Get(m.url + "/health")
	m.must(err)
	body, err := io.ReadAll(response.Body)
	m.must(err)
	m.must(response.Body.Close())
	page := text(string(body))
	for _, want := range []string{"ready ✓ ok takes entries", "space for data", "of which 256 MiB are the reserve", "tree head ✓ ok size", "anchor ✓ ok size", "submissions ✓ ok since the start ",
		"backup ✓ ok made "} {
		if !strings.Contains(page, want) {
			t.Errorf("the ledger does not say %q: %s", want, page)
		}
	}
	done := regexp.MustCompile(`submissions ✓ ok (since the start .*? answered within \S+)`)
	_, derived := c.get("/health")
	if here, there := done.FindStringSubmatch(text(derived)), done.FindStringSubmatch(page); here == nil || there == nil || here[1] != there[1] {
		t.Errorf("the console tells %q, the ledger %q", here, there)
	}
	if _, page := c.get("/health"); !strings.Contains(text(page), m.url+"/metrics") || !strings.Contains(string(body), `href="/metrics"`) {
		t.Error("no page says where the metrics are")
	}
	if strings.Contains(page, m.data) || strings.Contains(page, m.home) {
		t.Errorf("the ledger names its directory: %s", page)
	}
}

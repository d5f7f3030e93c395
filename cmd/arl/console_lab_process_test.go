//go:build unix

package main_test

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"recoveryledger/cmd/arl/exit"
)

// runs makes a directory of cases, and of the run first over them.
func (m *machine) runs() (dir string) {
	m.t.Helper()
	dir = filepath.Join(m.home, "runs")
	m.must(os.Mkdir(dir, 0o700))
	cases, err := os.ReadFile("../../testdata/tool_chain_failures.ndjson")
	m.must(err)
	m.must(os.WriteFile(filepath.Join(dir, "cases.ndjson"), cases, 0o600))
	m.arl("recover", "--scenario", filepath.Join(dir, "cases.ndjson"), "--out", filepath.Join(dir, "first"))
	return dir
}

// TestConsoleLab sweeps from a page. The page says what the command that the page names prints. A
// ledger has no such page.
func TestConsoleLab(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	for _, path := range []string{"/", "/lab"} {
		response, err := http.Get(m.url + path)
		m.must(err)
		body, err := io.ReadAll(response.Body)
		m.must(err)
		m.must(response.Body.Close())
		if strings.Contains(string(body), ">Lab<") || path == "/lab" && response.StatusCode != http.StatusNotFound {
			t.Errorf("%s of the ledger has a lab: %d: %s", path, response.StatusCode, body)
		}
	}
	dir := m.runs()
	c := m.console("--runs", dir)
	if _, page := c.get("/lab"); !strings.Contains(page, "/lab/runs/runs/first") {
		t.Errorf("the lab does not list the run: %s", page)
	}
	address, err := url.Parse(c.url)
	m.must(err)
	status, leads, page := c.send(http.MethodPost, "/lab/sweep", url.Values{"scenario": {"runs/cases.ndjson"}, "field": {"limits.attempts"}, "range": {"1..6"}}, nil)
	if status != http.StatusSeeOther {
		t.Fatalf("%d: %s", status, page)
	}
	leads = strings.TrimPrefix(leads, address.Path)
	for _, page = c.get(leads); strings.Contains(page, ">running<"); {
		_, page = c.get(leads)
	}
	command := regexp.MustCompile(`<code id="command">arl sweep --scenario ([^ ]+) --param '([^']+)'</code>`).FindStringSubmatch(page)
	if command == nil {
		t.Fatalf("the page names no command: %s", page)
	}
	table := regexp.MustCompile(`[^\n]+`).FindAllString(m.arl("sweep", "--scenario", command[1], "--param", command[2]), -1)
	text := regexp.MustCompile(`(<[^>]*>|\s)+`).ReplaceAllString(page, " ")
	named := 0
	for _, line := range table {
		if strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "  gate ") { // the page of the flip lists the cases
			named++
			continue
		}
		if words := strings.Join(strings.Fields(line), " "); !strings.Contains(text, words) {
			t.Errorf("the command says %q, and the page does not: %s", words, text)
		}
	}
	if named == 0 {
		t.Error("the command names no case")
	}
	cmd, said := m.command(nil, "console", "--runs", filepath.Join(dir, "nowhere"))
	if _ = cmd.Run(); cmd.ProcessState.ExitCode() != int(exit.Config) || !strings.Contains(said.String(), "is not a directory that can be read") {
		t.Errorf("no such directory: %s: %s", cmd.ProcessState, said)
	}
}

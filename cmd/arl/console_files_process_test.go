//go:build unix

package main_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// download writes what a link of a page leads to, in the home of a machine. It returns the file.
func (m *machine) download(address, name string) (file string) {
	m.t.Helper()
	response, err := http.Get(address)
	m.must(err)
	content, err := io.ReadAll(response.Body)
	m.must(err)
	m.must(response.Body.Close())
	if response.StatusCode != http.StatusOK {
		m.t.Fatalf("%s: %d: %s", address, response.StatusCode, content)
	}
	file = filepath.Join(m.home, name)
	m.must(os.WriteFile(file, content, 0o600))
	return file
}

// TestConsoleFiles checks what the pages offer as files with the commands that the pages name: the
// receipts of an incident, and a .tlog-proof with its leaf, from the ledger and from the console.
func TestConsoleFiles(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.enrol()
	id := m.escalated()
	c := m.console()
	c.get("/") // the log is read
	for at, base := range map[string]string{"ledger": m.url, "console": c.url} {
		receipts := m.download(fmt.Sprintf("%s/incidents/%d/receipts.ndjson", base, id), at+".ndjson")
		said := m.arl("verify", receipts)
		for _, want := range []string{fmt.Sprintf("entry %d", id), "decision", "signal"} {
			if !strings.Contains(said, want) {
				t.Errorf("%s: the receipts of the incident do not prove %q: %s", at, want, said)
			}
		}
		proof := m.download(fmt.Sprintf("%s/log/%d/tlog-proof", base, id), at+".tlog-proof")
		leaf := m.download(fmt.Sprintf("%s/log/%d/leaf", base, id), at+".tlog-proof.leaf")
		written := filepath.Join(m.home, at+".own")
		m.arl("log", "proof", "--index", fmt.Sprint(id), "--format", "tlog-proof", "--out", written)
		page, err := os.ReadFile(leaf)
		m.must(err)
		command, err := os.ReadFile(written + ".leaf")
		m.must(err)
		if !bytes.Equal(page, command) {
			t.Errorf("%s: the page sends %q, the command writes %q", at, page, command)
		}
		m.arl("verify", proof, leaf, receipts)
		m.must(os.WriteFile(leaf, bytes.Replace(page, []byte(`"registered_at":1`), []byte(`"registered_at":2`), 1), 0o600))
		if cmd, said := m.command(nil, "verify", proof, leaf, receipts); exitOf(cmd.Run()) == 0 {
			t.Errorf("%s: a leaf with another time: %s", at, said)
		}
	}
}

//go:build unix

package main_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/ledger/keys"
)

// TestConsoleWithKMS offers acts of the principal whose key is in a KMS. Such a key has no
// passphrase, so that nothing is signed where no terminal is there to confirm in.
func TestConsoleWithKMS(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.enrol()
	file := filepath.Join(m.home, "ann.key")
	made, err := keys.Generate(file, keys.Ed25519, nil)
	m.must(err)
	uri := "arltest://sign" + file
	m.arl("agent", "enrol", "--principal", "ann", "--key", uri, "--domain", "people", "--roles", "approver")
	id := m.escalated()
	c := m.console("--key", uri)
	path := fmt.Sprintf("/incidents/%d/act/approve", id)
	_, page := c.get(path)
	if !strings.Contains(page, made.Public().KeyID()) || strings.Contains(page, uri) {
		t.Errorf("the page does not offer the key %s by its id: %s", made.Public().KeyID(), page)
	}
	before := m.head()
	if status, _, body := c.send(http.MethodPost, path, filled(page), nil); status != http.StatusForbidden || !strings.Contains(body, "no terminal is there to confirm in") || m.head() != before {
		t.Errorf("without a confirmation: %d: %s", status, body)
	}
}

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/api/client"
	"recoveryledger/verify"
)

// TestReceiptsAreKeptWithoutTheirLinks has a ledger that gives receipts and then
// nothing more: the receipts are not lost with it.
func TestReceiptsAreKeptWithoutTheirLinks(t *testing.T) {
	root, receipts := exampleReceipts(t)
	away, err := client.New("http://127.0.0.1:1", root, &client.Config{Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "r.json")
	err = (&connection{client: away, root: root}).writeBundle(t.Context(), path, receipts[3:])
	if err == nil || !strings.Contains(err.Error(), "has the receipts alone") || exitCode(err) != exitUnavailable {
		t.Errorf("error %v, exit code %d", err, exitCode(err))
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var m verify.Material
	if err := m.Add(path, content); err != nil || len(m.Receipts) != 1 || m.Receipts[0].Index != 3 {
		t.Errorf("kept %d receipts, error %v", len(m.Receipts), err)
	}
}

// exampleReceipts are those of the example of package verify: a genesis policy, an
// enroller, an agent and an execution.
func exampleReceipts(t *testing.T) (verify.Root, []verify.Receipt) {
	t.Helper()
	pinned, err1 := os.ReadFile("../../verify/testdata/root.json")
	given, err2 := os.ReadFile("../../verify/testdata/receipts.ndjson")
	root, err3 := verify.ParseRoot(pinned)
	var m verify.Material
	if err := errors.Join(err1, err2, err3, m.Add("receipts.ndjson", given)); err != nil {
		t.Fatal(err)
	}
	return root, m.Receipts
}

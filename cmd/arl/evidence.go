package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/durable"
)

// keepEvidence writes what shows that a log is inconsistent to a file in
// ARL_HOME/evidence and returns its path. The same evidence is the same file.
func (a *app) keepEvidence(kind string, v any) (string, error) {
	home, err := a.homeDir()
	if err != nil {
		return "", err
	}
	content, err := json.Marshal(v, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return "", err
	}
	dir := filepath.Join(home, "evidence")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	path := filepath.Join(dir, kind+"-"+hex.EncodeToString(sum[:8])+".json")
	return path, durable.Write(path, append(content, '\n'), 0o600)
}

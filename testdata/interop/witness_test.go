package interop

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/torchwood"
	f_note "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/witness/persistence/inmemory"
	"github.com/transparency-dev/witness/witness"
	"golang.org/x/mod/sumdb/note"
)

// TestWitnessesOfOthers has a witness of others and two of ours cosign the ledger's heads,
// and holds what the ledger publishes to the policy as others read it.
func TestWitnessesOfOthers(t *testing.T) {
	l := startLedger(t)
	lines := []string{"log " + l.vkey, theirs(t, l)}
	for i := range 2 {
		lines = append(lines, ours(t, l, fmt.Sprintf("ours.example/%d", i)))
	}
	witnesses := strings.Join(append(lines, "group all 3 theirs.example/1 ours.example/0 ours.example/1", "quorum all"), "\n") + "\n"
	file := filepath.Join(t.TempDir(), "policy.yaml")
	policy := string(l.run(t, "policy", "show", "--url", l.url)) + "witnesses: |\n  " + strings.ReplaceAll(strings.TrimSuffix(witnesses, "\n"), "\n", "\n  ") + "\n"
	must(t, os.WriteFile(file, []byte(policy), 0o600))
	l.run(t, "policy", "apply", file, "--reason", "witnesses of two makers", "--yes", "--url", l.url)

	response, err := http.Get(l.url + "/v1/entries/3/receipt?witnessed=true&wait=25000")
	must(t, err)
	defer response.Body.Close()
	var receipt struct {
		Head string `json:"head"`
	}
	must(t, json.NewDecoder(response.Body).Decode(&receipt))
	if response.Header.Get("Witnessed") != "true" {
		t.Fatalf("no witnessed head: %v", response.Header)
	}
	read, err := torchwood.ParsePolicy([]byte(witnesses))
	must(t, err)
	for what, head := range map[string][]byte{"receipt": []byte(receipt.Head), "checkpoint": checkpointOf(t, l)} {
		checkpoint, _, err := torchwood.VerifyCheckpoint(head, read)
		if err != nil || checkpoint.Origin != l.origin || checkpoint.N < 4 {
			t.Errorf("%s: %v: %+v", what, err, checkpoint)
		}
	}
}

// theirs serves a witness of transparency-dev, and returns its line of a policy.
func theirs(t *testing.T, l *live) string {
	t.Helper()
	const name = "theirs.example/1"
	skey, vkey, err := note.GenerateKey(rand.Reader, name)
	must(t, err)
	signer, err := f_note.NewSignerForCosignatureV1(skey)
	must(t, err)
	vkey, err = f_note.VKeyToCosignatureV1(vkey)
	must(t, err)
	verifier, err := note.NewVerifier(l.vkey)
	must(t, err)
	w, err := witness.New(t.Context(), witness.Opts{Persistence: inmemory.New(), Signers: []note.Signer{signer},
		VerifierForLog: func(_ context.Context, origin string) (note.Verifier, bool, error) {
			return verifier, origin == l.origin, nil
		}})
	must(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /add-checkpoint", witness.NewHTTPHandler(w).AddCheckpoint)
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	return fmt.Sprintf("witness %s %s %s", name, vkey, web.URL)
}

// ours runs arl witness, and returns its line of a policy.
func ours(t *testing.T, l *live, name string) string {
	t.Helper()
	process := exec.Command(l.arl, "witness", "--state", filepath.Join(t.TempDir(), "witness"), "--name", name, "--log", l.vkey,
		"--listen", "127.0.0.1:0", "--output", "json")
	process.Stderr = os.Stderr
	stdout, err := process.StdoutPipe()
	must(t, err)
	must(t, process.Start())
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	must(t, err)
	var started struct {
		Policy []string `json:"policy"`
	}
	must(t, json.Unmarshal(line, &started))
	return started.Policy[0]
}

// checkpointOf returns what the ledger publishes.
func checkpointOf(t *testing.T, l *live) []byte {
	t.Helper()
	response, err := http.Get(l.url + "/checkpoint")
	must(t, err)
	defer response.Body.Close()
	head, err := io.ReadAll(response.Body)
	must(t, err)
	return head
}

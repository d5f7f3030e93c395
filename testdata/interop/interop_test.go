// Package interop runs checkers that others wrote against the ledger: on a live
// log over HTTP and on its static export. It is a module of its own, so that
// their dependencies stay out of the ledger's.
package interop

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	f_log "github.com/transparency-dev/formats/log"
	f_note "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/formats/proof"
	m_proof "github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/client"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
)

// entriesWanted crosses a full tile and leaves a partial one.
const entriesWanted = 700

// live is a ledger in a process of its own.
type live struct {
	url, vkey, origin string
	home, data        string
	public            string // directory of what it publishes
	arl, fsck         string // programs
	envelopes         [][]byte
	process           *exec.Cmd
}

// TestCheckersOfOthers starts the ledger once and lets every checker look at it.
func TestCheckersOfOthers(t *testing.T) {
	l := startLedger(t)
	l.fill(t)
	l.awaitPublication(t, fileOf(filepath.Join(l.public, "checkpoint")))
	export := filepath.Join(t.TempDir(), "export")
	l.run(t, "log", "export", "--url", l.url, export)

	t.Run("tessera fsck on the live log", func(t *testing.T) { fsck(t, l, l.url+"/") })
	t.Run("tessera fsck on what it publishes", func(t *testing.T) { fsck(t, l, "file://"+l.public) })
	t.Run("tessera fsck on the export", func(t *testing.T) { fsck(t, l, "file://"+export) })
	t.Run("tessera fsck finds damage", func(t *testing.T) { fsckFindsDamage(t, l, export) })
	t.Run("tessera client", func(t *testing.T) { tesseraClient(t, l) })
	t.Run("sumdb tlog", func(t *testing.T) { sumdb(t, l, export) })
	t.Run("tlog-proof", func(t *testing.T) { tlogProof(t, l) })
	t.Run("COSE receipt", func(t *testing.T) { coseReceipt(t, l, "--url", l.url) })
	l.stop(t)
	t.Run("COSE receipt made in place", func(t *testing.T) { coseReceipt(t, l, "--data", l.data) })
	t.Run("tessera fsck on an export made in place", func(t *testing.T) {
		again := filepath.Join(t.TempDir(), "export")
		l.run(t, "log", "export", "--data", l.data, again)
		fsck(t, l, "file://"+again)
	})
	t.Run("tessera fsck on an export to a place", func(t *testing.T) {
		public := filepath.Join(t.TempDir(), "public")
		l.run(t, "log", "export", "--data", l.data, "--to", "file://"+public)
		fsck(t, l, "file://"+public)
	})
	t.Run("tessera fsck on a node of a cluster, and on its bucket", func(t *testing.T) { fsckCluster(t, l) })
}

func startLedger(t *testing.T) *live {
	t.Helper()
	dir := t.TempDir()
	l := &live{home: filepath.Join(dir, "home"), data: filepath.Join(dir, "data"), public: filepath.Join(dir, "public"), arl: filepath.Join(dir, "arl")}
	build := exec.Command("go", "build", "-o", l.arl, "./cmd/arl")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	// By its version, so that it is built with the dependencies that it was
	// released with.
	install := exec.Command("go", "install", "github.com/transparency-dev/tessera/cmd/fsck@v1.0.4")
	install.Env = append(os.Environ(), "GOBIN="+dir)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("install fsck: %v\n%s", err, out)
	}
	l.fsck = filepath.Join(dir, "fsck")
	l.serve(t, "--publish", "file://"+l.public)
	return l
}

// serve starts the ledger's process.
func (l *live) serve(t *testing.T, args ...string) {
	t.Helper()
	l.process = exec.Command(l.arl, append([]string{"serve", "--data", l.data, "--listen", "127.0.0.1:0", "--output", "json"}, args...)...)
	l.process.Env = append(os.Environ(), "ARL_HOME="+l.home)
	l.process.Stderr = os.Stderr
	stdout, err := l.process.StdoutPipe()
	must(t, err)
	must(t, l.process.Start())
	t.Cleanup(func() { l.stop(t) })
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	must(t, err)
	var started struct {
		URL          string   `json:"url"`
		Origin       string   `json:"origin"`
		VerifierKeys []string `json:"verifier_keys"`
	}
	must(t, json.Unmarshal(line, &started))
	l.url, l.origin, l.vkey = started.URL, started.Origin, started.VerifierKeys[0]
}

func (l *live) stop(t *testing.T) {
	t.Helper()
	if l.process == nil {
		return
	}
	must(t, l.process.Process.Signal(syscall.SIGTERM))
	must(t, l.process.Wait())
	l.process = nil
}

func (l *live) run(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(l.arl, args...)
	cmd.Env = append(os.Environ(), "ARL_HOME="+l.home)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("arl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// fill enrols an agent with the operator's key and submits its executions over
// HTTP, in batches.
func (l *live) fill(t *testing.T) {
	t.Helper()
	operatorKeys, err := filepath.Glob(filepath.Join(l.home, "keys", "*", "operator.key"))
	must(t, err)
	operator, err := keys.Load(operatorKeys[0], nil)
	must(t, err)
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	agent, err := keys.NewSigner(private)
	must(t, err)
	l.seal(t, operator, &entry.Agent{Header: l.header("operator", ""), Principal: "agent@interop", Op: entry.Enrol, Key: agent.Public(),
		Roles: []entry.Role{entry.RoleAgent}, Domain: "interop", Span: entry.SpanWorkflow})
	for i := range entriesWanted {
		x := &entry.Execution{Header: l.header("agent@interop", "workflow"), Exec: fmt.Sprintf("step-%d", i), Parents: []entry.Parent{},
			Effect: entry.EffectNone, Progress: entry.Confirmed}
		if i > 0 {
			x.Parents = []entry.Parent{{Exec: entry.NewRef("agent@interop", fmt.Sprintf("step-%d", i-1)), Dep: entry.Hard}}
		}
		l.seal(t, agent, x)
	}
	for from := 0; from < len(l.envelopes); from += 100 {
		batch := l.envelopes[from:min(from+100, len(l.envelopes))]
		response, err := http.Post(l.url+"/v1/entries", "application/x-ndjson", bytes.NewReader(bytes.Join(batch, []byte("\n"))))
		must(t, err)
		body, err := io.ReadAll(response.Body)
		must(t, errors.Join(err, response.Body.Close()))
		if response.StatusCode >= 300 || bytes.Contains(body, []byte("urn:")) {
			t.Fatalf("batch at %d: %s\n%s", from, response.Status, body)
		}
	}
}

// awaitPublication returns when the ledger's head and the published one, which may be a second
// behind, cover all entries.
func (l *live) awaitPublication(t *testing.T, head func(t *testing.T) []byte) {
	t.Helper()
	verifier, err := note.NewVerifier(l.vkey)
	must(t, err)
	wanted := uint64(len(l.envelopes)) + 1 // the genesis beside them
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		own, _, _, err := f_log.ParseCheckpoint(fetched(t, l.url+"/checkpoint"), l.origin, verifier)
		must(t, err)
		published, _, _, err := f_log.ParseCheckpoint(head(t), l.origin, verifier)
		if own.Size >= wanted && err == nil && published.Size >= wanted {
			return
		}
	}
	t.Fatal("the heads are not published")
}

// fetched returns what is at a URL: for one where nothing is, the words of the server.
func fetched(t *testing.T, url string) []byte {
	t.Helper()
	response, err := http.Get(url)
	must(t, err)
	body, err := io.ReadAll(response.Body)
	must(t, errors.Join(err, response.Body.Close()))
	return body
}

// fileOf reads a file, which may not be there yet.
func fileOf(name string) func(t *testing.T) []byte {
	return func(*testing.T) []byte {
		content, _ := os.ReadFile(name)
		return content
	}
}

func (l *live) header(issuer entry.Principal, wid entry.WorkflowID) entry.Header {
	return entry.Header{V: 1, JTI: uuid.NewString(), Iss: issuer, Aud: l.origin, Iat: time.Now().Unix(), Wid: wid}
}

func (l *live) seal(t *testing.T, signer *keys.Signer, body entry.Body) {
	t.Helper()
	e, err := entry.New(body)
	must(t, err)
	must(t, signer.Sign(e))
	l.envelopes = append(l.envelopes, e.AppendEnvelope(nil))
}

// tesseraClient reads the log through Tessera's client and proves every entry.
func tesseraClient(t *testing.T, l *live) {
	ctx := t.Context()
	base, err := url.Parse(l.url + "/")
	must(t, err)
	fetcher, err := client.NewHTTPFetcher(base, nil)
	must(t, err)
	verifier, err := f_note.NewVerifier(l.vkey)
	must(t, err)
	checkpoint, raw, _, err := client.FetchCheckpoint(ctx, fetcher.ReadCheckpoint, verifier, l.origin)
	must(t, err)
	builder, err := client.NewProofBuilder(ctx, checkpoint.Size, fetcher.ReadTile)
	must(t, err)
	index := uint64(0)
	for bundleIndex := uint64(0); index < checkpoint.Size; bundleIndex++ {
		bundle, err := client.GetEntryBundle(ctx, fetcher.ReadEntryBundle, bundleIndex, checkpoint.Size)
		must(t, err)
		for _, leaf := range bundle.Entries {
			path, err := builder.InclusionProof(ctx, index)
			must(t, err)
			must(t, m_proof.VerifyInclusion(rfc6962.DefaultHasher, index, checkpoint.Size, rfc6962.DefaultHasher.HashLeaf(leaf), path, checkpoint.Hash))
			index++
		}
	}
	tracker, err := client.NewLogStateTracker(ctx, fetcher.ReadTile, raw, verifier, l.origin, client.UnilateralConsensus(fetcher.ReadCheckpoint))
	must(t, err)
	if _, _, _, err := tracker.Update(ctx); err != nil {
		t.Fatal(err)
	}
}

// sumdb builds the tree of the exported entries with the Go checksum database's
// package and checks our receipts and consistency proofs with it.
func sumdb(t *testing.T, l *live, export string) {
	checkpoint, err := os.ReadFile(filepath.Join(export, "checkpoint"))
	must(t, err)
	verifier, err := note.NewVerifier(l.vkey)
	must(t, err)
	head, _, _, err := f_log.ParseCheckpoint(checkpoint, l.origin, verifier)
	must(t, err)
	size := int64(head.Size)
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) (hashes []tlog.Hash, err error) {
		for _, i := range indexes {
			hashes = append(hashes, stored[i])
		}
		return hashes, nil
	})
	leaves := exportedLeaves(t, export, head.Size)
	for i, leaf := range leaves {
		hashes, err := tlog.StoredHashes(int64(i), leaf, reader)
		must(t, err)
		stored = append(stored, hashes...)
	}
	root, err := tlog.TreeHash(size, reader)
	must(t, err)
	if !bytes.Equal(root[:], head.Hash) {
		t.Fatalf("sumdb root %s, ours %x", root, head.Hash)
	}
	for _, index := range []int64{0, 1, 255, 256, size - 1} {
		var receipt struct {
			Proof []tlog.Hash `json:"proof"`
		}
		l.get(t, fmt.Sprintf("/v1/entries/%d/receipt", index), &receipt)
		must(t, tlog.CheckRecord(receipt.Proof, size, root, index, tlog.RecordHash(leaves[index])))
		if index == 0 {
			continue
		}
		var consistency struct {
			Path []tlog.Hash `json:"path"`
		}
		l.get(t, fmt.Sprintf("/v1/consistency/%d/%d", index, size), &consistency)
		older, err := tlog.TreeHash(index, reader)
		must(t, err)
		must(t, tlog.CheckTree(consistency.Path, size, root, index, older))
	}
}

func exportedLeaves(t *testing.T, export string, size uint64) (leaves [][]byte) {
	t.Helper()
	fetcher := client.FileFetcher{Root: export}
	for i := uint64(0); uint64(len(leaves)) < size; i++ {
		bundle, err := client.GetEntryBundle(context.Background(), fetcher.ReadEntryBundle, i, size)
		must(t, err)
		leaves = append(leaves, bundle.Entries...)
	}
	return leaves
}

func (l *live) get(t *testing.T, path string, into any) {
	t.Helper()
	response, err := http.Get(l.url + path)
	must(t, err)
	body, err := io.ReadAll(response.Body)
	must(t, errors.Join(err, response.Body.Close()))
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s\n%s", path, response.Status, body)
	}
	must(t, json.Unmarshal(body, into))
}

// tlogProof reads an exported proof with the parser of transparency-dev/formats.
func tlogProof(t *testing.T, l *live) {
	path := filepath.Join(t.TempDir(), "entry.tlog-proof")
	l.run(t, "log", "proof", "--url", l.url, "--index", "300", "--format", "tlog-proof", "--out", path)
	raw, err := os.ReadFile(path)
	must(t, err)
	var p proof.TLogProof
	must(t, p.Unmarshal(raw))
	verifier, err := note.NewVerifier(l.vkey)
	must(t, err)
	head, _, _, err := f_log.ParseCheckpoint(p.Checkpoint, l.origin, verifier)
	must(t, err)
	var found struct {
		Leaf []byte `json:"leaf"`
	}
	l.get(t, "/v1/entries/300/receipt", &found)
	hashes := make([][]byte, len(p.Hashes))
	for i := range p.Hashes {
		hashes[i] = p.Hashes[i][:]
	}
	must(t, m_proof.VerifyInclusion(rfc6962.DefaultHasher, p.Index, head.Size, rfc6962.DefaultHasher.HashLeaf(found.Leaf), hashes, head.Hash))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

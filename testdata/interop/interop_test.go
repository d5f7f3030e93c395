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
	"regexp"
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
	l.awaitPublication(t)
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
	l.process = exec.Command(l.arl, "serve", "--data", l.data, "--listen", "127.0.0.1:0", "--output", "json", "--publish", "file://"+l.public)
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
	return l
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

// awaitPublication returns when both published heads, which may be a second behind,
// cover all entries.
func (l *live) awaitPublication(t *testing.T) {
	t.Helper()
	verifier, err := note.NewVerifier(l.vkey)
	must(t, err)
	wanted := uint64(len(l.envelopes)) + 1 // the genesis beside them
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		response, err := http.Get(l.url + "/checkpoint")
		must(t, err)
		body, err := io.ReadAll(response.Body)
		must(t, errors.Join(err, response.Body.Close()))
		head, _, _, err := f_log.ParseCheckpoint(body, l.origin, verifier)
		must(t, err)
		file, _ := os.ReadFile(filepath.Join(l.public, "checkpoint")) // at first there is none
		published, _, _, err := f_log.ParseCheckpoint(file, l.origin, verifier)
		if head.Size >= wanted && err == nil && published.Size >= wanted {
			return
		}
	}
	t.Fatal("the heads are not published")
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

// fsck runs Tessera's checker, which has to find everything in order.
func fsck(t *testing.T, l *live, storage string) {
	t.Helper()
	out, err := runFsck(t, l, storage)
	if err == nil {
		err = judged(out)
	}
	if err != nil {
		t.Fatalf("fsck of %s: %v\n%s", storage, err, out)
	}
}

// fsckWorkers is how many resources the checker compares at a time. With one, the
// first that is damaged ends the only worker, and the checker waits for it for ever.
const fsckWorkers = 4

// fsckLimit ends a checker that waits for ever, long after one that works is done.
const fsckLimit = 2 * time.Minute

// runFsck returns what Tessera's checker says. An error is that it did not come to
// its end, not what it has found: the exit code is 0 then, too.
func runFsck(t *testing.T, l *live, storage string) (out string, err error) {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key.pub")
	must(t, os.WriteFile(key, []byte(l.vkey), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), fsckLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.fsck, "--storage_url="+storage, "--public_key="+key, "--origin="+l.origin,
		fmt.Sprintf("--N=%d", fsckWorkers), "--ui=false", "--logtostderr", "--v=1")
	cmd.WaitDelay = time.Second
	raw, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = fmt.Errorf("no end within %v: %w", fsckLimit, ctx.Err())
	}
	return string(raw), err
}

// judged reads the words of Tessera's checker, the only place where it says what it
// has found: success, no failure, and at its end every range of the log in order.
func judged(out string) error {
	_, ranges, ended := strings.Cut(out, "Completed ranges:")
	states := regexp.MustCompile(`\[\d+, \d+\):(\w+)`).FindAllStringSubmatch(ranges, -1)
	switch {
	case strings.Contains(out, "fsck failed"):
		return errors.New("it says that the check failed")
	case !strings.Contains(out, "Successfully fsck'd log with size"):
		return errors.New("it does not say that the check succeeded")
	case !ended || len(states) == 0:
		return errors.New("it does not say what it has checked")
	}
	for _, state := range states {
		if state[1] != "OK" {
			return fmt.Errorf("range %s", state[0])
		}
	}
	return nil
}

// Only a checker that says that all is well has found that.
func TestWordsOfFsck(t *testing.T) {
	const (
		success = "I0101 fsck.go:161] Successfully fsck'd log with size 703 and root x (00)\n"
		ranges  = "I0101 main.go:87] Completed ranges:\nEntry bundles: [0, 3):OK\nTiles level 0: [0, 3):OK\n"
		failure = "E0101 main.go:85] fsck failed: failed: tile/000: log has:\n"
	)
	for out, good := range map[string]bool{
		success + ranges:                true,
		failure + ranges:                false,
		success + failure + ranges:      false,
		ranges:                          false,
		success:                         false,
		success + "Completed ranges:\n": false,
		success + strings.Replace(ranges, "OK", "Invalid", 1):       false,
		success + strings.Replace(ranges, "3):OK", "2):Fetched", 1): false,
		"": false,
	} {
		if err := judged(out); (err == nil) != good {
			t.Errorf("%q: %v", out, err)
		}
	}
}

// fsckFindsDamage shows that a pass of fsck means something: it comes to its end with
// words of failure whatever part of an export is damaged.
func fsckFindsDamage(t *testing.T, l *live, export string) {
	flip := func(path string) error {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at := len(content) / 2
		if _, size, head := strings.Cut(string(content), l.origin+"\n"); head {
			at = len(content) - len(size) + strings.Index(size, "\n") + 9 // in the root: whose signatures are checked is the checker's affair
		}
		content[at] ^= 1
		return errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, content, 0o600))
	}
	for desc, damage := range map[string]func(dir string) error{
		"a flipped bit in an entry":  func(dir string) error { return flip(filepath.Join(dir, "tile", "entries", "001")) },
		"a flipped bit in a hash":    func(dir string) error { return flip(filepath.Join(dir, "tile", "0", "001")) },
		"a flipped bit above a tile": func(dir string) error { return flip(one(t, dir, "tile", "1", "*.p", "*")) },
		"a flipped bit in the head":  func(dir string) error { return flip(filepath.Join(dir, "checkpoint")) },
		"entries that are not there": func(dir string) error { return os.Remove(filepath.Join(dir, "tile", "entries", "001")) },
		"hashes that are not there":  func(dir string) error { return os.Remove(filepath.Join(dir, "tile", "0", "001")) },
		"entries of another place":   func(dir string) error { return swap(filepath.Join(dir, "tile", "entries"), "000", "001") },
		"no head":                    func(dir string) error { return os.Remove(filepath.Join(dir, "checkpoint")) },
	} {
		t.Run(desc, func(t *testing.T) {
			damaged := t.TempDir()
			must(t, os.CopyFS(damaged, os.DirFS(export)))
			must(t, damage(damaged))
			out, err := runFsck(t, l, "file://"+damaged)
			if err != nil || judged(out) == nil || !strings.Contains(out, "fsck failed") {
				t.Errorf("fsck ends with %v:\n%s", err, out)
			}
		})
	}
}

// one returns the one file that a pattern matches.
func one(t *testing.T, pattern ...string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(pattern...))
	must(t, err)
	if len(found) != 1 {
		t.Fatalf("%v: %v", pattern, found)
	}
	return found[0]
}

// swap lets two files take each other's place.
func swap(dir, a, b string) error {
	a, b = filepath.Join(dir, a), filepath.Join(dir, b)
	return errors.Join(os.Rename(a, a+".swapped"), os.Rename(b, a), os.Rename(a+".swapped", b))
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

package interop

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"filippo.io/torchwood"
	f_note "github.com/transparency-dev/formats/note"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"recoveryledger/verify"
)

// litewitness has its logs in this database, where witnessctl enters them.
const addLog = `
import base64, hashlib, sqlite3, sys
path, origin, key = sys.argv[1:]
db = sqlite3.connect(path)
db.execute("CREATE TABLE log (origin TEXT PRIMARY KEY, tree_size INTEGER NOT NULL, tree_hash TEXT NOT NULL)")
db.execute("CREATE TABLE key (origin TEXT NOT NULL, key TEXT NOT NULL, FOREIGN KEY(origin) REFERENCES log(origin))")
db.execute("INSERT INTO log VALUES (?, 0, ?)", (origin, base64.b64encode(hashlib.sha256().digest()).decode()))
db.execute("INSERT INTO key VALUES (?, ?)", (origin, key))
db.commit()
`

// litewitness runs the witness of filippo.io/torchwood, and returns its line of a policy.
func litewitness(t *testing.T, l *live) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lw") // the path of a socket has 108 bytes at most
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	install := exec.Command("go", "install", "filippo.io/torchwood/cmd/litewitness@v0.9.0")
	install.Env = append(os.Environ(), "GOBIN="+dir)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("install litewitness: %v\n%s", err, out)
	}
	database, socket := filepath.Join(dir, "db"), filepath.Join(dir, "agent")
	if out, err := exec.Command("python3", "-c", addLog, database, l.origin, l.vkey).CombinedOutput(); err != nil {
		t.Fatalf("add the log: %v\n%s", err, out)
	}
	fingerprint := serveKey(t, socket)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := free.Addr().String()
	must(t, free.Close())
	process := exec.Command(filepath.Join(dir, "litewitness"), "-name", "lite.example/1", "-db", database, "-ssh-agent", socket, "-key", fingerprint, "-listen", address)
	said, err := process.StderrPipe()
	must(t, err)
	must(t, process.Start())
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	key := ""
	lines := bufio.NewScanner(said)
	for lines.Scan() && !strings.Contains(lines.Text(), "msg=listening") {
		if found := regexp.MustCompile(`vkey=(\S+)`).FindStringSubmatch(lines.Text()); found != nil {
			key = found[1]
		}
	}
	if key == "" {
		t.Fatalf("litewitness does not start: %s", lines.Text())
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	return fmt.Sprintf("witness lite.example/1 %s http://%s", key, address)
}

// serveKey serves a new key as an SSH agent, and returns its fingerprint.
func serveKey(t *testing.T, socket string) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	ring := agent.NewKeyring()
	must(t, ring.Add(agent.AddedKey{PrivateKey: private}))
	listener, err := net.Listen("unix", socket)
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() }) // the directory goes, too
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(ring, conn) }()
		}
	}()
	key, err := ssh.NewPublicKey(public)
	must(t, err)
	return ssh.FingerprintSHA256(key)
}

// slow holds the requests to a witness of ours back until it is released.
func slow(t *testing.T, line string, released <-chan struct{}) string {
	t.Helper()
	fields := strings.Fields(line)
	to, err := url.Parse(fields[3])
	must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	web := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		select {
		case <-released:
			proxy.ServeHTTP(out, in)
		case <-in.Context().Done():
		}
	}))
	t.Cleanup(web.Close)
	return strings.Join(append(fields[:3], web.URL), " ")
}

// liar answers with a good cosignature on another tree head of the log.
func liar(t *testing.T, l *live) string {
	t.Helper()
	const name = "liar.example/1"
	skey, vkey, err := note.GenerateKey(rand.Reader, name)
	must(t, err)
	signer, err := f_note.NewSignerForCosignatureV1(skey)
	must(t, err)
	vkey, err = f_note.VKeyToCosignatureV1(vkey)
	must(t, err)
	web := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		text := l.origin + "\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"
		signed, err := note.Sign(&note.Note{Text: text}, signer)
		if err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(out, strings.TrimPrefix(string(signed), text+"\n")) // who is gone asks again
	}))
	t.Cleanup(web.Close)
	return fmt.Sprintf("witness %s %s %s", name, vkey, web.URL)
}

// TestWitnessesOfTwoKindsAmongOthers has litewitness and a witness of ours make the quorum of
// two of five, whose others hang, lie and are dead. Tree heads get their quorum, receipts wait
// for nobody, and the ledger names those who do not cosign, and why.
func TestWitnessesOfTwoKindsAmongOthers(t *testing.T) {
	l := startLedger(t)
	released := make(chan struct{})
	dead := strings.Fields(ours(t, l, "dead.example/1"))
	dead[3] = "http://127.0.0.1:1"
	lines := []string{"log " + l.vkey, litewitness(t, l), ours(t, l, "ours.example/1"), slow(t, ours(t, l, "slow.example/1"), released), liar(t, l), strings.Join(dead, " "),
		"group all 2 lite.example/1 ours.example/1 slow.example/1 liar.example/1 dead.example/1", "quorum all"}
	witnesses := strings.Join(lines, "\n") + "\n"
	file := filepath.Join(t.TempDir(), "policy.yaml")
	policy := string(l.run(t, "policy", "show", "--url", l.url)) + "witnesses: |\n  " + strings.ReplaceAll(strings.TrimSuffix(witnesses, "\n"), "\n", "\n  ") + "\n"
	must(t, os.WriteFile(file, []byte(policy), 0o600))
	l.run(t, "policy", "apply", file, "--reason", "witnesses of two makers", "--yes", "--url", l.url)
	read, err := torchwood.ParsePolicy([]byte(witnesses))
	must(t, err)
	for range 5 { // while the slow one holds every request
		l.fillOne(t)
	}
	last := l.status(t).Size - 1
	response, err := http.Get(fmt.Sprintf("%s/v1/entries/%d/receipt?witnessed=true&wait=25000", l.url, last))
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	receipt, err := verify.DecodeReceipt(body)
	must(t, err)
	witnessedProof(t, receipt, read)
	checkpoint, _, err := torchwood.VerifyCheckpoint([]byte(receipt.Head), read)
	if err != nil || uint64(checkpoint.N) <= last || !strings.Contains(receipt.Head, "\n— lite.example/1 ") || !strings.Contains(receipt.Head, "\n— ours.example/1 ") {
		t.Errorf("%v: %s", err, receipt.Head)
	}
	failed := map[string]string{}
	for _, w := range l.status(t).Witnessed.Witnesses {
		failed[w.Name] = w.Failed
	}
	for name, want := range map[string]string{"liar.example/1": "no good cosignature", "dead.example/1": "connection refused"} {
		if !strings.Contains(failed[name], want) {
			t.Errorf("%s: %q, want %q", name, failed[name], want)
		}
	}
	if failed["lite.example/1"] != "" || failed["ours.example/1"] != "" {
		t.Errorf("%q", failed)
	}
	if out := string(l.run(t, "log", "head", "--url", l.url)); !strings.Contains(out, "liar.example/1") {
		t.Errorf("arl log head names no liar:\n%s", out)
	}
	close(released)
}

// witnessedProof has torchwood read a .tlog-proof with cosignatures under the policy: the proof is
// of this leaf, and its tree head has the quorum.
func witnessedProof(t *testing.T, receipt verify.Receipt, policy torchwood.Policy) {
	t.Helper()
	text, err := receipt.TLogProof()
	must(t, err)
	must(t, torchwood.VerifyProof(policy, tlog.RecordHash(receipt.Leaf), text))
	if _, ok := errors.AsType[*torchwood.VerifyRecordError](torchwood.VerifyProof(policy, tlog.RecordHash([]byte("another")), text)); !ok {
		t.Error("torchwood takes the proof for another leaf")
	}
	bare := regexp.MustCompile("(?m)^— lite.example/1 .*\n").ReplaceAll(text, nil) // one of two
	if _, ok := errors.AsType[*note.UnverifiedNoteError](torchwood.VerifyProof(policy, tlog.RecordHash(receipt.Leaf), bare)); !ok {
		t.Error("torchwood takes the proof without the quorum")
	}
}

// status is what GET /v1/log says.
type status struct {
	Size      uint64 `json:"size"`
	Witnessed struct {
		Witnesses []struct {
			Name   string `json:"name"`
			Failed string `json:"failed"`
		} `json:"witnesses"`
	} `json:"witnessed"`
}

func (l *live) status(t *testing.T) (s status) {
	t.Helper()
	response, err := http.Get(l.url + "/v1/log")
	must(t, err)
	defer response.Body.Close()
	must(t, json.NewDecoder(response.Body).Decode(&s))
	return s
}

// fillOne enrols an agent: the ledger answers with the receipt.
func (l *live) fillOne(t *testing.T) {
	t.Helper()
	key := filepath.Join(t.TempDir(), "agent.key")
	l.run(t, "key", "generate", "--out", key)
	l.run(t, "agent", "enrol", "--principal", "agent-"+filepath.Base(filepath.Dir(key)), "--key", key, "--domain", "d", "--url", l.url)
}

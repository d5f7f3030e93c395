package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/trust"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// lawless is a fold that admits everything: what a ledger without rules runs.
type lawless struct{}

func (lawless) Admit(*entry.Entry, uint64, int64) error { return nil }
func (lawless) Apply(*entry.Entry, uint64, int64)       {}
func (lawless) Snapshot(io.Writer) error                { return nil }
func (lawless) Restore(io.Reader) error                 { return nil }

// An operator of a ledger, with its keys, writes an entry that the rules forbid:
// signed, in the tree, durable. The audit finds it.
func TestAuditFindsWhatTheRulesForbid(t *testing.T) {
	t.Parallel()
	l := startCommandLine(t)
	l.stop()
	forge(t, l.data)
	out := l.exits(exit.Inconsistent, "log", "audit", "--data", l.data)
	if !strings.Contains(out, "entry 3 should not be in the log: unknown-issuer") {
		t.Errorf("audit says:\n%s", out)
	}
	evidence, err := filepath.Glob(filepath.Join(l.home, "evidence", "audit-*.json"))
	if err != nil || len(evidence) != 1 {
		t.Fatalf("evidence %v, %v", evidence, err)
	}
	content, err := os.ReadFile(evidence[0])
	if err != nil {
		t.Fatal(err)
	}
	var shown verify.Evidence
	var known trust.Profile
	l.readProfile(&known)
	if err := json.Unmarshal(content, &shown); err != nil || shown.Problem != entry.UnknownIssuer || len(shown.Receipts) != 1 || shown.Receipts[0].Index != 3 {
		t.Fatalf("evidence %s, %v", content, err)
	}
	head, err := known.Root.Head([]byte(shown.Receipts[0].Head))
	if err != nil {
		t.Fatal(err)
	}
	if err := merkle.CheckInclusion(3, merkle.HashLeaf(shown.Receipts[0].Leaf), head, shown.Receipts[0].Proof); err != nil {
		t.Errorf("the evidence does not show that the ledger signed it: %v", err)
	}
}

// forge appends an execution by a key that nobody enrolled.
func forge(t *testing.T, dir string) {
	t.Helper()
	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	o := node.Options{Dir: dir, Fatal: func(err error) { panic(err) }}
	n, err := node.Prepare(o)
	fail(err)
	config := n.LedgerConfig(o)
	config.NewFold = func() ledger.Fold { return lawless{} }
	config.Precheck, config.Committed = nil, nil
	log, err := ledger.Open(n.Database(), config)
	fail(err)
	_, private, err := ed25519.GenerateKey(rand.Reader)
	fail(err)
	signer, err := keys.NewSigner(private)
	fail(err)
	header := keys.NewHeader("nobody", n.Origin)
	header.Wid = "w"
	e, err := entry.New(&entry.Execution{Header: header, Exec: "1", Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Confirmed})
	fail(err)
	fail(signer.Sign(e))
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- log.Run(ctx) }()
	answer, err := log.Submit(ctx, e)
	fail(err)
	if answer.Refused != nil {
		t.Fatal(answer.Refused)
	}
	stop()
	fail(errors.Join(<-stopped, log.Close()))
}

// An export that any web server serves is audited like a ledger, and must
// continue what was seen of it before.
func TestAuditOfAnExport(t *testing.T) {
	t.Parallel()
	l := startCommandLine(t)
	l.stop()
	public := filepath.Join(t.TempDir(), "public")
	l.exits(exit.OK, "log", "export", "--data", l.data, public)
	mirror := httptest.NewServer(http.FileServer(http.Dir(public)))
	defer mirror.Close()
	audit := []string{"log", "audit", "--url", mirror.URL}
	if out := l.exits(exit.OK, audit...); !strings.Contains(out, "size") {
		t.Errorf("audit says:\n%s", out)
	}
	forge(t, l.data)
	l.exits(exit.OK, "log", "export", "--data", l.data, public)
	if out := l.exits(exit.Inconsistent, audit...); !strings.Contains(out, "entry 3 should not be in the log: unknown-issuer") {
		t.Errorf("audit says:\n%s", out)
	}
}

// A mirror that changes what it passes on: whatever it does to an entry, the
// audit through it ends with exit code 10. No file accuses the ledger.
func TestAuditThroughAMirrorThatLies(t *testing.T) {
	t.Parallel()
	l := startCommandLine(t)
	var info struct{ URL string }
	l.readProfile(&info)
	server, err := url.Parse(info.URL)
	if err != nil {
		t.Fatal(err)
	}
	once := false
	registered := regexp.MustCompile(`"registered_at":([0-9]+)\}$`)
	for name, lie := range map[string]func(bundle []byte) []byte{
		"nothing": func(bundle []byte) []byte { return bundle },
		"a flipped bit": func(bundle []byte) []byte {
			bundle[len(bundle)/2] ^= 1
			return bundle
		},
		"a later time": func(bundle []byte) []byte {
			return registered.ReplaceAllFunc(bundle, func(text []byte) []byte {
				at, _ := strconv.ParseInt(string(registered.FindSubmatch(text)[1]), 10, 64)
				return fmt.Appendf(nil, `"registered_at":%d}`, at+1)
			})
		},
		"a bit once": func(bundle []byte) []byte {
			if once = !once; once {
				bundle[len(bundle)/2] ^= 1
			}
			return bundle
		},
		"a byte too many": func(bundle []byte) []byte { return append(bundle, 0) },
		"a byte too few":  func(bundle []byte) []byte { return bundle[:len(bundle)-1] },
	} {
		t.Run(name, func(t *testing.T) {
			l.t = t
			proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(server)
				r.Out.Header.Set("Accept-Encoding", "identity")
			}}
			proxy.ModifyResponse = func(r *http.Response) error {
				if !strings.HasPrefix(r.Request.URL.Path, "/tile/entries/") {
					return nil
				}
				bundle, err := io.ReadAll(r.Body)
				bundle = lie(bundle)
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(bundle)), int64(len(bundle))
				r.Header.Set("Content-Length", strconv.Itoa(len(bundle)))
				return err
			}
			mirror := httptest.NewServer(proxy)
			defer mirror.Close()
			want := exit.Inconsistent
			if name == "nothing" {
				want = exit.OK
			}
			for _, command := range [][]string{{"log", "audit"}, {"agent", "history", string(node.Operator)}} {
				if err := os.RemoveAll(filepath.Join(l.home, "folds")); err != nil { // so that all is read
					t.Fatal(err)
				}
				if out := l.exits(want, append(command, "--url", mirror.URL)...); strings.Contains(out, "should not be in the log") {
					t.Errorf("%s accuses the ledger of what the mirror did:\n%s", command, out)
				}
				if files, err := os.ReadDir(filepath.Join(l.home, "evidence")); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s keeps evidence of what the mirror did: %v, %v", command, files, err)
				}
			}
		})
	}
	l.t = t
	l.stop()
}

package browser

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// forge is a server between a browser and a ledger, which changes what the ledger says.
func forge(t *testing.T, l *ledger, change func(path string, body []byte) []byte) string {
	t.Helper()
	to, err := url.Parse(l.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(q *httputil.ProxyRequest) {
			q.SetURL(to)
			q.Out.Header.Del("Accept-Encoding")
		},
		ModifyResponse: func(answer *http.Response) error {
			if path := answer.Request.URL.Path; strings.HasSuffix(path, "/receipts") || path == "/root.json" {
				body, err := io.ReadAll(answer.Body)
				if err != nil {
					return err
				}
				body = change(path, body)
				answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
				answer.Header.Set("Content-Length", strconv.Itoa(len(body)))
			}
			return nil
		},
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL
}

// receipt is a line of a file of receipts.
type receipt struct {
	Leaf  []byte   `json:"leaf"`
	Index uint64   `json:"index"`
	Proof []string `json:"proof"`
	Head  string   `json:"head"`
}

// first changes the first receipt of a file.
func first(t *testing.T, body []byte, change func(r *receipt)) []byte {
	t.Helper()
	line, rest, _ := bytes.Cut(body, []byte("\n"))
	var r receipt
	if err := json.Unmarshal(line, &r); err != nil {
		t.Error(err)
	}
	change(&r)
	line, err := json.Marshal(r)
	if err != nil {
		t.Error(err)
	}
	return append(append(line, '\n'), rest...)
}

// TestVerify presses the button on the page of an entry: a sound receipt holds, and each doctored
// one is refused at its step.
func TestVerify(t *testing.T) {
	l := start(t)
	page := open(t)
	var change func(r *receipt)
	var root func(text []byte) []byte
	address := forge(t, l, func(path string, body []byte) []byte {
		switch {
		case path == "/root.json" && root != nil:
			return root(body)
		case path != "/root.json" && change != nil:
			return first(t, body, change)
		}
		return body
	})
	page.do(chromedp.Navigate(address + "/log/49"))
	page.await(`!document.getElementById("verify").hidden`)
	other := l.arl("", "log", "proof", "--index", "48")
	for _, c := range []struct {
		name   string
		change func(r *receipt)
		root   func(text []byte) []byte
		want   string
	}{
		{"sound", nil, nil, "Verified here: entry 49, decision by coordinator, stands in the log of 60 entries"},
		{"leaf", func(r *receipt) { r.Leaf = bytes.Replace(r.Leaf, []byte("17"), []byte("18"), 1) }, nil, "Refused at step "},
		{"time", func(r *receipt) { r.Leaf[len(r.Leaf)-2] ^= 1 }, nil, "Refused at step 4, inclusion"},
		{"proof", func(r *receipt) { r.Proof[0], r.Proof[1] = r.Proof[1], r.Proof[0] }, nil, "Refused at step 4, inclusion"},
		{"index", func(r *receipt) { r.Index++ }, nil, "Refused at step 4, inclusion"},
		{"head", func(r *receipt) { r.Head = strings.Replace(r.Head, "\n60\n", "\n61\n", 1) }, nil, "Refused at step 1, head"},
		{"another entry", func(r *receipt) {
			if err := json.Unmarshal([]byte(strings.SplitN(other, "\n", 2)[0]), r); err != nil {
				t.Error(err)
			}
		}, nil, "Refused. the receipts do not prove entry 49"},
		{"form", func(r *receipt) { r.Proof = []string{"x"} }, nil, "Refused: this is no receipt"},
		{"genesis", nil, func(text []byte) []byte {
			var root map[string]any
			if err := json.Unmarshal(text, &root); err != nil {
				t.Error(err)
			}
			root["genesis"] = strings.Repeat("B", 42) + "A="
			text, _ = json.Marshal(root) // it was JSON
			return text
		}, "Refused at step 7, signer"},
	} {
		change, root = c.change, c.root
		page.do(chromedp.Click(chromedp.CSS("#verify")))
		page.await(`!document.getElementById("verify").disabled`)
		if said := eval[string](page, `document.getElementById("verdict").textContent`); !strings.Contains(said, c.want) {
			t.Errorf("%s: %s, want %s", c.name, said, c.want)
		}
		for _, broken := range page.axe() {
			t.Errorf("%s: %s", c.name, broken)
		}
	}
	if len(page.problems) > 0 {
		t.Errorf("the console says: %q", page.problems)
	}
}

// TestVectors has the modules that a ledger serves judge all protocol vectors, on a page of the
// ledger, under its Content Security Policy.
func TestVectors(t *testing.T) {
	l := start(t)
	page := open(t)
	to, err := url.Parse(l.url)
	if err != nil {
		t.Fatal(err)
	}
	vectors := map[string]json.RawMessage{}
	root := os.DirFS("../vectors")
	err = fs.WalkDir(root, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".json" {
			return err
		}
		vectors[path], err = fs.ReadFile(root, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	runner, err := os.ReadFile("../../verify/js/test/vectors.js")
	if err != nil {
		t.Fatal(err)
	}
	mux.HandleFunc("GET /vectors.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = w.Write(bytes.ReplaceAll(runner, []byte(`from "../src/`), []byte(`from "/assets/verify/`)))
	})
	mux.HandleFunc("GET /vectors.json", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(vectors) })
	mux.Handle("/", &httputil.ReverseProxy{Rewrite: func(q *httputil.ProxyRequest) { q.SetURL(to) }})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)

	page.do(chromedp.Navigate(server.URL + "/log/49"))
	said := eval[struct {
		Count int      `json:"count"`
		Wrong []string `json:"wrong"`
	}](page, `Promise.all([import("/vectors.js"), fetch("/vectors.json").then(answer => answer.json())]).then(
		([{runVectors}, vectors]) => runVectors(new Map(Object.entries(vectors))))`)
	if said.Count < 900 || len(said.Wrong) > 0 {
		t.Errorf("%d vectors, wrong: %q", said.Count, said.Wrong)
	}
}

package verify_test

import (
	"context"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/jsverify"
	"recoveryledger/testdata/needs"
)

const browserPage = `<!doctype html>
<title>vectors</title>
<script type="module">
  const say = (text) => fetch("/done", { method: "POST", body: text });
  try {
    const { runVectors } = await import("/js/test/vectors.js");
    const vectors = new Map(Object.entries(await (await fetch("/vectors.json")).json()));
    const { count, wrong } = await runVectors(vectors);
    await say([count + " vectors, " + wrong.length + " wrong", ...wrong].join("\n"));
  } catch (error) {
    await say(String(error.stack));
  }
</script>
`

// TestJavaScriptInABrowser has Chromium, without a window, run all vectors.
func TestJavaScriptInABrowser(t *testing.T) {
	budget.Unraced(t, "one goroutine asks a program of another language")
	chromium := needs.Program(t, "chromium", "chromium", "verify/js is not run in a browser")
	said := make(chan string, 1)
	mux := http.NewServeMux()
	mux.Handle("GET /js/", http.StripPrefix("/js/", http.FileServer(http.Dir(jsverify.Dir()))))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, browserPage) })
	vectors := vectorsByPath(t)
	mux.HandleFunc("GET /vectors.json", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(vectors) })
	mux.HandleFunc("POST /done", func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		select {
		case said <- string(text):
		default:
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()

	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	browser := exec.CommandContext(ctx, chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--user-data-dir="+t.TempDir(), server.URL+"/")
	browser.Cancel = func() error { return browser.Process.Signal(os.Interrupt) }
	browser.WaitDelay = 10 * time.Second
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	must(t, err)
	defer func() { _ = log.Close() }()
	browser.Stdout, browser.Stderr = log, log
	must(t, browser.Start())
	select {
	case text := <-said:
		if !strings.HasSuffix(text, " vectors, 0 wrong") || strings.HasPrefix(text, "0 ") {
			t.Error(text)
		}
	case <-ctx.Done():
		printed, _ := os.ReadFile(log.Name())
		t.Errorf("the page has said nothing: %s", printed)
	}
	stop()
	_ = browser.Wait() // it was stopped
}

// vectorsByPath returns all vectors as one JSON object.
func vectorsByPath(t *testing.T) []byte {
	t.Helper()
	root := os.DirFS(filepath.Join("..", "testdata", "vectors"))
	all := map[string]jsontext.Value{}
	must(t, fs.WalkDir(root, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".json") {
			return err
		}
		data, err := fs.ReadFile(root, path)
		all[path] = data
		return err
	}))
	data, err := json.Marshal(all)
	must(t, err)
	return data
}

package server_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// plain is a client that asks for no compression by itself.
func (n *node) plain(method, path, encoding string, body []byte) *answer {
	n.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	request := n.request(method, path, "", body)
	if body != nil {
		request.Header.Set("Content-Type", api.MediaJSON)
	}
	if encoding != "" {
		request.Header.Set("Accept-Encoding", encoding)
	}
	response, err := client.Do(request)
	must(n.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(n.t, err)
	return &answer{response, text}
}

// unzipped returns what an answer is compressed from.
func (a *answer) unzipped(t *testing.T) []byte {
	t.Helper()
	if a.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("%s %s is not compressed: %v", a.Request.Method, a.Request.URL, a.Header)
	}
	reader, err := gzip.NewReader(bytes.NewReader(a.body))
	must(t, err)
	text, err := io.ReadAll(reader)
	must(t, err)
	return text
}

// Large JSON is compressed for who takes gzip, and says that it depends on that;
// small answers, hash tiles, the checkpoint and streams never are.
func TestCompression(t *testing.T) {
	n := start(t, nil)
	for range 40 {
		n.register(n.good())
	}
	for _, path := range []string{"/v1/entries", "/v1/entries/1/receipt", "/openapi.json", "/v1/workflows/flow-1/graph", "/tile/entries/000.p/40"} {
		plain, zipped := n.plain(http.MethodGet, path, "", nil), n.plain(http.MethodGet, path, "br, gzip;q=0.5", nil)
		if !bytes.Equal(zipped.unzipped(t), plain.body) || len(zipped.body) >= len(plain.body) || plain.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %d bytes of %d, %v", path, len(zipped.body), len(plain.body), plain.Header)
		}
		for _, a := range []*answer{plain, zipped} {
			if !slices.Equal(a.Header.Values("Vary"), []string{"Accept-Encoding"}) {
				t.Errorf("%s: Vary %q", path, a.Header.Values("Vary"))
			}
		}
	}
	good := n.good().AppendEnvelope(nil)
	if a := n.plain(http.MethodPost, "/v1/entries", "gzip", good); a.StatusCode != http.StatusCreated || !strings.HasPrefix(string(a.unzipped(t)), `{"leaf":`) {
		t.Errorf("a receipt: %s", a.Status)
	}
	for _, encoding := range []string{"", "identity", "gzip;q=0", "*;q=0", "br", "gzip;q=x"} {
		if a := n.plain(http.MethodGet, "/v1/entries", encoding, nil); a.Header.Get("Content-Encoding") != "" {
			t.Errorf("compressed for %q", encoding)
		}
	}
	for _, path := range []string{"/healthz", "/tile/0/000.p/40", "/checkpoint", "/nowhere"} {
		if a := n.plain(http.MethodGet, path, "gzip", nil); a.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s is compressed", path)
		}
	}
	request := n.request(http.MethodGet, "/v1/events?from=0", "", nil)
	request.Header.Set("Accept-Encoding", "gzip")
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	if must(t, response.Body.Close()); response.Header.Get("Content-Encoding") != "" {
		t.Error("a stream is compressed")
	}
}

// isShared reports whether a path is one that pages of any origin may read.
func isShared(path string) bool {
	return path == "/checkpoint" || strings.HasPrefix(path, "/tile/") || strings.HasPrefix(path, "/v1/consistency/") || strings.HasSuffix(path, "/receipt") || strings.HasSuffix(path, "/receipt/cose")
}

// Pages of any origin may read what is public and never changes, errors included,
// and ask before with a preflight; nothing else says so, whatever the method.
func TestCrossOrigin(t *testing.T) {
	n := start(t, nil)
	for _, v := range append(visits(), visit{"", "/nowhere"}) {
		if v.path == "/v1/events" {
			continue
		}
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPost} {
			request := n.request(method, v.target, "", nil)
			request.Header.Set("Origin", "https://page.example")
			request.Header.Set("Access-Control-Request-Method", "GET")
			a := n.do(request)
			want := ""
			if isShared(v.path) {
				want = "*"
			}
			if got := a.Header.Get("Access-Control-Allow-Origin"); got != want {
				t.Errorf("%s %s: origins %q, want %q", method, v.target, got, want)
			}
			if a.Header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s %s allows credentials", method, v.target)
			}
			allowed := a.Header.Get("Access-Control-Allow-Methods")
			if method == http.MethodOptions && want != "" && (a.StatusCode != http.StatusNoContent || allowed != "GET, HEAD" || a.Header.Get("Access-Control-Max-Age") == "") ||
				want == "" && allowed != "" {
				t.Errorf("preflight of %s: %s %v", v.target, a.Status, a.Header)
			}
		}
	}
}

// Where GET is answered HEAD is, with the same header, and Allow names it; where
// GET is not answered neither is HEAD.
func TestHeadWhereverGet(t *testing.T) {
	n := start(t, nil)
	for _, v := range visits() {
		get := n.plain(http.MethodGet, v.target, "", nil)
		head := n.plain(http.MethodHead, v.target, "", nil)
		if head.StatusCode != get.StatusCode || len(head.body) > 0 || head.Header.Get("Content-Type") != get.Header.Get("Content-Type") ||
			head.Header.Get("ETag") != get.Header.Get("ETag") {
			t.Errorf("HEAD %s: %s %v, and GET %s %v", v.target, head.Status, head.Header, get.Status, get.Header)
		}
		for _, method := range []string{http.MethodDelete, http.MethodOptions} {
			if allow := n.plain(method, v.target, "", nil).Header.Get("Allow"); !strings.Contains(allow, "GET, HEAD") {
				t.Errorf("%s %s: Allow %q", method, v.target, allow)
			}
		}
	}
	for _, path := range []string{"/v1/leases", "/v1/recoveries", "/v1/recoveries/batch", api.PathDecide} {
		a := n.plain(http.MethodHead, path, "", nil)
		if allow := a.Header.Get("Allow"); a.StatusCode != http.StatusMethodNotAllowed || strings.Contains(allow, "HEAD") || !strings.Contains(allow, "POST") {
			t.Errorf("HEAD %s: %s, Allow %q", path, a.Status, allow)
		}
	}
}

// What a client has of a history, of agents and of the document is not sent again
// while it says the same, though the log has grown; another tag, or none, gets it.
func TestTagsOutliveGrowth(t *testing.T) {
	c := newPanel(t, nil)
	c.pipeline()
	signal := c.signals("agent-1", entry.StandingExecutor, "agent-1#make")
	paths := []string{"/v1/agents/agent-1/history", "/v1/agents/agent-1/history?limit=1", "/v1/agents", "/v1/agents?domain=test&limit=2", "/v1/agents/agent-1", "/openapi.json"}
	tags := map[string]string{}
	ask := func(path string) *answer {
		request := c.request(http.MethodGet, path, "", nil)
		request.Header.Set("If-None-Match", `"other", `+tags[path])
		return c.do(request)
	}
	for _, path := range paths {
		a := ask(path)
		if tags[path] = a.Header.Get("ETag"); tags[path] == "" || a.StatusCode != http.StatusOK || a.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %s %v", path, a.Status, a.Header)
		}
	}
	c.did("agent-3", "unrelated", entry.EffectNone)
	for _, path := range paths {
		if a := ask(path); a.StatusCode != http.StatusNotModified || len(a.body) > 0 || a.Header.Get("ETag") != tags[path] {
			t.Errorf("%s after growth: %s", path, a.Status)
		}
		past := c.request(http.MethodGet, path, "", nil) // of a cache, which may have an altered body under the tag
		past.Header.Set("If-None-Match", tags[path])
		past.Header.Set("Cache-Control", "no-cache")
		if a := c.do(past); a.StatusCode != http.StatusOK || len(a.body) == 0 || a.Header.Get("ETag") != tags[path] {
			t.Errorf("%s past caches: %s", path, a.Status)
		}
	}
	c.put(c.draft("coordinator", coord.Order{Incident: signal, Act: entry.ActAuthorize}))
	c.register(c.enrol("agent-1", newSigner(t), entry.RoleAgent))
	for _, path := range paths[:5] {
		if a := ask(path); a.StatusCode != http.StatusOK || a.Header.Get("ETag") == tags[path] {
			t.Errorf("%s after a change: %s", path, a.Status)
		}
	}
}

// Agents are listed by domain, over pages.
func TestAgentsOfADomain(t *testing.T) {
	n := start(t, nil)
	for _, name := range []entry.Principal{"a", "b", "c"} {
		e := n.enrolment(name, newSigner(t), entry.RoleAgent)
		e.Domain = "other"
		n.register(sign(t, n.authority, e))
	}
	for query, want := range map[string]string{"domain=other&limit=2": "a b c", "domain=test&limit=1": "agent-1 monitor-1", "domain=none": "", "domain=other&after=a": "b c"} {
		var names []string
		for path := "/v1/agents?" + query; path != ""; {
			page := value[api.Agents](n, path)
			for _, a := range page.Agents {
				names = append(names, string(a.Principal))
			}
			path = page.Next
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	n.problem(n.get("/v1/agents?domain=%00"), entry.Malformed, http.StatusBadRequest)
}

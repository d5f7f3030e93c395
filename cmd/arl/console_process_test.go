//go:build unix

package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/testdata/program"
	"recoveryledger/verify"
)

// consoleProcess is arl console, listening.
type consoleProcess struct {
	m       *machine
	process *exec.Cmd
	url     string
	lines   chan string // that the process logs
}

// console starts arl console with a key whose passphrase is sesame.
func (m *machine) console(args ...string) *consoleProcess {
	m.t.Helper()
	c := &consoleProcess{m: m, lines: make(chan string, 64)}
	c.process = exec.Command(program.Arl(m.t), append([]string{"console", "--listen", "127.0.0.1:0", "--output", "json"}, args...)...)
	c.process.Env = append(os.Environ(), "ARL_HOME="+m.home, "ARL_PASSPHRASE=sesame")
	stdout, err := c.process.StdoutPipe()
	m.must(err)
	stderr, err := c.process.StderrPipe()
	m.must(err)
	m.must(c.process.Start())
	m.t.Cleanup(func() { _ = c.process.Process.Kill(); _ = c.process.Wait() }) // it may have ended
	go func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			c.lines <- lines.Text()
		}
		close(c.lines)
	}()
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		m.t.Fatalf("the console does not start: %s", <-c.lines)
	}
	var started struct{ URL string }
	m.must(json.Unmarshal(line, &started))
	c.url = strings.TrimSuffix(started.URL, "/")
	return c
}

// logs waits for a line of the process.
func (c *consoleProcess) logs(text string) {
	c.m.t.Helper()
	for line := range c.lines {
		if strings.Contains(line, text) {
			return
		}
	}
	c.m.t.Fatalf("the console ended and never said %q", text)
}

// get returns a page. A page that says that the log is being read is asked for again.
func (c *consoleProcess) get(path string) (int, string) {
	c.m.t.Helper()
	for {
		response, err := http.Get(c.url + path)
		c.m.must(err)
		body, err := io.ReadAll(response.Body)
		c.m.must(errors.Join(err, response.Body.Close()))
		if !strings.Contains(string(body), "<h1>Reading the log</h1>") {
			return response.StatusCode, html.UnescapeString(string(body))
		}
	}
}

// send sends a request that is not of the page's own, and returns how it ends.
func (c *consoleProcess) send(method, path string, form url.Values, change func(*http.Request)) (status int, leads, page string) {
	c.m.t.Helper()
	q, err := http.NewRequest(method, c.url+path, strings.NewReader(form.Encode()))
	c.m.must(err)
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if change != nil {
		change(q)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(q)
	c.m.must(err)
	body, err := io.ReadAll(response.Body)
	c.m.must(errors.Join(err, response.Body.Close()))
	return response.StatusCode, response.Header.Get("Location"), html.UnescapeString(string(body))
}

// escalated makes an incident that people must decide.
func (m *machine) escalated() (id uint64) {
	m.t.Helper()
	for _, progress := range []entry.Progress{entry.Started, entry.Confirmed} {
		m.write(&entry.Execution{Header: m.header(processAgent, "w"), Exec: "pay", Parents: []entry.Parent{}, Effect: entry.EffectIrrevocable,
			Progress: progress, IdempotencyKey: entry.DigestOf("pay")})
	}
	m.write(&entry.Signal{Header: m.header(processAgent, "w"), Subject: entry.NewRef(processAgent, "pay"), Class: "tool", Code: "error", Standing: entry.StandingExecutor,
		Effects: entry.EffectsComplete, ReplaySafety: entry.ReplayUnsafe, ObservedAt: time.Now().UnixMilli()})
	var page api.Incidents
	for len(page.Incidents) == 0 {
		m.get("/v1/incidents?state=ESCALATED", &page)
	}
	return page.Incidents[0].ID
}

// approver enrols ann, with an encrypted key.
func (m *machine) approver() (file string) {
	m.t.Helper()
	file = filepath.Join(m.home, "ann.key")
	_, err := keys.Generate(file, keys.Ed25519, func() ([]byte, error) { return []byte("sesame"), nil })
	m.must(err)
	cmd, said := m.command([]string{"ARL_PASSPHRASE=sesame"}, "agent", "enrol", "--principal", "ann", "--key", file, "--domain", "people", "--roles", "approver")
	if err := cmd.Run(); err != nil {
		m.t.Fatalf("enrol: %v: %s", err, said)
	}
	return file
}

// TestConsoleSigns approves a waiting incident from its page. Nobody else gets at the
// page, and nothing but what it showed is signed.
func TestConsoleSigns(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.enrol()
	ann := m.approver()
	id := m.escalated()
	c := m.console("--key", ann)
	if _, body := c.get("/"); !strings.Contains(body, "✓ derived here from") || !strings.Contains(body, fmt.Sprintf("/incidents/%d", id)) {
		t.Errorf("overview: %s", body)
	}
	path := fmt.Sprintf("/incidents/%d/act/approve", id)
	status, body := c.get(path)
	if status != http.StatusOK || !strings.Contains(body, "1 of 1 approvals then: the coordinator puts the plan in force") {
		t.Fatalf("%d: %s", status, body)
	}
	form := filled(body)
	address, err := url.Parse(c.url)
	m.must(err)
	secret, err := os.Stat(filepath.Join(m.home, "console"))
	m.must(err)
	if secret.Mode().Perm() != 0o600 || len(address.Path) != 33 {
		t.Errorf("the capability %s is in a file of mode %s", address.Path, secret.Mode())
	}
	for name, test := range map[string]struct {
		method, path string
		change       func(*http.Request)
		status       int
	}{
		"a name that resolves to loopback": {http.MethodGet, "/", func(q *http.Request) { q.Host = "evil.example:" + address.Port() }, 421},
		"localhost":                        {http.MethodGet, "/", func(q *http.Request) { q.Host = "localhost:" + address.Port() }, 421},
		"another site's form":              {http.MethodPost, path, func(q *http.Request) { q.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		"another origin's form":            {http.MethodPost, path, func(q *http.Request) { q.Header.Set("Origin", "http://127.0.0.1:1") }, 403},
		"another site's sweep":             {http.MethodPost, "/lab/sweep", func(q *http.Request) { q.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		"no capability":                    {http.MethodGet, "", func(q *http.Request) { q.URL.Path = "/" }, 404},
		"a wrong capability":               {http.MethodGet, "", func(q *http.Request) { q.URL.Path = "/" + strings.Repeat("0", 32) + "/" }, 404},
		"a longer capability":              {http.MethodGet, "", func(q *http.Request) { q.URL.Path += "0/" }, 404},
	} {
		if status, _, body := c.send(test.method, test.path, form, test.change); status != test.status || strings.Contains(body, "<h1>") {
			t.Errorf("%s: %d, want %d: %s", name, status, test.status, body)
		}
	}
	before := m.head()
	form.Set("passphrase", "open")
	if status, _, body := c.send(http.MethodPost, path, form, nil); status != http.StatusForbidden || m.head() != before {
		t.Errorf("a wrong passphrase: %d: %s", status, body)
	}
	form.Set("passphrase", "sesame")
	status, leads, body := c.send(http.MethodPost, path, form, nil)
	if status != http.StatusSeeOther {
		t.Fatalf("%d: %s", status, body)
	}
	c.url = strings.TrimSuffix(c.url, address.Path)
	if _, body := c.get(leads); !strings.Contains(body, "Signed and registered") {
		t.Errorf("afterwards: %s", body)
	}
	said := m.arl("entry", "list", "--kind", "approval", "--output", "json")
	if !strings.Contains(said, `"iss":"ann"`) {
		t.Errorf("approvals: %s", said)
	}
	m.must(c.process.Process.Signal(syscall.SIGTERM))
	for range c.lines { // until it ends
	}
	m.must(c.process.Wait())
	again := m.console("--read-only", "--key", ann)
	if strings.Count(again.url, address.Path) != 1 {
		t.Errorf("the address has changed from %s to %s", address.Path, again.url)
	}
	if _, body := again.get(fmt.Sprintf("/incidents/%d", id)); strings.Contains(body, "/act/") {
		t.Errorf("a console that only reads links acts: %s", body)
	}
	m.unconfirmed(id)
	if cmd, said := m.command(nil, "console", "--listen", "0.0.0.0:0"); exitOf(cmd.Run()) != 2 {
		t.Errorf("a console for everybody: %s", said)
	}
}

// filled is the form of a page, with what the page fills in, a reason and the passphrase.
func filled(page string) url.Values {
	form := url.Values{"reason": {"the invoice was wrong"}, "passphrase": {"sesame"}}
	for _, field := range regexp.MustCompile(`<input type="(?:hidden|radio)" name="(\w+)" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		form.Set(field[1], field[2])
	}
	return form
}

// unconfirmed tries to sign with the profile's key, which has no passphrase, where no
// terminal is there to confirm in.
func (m *machine) unconfirmed(id uint64) {
	m.t.Helper()
	var incident api.Incident
	for incident.State != "AUTHORIZED" { // what is shown changes until then
		m.must(m.t.Context().Err())
		m.get(fmt.Sprintf("/v1/incidents/%d", id), &incident)
	}
	c := m.console()
	path := fmt.Sprintf("/incidents/%d/act/override", id)
	_, page := c.get(path)
	for !strings.Contains(page, fmt.Sprintf("derived here from %d entries", m.head().Size)) { // it begins with a kept fold
		m.must(m.t.Context().Err())
		_, page = c.get(path)
	}
	form := filled(page)
	before := m.head()
	if status, _, body := c.send(http.MethodPost, path, form, nil); status != http.StatusForbidden || !strings.Contains(body, "no terminal is there to confirm in") || m.head() != before {
		m.t.Errorf("without a confirmation: %d: %s", status, body)
	}
}

// TestConsoleOfAChangedLog has a proxy change an entry on its way. The console shows nothing of
// that log any more, signs nothing, and accuses nobody: the proxy is at fault, and not the ledger.
func TestConsoleOfAChangedLog(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.enrol()
	ann := m.approver()
	target, err := url.Parse(m.url)
	m.must(err)
	var lies atomic.Bool
	front := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(q *httputil.ProxyRequest) {
			q.SetURL(target)
			q.Out.Header.Set("Accept-Encoding", "identity")
		},
		ModifyResponse: func(r *http.Response) error {
			if !lies.Load() || !strings.HasPrefix(r.Request.URL.Path, "/tile/entries/") {
				return nil
			}
			entries, err := io.ReadAll(r.Body)
			if err == nil {
				entries[len(entries)-2] ^= 1 // the last digit of registered_at
			}
			r.Body = io.NopCloser(bytes.NewReader(entries))
			return err
		},
	})
	defer front.Close()
	c := m.console("--url", front.URL, "--key", ann)
	if _, body := c.get("/log"); !strings.Contains(body, "✓ derived here") {
		t.Errorf("before: %s", body)
	}
	lies.Store(true)
	if status, body, err := m.post(m.execution()); err != nil || status != http.StatusCreated {
		t.Fatalf("%d %s %v", status, body, err)
	}
	c.logs("the ledger contradicts itself")
	status, body := c.get("/agents/ann")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "Nothing is signed") || strings.Contains(body, "The evidence is in") || strings.Contains(body, "<nav") {
		t.Errorf("a changed entry: %d: %s", status, body)
	}
	if status, _, _ := c.send(http.MethodPost, "/incidents/1/act/approve", url.Values{}, nil); status != http.StatusServiceUnavailable {
		t.Errorf("something can be signed: %d", status)
	}
	m.must(c.process.Process.Signal(syscall.SIGTERM))
	for range c.lines {
	}
	if err := c.process.Wait(); exitOf(err) != 10 {
		t.Errorf("the console ends with %v", err)
	}
}

// TestConsoleOutlivesTheLedger shows the last verified state without contact, goes on
// when the ledger is back, and shows a fork and nothing else when it is not the same.
func TestConsoleOutlivesTheLedger(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.enrol()
	ann := m.approver()
	m.stop()
	first, twin := m.data, filepath.Join(t.TempDir(), "twin")
	for _, part := range []string{"", ".anchor"} {
		m.must(exec.Command("cp", "-a", first+part, twin+part).Run())
	}
	var target atomic.Pointer[url.URL]
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(q *httputil.ProxyRequest) { q.SetURL(target.Load()) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }})
	defer front.Close()
	aim := func() {
		at, err := url.Parse(m.url)
		m.must(err)
		target.Store(at)
	}
	write := func() (index uint64) {
		status, body, err := m.post(m.execution())
		if err != nil || status != http.StatusCreated {
			t.Fatalf("%d %s %v", status, body, err)
		}
		var receipt verify.Receipt
		m.must(json.Unmarshal(body, &receipt))
		return receipt.Index
	}
	m.start()
	aim()
	c := m.console("--url", front.URL, "--key", ann)
	if _, body := c.get("/log"); !strings.Contains(body, "✓ derived here") {
		t.Errorf("with contact: %s", body)
	}
	m.kill()
	c.logs("no contact with the ledger")
	if status, body := c.get("/log/0"); status != http.StatusServiceUnavailable {
		t.Errorf("an entry whose bytes only the ledger has: %d: %s", status, body)
	}
	if status, body := c.get("/agents/ann"); status != http.StatusOK || !strings.Contains(body, "no contact with the ledger since 20") {
		t.Errorf("without contact: %d: %s", status, body)
	}
	m.start()
	aim()
	index := write()
	c.logs("in contact with the ledger again")
	for _, body := c.get("/log"); !strings.Contains(body, fmt.Sprintf("derived here from %d entries", index+1)); {
		_, body = c.get("/log")
	}
	if status, body := c.get(fmt.Sprintf("/log/%d", index)); status != http.StatusOK || !strings.Contains(body, "execution") {
		t.Errorf("the new entry: %d: %s", status, body)
	}
	m.stop()

	m.data, m.args = twin, []string{"--home", t.TempDir()} // a machine that has accepted nothing
	m.start()
	for published := ""; !strings.Contains(published, fmt.Sprintf("\n%d\n", index+1)); {
		if published == "" {
			write() // another entry at the same index
		}
		response, err := http.Get(m.url + "/checkpoint")
		m.must(err)
		note, err := io.ReadAll(response.Body)
		m.must(errors.Join(err, response.Body.Close()))
		published = string(note)
	}
	aim()
	c.logs("the ledger contradicts itself")
	status, body := c.get("/agents/ann")
	evidence := regexp.MustCompile(`arl verify (\S+\.json)`).FindStringSubmatch(body)
	if status != http.StatusServiceUnavailable || evidence == nil || strings.Contains(body, "<nav") {
		t.Fatalf("a fork: %d: %s", status, body)
	}
	if status, _, _ := c.send(http.MethodPost, "/incidents/1/act/approve", url.Values{}, nil); status != http.StatusServiceUnavailable {
		t.Errorf("something can be signed: %d", status)
	}
	if cmd, said := m.command(nil, "verify", evidence[1]); exitOf(cmd.Run()) != 10 {
		t.Errorf("the evidence: %s", said)
	}
	m.must(c.process.Process.Signal(syscall.SIGTERM))
	for range c.lines {
	}
	if err := c.process.Wait(); exitOf(err) != 10 {
		t.Errorf("the console ends with %v", err)
	}
}

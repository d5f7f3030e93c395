package browser

import (
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestArrive watches an incident to its end in pages that stay open: approvals, the decision, an
// outcome and the record arrive by themselves. What the pointer stands on does not change and does
// not move, until r is pressed.
func TestArrive(t *testing.T) {
	l := start(t)
	id := l.escalate("letter", "monitor")
	free := open(t)
	pointed := free.another()
	for _, tab := range []*tab{free, pointed} {
		tab.do(chromedp.Navigate(l.url + "/incidents/" + id))
		tab.says("0 of 2 approvals")
	}
	lead := eval[[]float64](pointed, `(({x, y, width, height}) => [x + width / 2, y + height / 2])(document.getElementById("lead").getBoundingClientRect())`)
	pointed.do(chromedp.MouseEvent(chromedp.MouseMoved, lead[0], lead[1]))
	pointed.await(`document.getElementById("lead").matches(":hover")`)
	const places = `JSON.stringify([...document.querySelectorAll("main section, main table, main .acts, #lead, #facts")].map(e => [e.id, e.getBoundingClientRect().y]))`
	before := eval[string](pointed, places)

	l.arl("", "incident", "approve", id, "--reason", "checked", "--yes", "--key", l.key("ann"))
	free.await(`document.getElementById("lead").textContent.includes("1 of 2 approvals")`)
	pointed.await(`document.getElementById("news").textContent.includes("press r")`)
	if text := eval[string](pointed, `document.getElementById("lead").textContent`); !strings.Contains(text, "0 of 2 approvals") {
		t.Errorf("what the pointer stands on has changed: %s", text)
	}
	if after := eval[string](pointed, places); after != before {
		t.Errorf("the page has moved:\n%s, was\n%s", after, before)
	}

	l.arl("", "incident", "approve", id, "--reason", "checked", "--yes", "--key", l.key("ben"))
	free.await(`document.getElementById("news").textContent.includes("press r") || document.getElementById("lead").textContent.includes("AUTHORIZED")`)
	free.do(chromedp.KeyEvent("r"))
	free.says("1 of 1 outcomes")
	var decision string
	for decision == "" {
		shown := l.arl("", "incident", "show", id, "--output", "json")
		if _, rest, found := strings.Cut(shown, `"decision":{"ref":`); found {
			decision, _, _ = strings.Cut(rest, `}`)
			decision += "}"
		}
	}
	l.submit("outcome", "mailer", fmt.Sprintf(`{"wid": "letter", "incident": %s, "decision": %s, "exec": "mailer#letter", "result": "irrevocable", `+
		`"residual": "the letter is sent", "observed_at": 1}`, id, decision))
	free.await(`document.getElementById("news").textContent.includes("press r") || document.getElementById("lead").textContent.includes("FAILED")`)
	free.do(chromedp.KeyEvent("r"))
	free.says("FAILED")
	free.says("1 irrevocable")
	pointed.do(chromedp.KeyEvent("r"))
	pointed.says("FAILED")
	for _, tab := range []*tab{free, pointed} {
		if len(tab.problems) > 0 {
			t.Errorf("the console says: %q", tab.problems)
		}
	}
}

// TestFork has a ledger show another history than the one that a console has derived: the open page
// gives way to the red one, and so does every other page.
func TestFork(t *testing.T) {
	one, other := start(t), start(t)
	var served atomic.Pointer[url.URL]
	show := func(l *ledger) {
		to, err := url.Parse(l.url)
		if err != nil {
			t.Fatal(err)
		}
		served.Store(to)
	}
	show(one)
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(q *httputil.ProxyRequest) { q.SetURL(served.Load()) }})
	t.Cleanup(proxy.Close)
	one.exit = map[string]int{"console": 10} // a contradiction
	one.submit("execution", "booker", step("one"))
	console := strings.TrimSuffix(one.serve("console", "--url", proxy.URL, "--home", one.home(), "--listen", "127.0.0.1:0", "--read-only"), "/")
	page := open(t)
	page.do(chromedp.Navigate(console + "/log"))
	page.says("one confirmed")
	for _, exec := range []string{"two", "three"} {
		other.submit("execution", "booker", step(exec))
	}
	show(other)
	page.await(`document.readyState === "complete" && document.querySelector("h1")?.textContent === "Do not trust this ledger"`)
	if nav := eval[bool](page, `document.querySelector("nav") !== null`); nav {
		t.Error("the red page links other pages")
	}
	for _, broken := range page.axe() {
		t.Errorf("the red page: %s", broken)
	}
	if found, err := filepath.Glob(filepath.Join(one.home(), "evidence", "*")); err != nil || len(found) == 0 {
		t.Errorf("no evidence is kept: %v", err)
	}
	page.do(chromedp.Navigate(console + "/incidents/43"))
	page.says("Do not trust")
}

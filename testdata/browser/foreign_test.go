package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestForeignSites has another site do what it can with the address of a console, should it know
// it: frame the page that approves, send its form, and call the console by another name, as after
// DNS rebinding. Each is refused, and nothing is signed.
func TestForeignSites(t *testing.T) {
	l := start(t)
	url := l.console()
	act := url + "/incidents/" + l.escalate("letter", "monitor") + "/act/approve"
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<!doctype html><title>a game</title><iframe src="%s"></iframe>
			<form method="post" action="%[1]s"><input name="reason" value="yes"><input name="passphrase" value="%s"><button>play</button></form>`, act, passphrase)
	}))
	defer site.Close()
	page := open(t)
	page.do(chromedp.Navigate(strings.Replace(site.URL, "127.0.0.1", "localhost", 1)))
	page.await(`document.readyState === "complete"`)
	page.do(chromedp.Click(chromedp.CSS("button")))
	page.await(`document.body.textContent.includes("cross-origin request detected")`)
	page.do(chromedp.Navigate(strings.Replace(act, "127.0.0.1", "localhost", 1)))
	page.await(`document.body.textContent.includes("not called by that name")`)
	if !slices.ContainsFunc(page.problems, func(says string) bool { return strings.Contains(says, "frame-ancestors") }) {
		t.Errorf("the page of another site shows the console in a frame: %q", page.problems)
	}
	if approvals := l.arl("", "entry", "list", "--kind", "approval", "-o", "json"); strings.Contains(approvals, `"eve"`) || strings.Contains(approvals, `"fay"`) {
		t.Errorf("another site has approved: %s", approvals)
	}
}

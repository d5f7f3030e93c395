package browser

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// step is an execution without effect.
func step(exec string) string {
	return `{"wid": "offer", "exec": "` + exec + `", "parents": [], "effect": "none", "progress": "confirmed"}`
}

// TestLive looks at pages while the log grows. One stream feeds all tabs. A new row waits for r; a
// tab takes the stream over from one that is closed.
func TestLive(t *testing.T) {
	l := start(t)
	first := open(t)
	second := first.another()
	first.do(chromedp.Navigate(l.url + "/workflows/offer"))
	second.do(chromedp.Navigate(l.url + "/log"))
	l.submit("execution", "booker", step("more-1"))
	for _, tab := range []*tab{first, second} {
		tab.await(`document.getElementById("news").textContent === "1 new, press r"`)
		if eval[bool](tab, `document.querySelector("main").textContent.includes("more-1")`) {
			t.Error("a new row has come without being asked for")
		}
	}
	if streams := l.metric("arl_event_streams"); streams != "1" {
		t.Errorf("two tabs have %s streams", streams)
	}
	second.do(chromedp.KeyEvent("r"))
	second.await(`document.querySelector("main").textContent.includes("more-1") && !document.getElementById("news").textContent`)

	first.close()
	l.submit("execution", "booker", step("more-2"))
	second.await(`document.getElementById("news").textContent === "1 new, press r"`)
	if streams := l.metric("arl_event_streams"); streams != "1" {
		t.Errorf("a tab has %s streams", streams)
	}
}

// TestLiveInPlace watches an incident get its approvals: what has the same height changes where it
// stands, but for a part that has the focus.
func TestLiveInPlace(t *testing.T) {
	l := start(t)
	page := open(t)
	id := l.escalate("letter", "monitor")
	page.do(chromedp.Navigate(l.url + "/incidents/" + id))
	page.await(`document.getElementById("lead").textContent.includes("0 of 2 approvals")`)
	l.arl("", "incident", "approve", id, "--reason", "checked", "--yes", "--key", l.key("ann"))
	page.await(`document.getElementById("lead").textContent.includes("1 of 2 approvals")`)
	if text := eval[string](page, `document.getElementById("news").textContent`); !strings.HasPrefix(text, "1 new") {
		t.Errorf("the news: %q", text)
	}
	if problems := page.problems; len(problems) > 0 {
		t.Errorf("the console says: %q", problems)
	}
}

// letter is an entry about a letter that mailer sends.
func letter(exec, progress string) string {
	return `{"wid": "` + exec + `", "exec": "` + exec + `", "parents": [], "effect": "irrevocable", "idempotency_key": "sha256:` +
		strings.Repeat("0", 64) + `", "progress": "` + progress + `"}`
}

// escalate has somebody signal that a letter failed. It returns the incident, which waits for two
// approvals.
func (l *ledger) escalate(exec, signaler string) string {
	l.t.Helper()
	for _, progress := range []string{"planned", "started"} {
		l.submit("execution", "mailer", letter(exec, progress))
	}
	l.arl("", "signal", "submit", "--subject", "mailer#"+exec, "--class", "output", "--code", "ungrounded", "--effects", "none", "--key", l.key(signaler))
	for {
		for line := range strings.Lines(l.arl("", "incident", "list", "--state", "open")) {
			if fields := strings.Fields(line); len(fields) > 2 && fields[2] == "ESCALATED" {
				return fields[0]
			}
		}
		if err := l.t.Context().Err(); err != nil {
			l.t.Fatal(err)
		}
	}
}

// metric is a value of the ledger's metrics.
func (l *ledger) metric(name string) string {
	l.t.Helper()
	response, err := http.Get(l.url + "/metrics")
	if err != nil {
		l.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return "no " + name
}

// TestWithoutJavaScript reads the pages in a browser that runs no script.
func TestWithoutJavaScript(t *testing.T) {
	l := start(t)
	page := open(t)
	page.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}))
	page.do(chromedp.Navigate(l.url+"/"), chromedp.Click(chromedp.CSS(`nav a[href="/incidents"]`)),
		chromedp.WaitVisible(chromedp.CSS(`select[name="state"]`)), chromedp.SendKeys(chromedp.CSS(`input[name="agent"]`), "booker\r"),
		chromedp.WaitVisible(chromedp.CSS(`input[name="agent"][value="booker"]`)), // the page before has the link, too
		chromedp.WaitVisible(chromedp.CSS(`td a[href="/incidents/43"]`)), chromedp.Click(chromedp.CSS(`td a[href="/incidents/43"]`)),
		chromedp.WaitVisible(chromedp.CSS("svg a")))
	for _, id := range []string{"copy-command", "show-keys", "keys-help"} {
		if shown, err := chromedp.Run(page.ctx, chromedp.ComputedStyle(chromedp.CSS("#"+id), chromedp.NodeReady)); err != nil {
			t.Error(err)
		} else {
			for _, property := range shown {
				if property.Name == "display" && property.Value != "none" {
					t.Errorf("%s is shown and does nothing", id)
				}
			}
		}
	}
}

// TestKeys walks the pages with keys alone.
func TestKeys(t *testing.T) {
	l := start(t)
	page := open(t)
	at := func(path string) {
		page.await(`document.readyState === "complete" && location.pathname + location.search === "` + path + `"`)
	}
	page.do(chromedp.Navigate(l.url+"/"), chromedp.KeyEvent("gi"))
	at("/incidents")
	page.do(chromedp.KeyEvent("jj\r"))
	at("/incidents/19")
	page.do(chromedp.KeyEvent("gr")) // r alone would show what is new
	at("/rollouts")
	page.do(chromedp.KeyEvent("gi"))
	at("/incidents")
	page.do(chromedp.KeyEvent("/"), chromedp.KeyEvent("gl"), chromedp.KeyEvent("\r")) // in a field keys are letters
	page.await(`document.readyState === "complete" && location.search.includes("gl")`)
	page.do(chromedp.KeyEvent("?"))
	page.await(`document.getElementById("keys-help").open`)
	for _, broken := range page.axe() {
		t.Errorf("the list of keys: %s", broken)
	}
	page.do(chromedp.Click(chromedp.CSS("#keys-on")), chromedp.Click(chromedp.CSS("#keys-help button")), chromedp.KeyEvent("ga"))
	if place := eval[string](page, "location.pathname"); place != "/incidents" {
		t.Errorf("keys are off, and lead to %s", place)
	}
}

// TestThreads points at a box of a plan: what leads there and what follows from it lights up.
func TestThreads(t *testing.T) {
	l := start(t)
	page := open(t)
	page.do(chromedp.Navigate(l.url + "/incidents/43"))
	for box, want := range map[string]string{ // the draft was not built on the booking
		"booker#hold":  "booker#hold mailer#reminder mailer#send pricer#quote researcher#facts",
		"writer#draft": "mailer#reminder mailer#send pricer#quote researcher#facts writer#draft",
	} {
		eval[chromedp.Void](page, `[...document.querySelectorAll("svg a")].find(a => a.textContent.startsWith("`+box+`:")).focus()`)
		lit := eval[string](page, `[...document.querySelectorAll("svg.lit a.on title")].map(title => title.textContent.split(":")[0]).sort().join(" ")`)
		if lit != want {
			t.Errorf("%s lights up %s, want %s", box, lit, want)
		}
	}
	eval[chromedp.Void](page, "document.activeElement.blur()")
	page.await(`!document.querySelector("svg.lit")`)
}

// TestLease watches the lease of a task run down. The page asks for it again, because no entry
// tells of a renewal. Once the lease is lost, the page tells none.
func TestLease(t *testing.T) {
	l := start(t)
	l.arl("", "task", "create", "report", "--reason", "weekly", "--lease-ms", "9000")
	l.arl("", "task", "reassign", "operator#report", "--agent", "booker", "--reason", "by hand", "--yes")
	page := open(t)
	page.do(chromedp.Navigate(l.url + "/tasks/operator%23report"))
	left := `Number(/until 20.*, 9s a term \((\d) s left\)/.exec(document.getElementById("lease")?.textContent)?.[1])`
	page.await(left + " >= 4")
	page.await(left + " < 4")
	if asked := eval[int](page, `performance.getEntriesByType("resource").filter(r => r.name === location.href).length`); asked == 0 {
		t.Error("the page has not asked whether the lease was renewed")
	}
	page.await(`document.getElementById("news").textContent === "1 new, press r"`)
	page.do(chromedp.KeyEvent("r"))
	page.await(`!document.getElementById("lease") && document.querySelector("main").textContent.includes("crash.lost")`)
}

// TestManyTabs has more tabs on one console than HTTP/1.1 allows a browser connections, which are
// six. With ARL_CHAOS in the environment there are the 50 of the goal: 50 tabs take Chromium a
// minute. Each tab tells of a new entry, the next page still comes, and the console takes little
// memory for them.
func TestManyTabs(t *testing.T) {
	count := 8
	if os.Getenv("ARL_CHAOS") != "" {
		count = 50
	}
	l := start(t)
	url := strings.TrimSuffix(l.serve("console", "--url", l.url, "--home", l.home(), "--listen", "127.0.0.1:0", "--read-only"), "/")
	tabs := []*tab{open(t)}
	for len(tabs) < count {
		tabs = append(tabs, tabs[0].another())
	}
	for n, page := range tabs {
		page.do(chromedp.Navigate(url + []string{"/workflows/offer", "/log"}[n%2]))
	}
	l.submit("execution", "booker", step("more"))
	for _, page := range tabs {
		page.await(`document.getElementById("news").textContent.startsWith("1 new")`)
	}
	tabs[count-1].do(chromedp.Navigate(url + "/workflows/offer"))
	tabs[count-1].says("booker#more")
	l.end["console"]()
	memory := l.ran["console"].ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10 // in MiB: Linux counts KiB
	t.Logf("a console with %d tabs takes %d MiB", count, memory)
	if memory > 256 {
		t.Errorf("a console with %d tabs takes %d MiB, want at most 256", count, memory)
	}
}

package browser

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const passphrase = "sesame"

// console starts arl console with the keys of two new approvers, eve and fay.
func (l *ledger) console() (url string) {
	l.t.Helper()
	l.t.Setenv("ARL_PASSPHRASE", passphrase)
	args := []string{"console", "--url", l.url, "--home", l.home(), "--listen", "127.0.0.1:0"}
	for _, name := range []string{"eve", "fay"} {
		key := filepath.Join(l.dir, name+".key")
		l.generate(key)
		l.arl("", "agent", "enrol", "--principal", name, "--key", key, "--domain", "people", "--roles", "approver")
		args = append(args, "--key", key)
	}
	return strings.TrimSuffix(l.serve(args...), "/")
}

// focused moves the focus with Tab until an element has it.
func (p *tab) focused(selector string) {
	p.t.Helper()
	for range 100 {
		if eval[bool](p, `document.activeElement.matches(`+quote(selector)+`)`) {
			return
		}
		p.do(chromedp.KeyEvent(kb.Tab))
	}
	p.t.Fatalf("Tab does not lead to %s, but to %s", selector, eval[string](p, "document.activeElement.outerHTML.slice(0, 200)"))
}

func quote(text string) string {
	quoted, _ := json.Marshal(text) // a text is JSON
	return string(quoted)
}

// says waits until a page says a text.
func (p *tab) says(text string) {
	p.t.Helper()
	p.await(`document.readyState === "complete" && document.querySelector("main").textContent.includes(` + quote(text) + `)`)
}

// TestApprove has two people decide an incident: one with keys alone, from the overview, the other
// with the mouse in another tab. Each page tells what the other does.
func TestApprove(t *testing.T) {
	l := start(t)
	url := l.console()
	id := l.escalate("letter", "monitor")
	keyboard := open(t)
	mouse := keyboard.another()
	incident := "/incidents/" + id
	mouse.do(chromedp.Navigate(url + incident))
	mouse.says("0 of 2 approvals")

	keyboard.do(chromedp.Navigate(url + "/"))
	keyboard.says("mailer#letter")
	if badge := eval[string](keyboard, `document.getElementById("badge").textContent`); !strings.Contains(badge, "✓ derived here from") {
		t.Errorf("the page does not say what was verified: %s", badge)
	}
	keyboard.do(chromedp.KeyEvent("j\r"))
	keyboard.says("0 of 2 approvals")
	keyboard.focused(`a[href$="/act/approve"]`)
	keyboard.do(chromedp.KeyEvent("\r"))
	keyboard.says("1 of 2 approvals then")            // what the act will do
	keyboard.says("Members that cannot be undone: 1") // and what it cannot undo
	for _, broken := range keyboard.axe() {
		t.Errorf("the page that approves: %s", broken)
	}
	keyboard.focused(`textarea[name="reason"]`)
	keyboard.do(chromedp.KeyEvent("the customer agrees"))
	keyboard.focused(`input[name="passphrase"]`)
	keyboard.do(chromedp.KeyEvent(passphrase + "\r"))
	keyboard.says("Signed and registered")
	keyboard.says("1 of 2 approvals")

	mouse.says("1 of 2 approvals") // by itself
	mouse.do(chromedp.Click(chromedp.CSS(`a[href$="/act/approve"]`)))
	mouse.says("2 of 2 approvals then") // with the key of who has not answered
	another := `[...document.querySelectorAll("button[name=look]")].find(b => b.value !== document.querySelector("input[name=key]").value).click()`
	eval[chromedp.Void](mouse, another)
	mouse.says("1 of 2 approvals then") // drafted again, with the key of who has
	eval[chromedp.Void](mouse, another)
	mouse.says("2 of 2 approvals then")
	mouse.do(chromedp.SendKeys(chromedp.CSS(`textarea[name="reason"]`), "I checked"),
		chromedp.SendKeys(chromedp.CSS(`input[name="passphrase"]`), passphrase), chromedp.Click(chromedp.CSS(`form.act button[type="submit"]`)))
	mouse.says("Signed and registered")
	mouse.await(`document.getElementById("news").textContent.includes("press r") || document.getElementById("lead").textContent.includes("AUTHORIZED")`)
	keyboard.await(`document.getElementById("news").textContent.includes("press r") || document.getElementById("lead").textContent.includes("AUTHORIZED")`)
	keyboard.do(chromedp.KeyEvent("r"))
	keyboard.says("AUTHORIZED")
	for _, tab := range []*tab{keyboard, mouse} {
		if len(tab.problems) > 0 {
			t.Errorf("the console says: %q", tab.problems)
		}
	}
}

// TestChangedPlan signs a page whose plan has changed: nothing is signed.
func TestChangedPlan(t *testing.T) {
	l := start(t)
	url := l.console()
	id := l.escalate("letter", "mailer")
	page := open(t)
	page.do(chromedp.Navigate(url + "/incidents/" + id))
	page.says("0 of 2 approvals")
	for _, act := range eval[[]string](page, `[...document.querySelectorAll('a[href*="/act/"]')].map(a => a.href)`) {
		page.look(390, "dark")
		page.do(chromedp.Navigate(act))
		for _, broken := range page.axe() {
			t.Errorf("%s: %s", act, broken)
		}
		if wide := eval[int64](page, "document.documentElement.scrollWidth"); wide > 390 {
			t.Errorf("%s is %d px wide on 390 px", act, wide)
		}
	}
	page.do(chromedp.Navigate(url + "/incidents/" + id + "/act/approve"))
	page.says("1 of 2 approvals then")
	l.submit("execution", "mailer", letter("letter", "failed")) // there is nothing left to undo
	page.do(chromedp.SendKeys(chromedp.CSS(`textarea[name="reason"]`), "I checked"), chromedp.SendKeys(chromedp.CSS(`input[name="passphrase"]`), passphrase),
		chromedp.Click(chromedp.CSS(`form.act button[type="submit"]`)))
	page.await(`document.readyState === "complete" && document.querySelector("main .alarm[role=alert]") !== null`)
	if approvals := l.arl("", "entry", "list", "--kind", "approval", "-o", "json"); strings.Contains(approvals, `"eve"`) {
		t.Errorf("a changed plan was approved: %s", approvals)
	}
}

// TestLostContact ends the ledger behind a console: an open page says that it is as of then.
func TestLostContact(t *testing.T) {
	l := start(t)
	url := l.console()
	page := open(t)
	page.do(chromedp.Navigate(url + "/incidents/43"))
	page.says("PARTIAL")
	l.end["serve"]()
	page.await(`document.getElementById("news").textContent.startsWith("No contact with the ledger since ")`)
	page.await(`document.getElementById("badge").textContent.includes("no contact with the ledger since")`)
}

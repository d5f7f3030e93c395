package browser

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// hostile passes for markup, reorders what stands beside it, cannot be seen, and does not break.
const hostile = "</td></table><script>window.taken = 1</script><img src=x onerror='window.taken = 1'>\u202egnp\u2066\u200b\u0000\n\t${taken} {{.}} javascript:taken=1 "

// TestHostileTexts has an agent write the worst that it may into every text of its own: the pages
// show the text, run nothing, and do not scroll sideways.
func TestHostileTexts(t *testing.T) {
	l := start(t)
	id := l.escalate("letter", "monitor")
	long := strings.Repeat("w", 128)
	write := func(kind, principal string, payload map[string]any) {
		text, err := json.Marshal(payload)
		if err != nil {
			t.Fatal(err)
		}
		l.submit(kind, principal, string(text))
	}
	write("execution", "mailer", map[string]any{"wid": long, "exec": long, "parents": []string{}, "effect": "none", "progress": "confirmed"})
	write("signal", "monitor", map[string]any{
		"subject": "mailer#" + long, "wid": long, "class": strings.Repeat("c", 64), "code": strings.Repeat("d", 64), "standing": "monitor", "effects": "unknown",
		"replay_safety": "unknown", "observed_at": 1, "detail": hostile + strings.Repeat("W", 1024-len(hostile)),
		"evidence": []map[string]string{{"digest": "sha256:" + strings.Repeat("0", 64), "uri": "javascript:" + strings.Repeat("u", 1000)}},
	})
	l.arl("", "incident", "approve", id, "--reason", strings.ReplaceAll(hostile, "\x00", "")+strings.Repeat("R", 800), "--yes", "--key", l.key("ann"))
	write("attempt", "mailer", map[string]any{
		"wid": long, "agent": "mailer", "case": long, "status": "escalated", "facts": map[string]any{hostile: hostile + strings.Repeat("F", 30_000)},
		"rungs": []map[string]any{{"attempt": 1, "class": "tool", "code": "error", "rule": "r1", "strategy": "escalate_to_human", "result": "escalated", "reason": hostile + strings.Repeat("R", 800)}},
	})

	tab := open(t)
	for _, view := range hostileViews(tab, l) {
		tab.do(chromedp.Navigate(l.url + view))
		for _, width := range []int64{1280, 390} {
			tab.look(width, "light")
			if wide := eval[int64](tab, "document.documentElement.scrollWidth"); wide > width {
				t.Errorf("%s is %d px wide on %d px: %s", view, wide, width,
					eval[string](tab, `[...document.querySelectorAll("main *")].filter(e => e.getBoundingClientRect().right > innerWidth).map(e => `+
						`e.outerHTML.slice(0, 100)).slice(0, 5).join("\n")`))
			}
		}
		for _, broken := range tab.axe() {
			t.Errorf("%s: %s", view, broken)
		}
		if eval[bool](tab, `"taken" in window || document.querySelector("main script, main img") !== null`) {
			t.Errorf("%s: a text has become markup", view)
		}
	}
	if len(tab.problems) > 0 {
		t.Errorf("the console says: %q", tab.problems)
	}
}

// hostileViews are the pages that show what was written last.
func hostileViews(tab *tab, l *ledger) []string {
	tab.do(chromedp.Navigate(l.url + "/log"))
	newest := eval[[]string](tab, `[...document.querySelectorAll("tbody tr")].slice(0, 7).map(row => row.querySelector("a").getAttribute("href"))`)
	tab.do(chromedp.Navigate(l.url + "/incidents"))
	incidents := eval[[]string](tab, `[...document.querySelectorAll("tbody tr")].slice(0, 2).map(row => row.querySelector("a").getAttribute("href"))`)
	return append(append(newest, incidents...), "/", "/incidents", "/log", "/agents/mailer", "/workflows/"+strings.Repeat("w", 128))
}

// TestPrint prints an incident: without what only a screen has, and whole.
func TestPrint(t *testing.T) {
	l := start(t)
	tab := open(t)
	tab.look(390, "dark")
	tab.do(chromedp.Navigate(l.url+"/log/49"), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
		return err
	}))
	for _, selector := range []string{"nav", "#copy-command", "#show-keys", "#verify", ".skip"} {
		if eval[string](tab, `getComputedStyle(document.querySelector("`+selector+`")).display`) != "none" {
			t.Errorf("%s is printed", selector)
		}
	}
	if eval[bool](tab, `[...document.querySelectorAll("pre")].some(e => e.scrollHeight > e.clientHeight)`) {
		t.Error("a payload is cut")
	}
	if color := eval[string](tab, `getComputedStyle(document.body).color`); color != "rgb(27, 31, 36)" {
		t.Errorf("dark pages are printed in the color %s", color)
	}
	tab.do(chromedp.Navigate(l.url + "/incidents/43"))
	if eval[string](tab, `getComputedStyle(document.querySelector("thead")).position`) != "static" {
		t.Error("a table is printed without its head")
	}
	printed, err := chromedp.Run(tab.ctx, func(ctx context.Context, t *chromedp.Target) (page.PrintToPDFResult, error) {
		return cdp.Call(ctx, t, page.PrintToPDF, page.PrintToPDFParams{})
	})
	if err != nil || len(printed.Data) < 1000 {
		t.Errorf("no print: %v", err)
	}
}

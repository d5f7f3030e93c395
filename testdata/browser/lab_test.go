package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// lab starts arl console with a scenario, a policy and a run.
func (l *ledger) lab() (url string) {
	l.t.Helper()
	dir := filepath.Join(l.dir, "runs")
	cases, err := os.ReadFile("../tool_chain_failures.ndjson")
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "cases.ndjson"), cases, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "hasty.yaml"), []byte("recovery: {}\n"), 0o600)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	l.alone("recover", "--scenario", filepath.Join(dir, "cases.ndjson"), "--out", filepath.Join(dir, "first"))
	return strings.TrimSuffix(l.serve("console", "--url", l.url, "--home", l.home(), "--listen", "127.0.0.1:0", "--runs", dir), "/")
}

// TestLab sweeps with the mouse and opens a case of a flip, and compares two policies. Each page on
// the way is looked at like the others.
func TestLab(t *testing.T) {
	page := open(t)
	l := start(t)
	url := l.lab()
	for _, view := range []string{"/lab", "/lab/runs/runs/first", "/lab/runs/runs/first/cases", "/lab/runs/runs/first/case?id=rebook-search-503", "/lab/compare", "/lab/replay",
		"/lab/policy?policy=runs/hasty.yaml", "/lab/sweep"} {
		page.do(chromedp.Navigate(url + view))
		page.fine(view)
	}
	page.do(chromedp.SetValue(chromedp.CSS(`select[name=scenario]`), "runs/cases.ndjson"),
		chromedp.SetValue(chromedp.CSS(`input[name=field]`), "limits.attempts"), chromedp.SetValue(chromedp.CSS(`input[name=range]`), "1..6"),
		chromedp.Click(chromedp.CSS(`main form button`)))
	page.says("flip between 2 and 3: 10 cases")
	page.do(chromedp.Click(chromedp.CSS(`svg a[href$="flip=2#cases"]`)))
	page.says("etl-warehouse-flaps: escalated, then auto_recovered")
	page.fine("the flip")
	page.do(chromedp.Click(chromedp.CSS(`td a[href*="at=3&id=etl-warehouse-flaps"]`)))
	page.says("limits.attempts is 3")
	page.fine("the case")
	page.do(chromedp.Navigate(url+"/lab/compare"), chromedp.SetValue(chromedp.CSS(`select[name=scenario]`), "runs/cases.ndjson"), chromedp.Click(chromedp.CSS(`main form button`)))
	page.says("Both have the same rules of recovery.")
	page.fine("the comparison")
	page.do(chromedp.KeyEvent("g"), chromedp.KeyEvent("b"))
	page.says("comparison-1-after")
}

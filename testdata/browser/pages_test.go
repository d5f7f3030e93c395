package browser

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// views are pages of the demo's ledger, one of each form.
var views = []string{
	"/", "/incidents", "/incidents?state=closed&agent=booker", "/incidents/19", "/incidents/43", "/workflows/offer", "/tasks", "/tasks/operator%23report",
	"/agents", "/agents/booker", "/log", "/log/49", "/log/99999", "/search?q=nothing", "/health", "/rollouts",
}

// axe checks the page against the rules of the Web Content Accessibility Guidelines 2.0 to 2.2,
// levels A and AA, and against best practice. It returns what is broken.
func (p *tab) axe() []string {
	p.t.Helper()
	if eval[string](p, "typeof axe") == "undefined" {
		program, err := os.ReadFile("node_modules/axe-core/axe.min.js")
		if err != nil {
			missing(p.t, "axe-core: run make browser")
		}
		eval[chromedp.Void](p, string(program))
	}
	return eval[[]string](p, `axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice"]}).then(found =>
		found.violations.flatMap(rule => rule.nodes.map(node => rule.id + ": " + node.html.slice(0, 200) + ": " + node.failureSummary)))`)
}

// TestAxe has axe find an image without a text.
func TestAxe(t *testing.T) {
	page := open(t)
	page.do(chromedp.Navigate("data:text/html,<html lang=en><title>t</title><main><h1>h</h1><img src=x></main>"))
	if found := page.axe(); len(found) != 1 || !strings.HasPrefix(found[0], "image-alt") {
		t.Errorf("axe finds %q", found)
	}
}

// fine looks at a page, wide and narrow, light and dark: axe finds nothing, and nothing scrolls
// sideways.
func (p *tab) fine(view string) {
	p.t.Helper()
	for _, width := range []int64{1280, 390} {
		for _, scheme := range []string{"light", "dark"} {
			p.look(width, scheme)
			for _, broken := range p.axe() {
				p.t.Errorf("%s, %d px, %s: %s", view, width, scheme, broken)
			}
		}
		if wide := eval[int64](p, "document.documentElement.scrollWidth"); wide > width {
			p.t.Errorf("%s is %d px wide on %d px", view, wide, width)
		}
	}
}

// TestViews looks at every page, wide and narrow, light and dark: axe finds nothing, the console
// says nothing, and nothing scrolls sideways.
func TestViews(t *testing.T) {
	page := open(t)
	l := start(t)
	l.arl("", "task", "create", "report", "--reason", "weekly")
	l.rollout()
	for _, view := range views {
		page.problems = nil
		page.do(chromedp.Navigate(l.url + view))
		page.fine(view)
		for _, problem := range page.problems {
			if view != "/log/99999" || !strings.Contains(problem, "404") {
				t.Errorf("%s: the console says: %s", view, problem)
			}
		}
		for _, section := range eval[[]string](page, `[...document.querySelectorAll("nav a")].map(a => a.getAttribute("href"))`) {
			if !slices.Contains(views, section) {
				t.Errorf("the bar links %s, which is not among the views", section)
			}
		}
	}
}

// rollout begins the rollout of a policy that asks another model, too.
func (l *ledger) rollout() {
	l.t.Helper()
	inForce, candidate := filepath.Join(l.dir, "policy.yaml"), filepath.Join(l.dir, "candidate.yaml")
	policy := l.arl("", "policy", "show", "--default")
	for path, text := range map[string]string{
		inForce: policy, candidate: strings.Replace(policy, "strategy: fallback_model, enabled: false", "strategy: fallback_model, enabled: true", 1),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			l.t.Fatal(err)
		}
	}
	l.arl("", "policy", "apply", inForce, "--reason", "rules in the log", "--yes")
	l.arl("", "rollout", "start", "r7", "--policy", candidate, "--reason", "fewer escalations", "--yes")
}

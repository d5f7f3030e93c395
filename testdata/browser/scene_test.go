// Package browser looks at the pages of a ledger with Chromium. It is a module of its own, so that
// what drives the browser stays out of the ledger's dependencies.
package browser

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// arl builds the program once, in a directory of the test.
func arl(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "arl")
	build := exec.Command("go", "build", "-o", program, "./cmd/arl")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build arl: %v\n%s", err, out)
	}
	return program
}

// demo plays the demo and returns its directory, with the ledger in it.
func demo(t *testing.T, program string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "demo")
	if out, err := exec.Command(program, "demo", "--dir", dir).CombinedOutput(); err != nil {
		t.Fatalf("arl demo: %v\n%s", err, out)
	}
	return dir
}

// serve starts a program that prints its URL, and returns the URL. The program ends with the test.
func serve(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Stderr = &strings.Builder{}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", args[0], err, cmd.Stderr)
		}
	})
	lines, url := bufio.NewScanner(out), ""
	for url == "" && lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) == 2 && fields[0] == "URL" {
			url = fields[1]
		}
	}
	if url == "" {
		t.Fatalf("%s: no URL: %s", args[0], cmd.Stderr)
	}
	go func() {
		for lines.Scan() { // what nobody reads would block the program
		}
	}()
	return url
}

// missing skips a test that lacks a program or a file. Where CI is set, that is a failure.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal("missing: " + what)
	}
	t.Skip("missing: " + what)
}

// tab is a page in Chromium.
type tab struct {
	t        *testing.T
	ctx      context.Context
	problems []string // what the console of the page says
}

// open starts Chromium without a window, with an empty page.
func open(t *testing.T) *tab {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		missing(t, "chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium has no sandbox for root
	}
	within, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	t.Cleanup(cancel)
	allocator, cancel := chromedp.NewExecAllocator(within, options...)
	t.Cleanup(cancel)
	return newTab(t, allocator)
}

// another opens one more page in the same browser.
func (p *tab) another() *tab { return newTab(p.t, p.ctx) }

func newTab(t *testing.T, parent context.Context) *tab {
	t.Helper()
	p := &tab{t: t}
	ctx, cancel := chromedp.NewContext(parent, chromedp.WithListener(p.hear))
	t.Cleanup(cancel)
	p.ctx = ctx
	p.do(chromedp.Navigate("about:blank"))
	return p
}

// hear keeps what the console of the page says, reports of the Content Security Policy among it.
func (p *tab) hear(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.problems = append(p.problems, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" {
			p.problems = append(p.problems, string(e.Type))
		}
	case *log.EventEntryAdded:
		p.problems = append(p.problems, string(e.Entry.Level)+" "+e.Entry.URL+": "+e.Entry.Text)
	}
}

// do carries steps out.
func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// eval returns the value of an expression in the page.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%.200s: %v", expression, err)
	}
	return value
}

// await waits until an expression in the page holds.
func (p *tab) await(expression string) {
	p.t.Helper()
	if _, err := chromedp.Run(p.ctx, chromedp.Poll[chromedp.Void](expression)); err != nil {
		p.t.Fatalf("%s: %v\n%s", expression, err, eval[string](p, "document.body.innerText"))
	}
}

// look gives the page a width, and a scheme of colors, light or dark.
func (p *tab) look(width int64, scheme string) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(width, 900), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

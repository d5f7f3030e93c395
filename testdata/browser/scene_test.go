// Package browser looks at the pages of a ledger with Chromium. It is a module of its own, so that
// what drives the browser stays out of the ledger's dependencies.
package browser

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// played is the program, and a directory in which it has played the demo. Tests copy the directory.
var played = sync.OnceValues(func() (program string, err error) {
	dir, err := os.MkdirTemp("", "arl-browser-")
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, "arl")
	build := exec.Command("go", "build", "-o", program, "./cmd/arl")
	build.Dir = "../.."
	for _, cmd := range []*exec.Cmd{build, exec.Command(program, "demo", "--dir", filepath.Join(dir, "demo"))} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
	}
	return program, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if program, err := played(); err == nil {
		_ = os.RemoveAll(filepath.Dir(program)) // in the system's directory of temporary files
	}
	os.Exit(code)
}

// ledger is a ledger that serves what is left of the demo.
type ledger struct {
	t            *testing.T
	program, dir string
	url          string
	end          map[string]func()    // what ends arl serve and arl console
	exit         map[string]int       // the exit codes that they end with, other than 0
	ran          map[string]*exec.Cmd // arl serve and arl console
}

// start copies the demo's ledger and serves it until the test ends.
func start(t *testing.T) *ledger {
	t.Helper()
	program, err := played()
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{t: t, program: program, dir: filepath.Join(t.TempDir(), "demo"), end: map[string]func(){}, ran: map[string]*exec.Cmd{}}
	if err := os.CopyFS(l.dir, os.DirFS(filepath.Join(filepath.Dir(program), "demo"))); err != nil {
		t.Fatal(err)
	}
	private(t, l.dir)
	l.url = l.serve("serve", "--data", filepath.Join(l.dir, "ledger"), "--home", l.home(), "--listen", "127.0.0.1:0")
	return l
}

// private takes the rights away that a copy gives to others: arl uses no key that others can read.
func private(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return os.Chmod(path, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (l *ledger) home() string { return filepath.Join(l.dir, "home") }

// key is the file of a participant's key.
func (l *ledger) key(name string) string { return filepath.Join(l.dir, "agents", name, "agent.key") }

// arl runs a command against the ledger, with an input, and returns what the command prints.
func (l *ledger) arl(input string, args ...string) string {
	l.t.Helper()
	cmd := exec.Command(l.program, append(args, "--url", l.url, "--home", l.home())...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		l.t.Fatalf("arl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// alone runs a command that needs no ledger.
func (l *ledger) alone(args ...string) {
	l.t.Helper()
	if out, err := exec.Command(l.program, args...).CombinedOutput(); err != nil {
		l.t.Fatalf("arl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// generate makes a key in a new file.
func (l *ledger) generate(file string) {
	l.t.Helper()
	l.alone("key", "generate", "--out", file)
}

// submit registers an entry of a kind, with words that nobody else uses, too.
func (l *ledger) submit(kind, principal, payload string) {
	l.t.Helper()
	l.arl(payload, "entry", "submit", "--force", "--kind", kind, "--principal", principal, "--key", l.key(principal), "--payload", "-")
}

// serve starts the program, and returns the URL that it prints. The program ends with the test.
func (l *ledger) serve(args ...string) string {
	l.t.Helper()
	cmd, said := exec.Command(l.program, args...), &strings.Builder{}
	cmd.Stderr = said
	l.ran[args[0]] = cmd
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		l.t.Fatal(err)
	}
	lines, url := bufio.NewScanner(out), ""
	for url == "" && lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) == 2 && (fields[0] == "URL" || fields[0] == "console") {
			url = fields[1]
		}
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for lines.Scan() { // what nobody reads would block the program
		}
	}()
	l.end[args[0]] = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // Wait says whether it was there
		<-drained
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != l.exit[args[0]] {
			l.t.Errorf("arl %s: %v\n%s", args[0], err, said)
		}
	})
	l.t.Cleanup(l.end[args[0]])
	if url == "" {
		l.t.Fatalf("arl %s says no URL: %s", args[0], said)
	}
	return url
}

// missing skips a test that lacks a program or a file. Where CI is set, that is a failure. It is
// Missing of testdata/needs, which is in a module that this one does without.
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
	browser  context.Context
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
	within, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	allocator, cancel := chromedp.NewExecAllocator(within, options...)
	t.Cleanup(cancel)
	browser, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	if err := chromedp.Do(browser); err != nil { // its tab stays empty, so that others can be closed
		t.Fatal(err)
	}
	return newTab(t, browser)
}

// another opens one more page in the same browser.
func (p *tab) another() *tab { return newTab(p.t, p.browser) }

// close closes the page.
func (p *tab) close() {
	p.t.Helper()
	if err := chromedp.Cancel(p.ctx); err != nil {
		p.t.Fatal(err)
	}
}

func newTab(t *testing.T, browser context.Context) *tab {
	t.Helper()
	p := &tab{t: t, browser: browser}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithListener(p.hear))
	t.Cleanup(cancel)
	p.ctx = ctx
	p.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error { // all tabs at once
		_, err := cdp.Call(ctx, t, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
		return err
	}))
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

// await waits until an expression in the page holds, or in the page that takes its place.
func (p *tab) await(expression string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 30*time.Second)
	defer cancel()
	for {
		_, err := chromedp.Run(ctx, chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(0)))
		if err == nil {
			return
		}
		if ctx.Err() != nil { // else the page has gone in between
			p.t.Fatalf("%s: %v\n%s", expression, err, eval[string](p, "document.body?.innerText ?? ''"))
		}
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

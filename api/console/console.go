// Package console shows a log as pages for people: what waits and for whom, the
// incidents and their plans as pictures, workflows, agents, and the entries
// themselves.
//
// The same pages stand behind two doors. A ledger serves them from its own state:
// they are the ledger's word. On a user's machine they are made from a state that
// was derived there from the entries of the log. [Config.Derived] says which, and
// each page shows it.
//
// The pages are made on the server and need no script: a script copies the command, takes
// keys, and renews what new entries are about. The pages change nothing. Each
// page names the command that says the same. All text that an agent can write is
// shown with its control characters and its marks of writing direction spelled out
// (Unicode Technical Report 36, section 3.1).
package console

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"recoveryledger/api"
	"recoveryledger/api/words"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
	"recoveryledger/verify/js"
)

//go:embed pages/*.html assets/*.css assets/*.js assets/*.svg
var files embed.FS

// Config says what pages show. It is copied once.
type Config struct {
	// Source has the log. Required.
	Source Source
	// Origin is the name of the ledger. Required.
	Origin string
	// Derived says that the state of the source was derived on the user's machine
	// from the entries of the log, under the signed tree head.
	Derived bool
	// Root returns what a verifier of the log pins. Nil: the pages verify nothing in the
	// browser.
	Root func() (verify.Root, error)
	// Accepted is the tree head that this machine accepted before the pages began. Nil: none, or
	// the pages are the ledger's word.
	Accepted *merkle.Head
	// Base stands before every path of the pages' links, such as "/c0ffee". Empty:
	// the pages begin at "/".
	Base string
	// Signing signs what the pages show; nil: the pages only show.
	Signing Signing
	// Room has further pages; nil: there are none.
	Room Room
	// Examine tells what arl doctor finds about the place where the pages are made: this machine,
	// or the ledger. It ends with its context. Nil: there is nothing to examine.
	Examine func(ctx context.Context, tell func(words.Finding))
	// Metrics is where the ledger tells its metrics: a path beside the pages, or a URL that a
	// person opens. Empty: it does not run.
	Metrics string
	// Lease asks the ledger for the lease of a task: no entry tells it. The lease is nil if no
	// agent holds the task. Lease nil: nobody is there to ask.
	Lease func(ctx context.Context, task entry.Ref) (*api.Lease, error)
	// Commands asks the ledger for the commands of an agent: no entry tells when a bundle was sent.
	// Nil: nobody is there to ask.
	Commands func(ctx context.Context, agent entry.Principal) (*api.Commands, error)
}

// Console answers GET of the pages' paths.
type Console struct {
	cfg   Config
	rules coord.Rules
	mux   *http.ServeMux
	base  func() (*template.Template, error)
	pages map[string]func() (*template.Template, error)
	day   mark // where the last day of the log begins
	hours hours
}

// route is a page: its path, and what makes it.
type route struct {
	path string
	show func(*Console, *http.Request) (*page, error)
}

// routes are the pages, by path in the spelling of [http.ServeMux].
var routes = []route{
	{"/", (*Console).overview},
	{"/incidents", (*Console).incidents},
	{"/incidents/{id}", (*Console).incident},
	{"/workflows/{wid}", (*Console).workflow},
	{"/tasks", (*Console).tasks},
	{"/tasks/{id}", (*Console).task},
	{"/agents", (*Console).agents},
	{"/agents/{id}", (*Console).agent},
	{"/rollouts", (*Console).rollouts},
	{"/health", (*Console).health},
	{"/log", (*Console).log},
	{"/log/{index}", (*Console).entry},
}

// file is what a page lets its reader download: its path, what makes it, its media type.
type file struct {
	path  string
	make  func(*Console, *http.Request) ([]byte, error)
	media string
}

// downloads are the files that are made when they are asked for.
var downloads = []file{
	{"/root.json", (*Console).root, "application/json"},
	{"/log/{index}/receipts", (*Console).receipts, "application/x-ndjson"},
	{"/log/{index}/tlog-proof", (*Console).tlogProof, "text/plain; charset=utf-8"},
	{"/log/{index}/leaf", (*Console).leaf, "application/octet-stream"},
	{"/incidents/{id}/receipts.ndjson", (*Console).incidentReceipts, "application/x-ndjson"},
	{"/incidents/{id}/report.md", (*Console).incidentReport, "text/markdown; charset=utf-8"},
}

// verifierPath has the modules of the verifier in JavaScript.
const verifierPath = "/assets/verify/{module}"

// assets are the files that pages load, by path, with their media types.
var assets = []struct{ path, media string }{
	{"/assets/console.css", "text/css; charset=utf-8"},
	{"/assets/console.js", "text/javascript; charset=utf-8"},
	{"/assets/receipt.js", "text/javascript; charset=utf-8"},
	{"/assets/icon.svg", "image/svg+xml"},
}

// New returns the pages of a log. The error says what the configuration lacks.
func New(c *Config) (*Console, error) {
	if c.Source == nil || c.Origin == "" {
		return nil, errors.New("console: new: Source and Origin are required")
	}
	k := &Console{cfg: *c, mux: http.NewServeMux(), pages: map[string]func() (*template.Template, error){}}
	k.base = sync.OnceValues(func() (*template.Template, error) {
		return template.New("base.html").Funcs(template.FuncMap{
			"text": words.Legible, "lines": legibleLines, "instant": words.Instant, "link": k.link, "tally": words.Tally,
			"disposition": words.Disposition, "nothing": words.OrNothing, "dollars": words.Dollars,
			"counting": counting, "lease": words.TaskLease, "counted": words.Counted[int],
		}).ParseFS(files, "pages/base.html")
	})
	for _, name := range []string{"overview", "incidents", "incident", "workflow", "agents", "agent", "log", "entry", "error", "act", "alone", "tasks", "task", "search", "health", "rollouts"} {
		k.parse(name, files)
	}
	if k.cfg.Room != nil {
		if err := k.enter(k.cfg.Room); err != nil {
			return nil, err
		}
	}
	for _, r := range routes {
		pattern := "GET " + r.path
		if r.path == "/" {
			pattern += "{$}"
		}
		k.mux.HandleFunc(pattern, func(w http.ResponseWriter, q *http.Request) { k.answer(w, q, r.show) })
	}
	if k.cfg.Signing != nil {
		for _, path := range []string{" /incidents/{id}/act/{verb}", " /tasks/{task}/act/{verb}"} {
			k.mux.HandleFunc("GET"+path, func(w http.ResponseWriter, q *http.Request) { k.answer(w, q, (*Console).showAct) })
			k.mux.HandleFunc("POST"+path, k.sign)
		}
	}
	k.mux.HandleFunc("GET "+searchPath, k.search)
	k.mux.HandleFunc("GET "+livePath, k.live)
	for _, f := range downloads {
		k.mux.HandleFunc("GET "+f.path, func(w http.ResponseWriter, q *http.Request) { k.download(w, q, f) })
	}
	k.mux.HandleFunc("GET "+verifierPath, func(w http.ResponseWriter, q *http.Request) {
		secure(w.Header())
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8") // whatever the system calls it
		http.ServeFileFS(w, q, js.Files(), q.PathValue("module"))
	})
	for _, a := range assets {
		k.mux.HandleFunc("GET "+a.path, func(w http.ResponseWriter, q *http.Request) {
			secure(w.Header())
			w.Header().Set("Content-Type", a.media)
			http.ServeFileFS(w, q, files, a.path)
		})
	}
	k.mux.HandleFunc("GET /{rest...}", func(w http.ResponseWriter, q *http.Request) {
		k.answer(w, q, func(*Console, *http.Request) (*page, error) {
			return nil, entry.Refuse(entry.NotFound, "path", "no page at %.140q", q.URL.Path).WithRemedy("the overview links every page")
		})
	})
	return k, nil
}

// parse makes the template of a page when the page is first asked for: the start of a ledger does
// not wait for pages that nobody looks at.
func (k *Console) parse(name string, from fs.FS, parts ...string) {
	k.pages[name] = sync.OnceValues(func() (*template.Template, error) {
		base, err := k.base()
		if err != nil {
			return nil, err
		}
		made, err := base.Clone()
		if err != nil {
			return nil, err
		}
		return made.ParseFS(from, append(parts, "pages/"+name+".html")...)
	})
}

// Streams returns those of the paths that send events for as long as the client stays.
// Such a path ends with the context of its request.
func (k *Console) Streams() []string { return []string{livePath} }

// Paths returns the paths of the pages, a parameter in braces.
func (k *Console) Paths() []string {
	paths := append(k.Streams(), verifierPath, searchPath)
	for _, f := range downloads {
		paths = append(paths, f.path)
	}
	for _, a := range assets {
		paths = append(paths, a.path)
	}
	for _, r := range routes {
		paths = append(paths, r.path)
	}
	return paths
}

// ServeHTTP answers a request for a page.
func (k *Console) ServeHTTP(w http.ResponseWriter, q *http.Request) { k.mux.ServeHTTP(w, q) }

// page is what a template shows.
type page struct {
	name    string // of the template
	Title   string
	Command string // says the same in a terminal
	Section string // which link of the bar is marked
	Body    any
	About   []string // what the page shows, as subject spells it; "incident/*" is every incident

	Origin  string
	Derived bool
	At      Standing
	Alone   bool // nothing else can be shown now
	Again   bool // the page shows something that goes on
	Room    bool // the bar links the room
	bar     []Section
}

// Section is a link of the bar.
type Section struct{ Name, Path string }

// Sections returns the links of the bar.
func (p *page) Sections() []Section { return p.bar }

// bar returns the links of the bar.
func (k *Console) bar() []Section {
	all := []Section{{"Overview", "/"}, {"Incidents", "/incidents"}, {"Tasks", "/tasks"}, {"Agents", "/agents"}, {"Rollouts", "/rollouts"}, {"Log", "/log"}, {"Health", "/health"}}
	if k.cfg.Room != nil {
		all = append(all, k.cfg.Room.Section())
	}
	return all
}

// errorPage says why there is no other page.
type errorPage struct {
	*entry.Refusal
	Meaning string // of the problem, as arl explain says
	Request string // id of the request; empty: it has none
}

// failed is the page that says why there is no other, and its status.
func failed(err error) (*page, int) {
	var refusal *entry.Refusal
	if !errors.As(err, &refusal) {
		refusal = entry.Refuse(entry.NotReady, "", "%s", err)
	}
	status, body := statusOf(refusal.Problem), &errorPage{Refusal: refusal}
	if meaning, known := api.Explain(string(refusal.Problem)); known {
		body.Meaning = meaning.Text
	}
	return &page{name: "error", Title: http.StatusText(status), Command: "arl explain " + string(refusal.Problem), Body: body}, status
}

// download sends a file, or the page that says why there is none.
func (k *Console) download(w http.ResponseWriter, q *http.Request, f file) {
	content, err := f.make(k, q)
	if err != nil {
		k.answer(w, q, func(*Console, *http.Request) (*page, error) { return nil, err })
		return
	}
	secure(w.Header())
	w.Header().Set("Content-Type", f.media)
	_, _ = w.Write(content) // whoever does not take it has gone away
}

// answer makes a page, or the page that says why there is none.
func (k *Console) answer(w http.ResponseWriter, q *http.Request, show func(*Console, *http.Request) (*page, error)) {
	if p := k.alone(w); p != nil {
		k.write(w, http.StatusServiceUnavailable, p)
		return
	}
	status := http.StatusOK
	p, err := show(k, q)
	if err != nil {
		p, status = failed(err)
	}
	k.write(w, status, p)
}

// write sends a page.
func (k *Console) write(w http.ResponseWriter, status int, p *page) {
	p.Origin, p.Derived, p.bar, p.Room = k.cfg.Origin, k.cfg.Derived, k.bar(), k.cfg.Room != nil
	if body, is := p.Body.(*errorPage); is {
		body.Request = w.Header().Get(api.HeaderRequestID)
	}
	if p.At == (Standing{}) {
		p.At = k.cfg.Source.Standing()
	}
	var made bytes.Buffer
	shown, err := k.pages[p.name]()
	if err == nil {
		err = shown.Execute(&made, p)
	}
	if err != nil {
		http.Error(w, "this page could not be made: "+words.Legible(err.Error()), http.StatusInternalServerError)
		return
	}
	secure(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = made.WriteTo(w) // whoever does not take it has gone away
}

// secure sets what keeps a page from running, loading or being framed by anything
// else: W3C Content Security Policy Level 3, Trusted Types, and the Fetch standard's
// cross-origin policies.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "+
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cache-Control", "no-store")
}

// link returns a path below the base; what stands in a path is escaped.
func (k *Console) link(path string, args ...any) string {
	for _, arg := range args {
		path += "/" + url.PathEscape(fmt.Sprint(arg))
	}
	return strings.TrimSuffix(k.cfg.Base, "/") + path
}

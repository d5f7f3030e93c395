//go:build unix

package main_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// scriptless is a browser that runs no script: it follows links, sends forms, and asks again for a
// page that wants that.
type scriptless struct {
	*consoleProcess
	base string // what every link begins with
	page string
}

// follow opens the first link of the page that matches.
func (p *scriptless) follow(pattern string) {
	p.m.t.Helper()
	found := regexp.MustCompile(`href="` + p.base + `(` + pattern + `)"`).FindStringSubmatch(p.page)
	if found == nil {
		p.m.t.Fatalf("no link to %s: %s", pattern, p.page)
	}
	p.open(found[1])
}

// open opens a page, and waits for the end of what it shows.
func (p *scriptless) open(path string) {
	p.m.t.Helper()
	path, _, _ = strings.Cut(path, "#")
	for {
		var status int
		if status, p.page = p.get(path); status != http.StatusOK {
			p.m.t.Fatalf("%s: %d: %s", path, status, p.page)
		}
		if !strings.Contains(p.page, `<noscript><meta http-equiv="refresh"`) {
			return
		}
	}
}

// fill sends the form of the page that posts to a path, and opens what answers. The form must have
// each field.
func (p *scriptless) fill(path string, fields url.Values) {
	p.m.t.Helper()
	_, form, there := strings.Cut(p.page, `<form method="post" action="`+p.base+path+`"`)
	form, _, _ = strings.Cut(form, "</form>")
	if !there || !strings.Contains(form, `<button type="submit"`) {
		p.m.t.Fatalf("no form that posts to %s: %s", path, p.page)
	}
	for name := range fields {
		if !strings.Contains(form, ` name="`+name+`"`) {
			p.m.t.Fatalf("the form has no field %s: %s", name, form)
		}
	}
	status, leads, page := p.send(http.MethodPost, path, fields, nil)
	if p.page = page; status == http.StatusSeeOther {
		p.open(strings.TrimPrefix(leads, p.base))
	} else if status != http.StatusOK {
		p.m.t.Fatalf("%s: %d: %s", path, status, page)
	}
}

func (p *scriptless) says(texts ...string) {
	p.m.t.Helper()
	for _, text := range texts {
		if !strings.Contains(p.page, text) {
			p.m.t.Fatalf("the page does not say %q: %s", text, p.page)
		}
	}
}

// TestConsolePlain walks through the lab with links and forms alone, as a browser without
// JavaScript.
func TestConsolePlain(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	c := m.console("--runs", m.runs())
	address, err := url.Parse(c.url)
	m.must(err)
	p := &scriptless{consoleProcess: c, base: address.Path}

	p.open("/")
	p.follow("/lab")
	p.follow("/lab/runs/runs/first")
	p.open("/lab")
	p.follow("/lab/sweep")
	p.fill("/lab/sweep", url.Values{"scenario": {"runs/cases.ndjson"}, "policy": {""}, "field": {"limits.attempts"}, "range": {"1..6"}})
	p.says("flip between 2 and 3: 10 cases")
	p.follow(`/lab/[^"]*flip=2#cases`)
	p.says("etl-warehouse-flaps: escalated, then auto_recovered")
	p.follow(`/lab/[^"]*at=3&id=etl-warehouse-flaps[^"]*`)
	p.says("limits.attempts is 3", ">Reasoning<")
	p.open("/lab")
	p.follow("/lab/compare")
	p.fill("/lab/compare", url.Values{"scenario": {"runs/cases.ndjson"}, "before": {""}, "after": {""}})
	p.says("Both have the same rules of recovery.")
	p.open("/lab")
	p.follow("/lab/replay")
	p.fill("/lab/replay", url.Values{"run": {"runs/first"}, "scenario": {""}})
	p.says("match")
	p.open("/lab")
	p.follow("/lab/policy")
	p.fill("/lab/policy", url.Values{"text": {"recovery: {limits: {attempts: -1}}\n"}, "name": {"odd.yaml"}, "do": {"check"}})
	p.says(">Mistakes<", "limits")
	p.fill("/lab/policy", url.Values{"text": {"recovery: {}\n"}, "name": {"plain.yaml"}, "do": {"keep"}})
	p.open("/lab")
	p.says("plain.yaml")
}

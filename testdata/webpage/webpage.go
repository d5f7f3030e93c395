// Package webpage holds pages for people to the rules that all of them obey: a heading, labels,
// ids, and nothing inline or from elsewhere, as their Content Security Policy wants.
package webpage

import (
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Check holds a page to the rules of all pages, and returns its links.
func Check(t *testing.T, path, body string) (links []string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	ids, headings := map[string]bool{}, 0
	for n := range root.Descendants() {
		switch {
		case n.Type != html.ElementNode:
			continue
		case n.DataAtom == atom.H1:
			headings++
		case n.DataAtom == atom.Script && (n.FirstChild != nil || !has(n, "src")), n.DataAtom == atom.Style, n.DataAtom == atom.Iframe:
			t.Errorf("%s: an element %s", path, n.Data)
		}
		for _, a := range n.Attr {
			switch {
			case a.Key == "id" && ids[a.Val]:
				t.Errorf("%s: two elements with the id %s", path, a.Val)
			case a.Key == "id":
				ids[a.Val] = true
			case a.Key == "style", strings.HasPrefix(a.Key, "on"):
				t.Errorf("%s: an attribute %s", path, a.Key)
			case (a.Key == "href" || a.Key == "src") && strings.HasPrefix(a.Val, "/"):
				link, _, _ := strings.Cut(a.Val, "#")
				links = append(links, link)
			case (a.Key == "href" || a.Key == "src") && !strings.HasPrefix(a.Val, "#"):
				t.Errorf("%s: a link to %s", path, a.Val)
			}
		}
		if n.DataAtom == atom.Th && !has(n, "scope") {
			t.Errorf("%s: a heading of a table without scope", path)
		}
		if (n.DataAtom == atom.Input && value(n, "type") != "hidden" || n.DataAtom == atom.Select || n.DataAtom == atom.Textarea) && n.Parent.DataAtom != atom.Label {
			t.Errorf("%s: a field without a label", path)
		}
	}
	if headings != 1 || !ids["main"] {
		t.Errorf("%s: %d headings of the first level, main %t", path, headings, ids["main"])
	}
	return links
}

// value is the value of an attribute.
func value(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, key string) bool {
	for _, a := range n.Attr {
		if a.Key == key {
			return true
		}
	}
	return false
}

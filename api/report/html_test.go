package report_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// elements returns the tags of a page with the names of their attributes, in their order.
func elements(t *testing.T, page string) (names []string) {
	t.Helper()
	z := html.NewTokenizer(strings.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			if !errors.Is(z.Err(), io.EOF) {
				t.Fatal(z.Err())
			}
			return names
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken, html.CommentToken:
			token := z.Token()
			name := token.Type.String() + " " + token.Data
			for _, a := range token.Attr {
				name += " " + a.Key
			}
			names = append(names, name)
		}
	}
}
